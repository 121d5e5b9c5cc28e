//! How many registers are live at once: a stand-in for ptxas' count where ptxas is not at hand.

use super::instruction::{Instruction, Op, Reg};
use super::kernel::Kernel;

/// One bit per register plane.
type Set = Vec<u64>;

pub(super) struct Block {
    pub range: std::ops::Range<usize>,
    pub successors: Vec<usize>,
    live_out: Set,
}

impl Kernel {
    /// The largest number of 32-bit values live at any instruction. Constants and special
    /// registers do not count: the hardware reads them in place.
    pub(crate) fn count_live_registers(&self) -> u32 {
        let words = self.planes.div_ceil(64);
        let mut counted = vec![u64::MAX; words];
        let fixed = self
            .constants
            .iter()
            .map(|c| c.0)
            .chain(self.specials.iter().map(|s| s.0));
        for reg in fixed.chain([Reg { plane: 0, wide: true }]) {
            each_plane(reg, |p| counted[p / 64] &= !(1 << (p % 64)));
        }
        let mut blocks = self.blocks(words);
        let mut changed = true;
        while changed {
            changed = false;
            for index in (0..blocks.len()).rev() {
                let mut live = blocks[index].live_out.clone();
                for next in blocks[index].successors.clone() {
                    let mut incoming = blocks[next].live_out.clone();
                    self.walk(&blocks[next], &mut incoming, |_| {});
                    live.iter_mut().zip(&incoming).for_each(|(a, b)| *a |= b);
                }
                if live != blocks[index].live_out {
                    blocks[index].live_out = live;
                    changed = true;
                }
            }
        }
        let mut most = 0;
        for block in &blocks {
            let mut live = block.live_out.clone();
            self.walk(block, &mut live, |live| {
                most = most.max(live.iter().zip(&counted).map(|(a, b)| (a & b).count_ones()).sum());
            });
        }
        most
    }

    /// Runs backwards through a block, turning its live-out set into its live-in set.
    fn walk(&self, block: &Block, live: &mut Set, mut visit: impl FnMut(&Set)) {
        for instruction in self.code[block.range.clone()].iter().rev() {
            visit(live);
            // A guarded write leaves the old value in the other lanes.
            if instruction.guard.is_none() {
                instruction
                    .op
                    .writes(&mut |reg| each_plane(reg, |p| live[p / 64] &= !(1 << (p % 64))));
            }
            instruction
                .op
                .reads(&mut |reg| each_plane(reg, |p| live[p / 64] |= 1 << (p % 64)));
        }
    }

    /// Straight pieces of code, with room for `words` words of live registers each.
    pub(super) fn blocks(&self, words: usize) -> Vec<Block> {
        let mut leader = vec![false; self.code.len() + 1];
        leader[0] = true;
        for (at, instruction) in self.code.iter().enumerate() {
            let targets = targets(instruction);
            targets.iter().for_each(|t| leader[*t] = true);
            leader[at + 1] |= !targets.is_empty() || matches!(instruction.op, Op::Exit | Op::Trap);
        }
        let starts: Vec<usize> = (0..self.code.len()).filter(|at| leader[*at]).collect();
        let block_of = |at: usize| starts.binary_search(&at).ok();
        let ends = starts.iter().skip(1).copied().chain([self.code.len()]);
        let block = |(start, end): (&usize, usize)| {
            let last = &self.code[end - 1];
            let falls_through = last.guard.is_some()
                || !matches!(
                    last.op,
                    Op::Branch { .. } | Op::BranchTable { .. } | Op::Exit | Op::Trap
                );
            let next = if falls_through { block_of(end) } else { None };
            let successors = targets(last).into_iter().filter_map(block_of).chain(next).collect();
            Block {
                range: *start..end,
                successors,
                live_out: vec![0; words],
            }
        };
        starts.iter().zip(ends).map(block).collect()
    }
}

fn targets(instruction: &Instruction) -> Vec<usize> {
    match &instruction.op {
        Op::Branch { target } => vec![*target as usize],
        Op::BranchTable { targets, .. } => targets.iter().map(|t| *t as usize).collect(),
        _ => vec![],
    }
}

fn each_plane(reg: Reg, mut f: impl FnMut(usize)) {
    f(reg.plane as usize);
    if reg.wide {
        f(reg.plane as usize + 1);
    }
}
