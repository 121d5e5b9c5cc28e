//! How far a run has come: a bar on a terminal, a line every few seconds elsewhere, nothing if nobody asked.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use qcs::likelihood::Method;
use qcs::run::Hooks;
use qcs::sampler::{Checkpoint, Next, Observer, Progress};

use super::{signals, terminal};

/// Plain lines are this far apart.
const EVERY: Duration = Duration::from_secs(5);
/// Positions of the bar.
const WIDTH: u64 = 10_000;

/// Shows progress on stderr.
pub struct Display {
    quiet: bool,
    title: String,
    bar: Option<ProgressBar>,
    /// When this session began, and the share of the work that lay behind it then
    begun: Option<(Instant, f64)>,
    last: Instant,
}

impl Display {
    pub fn new(quiet: bool) -> Self {
        Self {
            quiet,
            title: String::new(),
            bar: None,
            begun: None,
            last: Instant::now(),
        }
    }

    pub fn start(&mut self, title: &str) {
        title.clone_into(&mut self.title);
        self.begun = None;
        self.last = Instant::now();
        if self.quiet || !std::io::stderr().is_terminal() {
            return;
        }
        let style = ProgressStyle::with_template("{prefix:10} {bar:30} {msg}").expect("the template is fixed");
        let bar = ProgressBar::new(WIDTH)
            .with_style(style)
            .with_prefix(self.title.clone());
        bar.set_message("…");
        self.bar = Some(bar);
    }

    pub fn show(&mut self, progress: &Progress) {
        if self.quiet {
            return;
        }
        let fraction = progress.fraction();
        let (begun, before) = *self
            .begun
            .get_or_insert((self.last, fraction - share_of_step(progress)));
        if let Some(bar) = &self.bar {
            bar.set_position((fraction * WIDTH as f64) as u64);
            bar.set_message(message(progress, begun.elapsed(), fraction - before));
        } else if self.last.elapsed() >= EVERY {
            self.last = Instant::now();
            let message = message(progress, begun.elapsed(), fraction - before);
            terminal::note(&format!("{}: {:.0} %, {message}", self.title, 100.0 * fraction));
        }
    }

    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// The share of all work that one step of the current batch is.
fn share_of_step(progress: &Progress) -> f64 {
    progress.batch as f64 / (progress.steps * progress.states) as f64
}

/// "level 12/60, 34.5 evaluations/s, 0:42 left": an evaluation is one step of one state.
fn message(progress: &Progress, elapsed: Duration, done: f64) -> String {
    let total = (progress.steps * progress.states) as f64;
    let rate = done * total / elapsed.as_secs_f64().max(1e-9);
    let left = (1.0 - progress.fraction()) * total / rate.max(1e-9);
    let mut text = format!("level {}/{}", progress.level(), progress.levels);
    if progress.states > progress.batch {
        let first = progress.states_done + 1;
        text += &format!(
            ", states {first}-{} of {}",
            progress.states_done + progress.batch,
            progress.states
        );
    }
    text + &format!(", {rate:.1} evaluations/s, {} left", clock(left))
}

/// Hours, minutes and seconds as 1:02:03, or 2:03.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

impl Hooks for Display {
    fn note(&mut self, text: &str) {
        match &self.bar {
            _ if self.quiet => {}
            Some(bar) => bar.suspend(|| terminal::note(text)),
            None => terminal::note(text),
        }
    }

    fn begin(&mut self, method: Method, resumed: bool) {
        if !self.quiet && (resumed || !std::io::stderr().is_terminal()) {
            let how = if resumed {
                "continues from its checkpoint"
            } else {
                "starts"
            };
            terminal::note(&format!("{} {how}", method.title()));
        }
        self.start(method.title());
    }

    fn progress(&mut self, progress: &Progress) {
        self.show(progress);
    }

    fn end(&mut self, _: Method) {
        self.finish();
    }

    fn stop(&mut self) -> bool {
        signals::stop()
    }
}

/// A run without a folder: shown, but not kept.
impl Observer for Display {
    fn after_step(&mut self, progress: &Progress) -> Next {
        self.show(progress);
        Next::Continue
    }

    fn checkpoint(&mut self, _: &Checkpoint) -> qcs::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_show_hours_only_where_there_are_any() {
        assert_eq!(
            (clock(0.4), clock(62.0), clock(3723.0)),
            ("0:00".into(), "1:02".into(), "1:02:03".into())
        );
    }

    #[test]
    fn the_rate_counts_the_evaluations_of_this_session_and_the_rest_follows_from_it() {
        let progress = Progress {
            states_done: 8,
            states: 20,
            batch: 8,
            step: 90,
            steps: 180,
            levels: 60,
            steps_per_level: 3,
        };
        // 12 of 20 states' work is done, half of it in this session's 10 s: 108 evaluations/s, 13.3 s for the rest.
        let text = message(&progress, Duration::from_secs(10), 0.3);
        assert_eq!(text, "level 31/60, states 9-16 of 20, 108.0 evaluations/s, 0:13 left");
    }
}
