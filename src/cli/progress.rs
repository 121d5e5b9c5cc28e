//! How far a run has come: a bar on a terminal, a line every few seconds elsewhere, nothing if nobody asked.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use qcs::methods::Kind;
use qcs::reconstruct::{Next, Observer, Progress};

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
    /// When this session began, and the share of the work that lay behind its first step
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
        if self.quiet || !draws_bars() {
            return;
        }
        // A message that is too long is cut, so that the bar stays on its line.
        let style = ProgressStyle::with_template("{prefix:8} {bar:12} {wide_msg}").expect("the template is fixed");
        let bar = ProgressBar::new(WIDTH)
            .with_style(style)
            .with_prefix(self.title.clone());
        bar.set_message("…");
        self.bar = Some(bar);
    }

    /// Starts under this title, and says so where there is no bar.
    pub fn announce(&mut self, title: &str) {
        if !self.quiet && !std::io::stderr().is_terminal() {
            terminal::note(title);
        }
        self.start(title);
    }

    pub fn show(&mut self, progress: &Progress) {
        if self.quiet {
            return;
        }
        let fraction = progress.fraction;
        let (begun, before) = *self.begun.get_or_insert((self.last, fraction));
        let text = || message(progress, begun.elapsed(), fraction - before);
        if let Some(bar) = &self.bar {
            bar.set_position((fraction * WIDTH as f64) as u64);
            bar.set_message(text());
        } else if self.last.elapsed() >= EVERY {
            self.last = Instant::now();
            terminal::note(&format!("{}: {:.0} %, {}", self.title, 100.0 * fraction, text()));
        }
    }

    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Whether a bar can be drawn: on a terminal that can go back to the beginning of its line.
fn draws_bars() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
    std::io::stderr().is_terminal() && !dumb
}

/// "level 12/60, 0:42 left, 34.5 evaluations/s": an evaluation is one step of one state. What may be cut comes last.
fn message(progress: &Progress, elapsed: Duration, done: f64) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let rate = progress.evaluations as f64 / seconds;
    let left = (1.0 - progress.fraction) * seconds / done.max(1e-9);
    let (name, stage, stages) = progress.stage;
    let mut text = format!("{name} {stage}/{stages}");
    // One step says nothing of the rest.
    if done > 0.0 {
        text += &format!(", {} left", clock(left));
    }
    if progress.states > progress.working {
        text += &format!(", {}/{} states", progress.done, progress.states);
    }
    text + &format!(", {rate:.1} evaluations/s")
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

impl Observer for Display {
    fn note(&mut self, text: &str) {
        match &self.bar {
            _ if self.quiet => {}
            Some(bar) => bar.suspend(|| terminal::note(text)),
            None => terminal::note(text),
        }
    }

    fn begin(&mut self, method: &Kind, resumed: bool) {
        if !self.quiet && (resumed || !draws_bars()) {
            let how = if resumed {
                "continues from its checkpoint"
            } else {
                "starts"
            };
            terminal::note(&format!("{} {how}", method.title()));
        }
        self.start(method.title());
    }

    fn after_step(&mut self, progress: &Progress) -> Next {
        self.show(progress);
        if signals::stop() { Next::Stop } else { Next::Continue }
    }

    fn end(&mut self, _: &Kind) {
        self.finish();
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
            fraction: 0.6,
            evaluations: 1080,
            done: 8,
            working: 8,
            states: 20,
            stage: ("level", 31, 60),
            at_stage_end: false,
        };
        // Half of what is done was done in this session's 10 s.
        let text = message(&progress, Duration::from_secs(10), 0.3);
        assert_eq!(text, "level 31/60, 0:13 left, 8/20 states, 108.0 evaluations/s");
        // Beside the name and the bar, on a line of 80.
        assert!(text.len() <= 58, "{}", text.len());
    }
}
