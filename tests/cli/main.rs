//! The command line, as a user runs it: the binary is started, its exit code, its words and its files are checked.

mod bad_arguments;
mod bad_files;
mod baselines;
mod bench;
mod blocks;
mod commands;
mod demo;
mod disk;
mod divergence;
mod eval;
mod folders;
mod inputs;
#[cfg(unix)]
mod interrupt;
mod kept;
mod limits;
mod memory;
mod messages;
mod names;
mod overwrite;
mod problems;
mod published;
mod reproduce;
mod shards;
mod support;
mod sweep;
mod together;
mod turbo;
mod units;
mod wording;
