//! The time that a launch takes, twice: the least, as the slowest of the things it needs, each at its published rate; and the
//! expected one, with what a cycle-level simulator of the V100 adds to that.
//!
//! The simulator (GPGPU-Sim 4.2) ran the fp32 convolution with tiles of 64×64. A step of its main loop, one tap of eight
//! channels, takes a multiprocessor 877 cycles with one block, 728 with two, 650 with four, 633 with five, where the multiply-adds
//! alone need 512. So it is 579 cycles, and 298 that no other block hides but all together do: [`LATENCY`] / blocks. What is
//! left over 512 is the [`OVERHEAD`].
//!
//! The main loop on the tensor cores has no barrier, and what it takes stands in its control codes: see
//! [`Schedule`](super::gpu::Schedule).

use super::counts::{Launch, Work};
use super::gpu::{F64, FP32, Gpu, INTEGER, MEMORY, Resources, SCHEDULERS, SECTORS_PER_WAVEFRONT, SPECIAL};

/// Seconds that a node of a graph costs before its work starts: an assumption.
pub const NODE: f64 = 1.5e-6;

/// Cycles from barrier to barrier that a block waits: for the barrier, for the first loads from shared memory, for the last
/// sums. Blocks of one multiprocessor wait at the same time.
const LATENCY: f64 = 298.0;
/// Cycles of a multiprocessor over those that its slowest part needs, with work at hand: 579 / 512 in fp32; 1.2 where loads from shared
/// memory come in bursts, from tensor-core kernels of old that the simulator ran.
const OVERHEAD: f64 = 1.13;
const OVERHEAD_IN_BURSTS: f64 = 1.2;
/// Share of the DRAM's rate that kernels get, if all multiprocessors ask: 607 of 900 GB/s, `matrix_times` in the simulator.
const DRAM_SHARE: f64 = 0.67;

/// A launch's time and what decides it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The least, without the cost of the node
    pub seconds: f64,
    /// What is expected, without the cost of the node
    pub expected: f64,
    pub bound: &'static str,
    /// Share of the multiprocessors' time that has a block to run
    pub busy: f64,
}

/// The largest of the lower bounds.
pub fn predict(launch: &Launch, gpu: &Gpu, resources: &Resources) -> Prediction {
    let work = as_compiled(launch, resources);
    let (l1, l2) = (
        launch.l1_sectors as f64,
        (launch.l2_sectors + launch.missed_sectors) as f64,
    );
    let lanes = schedulers_with_work(launch, gpu, resources) / SCHEDULERS;
    let busy = busy(launch.blocks, gpu.multiprocessors);
    // Work of the whole launch at a rate per clock and multiprocessor.
    let spread = |amount: f64, rate: f64| amount / (rate * gpu.clock * gpu.multiprocessors as f64 * busy);
    let bounds = [
        ("issue", spread(work.issued, SCHEDULERS * lanes)),
        ("fp32", spread(work.fp32, FP32 * lanes)),
        ("f64", spread(work.f64, F64 * lanes)),
        ("integer", spread(work.integer, INTEGER * lanes)),
        ("special functions", spread(work.special, SPECIAL * lanes)),
        ("load/store", spread(work.memory, MEMORY)),
        (
            "tensor cores",
            spread(work.flops_f16, gpu.tensor_f16 * lanes).max(spread(work.flops_tf32, gpu.tensor_tf32 * lanes)),
        ),
        (
            "shared memory",
            spread(launch.shared_wavefronts as f64 + l1 / SECTORS_PER_WAVEFRONT, 1.0),
        ),
        ("L2", 32.0 * l2 / (gpu.l2 * gpu.clock)),
        ("DRAM", launch.bytes_once as f64 / gpu.dram),
    ];
    let (bound, seconds) = bounds
        .into_iter()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .expect("there are bounds");
    let expected = expected(launch, gpu, resources, &bounds);
    Prediction {
        seconds,
        expected: expected.max(seconds),
        bound,
        busy,
    }
}

/// The bounds as they are reached, and the waiting that residency does not hide.
fn expected(launch: &Launch, gpu: &Gpu, resources: &Resources, bounds: &[(&'static str, f64)]) -> f64 {
    let most = |inside: bool| {
        let chosen = bounds
            .iter()
            .filter(|(name, _)| matches!(*name, "L2" | "DRAM") != inside);
        chosen
            .copied()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .expect("there are bounds of both kinds")
    };
    let ((part, computing), (_, moving)) = (most(true), most(false));
    let overhead = match part {
        "shared memory" | "load/store" => OVERHEAD_IN_BURSTS,
        _ => OVERHEAD,
    };
    // Blocks of the busiest multiprocessor come in rounds of as many as it holds; the last may be half filled.
    let given = launch.blocks.div_ceil(gpu.multiprocessors);
    let held = resources.blocks_per_multiprocessor;
    let busiest = match &resources.schedule {
        Some(schedule) => schedule.cycles(launch, given, held) / gpu.clock,
        None => computing * overhead + given.div_ceil(held) as f64 * launch.barriers() * LATENCY / gpu.clock,
    };
    let asking = launch.blocks.min(gpu.multiprocessors) as f64 / gpu.multiprocessors as f64;
    busiest.max(moving / (DRAM_SHARE * asking))
}

/// The multiprocessor with the most blocks decides: with 128 equal blocks on 80, some have two and most of the others wait.
fn busy(blocks: u64, multiprocessors: u64) -> f64 {
    blocks as f64 / (blocks.div_ceil(multiprocessors) * multiprocessors) as f64
}

/// Each scheduler has its own part of the pipes, and needs a warp to use it.
fn schedulers_with_work(launch: &Launch, gpu: &Gpu, resources: &Resources) -> f64 {
    let given = launch.blocks.div_ceil(gpu.multiprocessors);
    let resident = given.min(resources.blocks_per_multiprocessor) * launch.warps_per_block;
    (resident as f64).min(SCHEDULERS)
}

/// The counted PTX, with fewer instructions where the inner loop that ptxas made of it has fewer.
///
/// Only for kernels that are mostly their inner loop, so that what ptxas adds or saves elsewhere does not matter.
fn as_compiled(launch: &Launch, resources: &Resources) -> Work {
    let work = launch.work();
    let product = launch.kernel.starts_with("conv_") || launch.kernel.contains("_times_");
    match resources.instructions_per_fma {
        Some(ratio) if product && work.fma * ratio < work.issued => {
            let saved = work.fma * ratio / work.issued;
            Work {
                issued: saved * work.issued,
                integer: saved * work.integer,
                ..work
            }
        }
        _ => work,
    }
}

#[cfg(test)]
mod tests {
    use super::super::gpu::{A100, Schedule, V100};
    use super::*;

    const RESOURCES: Resources = Resources {
        blocks_per_multiprocessor: 2,
        instructions_per_fma: None,
        schedule: None,
    };

    fn launch(blocks: u64, opcode: &str, count: u64) -> Launch {
        Launch {
            kernel: "conv".to_owned(),
            blocks,
            warps_per_block: 4,
            mix: [(opcode.to_owned(), count)].into(),
            ..Launch::default()
        }
    }

    /// A 3×3 layer as the fp32 kernels compute it: `steps` of `cycles` on each of `blocks`.
    fn layer(kernel: &str, blocks: u64, steps: u64, cycles: u64, bound: &str) -> Launch {
        let warps = 4;
        let mix = [
            (bound.to_owned(), blocks * steps * cycles * 2),
            ("bar.sync".to_owned(), blocks * warps * steps),
        ];
        Launch {
            mix: mix.into(),
            ..Launch {
                kernel: kernel.to_owned(),
                ..launch(blocks, "", 0)
            }
        }
    }

    #[test]
    fn steps_take_as_long_as_in_the_simulator() {
        let five = Resources {
            blocks_per_multiprocessor: 5,
            ..RESOURCES
        };
        for (blocks, simulated) in [(1, 877.0), (2, 728.0), (4, 650.0), (5, 633.0)] {
            let launch = layer("conv_f32_64x64", 80 * blocks, 100, 512, "fma.rn.f32");
            let cycles = predict(&launch, &V100, &five).expected * V100.clock / (100.0 * blocks as f64);
            assert!((cycles / simulated - 1.0).abs() < 0.02, "{cycles} for {simulated}");
        }
    }

    #[test]
    fn layers_take_as_long_as_in_the_simulator() {
        let with = |blocks_per_multiprocessor| Resources {
            blocks_per_multiprocessor,
            ..RESOURCES
        };
        // Batch 8 in fp32: 256 channels at 16², 128 at 32² in small and in large tiles.
        for (blocks, steps, cycles, resident, simulated) in [
            (128, 288, 512, 5, 255e-6),
            (256, 144, 512, 5, 246e-6),
            (64, 144, 2048, 2, 237e-6),
        ] {
            let launch = layer("conv_f32", blocks, steps, cycles, "fma.rn.f32");
            let expected = predict(&launch, &V100, &with(resident)).expected;
            assert!(
                (expected / simulated - 1.0).abs() < 0.08,
                "{expected:e} for {simulated:e}"
            );
        }
    }

    #[test]
    fn a_kernel_on_some_multiprocessors_gets_some_of_the_memory_rate() {
        let bytes = |blocks| {
            let launch = Launch {
                bytes_once: 32_000_000,
                ..launch(blocks, "bra", 1)
            };
            predict(&launch, &V100, &RESOURCES).expected
        };
        // rotate_out and rotate_in, 53 and 76 µs in the simulator.
        assert!((bytes(125) / 53e-6 - 1.0).abs() < 0.03, "{:e}", bytes(125));
        assert!((bytes(63) / 76e-6 - 1.0).abs() < 0.15, "{:e}", bytes(63));
    }

    /// What `schedule.py` reads of the machine code that the simulator ran: before the loop without branches, and with it (v3).
    fn simulated(kernel: &str) -> Resources {
        let (held, products, pass, rest) = match kernel {
            "before 64x64" => (2, 256.0, vec![1460.0, 1558.0], vec![5802.0, 6670.0]),
            "before 64x32" => (2, 128.0, vec![973.0, 1021.0], vec![3493.0, 4038.0]),
            "v3 64x64" => (2, 256.0, vec![865.0, 1146.0], vec![5779.0, 6262.0]),
            "v3 64x32" => (2, 128.0, vec![615.0, 702.0], vec![3639.0, 4062.0]),
            _ => (
                4,
                64.0,
                vec![646.0, 689.0, 732.0, 914.0],
                vec![2556.0, 2846.0, 3632.0, 3508.0],
            ),
        };
        Resources {
            blocks_per_multiprocessor: held,
            schedule: Some(Schedule { products, pass, rest }),
            ..RESOURCES
        }
    }

    #[test]
    fn layers_on_the_tensor_cores_take_as_long_as_in_the_simulator() {
        // Accel-Sim's cycles of a V100 by control codes. Channels in units of 16, blocks, multiprocessors, cycles: of a whole V100 at
        // batch 8, or of an eighth of one at batch 1.
        for (kernel, units, blocks, multiprocessors, simulated_cycles) in [
            // The seven layers with today's loop: 256 → 256 at 16², whole with blocks of one multiprocessor that share weights; the
            // same in narrower tiles; 128 → 128 at 32², whole; 128 → 128 at 16², twice; 256 → 128 at 16².
            ("v3 64x64", 16, 128, 80, 47_956.0),
            ("v3 64x32", 16, 32, 10, 61_148.0),
            ("v3 64x16", 16, 64, 10, 72_599.0),
            ("v3 64x64", 8, 256, 80, 55_248.0),
            ("v3 64x64", 8, 8, 10, 19_815.0),
            ("v3 64x32", 8, 16, 10, 17_846.0),
            ("v3 64x64", 16, 8, 10, 34_306.0),
            // The loop before, by eighths: the first took 65,904 cycles whole.
            ("before 64x64", 16, 16, 10, 62_886.0),
            ("before 64x32", 16, 32, 10, 83_200.0),
            ("before 64x64", 8, 32, 10, 71_991.0),
            ("before 64x64", 8, 8, 10, 30_782.0),
            ("before 64x32", 8, 16, 10, 22_545.0),
            ("before 64x64", 16, 8, 10, 56_431.0),
        ] {
            let resources = simulated(kernel);
            let products = resources.schedule.as_ref().unwrap().products as u64;
            // A pass of a warp is a unit, and takes four HMMA to each of the PTX.
            let mma = "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32";
            let launch = launch(blocks, mma, blocks * units * 9 * products / 4);
            let gpu = Gpu {
                multiprocessors,
                ..V100
            };
            let cycles = predict(&launch, &gpu, &resources).expected * V100.clock;
            let error = cycles / simulated_cycles - 1.0;
            assert!(
                error.abs() < 0.1,
                "{kernel}, {units} units, {blocks} blocks: {cycles} for {simulated_cycles}"
            );
        }
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs()
    }

    #[test]
    fn multiply_adds_on_all_multiprocessors_run_at_the_published_peak() {
        // 160 blocks, two on each of the 80: no tail.
        let predicted = predict(&launch(160, "fma.rn.f32", 1_000_000), &V100, &RESOURCES);
        assert_eq!((predicted.bound, predicted.busy), ("fp32", 1.0));
        assert!(close(predicted.seconds, 64e6 / V100.peak("fp32")), "{predicted:?}");
    }

    #[test]
    fn the_busiest_multiprocessor_decides() {
        let seconds = |blocks| predict(&launch(blocks, "fma.rn.f32", 1_000_000), &A100, &RESOURCES).seconds;
        assert!(
            close(seconds(109) / seconds(216), 216.0 / 109.0),
            "two blocks on one of them"
        );
        assert!(
            close(seconds(54) / seconds(108), 2.0),
            "half of them have nothing to do"
        );
        assert!(close(busy(128, 80), 0.8));
    }

    #[test]
    fn two_warps_use_half_of_the_pipes() {
        let narrow = Launch {
            warps_per_block: 2,
            ..launch(80, "fma.rn.f32", 1_000_000)
        };
        let wide = launch(80, "fma.rn.f32", 1_000_000);
        let seconds = |launch: &Launch| predict(launch, &V100, &RESOURCES).seconds;
        assert!(close(seconds(&narrow) / seconds(&wide), 2.0));
    }

    #[test]
    fn bytes_are_moved_at_the_rate_of_the_memory_they_come_from() {
        let idle = launch(160, "bra", 1);
        let dram = Launch {
            bytes_once: 9_000_000,
            ..idle.clone()
        };
        let predicted = predict(&dram, &V100, &RESOURCES);
        assert!(predicted.bound == "DRAM" && close(predicted.seconds, 1e-5));
        let l2 = Launch {
            l2_sectors: 2048,
            ..idle.clone()
        };
        let predicted = predict(&l2, &V100, &RESOURCES);
        assert!(predicted.bound == "L2" && close(predicted.seconds, 32.0 / V100.clock));
        // Shared memory and L1 share one path of 128 bytes per clock: three passes and one of four sectors.
        let shared = Launch {
            shared_wavefronts: 80 * 3,
            l1_sectors: 80 * 4,
            ..idle
        };
        let predicted = predict(&shared, &V100, &RESOURCES);
        assert!(predicted.bound == "shared memory" && close(predicted.seconds, 4.0 / V100.clock));
    }

    #[test]
    fn a_compiled_loop_replaces_what_the_ptx_counts() {
        let mix = [("fma.rn.f32", 100), ("add.s32", 300)];
        let kernel = Launch {
            mix: mix.map(|(name, count)| (name.to_owned(), count)).into(),
            ..launch(160, "", 0)
        };
        let resources = Resources {
            instructions_per_fma: Some(2.0),
            ..RESOURCES
        };
        let named = |name: &str| Launch {
            kernel: name.to_owned(),
            ..kernel.clone()
        };
        let compiled = as_compiled(&named("conv_f32"), &resources);
        assert_eq!(
            (compiled.issued, compiled.integer, compiled.fp32),
            (200.0, 150.0, 100.0)
        );
        assert_eq!(as_compiled(&named("norm_merge"), &resources).issued, 400.0);
    }
}
