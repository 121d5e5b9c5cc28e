//! The command line, as a user runs it: the binary is started, its exit code, its words and its files are checked.

mod bad_arguments;
mod bad_files;
mod baselines;
mod bench;
mod commands;
mod demo;
mod disk;
mod folders;
#[cfg(unix)]
mod interrupt;
mod memory;
mod reproduce;
mod support;
mod sweep;
mod turbo;
