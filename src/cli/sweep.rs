//! `qcs sweep`: a grid of runs, and a report of them all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};

use qcs::methods::Kind;
use qcs::output::Report;
use qcs::reconstruct::{Next, Observer, Progress};
use qcs::run::{Found, MeasureConfig};
use qcs::sweep::{Collected, Ended, Materials, Point, Sweep, SweepObserver, claim, execute, flat_keys, value_of};
use qcs::{Error, Result};

use super::flags::{Flags, MethodFlags};
use super::progress::{Display, clock};
use super::{Global, signals, table, terminal};

/// Run a grid of experiments and write a report
#[derive(Args)]
#[command(
    long_about = "Runs every combination of the values that a file (TOML) or flags give for the settings of `qcs run`, and \
                  writes a report: report.html, which needs nothing else, figures (SVG, PNG) and tables (CSV). Each point is a \
                  run folder of its own. What is there already is not run again, so an interrupted sweep goes on with the \
                  same command, and a wider one runs only what is new.",
    after_help = "A setting with a list of values spans the grid; \"ep.xi\" is the setting of one method:
  title = \"One bit against the condition of A\"
  images = \"bundled:digits\"
  matrix = \"ill-conditioned\"
  method = [\"diag\", \"ep\", \"turbo\"]
  kappa = [1, 1e3, 1e6]
Further words: about (text), x (the setting along the axis), lines (that of the lines; else the method), [[grid]] (several
grids, each with settings of its own over those above), [full] (what --full sets instead).

Examples:
  qcs sweep experiments/mnist-kappa.toml
  qcs sweep experiments/*.toml --out reports --dry-run
  qcs sweep --images bundled:digits --matrix ill-conditioned --kappa 1,1e3,1e6 --method all --out kappa"
)]
pub struct SweepArgs {
    /// Sweep files (TOML), each with a report of its own
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder to write to; with several files, a folder in it for each [default: qcs-sweep/NAME OF THE FILE]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// List the points and how long they will take, and run none
    #[arg(long)]
    dry_run: bool,
    /// The large version of a file that has one: what stands in its [full] tables
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    settings: Settings,
}

/// The flags of `qcs run`, each with a list of values.
struct Settings(Vec<(String, Vec<String>)>);

impl Args for Settings {
    fn augment_args(command: clap::Command) -> clap::Command {
        // Help and short names are those of `qcs run`.
        let known = MethodFlags::augment_args(Flags::<MeasureConfig>::augment_args(clap::Command::new("run")));
        let arg = |key: &'static str| {
            let twin = known.get_arguments().find(|arg| arg.get_id() == key);
            let help = match (twin.and_then(Arg::get_help), key) {
                (Some(help), _) => help.to_string(),
                (None, "images") => {
                    "Images to measure: anything that `qcs measure` reads, or bundled:digits".to_owned()
                }
                (None, "problem") => "Problem files instead".to_owned(),
                (None, "method") => "Methods, or all".to_owned(),
                (None, "model") => "Weights of score networks; the shipped MNIST prior if left out".to_owned(),
                (None, "count") => "How many images of each point".to_owned(),
                (None, other) => format!("As of `qcs run`: {}", other.replace('_', " ")),
            };
            let arg = Arg::new(key)
                .long(key.replace('_', "-"))
                .help(help)
                .help_heading("What the grid spans (lists like 1,2,3)")
                .value_name("LIST")
                .value_delimiter(',')
                .num_args(1)
                .action(ArgAction::Append);
            match twin.and_then(Arg::get_short) {
                Some(short) => arg.short(short),
                None => arg,
            }
        };
        command.args(flat_keys().into_iter().filter(|&key| key != "sigmas").map(arg))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let of = |key: &str| {
            let values = matches.try_get_many::<String>(key).ok().flatten()?;
            Some((key.to_owned(), values.cloned().collect()))
        };
        Ok(Self(flat_keys().into_iter().filter_map(of).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub fn sweep(args: &SweepArgs, global: &Global) -> Result<()> {
    global.use_threads()?;
    let mut sweeps = Vec::new();
    let mut failures = Vec::new();
    for file in &args.files {
        match Sweep::read(file, args.full) {
            Ok(sweep) => sweeps.push((sweep, args.folder(file))),
            // One that cannot be read does not keep the others from running.
            Err(error) if args.files.len() > 1 => failures.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    if args.files.is_empty() {
        if args.settings.0.is_empty() {
            return Err(Error::usage(
                "what should be swept? Name a file, or give lists to flags: --kappa 1,1e3,1e6",
            ));
        }
        let out = args.out.clone().unwrap_or_else(|| PathBuf::from("qcs-sweep/flags"));
        sweeps.push((Sweep::of_flags(), out));
    }
    for (sweep, _) in &mut sweeps {
        for (key, values) in &args.settings.0 {
            sweep.set(key, values.iter().map(|value| value_of(value)).collect())?;
        }
    }
    if !args.dry_run {
        signals::catch()?;
    }
    let several = sweeps.len() + failures.len() > 1;
    for (sweep, out) in &sweeps {
        let failed = if args.dry_run {
            dry_run(sweep, out, global)
        } else {
            run(sweep, out, global)
        };
        match failed {
            Ok(failed) => failures.extend(failed),
            Err(error @ Error::Interrupted(_)) => return Err(error),
            Err(error) if several => failures.push(format!("{}: {error}", out.display())),
            Err(error) => return Err(error),
        }
    }
    let how = if args.dry_run { "cannot run" } else { "failed" };
    match failures.len() {
        0 => Ok(()),
        1 => Err(Error::Failed(format!("one point {how}: {}", failures[0]))),
        n => Err(Error::Failed(format!(
            "{n} points {how}, the first of them: {}",
            failures[0]
        ))),
    }
}

impl SweepArgs {
    fn folder(&self, file: &Path) -> PathBuf {
        let name = file.file_stem().unwrap_or_default();
        match &self.out {
            Some(out) if self.files.len() == 1 => out.clone(),
            Some(out) => out.join(name),
            None => Path::new("qcs-sweep").join(name),
        }
    }
}

/// Runs a sweep and writes its report; the failures, for people.
fn run(sweep: &Sweep, out: &Path, global: &Global) -> Result<Vec<String>> {
    let points = sweep.points()?;
    let mut engine = global.engine_for(None)?;
    let mut materials = Materials::default();
    let _lock = claim(out)?;
    let mut shown = Shown::new(&points, global.quiet);
    global.note(&format!(
        "{}: {} points; {}",
        out.display(),
        points.len(),
        engine.describe()
    ));
    let ended = execute(&points, out, engine.as_mut(), &mut materials, &mut shown)?;
    let collected = Collected::read(sweep, &points, &ended, out, &mut materials, engine.describe())?;
    collected.write()?;
    terminal::print(&format!(
        "{}\nreport in {}\n",
        summary(&collected),
        collected.html().display()
    ))?;
    let failed = collected.failed.iter();
    Ok(failed
        .map(|(point, reason)| format!("{} ({reason})", point.name()))
        .collect())
}

/// A line to each point.
fn summary(collected: &Collected) -> String {
    let header = ["point", "PSNR", "SSIM", "consistency", "time"]
        .map(str::to_owned)
        .to_vec();
    let row = |row: &qcs::sweep::Row| {
        let metrics = row.metrics();
        let mean = |summary: Option<qcs::metrics::Summary>, digits: usize| {
            summary.map_or(String::new(), |summary| format!("{:.digits$}", summary.mean))
        };
        vec![
            collected.name(row),
            mean(metrics.psnr, 2),
            mean(metrics.ssim, 3),
            mean(metrics.consistency, 3),
            metrics.seconds.map_or(String::new(), clock),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(collected.rows.iter().map(row)).collect();
    table::aligned(&rows)
}

/// Lists the points, and how long those that are not there will take.
fn dry_run(sweep: &Sweep, out: &Path, global: &Global) -> Result<Vec<String>> {
    let points = sweep.points()?;
    let mut engine = global.engine_for(None)?;
    let mut materials = Materials::default();
    let mut rows = vec![["point", "", "time, at most"].map(str::to_owned).to_vec()];
    let (mut total, mut open, mut failed) = (0.0, 0, Vec::new());
    // Points that differ in the data alone take the same time.
    let mut trials: BTreeMap<String, f64> = BTreeMap::new();
    let mut folders = Vec::new();
    for point in &points {
        let (state, time) = match materials.folder(point, out) {
            Err(error) => {
                failed.push(format!("{} ({error})", point.name()));
                (format!("cannot run: {error}"), String::new())
            }
            Ok(folder) if folders.contains(&folder.path().to_path_buf()) => {
                ("the same as one above".to_owned(), String::new())
            }
            Ok(folder) => {
                folders.push(folder.path().to_path_buf());
                match folder.find()? {
                    Found::Finished(_) if Report::read_json(&folder.metrics_json()).is_ok() => {
                        ("done".to_owned(), String::new())
                    }
                    found => {
                        let key = format!("{:?}", point.cost_key());
                        let seconds = match trials.get(&key) {
                            Some(&seconds) => Ok(seconds),
                            None => materials.estimate_seconds(point, engine.as_mut()),
                        };
                        match seconds {
                            Ok(seconds) => {
                                trials.insert(key, seconds);
                                (total, open) = (total + seconds, open + 1);
                                let state = if matches!(found, Found::Unfinished(_)) {
                                    "begun"
                                } else {
                                    ""
                                };
                                (state.to_owned(), clock(seconds))
                            }
                            Err(error) => {
                                failed.push(format!("{} ({error})", point.name()));
                                (format!("cannot run: {error}"), String::new())
                            }
                        }
                    }
                }
            }
        };
        rows.push(vec![point.name(), state, time]);
    }
    let words = format!(
        "{} points, {open} to run: {} at most on this machine",
        points.len(),
        clock(total)
    );
    terminal::print(&format!("{}\n{}: {words}\n", table::aligned(&rows), out.display()))?;
    Ok(failed)
}

/// Shows how far a sweep has come.
struct Shown<'a> {
    points: &'a [Point],
    display: Display,
    quiet: bool,
    title: String,
    begun: Instant,
    /// Seconds that points of each method took, and how many there were
    took: BTreeMap<String, (f64, usize)>,
    ended: usize,
}

impl<'a> Shown<'a> {
    fn new(points: &'a [Point], quiet: bool) -> Self {
        Self {
            points,
            display: Display::new(quiet),
            quiet,
            title: String::new(),
            begun: Instant::now(),
            took: BTreeMap::new(),
            ended: 0,
        }
    }

    /// Seconds that the points after those that ended will take: each as long as others of its method, or as any.
    fn left(&self) -> Option<f64> {
        let all = self
            .took
            .values()
            .fold((0.0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let mean = |(seconds, count): (f64, usize)| (count > 0).then(|| seconds / count as f64);
        let of = |point: &Point| {
            let own = self.took.get(&point.shown("method")).copied();
            own.and_then(mean).or(mean(all))
        };
        self.points[self.ended..].iter().map(of).sum()
    }
}

impl SweepObserver for Shown<'_> {
    fn begin_point(&mut self, index: usize, point: &Point) {
        let left = self
            .left()
            .map_or(String::new(), |left| format!(", {} left", clock(left)));
        self.title = format!("[{}/{}{left}] {}", index + 1, self.points.len(), point.name());
        self.begun = Instant::now();
    }

    fn end_point(&mut self, index: usize, point: &Point, ended: &Ended) {
        self.ended = index + 1;
        if let Ended::Run { .. } = ended {
            let took = self.took.entry(point.shown("method")).or_default();
            *took = (took.0 + self.begun.elapsed().as_secs_f64(), took.1 + 1);
        }
        let words = match ended {
            Ended::There | Ended::Run { diverged: 0 } => return,
            Ended::Run { diverged } => format!("{diverged} states diverged"),
            Ended::Failed(reason) => format!("failed: {reason}"),
        };
        if !self.quiet {
            terminal::note(&format!(
                "[{}/{}] {}: {words}",
                index + 1,
                self.points.len(),
                point.name()
            ));
        }
    }
}

impl Observer for Shown<'_> {
    fn begin(&mut self, _: &Kind, resumed: bool) {
        let title = if resumed {
            format!("{} (goes on)", self.title)
        } else {
            self.title.clone()
        };
        self.display.announce(&title);
    }

    fn note(&mut self, text: &str) {
        self.display.note(text);
    }

    fn after_step(&mut self, progress: &Progress) -> Next {
        self.display.after_step(progress)
    }

    fn end(&mut self, _: &Kind) {
        self.display.finish();
    }
}
