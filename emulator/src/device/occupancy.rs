//! How many blocks fit on one multiprocessor.

/// Limits of a multiprocessor, from the CUDA programming guide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Multiprocessor {
    pub sm: u32,
    pub warps: u32,
    pub blocks: u32,
    pub registers: u32,
    pub shared: u32,
    /// The most one block may have.
    pub shared_per_block: u32,
    /// What the system takes of a block's shared memory.
    pub shared_reserved: u32,
    pub shared_unit: u32,
    pub count: u32,
}

/// V100.
pub const SM_70: Multiprocessor = Multiprocessor {
    sm: 70,
    warps: 64,
    blocks: 32,
    registers: 65536,
    shared: 98304,
    shared_per_block: 98304,
    shared_reserved: 0,
    shared_unit: 256,
    count: 80,
};

/// A100.
pub const SM_80: Multiprocessor = Multiprocessor {
    sm: 80,
    warps: 64,
    blocks: 32,
    registers: 65536,
    shared: 167936,
    shared_per_block: 166912,
    shared_reserved: 1024,
    shared_unit: 128,
    count: 108,
};

/// H100.
pub const SM_90: Multiprocessor = Multiprocessor {
    sm: 90,
    warps: 64,
    blocks: 32,
    registers: 65536,
    shared: 233472,
    shared_per_block: 232448,
    shared_reserved: 1024,
    shared_unit: 128,
    count: 132,
};

/// Registers are given to a warp in units of this many.
const REGISTER_UNIT: u32 = 256;
/// A multiprocessor has four schedulers with a quarter of the registers each.
const SCHEDULERS: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occupancy {
    pub blocks: u32,
    pub warps: u32,
    /// What allows no further block: "warps", "blocks", "registers" or "shared".
    pub limit: &'static str,
}

/// Blocks that run at once on `m`, given a block's threads, registers per thread and shared bytes.
pub fn occupancy(m: &Multiprocessor, threads: u32, registers: u32, shared: u32) -> Occupancy {
    let warps_per_block = threads.div_ceil(32).max(1);
    let registers_per_warp = (registers.max(1) * 32).next_multiple_of(REGISTER_UNIT);
    let warps_by_registers = m.registers / SCHEDULERS / registers_per_warp * SCHEDULERS;
    let by_registers = if registers > 255 {
        0
    } else {
        warps_by_registers / warps_per_block
    };
    let by_shared = match (shared + m.shared_reserved).next_multiple_of(m.shared_unit) {
        0 => u32::MAX,
        _ if shared > m.shared_per_block => 0,
        bytes => m.shared / bytes,
    };
    let limits = [
        ("warps", m.warps / warps_per_block),
        ("blocks", m.blocks),
        ("registers", by_registers),
        ("shared", by_shared),
    ];
    let (limit, blocks) = limits
        .into_iter()
        .min_by_key(|(_, n)| *n)
        .expect("there are four limits");
    Occupancy {
        blocks,
        warps: blocks * warps_per_block,
        limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of NVIDIA's occupancy calculator.
    #[test]
    fn occupancy_equals_the_published_calculator() {
        let at = |m, threads, registers, shared| {
            let o = occupancy(m, threads, registers, shared);
            (o.blocks, o.warps, o.limit)
        };
        assert_eq!(at(&SM_70, 256, 32, 0), (8, 64, "warps"));
        assert_eq!(at(&SM_70, 256, 128, 8192), (2, 16, "registers"));
        assert_eq!(
            at(&SM_70, 256, 123, 16384),
            (2, 16, "registers"),
            "the prototype's SGEMM"
        );
        assert_eq!(at(&SM_70, 128, 32, 49152), (2, 8, "shared"));
        assert_eq!(at(&SM_80, 128, 32, 49152), (3, 12, "shared"));
        assert_eq!(at(&SM_80, 32, 16, 0), (32, 32, "blocks"));
        assert_eq!(at(&SM_70, 128, 32, 100_000), (0, 0, "shared"));
    }
}
