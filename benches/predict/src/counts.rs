//! What the emulator counted in a launch, and the pipe that each instruction goes to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An op of the plan with its launches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CountedOp {
    /// "conv 3×3 128→256, 32×32", "ep_moments"
    pub name: String,
    pub flops: u64,
    pub launches: Vec<Launch>,
}

/// Blocks of a launch that the emulator runs; those of a kernel do the same work, but for the edges of a map.
pub const SAMPLE: u64 = 24;

/// One launch of a kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Launch {
    pub kernel: String,
    pub blocks: u64,
    pub warps_per_block: u64,
    /// Warp instructions by opcode
    pub mix: BTreeMap<String, u64>,
    /// 32-byte sectors that may be found in L1: those of plain loads
    pub l1_sectors: u64,
    /// Those of stores and atomics
    pub l2_sectors: u64,
    /// Those of loads that L2 serves at least: what a block reads, each once. L1 may serve the others.
    pub missed_sectors: u64,
    pub shared_wavefronts: u64,
    /// Bytes of the sectors read and of those written, each once
    pub bytes_once: u64,
}

impl Launch {
    /// From a line that `QCS_EMU_LAUNCHES` asks for.
    ///
    /// Only [`SAMPLE`] blocks have run, and what they touched stands for all. Where blocks share what they read, that is too
    /// much: see [`share_operands`](Self::share_operands).
    pub fn from_report(report: &Value) -> Option<Self> {
        let product = |key: &str| {
            report[key]
                .as_array()?
                .iter()
                .map(Value::as_u64)
                .product::<Option<u64>>()
        };
        let memory = |key: &str| report["memory"][key].as_u64();
        let mix = report["instruction_mix"].as_object()?;
        let mix = mix.iter().map(|(name, count)| Some((name.clone(), count.as_u64()?)));
        let (mut l1_sectors, mut l2_sectors) = (0, 0);
        for line in report["lines"].as_array()? {
            let sectors = line["global_sectors"].as_u64()?;
            if line["instruction"].as_str()?.starts_with("ld.") {
                l1_sectors += sectors;
            } else {
                l2_sectors += sectors;
            }
        }
        let blocks = product("grid")?;
        let touched = memory("bytes_read")? + memory("bytes_written")?;
        Some(Self {
            kernel: report["kernel"].as_str()?.to_owned(),
            blocks,
            warps_per_block: product("block")?.div_ceil(32),
            mix: mix.collect::<Option<_>>()?,
            l1_sectors,
            l2_sectors,
            missed_sectors: memory("read_by_blocks")? / 32,
            shared_wavefronts: memory("shared_wavefronts")?,
            bytes_once: touched * blocks / blocks.min(SAMPLE),
        })
    }

    /// All blocks together touch no more than the op's operands.
    pub fn share_operands(&mut self, bytes: u64) {
        self.bytes_once = self.bytes_once.min(bytes);
    }

    /// Barriers that a block passes: steps of its main loop, and a few more.
    pub fn barriers(&self) -> f64 {
        let all: u64 = self
            .mix
            .iter()
            .filter(|(name, _)| name.starts_with("bar"))
            .map(|(_, n)| n)
            .sum();
        all as f64 / (self.blocks * self.warps_per_block).max(1) as f64
    }

    /// The instructions by pipe.
    pub fn work(&self) -> Work {
        let mut work = Work::default();
        for (opcode, &count) in &self.mix {
            work.add(opcode, count as f64);
        }
        work
    }
}

/// Warp instructions by pipe, and the FLOP of matrix instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// All that are issued
    pub issued: f64,
    pub fp32: f64,
    pub f64: f64,
    pub integer: f64,
    pub special: f64,
    pub memory: f64,
    /// Fused multiply-adds, and matrix instructions of the machine
    pub fma: f64,
    pub flops_f16: f64,
    pub flops_tf32: f64,
}

impl Work {
    fn add(&mut self, opcode: &str, count: f64) {
        let name = opcode.split('.').next().unwrap_or(opcode);
        let has = |suffix: &str| opcode.split('.').any(|part| part == suffix);
        let (double, single) = (has("f64"), has("f32") || has("f16x2") || has("f16"));
        // Register moves, parameters and widened indices become operands of other instructions.
        if matches!(name, "mov" | "cvta") || opcode.starts_with("ld.param") || (name == "cvt" && !double && !single) {
            return;
        }
        let mut instructions = count;
        match name {
            "mma" => instructions = self.add_matrix(opcode, count),
            "ld" | "st" | "atom" | "red" | "shfl" => self.memory += count,
            "bra" | "bar" | "ret" | "exit" => {}
            "cvt" | "ex2" | "lg2" | "rsqrt" | "sin" | "cos" | "tanh" => self.special += count,
            // MUFU for the seed, then Newton's iterations and a correction.
            "div" | "rcp" | "sqrt" if double => {
                instructions = 8.0 * count;
                self.f64 += 7.0 * count;
                self.special += count;
            }
            "div" | "rcp" | "sqrt" if single => self.special += count,
            "add" | "sub" | "mul" | "fma" | "min" | "max" | "setp" if double => self.f64 += count,
            "add" | "sub" | "mul" | "fma" | "min" | "max" | "setp" if single => self.fp32 += count,
            _ => self.integer += count,
        }
        if name == "fma" {
            self.fma += count;
        }
        self.issued += instructions;
    }

    /// Adds the FLOP of `mma` instructions and returns the machine's instructions for them.
    fn add_matrix(&mut self, opcode: &str, count: f64) -> f64 {
        // The machine takes m8n8k4 in four steps, and each of four groups of eight lanes has a product of its own.
        let (flops, machine) = if opcode.contains("m8n8k4") {
            (4.0 * 2.0 * 256.0, 4.0)
        } else if opcode.contains("m16n8k16") {
            (2.0 * 2048.0, 1.0)
        } else if opcode.contains("m16n8k8") {
            (2.0 * 1024.0, 1.0)
        } else {
            panic!("{opcode}: its FLOP are not known here")
        };
        if opcode.contains("tf32") {
            self.flops_tf32 += flops * count;
        } else {
            self.flops_f16 += flops * count;
        }
        self.fma += machine * count;
        machine * count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(mix: &[(&str, u64)]) -> Work {
        let mix = mix.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Launch {
            mix,
            ..Launch::default()
        }
        .work()
    }

    #[test]
    fn every_instruction_goes_to_one_pipe() {
        let work = work(&[
            ("fma.rn.f32", 1),
            ("fma.rn.f64", 2),
            ("add.s32", 4),
            ("ex2.approx.ftz.f32", 8),
            ("ld.shared.v2.f64", 16),
            ("cvt.f64.f32", 32),
            ("bra", 64),
            ("mov.b64", 1000),
            ("cvt.u64.u32", 1000),
            ("ld.param.b64", 1000),
        ]);
        assert_eq!((work.fp32, work.f64, work.integer, work.special), (1.0, 2.0, 4.0, 40.0));
        assert_eq!((work.memory, work.fma, work.issued), (16.0, 3.0, 127.0));
    }

    #[test]
    fn matrix_instructions_count_their_flop() {
        let ampere = work(&[("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 3)]);
        assert_eq!((ampere.flops_f16, ampere.fma, ampere.issued), (3.0 * 4096.0, 3.0, 3.0));
        let tf32 = work(&[("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 1)]);
        assert_eq!((tf32.flops_tf32, tf32.flops_f16), (2048.0, 0.0));
        let volta = work(&[("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", 1)]);
        assert_eq!((volta.flops_f16, volta.fma), (2048.0, 4.0));
    }
}
