//! One block: its shared memory, its barriers, and its warps in turn.

use super::launch::Environment;
use super::profile::Profile;
use super::race::RaceDetector;
use super::schedule::State;
use super::warp::Warp;
use crate::error::{Fault, FaultKind, Trouble};
use crate::ir::{BarrierKind, Op};
use std::sync::atomic::{AtomicBool, Ordering};

/// Threads and warps that announced themselves at a barrier without waiting.
#[derive(Clone, Copy, Default)]
struct Announced {
    threads: u32,
    warps: u32,
}

/// A worker's block. It is reused for one block after the other.
pub struct Block<'a> {
    pub env: &'a Environment<'a>,
    pub index: [u32; 3],
    pub shared: Vec<u64>,
    pub shared_bytes: usize,
    pub races: Option<RaceDetector>,
    pub profile: Profile,
    /// The allocation last accessed: most accesses hit it again.
    pub last_range: (u64, u64),
    /// Index of the instruction being executed.
    pub pc: u32,
    /// Warp instructions of the current block.
    pub instructions: u64,
    announced: [Announced; 16],
}

impl<'a> Block<'a> {
    pub fn new(env: &'a Environment<'a>) -> Block<'a> {
        let shared_bytes = env.shared_bytes();
        let watch = env.options.check_races && shared_bytes > 0 && env.threads_per_block() > 32;
        // In-flight copies are worth watching even in a block of one warp.
        let watch =
            watch || env.options.check_races && env.kernel.code.iter().any(|i| matches!(i.op, Op::CopyAsync(_)));
        Block {
            env,
            index: [0; 3],
            shared: vec![0; shared_bytes.div_ceil(8)],
            shared_bytes,
            races: watch.then(|| RaceDetector::new(shared_bytes, env.kernel.shared_granule())),
            profile: Profile::new(env.kernel.code.len(), env.options.profile),
            last_range: (1, 0),
            pc: 0,
            instructions: 0,
            announced: [Announced::default(); 16],
        }
    }

    /// Runs the block `index` to its end.
    pub fn run(&mut self, warps: &mut [Warp], index: [u32; 3], stop: &AtomicBool) -> Result<(), Box<Fault>> {
        self.index = index;
        self.shared.fill(u64::MAX); // poison: NaN as a float, far out of bounds as an index
        self.announced = [Announced::default(); 16];
        if let Some(races) = &mut self.races {
            races.start_block();
        }
        for (id, warp) in warps.iter_mut().enumerate() {
            warp.reset(self.env, id as u32, index);
        }
        self.instructions = 0;
        loop {
            let mut progress = false;
            for warp in warps.iter_mut().filter(|w| w.alive != 0) {
                progress |= self.run_warp(warp)?;
            }
            if warps.iter().all(|w| w.alive == 0) {
                self.profile.end_block();
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(self.fault_at(
                    0,
                    0,
                    Trouble {
                        lane: None,
                        kind: FaultKind::Stopped,
                    },
                ));
            }
            let limit = self.env.options.max_instructions;
            if self.instructions > limit {
                let kind = FaultKind::TooManyInstructions(limit);
                return Err(self.fault_at(0, self.pc, Trouble { lane: None, kind }));
            }
            if !self.release_barriers(warps) && !progress {
                return Err(self.deadlock(warps));
            }
        }
    }

    /// `bar.arrive`.
    pub fn announce(&mut self, id: u32, warp: u32, threads: u32) {
        let announced = &mut self.announced[id as usize];
        announced.threads += threads;
        announced.warps |= 1 << warp;
    }

    /// Lets the lanes go on from every barrier that is complete. Whether there was one.
    fn release_barriers(&mut self, warps: &mut [Warp]) -> bool {
        let mut any = false;
        for id in 0..16 {
            let (mut arrived, mut needed, mut participants) = (0, None, 0u32);
            for warp in warps.iter() {
                for group in &warp.groups {
                    if let State::AtBarrier { id: at, threads } = group.state
                        && at == id
                    {
                        arrived += group.mask.count_ones();
                        needed = Some(threads);
                        participants |= 1 << warp.id;
                    }
                }
            }
            let Some(threads) = needed else { continue };
            // Without a count, every thread that has not exited must come.
            let alive = || warps.iter().map(|w| w.alive.count_ones()).sum();
            let needed = if threads == 0 { alive() } else { threads };
            let announced = self.announced[id as usize];
            if arrived + announced.threads < needed {
                continue;
            }
            self.announced[id as usize] = Announced::default();
            if let Some(races) = &mut self.races {
                races.barrier(participants | announced.warps);
            }
            self.finish_barrier(warps, id);
            any = true;
        }
        any
    }

    /// Delivers the result of a reduction and moves the groups behind the barrier.
    fn finish_barrier(&self, warps: &mut [Warp], id: u32) {
        let waits = |state: State| matches!(state, State::AtBarrier { id: at, .. } if at == id);
        let (mut true_votes, mut votes) = (0, 0);
        for warp in warps.iter() {
            for group in warp.groups.iter().filter(|g| waits(g.state)) {
                true_votes += (warp.barrier_votes & group.mask).count_ones();
                votes += group.mask.count_ones();
            }
        }
        for warp in warps.iter_mut() {
            for g in 0..warp.groups.len() {
                let group = warp.groups[g];
                if !waits(group.state) {
                    continue;
                }
                let all_ones = |value: bool| if value { u32::MAX } else { 0 };
                if let Op::Barrier(barrier) = &self.env.kernel.code[group.pc as usize].op {
                    match barrier.kind {
                        BarrierKind::CountTrue { d, .. } => warp.set(d, group.mask, &[true_votes; 32]),
                        BarrierKind::AllTrue { d, .. } => {
                            warp.set_predicate(d, group.mask, all_ones(true_votes == votes));
                        }
                        BarrierKind::AnyTrue { d, .. } => warp.set_predicate(d, group.mask, all_ones(true_votes > 0)),
                        BarrierKind::Sync | BarrierKind::Arrive => {}
                    }
                }
                warp.groups[g].pc += 1;
                warp.groups[g].state = State::Ready;
            }
        }
    }

    fn deadlock(&self, warps: &[Warp]) -> Box<Fault> {
        let line = |pc: u32| self.env.kernel.code[pc as usize].line;
        let describe = |w: &Warp| {
            let groups: Vec<String> = w
                .groups
                .iter()
                .map(|g| format!("lanes {:#x} at line {}", g.mask, line(g.pc)))
                .collect();
            format!("warp {}: {}", w.id, groups.join(", "))
        };
        let waiting: Vec<&Warp> = warps.iter().filter(|w| w.alive != 0).collect();
        let detail: Vec<String> = waiting.iter().take(4).map(|w| describe(w)).collect();
        let pc = waiting[0].groups.first().map_or(0, |g| g.pc);
        let kind = FaultKind::Deadlock(detail.join("; "));
        self.fault_at(waiting[0].id, pc, Trouble { lane: None, kind })
    }

    pub fn fault(&self, warp: &Warp, trouble: Trouble) -> Box<Fault> {
        self.fault_at(warp.id, self.pc, trouble)
    }

    pub fn fault_at(&self, warp: u32, pc: u32, trouble: Trouble) -> Box<Fault> {
        let kernel = self.env.kernel;
        let instruction = &kernel.code[pc as usize];
        Box::new(Fault {
            kernel: kernel.name.clone(),
            line: instruction.line,
            instruction: kernel.mnemonic(instruction).into(),
            block: self.index,
            warp,
            lane: trouble.lane,
            kind: trouble.kind,
        })
    }
}
