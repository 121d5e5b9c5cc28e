//! The command line; everything it does is in the library.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main(std::env::args_os()).into()
}
