//! `qcs manual`: the help of every command as man pages.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_mangen::Man;

use qcs::files::write_atomically;
use qcs::{Error, Result};

/// Write man pages of all commands
#[derive(Args)]
#[command(after_help = "Examples:
  qcs manual ~/.local/share/man/man1
  qcs manual man1 && man ./man1/qcs-run.1")]
pub struct ManualArgs {
    /// Folder to write them to
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Replace pages that exist
    #[arg(long)]
    force: bool,
}

pub fn manual(args: &ManualArgs) -> Result<()> {
    std::fs::create_dir_all(&args.folder).map_err(|e| Error::io(&args.folder, "create", e))?;
    let mut program = super::command();
    program.build();
    let commands = program.get_subcommands().filter(|command| command.get_name() != "help");
    let mut pages = vec![("qcs".to_owned(), &program)];
    pages.extend(commands.map(|command| (format!("qcs-{}", command.get_name()), command)));
    // All of them or none.
    let path = |name: &str| args.folder.join(format!("{name}.1"));
    let there = pages.iter().map(|(name, _)| path(name)).find(|path| path.exists());
    if let Some(there) = there.filter(|_| !args.force) {
        let reason = format!(
            "{} exists: choose another folder, or --force to replace it",
            there.display()
        );
        return Err(Error::usage(reason));
    }
    pages
        .iter()
        .try_for_each(|(name, command)| write(&path(name), command, name))
}

fn write(path: &Path, command: &clap::Command, name: &str) -> Result<()> {
    let page = Man::new(
        command
            .clone()
            .name(name.to_owned())
            .bin_name(name.replacen('-', " ", 1)),
    );
    write_atomically(path, |mut out| {
        page.render(&mut out).map_err(|e| Error::io(path, "write", e))
    })
}
