//! `qcs completions`: what a shell needs to complete commands and flags.

use clap::Args;
use clap_complete::Shell;

use qcs::Result;

use super::terminal;

/// Print a completion script for a shell
#[derive(Args)]
#[command(after_help = "Examples:
  qcs completions bash > ~/.local/share/bash-completion/completions/qcs
  qcs completions zsh > ~/.zfunc/_qcs
  qcs completions fish > ~/.config/fish/completions/qcs.fish")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "qcs", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))
}
