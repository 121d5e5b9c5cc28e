//! `qcs manual`: the help of every command as man pages.

use std::path::PathBuf;

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
}

pub fn manual(args: &ManualArgs) -> Result<()> {
    std::fs::create_dir_all(&args.folder).map_err(|e| Error::io(&args.folder, "create", e))?;
    let mut program = super::command();
    program.build();
    write(&args.folder, &program, "qcs")?;
    for command in program.get_subcommands().filter(|command| command.get_name() != "help") {
        let name = format!("qcs-{}", command.get_name());
        write(&args.folder, command, &name)?;
    }
    Ok(())
}

fn write(folder: &std::path::Path, command: &clap::Command, name: &str) -> Result<()> {
    let page = Man::new(
        command
            .clone()
            .name(name.to_owned())
            .bin_name(name.replacen('-', " ", 1)),
    );
    let path = folder.join(format!("{name}.1"));
    write_atomically(&path, |mut out| {
        page.render(&mut out).map_err(|e| Error::io(&path, "write", e))
    })
}
