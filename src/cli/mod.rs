//! `qcs`: one file per command, and what they share.

mod bench;
mod calibrate;
mod check;
mod completions;
mod convert;
mod demo;
mod eval;
mod flags;
mod info;
mod manual;
mod measure;
mod merge;
mod progress;
mod run;
mod sample;
mod scores;
mod signals;
mod sweep;
mod table;
mod target;
mod terminal;
mod usage;

use std::ffi::OsString;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use qcs::engine::{self, Engine, Precision, Products};
use qcs::{Error, Remedy, Result};

#[derive(Parser)]
#[command(
    name = "qcs",
    version,
    long_version = concat!(env!("CARGO_PKG_VERSION"), " (", env!("QCS_BUILD"), ")"),
    about = "Images from quantised measurements y = Q(Ax + n)",
    long_about = "Images from quantised measurements y = Q(Ax + n), with a score network as prior: the posterior mean by \
                  turbo, posterior samples by QCS-SGM+ and QCS-SGM, and the baselines BIPG, OneShot and least squares.",
    after_help = "Examples:
  qcs demo                                               digits from single bits
  qcs measure digits/ -o problem.safetensors --bits 2    simulate measurements
  qcs run problem.safetensors --out results              reconstruct the images

Exit codes: 0 done, 1 the run failed, 2 usage, 3 bad input file, 4 some states diverged (the results are written), \
                  5 device, 130 interrupted (the state is saved; go on with --resume)."
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Args)]
struct Global {
    /// Threads to use; 0 means as many as the machine runs at once. Never changes results
    #[arg(
        long,
        global = true,
        value_name = "N",
        default_value_t = 0,
        help_heading = "Global options"
    )]
    threads: usize,
    /// Device to compute on: auto (a GPU if there is a usable one), cpu, cuda, cuda:N, or several GPUs like cuda:0,1
    #[arg(
        long,
        global = true,
        value_name = "DEVICE",
        env = "QCS_DEVICE",
        default_value = "auto",
        help_heading = "Global options"
    )]
    device: String,
    /// Precision of the network's inner products: fp32, tf32, fp16 or, on a CPU, bf16 [default: fp32; on a GPU `run`, `demo` and `sample`
    /// take fp16, the fastest; docs/performance.md has what that does to images]
    #[arg(long, global = true, value_name = "PRECISION", help_heading = "Global options")]
    precision: Option<String>,
    /// Multiply with our own kernels even where cuBLAS loads: then a sample's last bits do not depend on the batch
    #[arg(long, global = true, help_heading = "Global options")]
    no_cublas: bool,
    /// Say nothing but errors and results
    #[arg(long, short, global = true, help_heading = "Global options")]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Measure(measure::MeasureArgs),
    Run(Box<run::RunArgs>),
    Merge(merge::MergeArgs),
    Sweep(sweep::SweepArgs),
    Eval(eval::EvalArgs),
    Sample(sample::SampleArgs),
    Score(scores::ScoreArgs),
    Likelihood(scores::LikelihoodArgs),
    Convert(convert::ConvertArgs),
    Calibrate(calibrate::CalibrateArgs),
    Bench(bench::BenchArgs),
    Check(check::CheckArgs),
    Info(info::InfoArgs),
    Completions(completions::CompletionsArgs),
    Manual(manual::ManualArgs),
}

/// Parses the command line, the program's name first, runs it, and turns an error into one line and an exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    signals::survive_file_limits();
    let parsed = command()
        .try_get_matches_from(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error) => match usage::line(&error) {
            Some(line) => {
                terminal::note(&line);
                return Error::usage("").exit_code();
            }
            // What clap prints itself.
            None => error.exit(),
        },
    };
    match execute(parsed) {
        Ok(()) => 0,
        Err(error) => {
            terminal::note(&format!("error: {}", words(&error)));
            error.exit_code()
        }
    }
}

/// The error's line. The library names a setting; who typed it as a flag, or should have, is told of the flag.
fn words(error: &Error) -> String {
    let (name, reason) = match error {
        Error::Setting { name, reason } => (name, reason),
        Error::Remediable { error, remedy } => return format!("{}: {}", words(error), flags_for(*remedy)),
        _ => return error.to_string(),
    };
    let long = format!("--{}", name.replace('_', "-"));
    let commands = command();
    let of_setting = |arg: &&clap::Arg| arg.get_id() == name;
    let arg = commands
        .get_subcommands()
        .find_map(|c| c.get_arguments().find(of_setting));
    let short = arg.and_then(|arg| arg.get_short()).map(|short| format!("-{short}"));
    let typed = std::env::args().any(|word| {
        let is_short = short
            .as_ref()
            .is_some_and(|short| word.starts_with(short) && !word.starts_with("--"));
        word == long || word.starts_with(&format!("{long}=")) || is_short
    });
    let missing = reason.starts_with("is missing");
    if typed || missing {
        format!("{long} {reason}")
    } else {
        error.to_string()
    }
}

/// A remedy as it is typed.
fn flags_for(remedy: Remedy) -> String {
    let words = match remedy {
        Remedy::Replace => "choose another one, or --force to replace it",
        Remedy::WriteInto => "choose another folder, or --force to write into it",
        Remedy::ContinueOrReplace => "--resume continues it, --force starts over",
        Remedy::Continue => "the same command with --resume goes on",
        Remedy::Cpu => "--device cpu works",
        Remedy::SmallerBatch => "take a smaller --batch, or --batch auto",
        Remedy::OtherPrecision => "use --precision fp16 or fp32",
        Remedy::Shape => "name the images' shape with --shape C,H,W",
        Remedy::Calibrate => "measure them with `qcs calibrate --model FILE --images DATA`",
        Remedy::CheckGpu(number) => {
            return format!(
                "`qcs check --device cuda:{number}` finds out which, --resume goes on from the last checkpoint"
            );
        }
    };
    words.to_owned()
}

/// The command line. Every value may start with a minus: what it is not allowed to be is then said of its flag.
fn command() -> clap::Command {
    let values = |arg: clap::Arg| {
        let takes_values = arg.get_action().takes_values();
        let counts = arg.get_value_parser().type_id() == std::any::TypeId::of::<usize>();
        let arg = arg.allow_negative_numbers(takes_values);
        if counts { arg.value_parser(count) } else { arg }
    };
    // A prior has no measurements: what weighs them is refused there with the reason, and not offered.
    let offered = |arg: clap::Arg| {
        let hidden = sample::weighs_measurements(arg.get_id().as_str());
        arg.hide(hidden)
    };
    Cli::command()
        .mut_args(values)
        .mut_subcommands(move |command| command.mut_args(values))
        .mut_subcommand("sample", move |command| command.mut_args(offered))
}

/// A number that a configuration can hold too.
fn count(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(number) if i64::try_from(number).is_ok() => Ok(number),
        Ok(_) => Err(format!("at most {}", i64::MAX)),
        Err(error) => Err(error.to_string()),
    }
}

fn execute(Cli { mut global, command }: Cli) -> Result<()> {
    if global.device.is_empty() {
        // A variable that is set to nothing says nothing.
        global.device = "auto".to_owned();
    }
    match command {
        Command::Demo(args) => demo::demo(&args, &global),
        Command::Measure(args) => measure::measure(&args, &global),
        Command::Run(args) => run::run(&args, &global),
        Command::Merge(args) => merge::merge(&args, &global),
        Command::Sweep(args) => sweep::sweep(&args, &global),
        Command::Eval(args) => eval::eval(&args, &global),
        Command::Sample(args) => sample::sample(&args, &global),
        Command::Score(args) => scores::score(&args, &global),
        Command::Likelihood(args) => scores::likelihood(&args, &global),
        Command::Convert(args) => convert::convert(&args, &global),
        Command::Calibrate(args) => calibrate::calibrate(&args, &global),
        Command::Bench(args) => bench::bench(&args, &global),
        Command::Check(args) => check::check(&args, &global),
        Command::Info(args) => info::info(&args, &global),
        Command::Completions(args) => completions::completions(&args),
        Command::Manual(args) => manual::manual(&args),
    }
}

impl Global {
    /// The engine that `--device`, `--precision` and `--threads` ask for.
    fn engine(&self) -> Result<Box<dyn Engine>> {
        self.use_threads()?;
        self.open(self.precision()?)
    }

    /// The engine for a run, which may have begun in a precision.
    fn engine_for(&self, precision: Option<Precision>) -> Result<Box<dyn Engine>> {
        self.open(self.precision()?.or(precision))
    }

    /// The same in fp32 if nothing else is asked for: for results that are compared with those of other programs.
    fn exact_engine(&self) -> Result<Box<dyn Engine>> {
        self.use_threads()?;
        self.open(self.precision()?.or(Some(Precision::Fp32)))
    }

    fn open(&self, precision: Option<Precision>) -> Result<Box<dyn Engine>> {
        let mut opened = engine::open(&self.device.parse()?, precision, self.threads)?;
        opened.engine.choose_products(self.products());
        if let Some(note) = opened.note {
            self.note(&format!("note: {note}"));
        }
        Ok(opened.engine)
    }

    /// Who multiplies by U.
    fn products(&self) -> Products {
        if self.no_cublas { Products::Own } else { Products::Auto }
    }

    fn precision(&self) -> Result<Option<Precision>> {
        self.precision.as_deref().map(str::parse).transpose()
    }

    /// Makes parallel work outside of engines use as many threads.
    fn use_threads(&self) -> Result<()> {
        qcs::use_threads(self.threads)
    }

    /// Tells the user something, unless asked to be quiet.
    fn note(&self, text: &str) {
        if !self.quiet {
            terminal::note(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_describes_itself_and_shows_examples() {
        let mut cli = command();
        cli.build();
        for command in cli.get_subcommands().filter(|c| c.get_name() != "help") {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} says what it does");
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                after.matches(&format!("  qcs {name}")).count() >= 2,
                "{name} shows examples: {after}"
            );
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{name} {} is explained",
                    argument.get_id()
                );
            }
        }
        cli.debug_assert();
    }
}
