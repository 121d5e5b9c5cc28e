//! What a launch did, as numbers and as JSON.

use super::occupancy::{Multiprocessor, SM_70, SM_80, SM_90, occupancy};
use crate::exec::{Environment, MemoryCounters, Profile};
use crate::json::{Object, array};
use std::collections::BTreeMap;
use std::time::Duration;

/// Memory traffic of one PTX line.
#[derive(Clone, Debug)]
pub struct LineTraffic {
    pub line: u32,
    pub mnemonic: String,
    pub counters: MemoryCounters,
}

/// Statistics of one launch.
#[derive(Clone, Debug)]
pub struct Report {
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: usize,
    /// Upper bound on live 32-bit registers, from the PTX; ptxas knows better.
    pub live_registers: u32,
    pub seconds: f64,
    pub warp_instructions: u64,
    pub thread_instructions: u64,
    /// Warp instructions by opcode text.
    pub mix: BTreeMap<String, u64>,
    /// Sums over the launch; zero unless profiling was asked for.
    pub memory: MemoryCounters,
    /// Bytes of the sectors that were read and written, each once.
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Bytes of the sectors that a block reads, each once, of all blocks: what a cache that blocks do not share cannot serve.
    pub read_by_blocks: u64,
    /// Bytes of sectors that were read with `.nc` and written by the same launch, which hardware need not notice
    pub constant_written: u64,
    /// The counters by PTX line, for lines that touch memory.
    pub lines: Vec<LineTraffic>,
}

impl Report {
    pub(crate) fn new(env: &Environment, profile: Profile, elapsed: Duration) -> Report {
        let kernel = env.kernel;
        let mut mix = BTreeMap::new();
        for (instruction, count) in kernel.code.iter().zip(&profile.executed).filter(|(_, n)| **n > 0) {
            *mix.entry(kernel.mnemonic(instruction).to_string()).or_insert(0) += count;
        }
        let mut memory = MemoryCounters::default();
        let mut lines = Vec::new();
        for (instruction, counters) in kernel.code.iter().zip(&profile.memory) {
            if *counters == MemoryCounters::default() {
                continue;
            }
            memory.add(counters);
            let mnemonic = kernel.mnemonic(instruction).to_string();
            lines.push(LineTraffic {
                line: instruction.line,
                mnemonic,
                counters: *counters,
            });
        }
        Report {
            kernel: kernel.name.clone(),
            grid: env.grid,
            block: env.block,
            shared_bytes: env.shared_bytes(),
            live_registers: kernel.live_registers,
            seconds: elapsed.as_secs_f64(),
            warp_instructions: profile.warp_instructions(),
            thread_instructions: profile.thread_instructions,
            mix,
            memory,
            bytes_read: profile.read.bytes(),
            bytes_written: profile.written.bytes(),
            read_by_blocks: profile.read_by_blocks,
            constant_written: profile.constant.common(&profile.written).bytes(),
            lines,
        }
    }

    /// Adds another launch of the same kernel; its dimensions stand for both.
    pub fn merge(&mut self, other: &Report) {
        (self.grid, self.block, self.shared_bytes) = (other.grid, other.block, other.shared_bytes);
        self.seconds += other.seconds;
        self.warp_instructions += other.warp_instructions;
        self.thread_instructions += other.thread_instructions;
        self.memory.add(&other.memory);
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.read_by_blocks += other.read_by_blocks;
        self.constant_written += other.constant_written;
        for (name, count) in &other.mix {
            *self.mix.entry(name.clone()).or_insert(0) += count;
        }
        for traffic in &other.lines {
            match self
                .lines
                .iter_mut()
                .find(|l| l.line == traffic.line && l.mnemonic == traffic.mnemonic)
            {
                Some(line) => line.counters.add(&traffic.counters),
                None => self.lines.push(traffic.clone()),
            }
        }
    }

    /// 32-byte sectors per request to global memory.
    pub fn sectors_per_request(&self) -> f64 {
        self.memory.global_sectors as f64 / self.memory.global_requests.max(1) as f64
    }

    /// Share of the bytes in touched sectors that lanes asked for; 1 means full sectors.
    pub fn sector_efficiency(&self) -> f64 {
        self.memory.global_bytes as f64 / (32 * self.memory.global_sectors).max(1) as f64
    }

    /// Everything as one JSON object.
    pub fn to_json(&self) -> String {
        let dimensions = |d: [u32; 3]| array(d.map(|n| n.to_string()));
        let mix = self
            .mix
            .iter()
            .fold(Object::new(), |object, (name, count)| object.integer(name, *count));
        let lines = self.lines.iter().map(|l| {
            let object = Object::new()
                .integer("line", l.line as u64)
                .text("instruction", &l.mnemonic);
            counters(object, &l.counters).finish()
        });
        let memory = counters(Object::new(), &self.memory)
            .integer("bytes_read", self.bytes_read)
            .integer("bytes_written", self.bytes_written)
            .integer("read_by_blocks", self.read_by_blocks)
            .integer("constant_written", self.constant_written)
            .number("sectors_per_request", self.sectors_per_request())
            .number("sector_efficiency", self.sector_efficiency());
        Object::new()
            .text("kernel", &self.kernel)
            .raw("grid", &dimensions(self.grid))
            .raw("block", &dimensions(self.block))
            .integer("shared_bytes", self.shared_bytes as u64)
            .integer("live_registers", self.live_registers as u64)
            .number("seconds", self.seconds)
            .integer("warp_instructions", self.warp_instructions)
            .integer("thread_instructions", self.thread_instructions)
            .raw("instruction_mix", &mix.finish())
            .raw("memory", &memory.finish())
            .raw("lines", &array(lines))
            .raw(
                "occupancy",
                &array([SM_70, SM_80, SM_90].map(|m| self.occupancy_json(&m))),
            )
            .finish()
    }

    fn occupancy_json(&self, m: &Multiprocessor) -> String {
        let threads = self.block.iter().product();
        let o = occupancy(m, threads, self.live_registers, self.shared_bytes as u32);
        Object::new()
            .integer("sm", m.sm as u64)
            .integer("blocks_per_sm", o.blocks as u64)
            .integer("warps_per_sm", o.warps as u64)
            .text("limited_by", o.limit)
            .finish()
    }
}

fn counters(object: Object, c: &MemoryCounters) -> Object {
    object
        .integer("global_requests", c.global_requests)
        .integer("global_sectors", c.global_sectors)
        .integer("global_bytes", c.global_bytes)
        .integer("shared_requests", c.shared_requests)
        .integer("shared_wavefronts", c.shared_wavefronts)
        .integer("bank_conflicts", c.shared_conflicts)
}
