//! The least time that a launch can take: the slowest of the things it needs, each at its published rate.

use super::counts::{Launch, Work};
use super::gpu::{F64, FP32, Gpu, INTEGER, MEMORY, Resources, SCHEDULERS, SECTORS_PER_WAVEFRONT, SPECIAL};

/// Seconds that a node of a graph costs before its work starts: an assumption.
pub const NODE: f64 = 1.5e-6;

/// A launch's time and what decides it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Without the cost of the node
    pub seconds: f64,
    pub bound: &'static str,
    /// Share of the multiprocessors' time that has a block to run
    pub busy: f64,
}

/// The largest of the lower bounds.
pub fn predict(launch: &Launch, gpu: &Gpu, resources: Resources) -> Prediction {
    let work = as_compiled(launch, resources);
    let (l1, l2) = (launch.l1_sectors as f64, launch.l2_sectors as f64);
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
    Prediction { seconds, bound, busy }
}

/// The multiprocessor with the most blocks decides: with 128 equal blocks on 80, some have two and most of the others wait.
fn busy(blocks: u64, multiprocessors: u64) -> f64 {
    blocks as f64 / (blocks.div_ceil(multiprocessors) * multiprocessors) as f64
}

/// Each scheduler has its own part of the pipes, and needs a warp to use it.
fn schedulers_with_work(launch: &Launch, gpu: &Gpu, resources: Resources) -> f64 {
    let given = launch.blocks.div_ceil(gpu.multiprocessors);
    let resident = given.min(resources.blocks_per_multiprocessor) * launch.warps_per_block;
    (resident as f64).min(SCHEDULERS)
}

/// The counted PTX, with fewer instructions where the inner loop that ptxas made of it has fewer.
///
/// Only for kernels that are mostly their inner loop, so that what ptxas adds or saves elsewhere does not matter.
fn as_compiled(launch: &Launch, resources: Resources) -> Work {
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
    use super::super::gpu::{A100, V100};
    use super::*;

    const RESOURCES: Resources = Resources {
        blocks_per_multiprocessor: 2,
        instructions_per_fma: None,
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

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs()
    }

    #[test]
    fn multiply_adds_on_all_multiprocessors_run_at_the_published_peak() {
        // 160 blocks, two on each of the 80: no tail.
        let predicted = predict(&launch(160, "fma.rn.f32", 1_000_000), &V100, RESOURCES);
        assert_eq!((predicted.bound, predicted.busy), ("fp32", 1.0));
        assert!(close(predicted.seconds, 64e6 / V100.peak("fp32")), "{predicted:?}");
    }

    #[test]
    fn the_busiest_multiprocessor_decides() {
        let seconds = |blocks| predict(&launch(blocks, "fma.rn.f32", 1_000_000), &A100, RESOURCES).seconds;
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
        let seconds = |launch: &Launch| predict(launch, &V100, RESOURCES).seconds;
        assert!(close(seconds(&narrow) / seconds(&wide), 2.0));
    }

    #[test]
    fn bytes_are_moved_at_the_rate_of_the_memory_they_come_from() {
        let idle = launch(160, "bra", 1);
        let dram = Launch {
            bytes_once: 9_000_000,
            ..idle.clone()
        };
        let predicted = predict(&dram, &V100, RESOURCES);
        assert!(predicted.bound == "DRAM" && close(predicted.seconds, 1e-5));
        let l2 = Launch {
            l2_sectors: 2048,
            ..idle.clone()
        };
        let predicted = predict(&l2, &V100, RESOURCES);
        assert!(predicted.bound == "L2" && close(predicted.seconds, 32.0 / V100.clock));
        // Shared memory and L1 share one path of 128 bytes per clock: three passes and one of four sectors.
        let shared = Launch {
            shared_wavefronts: 80 * 3,
            l1_sectors: 80 * 4,
            ..idle
        };
        let predicted = predict(&shared, &V100, RESOURCES);
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
        let compiled = as_compiled(&named("conv_f32"), resources);
        assert_eq!(
            (compiled.issued, compiled.integer, compiled.fp32),
            (200.0, 150.0, 100.0)
        );
        assert_eq!(as_compiled(&named("norm_merge"), resources).issued, 400.0);
    }
}
