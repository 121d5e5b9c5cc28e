//! A launch: all blocks of a grid, on as many host threads as asked for.

use super::block::Block;
use super::memory::Ranges;
use super::profile::Profile;
use super::warp::Warp;
use crate::error::{Fault, FaultKind, LaunchError};
use crate::ir::Kernel;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What to check and count, and how much to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host threads. One makes floating-point atomics deterministic.
    pub workers: usize,
    /// Watch shared memory for races and unfinished asynchronous copies.
    pub check_races: bool,
    /// Count sectors and bank conflicts.
    pub profile: bool,
    /// Warp instructions that one block may execute.
    pub max_instructions: u64,
    /// Blocks of a launch that are run, evenly spread over the grid, where it has more: to count what all would do. Results
    /// then mean nothing.
    pub sample: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
        Options {
            workers,
            check_races: true,
            profile: false,
            max_instructions: 2_000_000_000,
            sample: None,
        }
    }
}

/// Everything a launch needs. `ranges` must name live memory until the launch returns.
pub struct Environment<'a> {
    pub kernel: &'a Kernel,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: usize,
    /// The parameter block, padded to words.
    pub params: Vec<u64>,
    /// Addresses of the module's variables.
    pub globals: &'a [u64],
    pub ranges: &'a Ranges,
    pub options: &'a Options,
}

impl Environment<'_> {
    pub fn threads_per_block(&self) -> u32 {
        self.block.iter().product()
    }

    /// Dynamic shared memory starts behind the static one, aligned for any access.
    pub fn dynamic_shared_offset(&self) -> usize {
        self.kernel.static_shared_bytes.next_multiple_of(16)
    }

    pub fn shared_bytes(&self) -> usize {
        if self.dynamic_shared == 0 {
            return self.kernel.static_shared_bytes;
        }
        self.dynamic_shared_offset() + self.dynamic_shared
    }

    fn block_index(&self, number: u64) -> [u32; 3] {
        let [x, y, _] = self.grid.map(u64::from);
        [number % x, number / x % y, number / (x * y)].map(|v| v as u32)
    }

    fn check(&self) -> Result<u64, LaunchError> {
        let threads = self
            .block
            .iter()
            .try_fold(1u32, |n, d| n.checked_mul(*d))
            .unwrap_or(u32::MAX);
        let blocks = self
            .grid
            .iter()
            .try_fold(1u64, |n, d| n.checked_mul(*d as u64))
            .unwrap_or(u64::MAX);
        let name = &self.kernel.name;
        let invalid = |message: String| Err(LaunchError::Invalid(format!("kernel {name}: {message}")));
        if threads == 0 || blocks == 0 {
            return invalid("a launch needs at least one thread".into());
        }
        if threads > 1024 {
            return invalid(format!("{threads} threads per block; at most 1024"));
        }
        if self.kernel.max_threads != 0 && threads > self.kernel.max_threads {
            return invalid(format!(
                "{threads} threads per block; .maxntid allows {}",
                self.kernel.max_threads
            ));
        }
        if self.grid[1] > 65535 || self.grid[2] > 65535 || self.block[2] > 64 {
            return invalid(format!("grid {:?} or block {:?} too large", self.grid, self.block));
        }
        Ok(blocks)
    }
}

/// Runs all blocks, or a sample of them, whose counts then stand for all. The first fault stops the others.
pub fn run(env: &Environment) -> Result<Profile, LaunchError> {
    let all = env.check()?;
    match env.options.sample {
        Some(sample) if sample < all => {
            let mut profile = run_blocks(env, sample.max(1), |number| number * all / sample.max(1))?;
            profile.stand_for(all);
            Ok(profile)
        }
        _ => run_blocks(env, all, |number| number),
    }
}

/// Runs as many blocks, of which `place` gives the numbers in the grid.
fn run_blocks(env: &Environment, blocks: u64, place: impl Fn(u64) -> u64 + Sync) -> Result<Profile, LaunchError> {
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let workers = (env.options.workers.max(1) as u64).min(blocks) as usize;
    if workers == 1 {
        return Ok(work(env, blocks, &place, &next, &stop)?);
    }
    let outcomes: Vec<Result<Profile, Box<Fault>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| scope.spawn(|| work(env, blocks, &place, &next, &stop)))
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("a worker does not panic"))
            .collect()
    });
    let mut total = Profile::new(env.kernel.code.len(), env.options.profile);
    let mut fault: Option<Box<Fault>> = None;
    for outcome in outcomes {
        match outcome {
            Ok(profile) => total.merge(&profile),
            Err(f) if fault.is_none() || f.kind != FaultKind::Stopped => fault = Some(f),
            Err(_) => {}
        }
    }
    fault.map_or(Ok(total), |f| Err(f.into()))
}

fn work(
    env: &Environment,
    blocks: u64,
    place: &impl Fn(u64) -> u64,
    next: &AtomicU64,
    stop: &AtomicBool,
) -> Result<Profile, Box<Fault>> {
    let mut block = Block::new(env);
    let mut warps: Vec<Warp> = (0..env.threads_per_block().div_ceil(32))
        .map(|_| Warp::new(env))
        .collect();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= blocks || stop.load(Ordering::Relaxed) {
            return Ok(block.profile);
        }
        if let Err(fault) = block.run(&mut warps, env.block_index(place(number)), stop) {
            stop.store(true, Ordering::Relaxed);
            return Err(fault);
        }
    }
}
