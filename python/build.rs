//! The command is part of the module, and so is what its build script tells it.

#[path = "../build.rs"]
mod command;

fn main() {
    command::main();
}
