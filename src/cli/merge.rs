//! `qcs merge`: the shards of a run put together.

use std::path::PathBuf;

use clap::Args;

use qcs::Result;
use qcs::run::merge as merge_shards;

use super::{Global, table, terminal};

/// Put the shards of a run together
#[derive(Args)]
#[command(
    long_about = "Checks that all shards of `qcs run --shard` are there, complete and of one configuration, and writes the \
                  folder that one run would have written, byte for byte but for the time it took. The shards stay.",
    after_help = "Examples:
  qcs merge results
  qcs merge results --force --json"
)]
pub struct MergeArgs {
    /// The folder that holds the shards
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Replace what an earlier merge has written
    #[arg(long)]
    force: bool,
    /// Print the metrics as JSON
    #[arg(long)]
    json: bool,
}

pub fn merge(args: &MergeArgs, global: &Global) -> Result<()> {
    global.use_threads()?;
    let (run, results) = merge_shards(&args.folder, args.force)?;
    run.notes.iter().for_each(|note| global.note(&format!("note: {note}")));
    if args.json {
        return terminal::print_json(&results.report);
    }
    let shown = args.folder.display();
    terminal::print(&format!(
        "{}\nresults in {shown}\n",
        table::report(&results.report, run.images())
    ))
}
