//! Published peaks of the GPUs, and what ptxas made of the kernels.

use std::collections::HashMap;

use super::counts::Launch;

/// A GPU as its data sheet and white paper describe it. Rates are per clock, and per multiprocessor where not said otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Gpu {
    pub name: &'static str,
    pub sm: u32,
    pub multiprocessors: u64,
    /// Boost clock in Hz: the one that the published peaks are for
    pub clock: f64,
    /// Bytes per second
    pub dram: f64,
    /// Bytes per clock of the whole GPU
    pub l2: f64,
    /// FLOP of the tensor cores in fp16 with f32 sums, and in TF32
    pub tensor_f16: f64,
    pub tensor_tf32: f64,
}

/// 15.7 TFLOP/s fp32, 125 fp16.
pub const V100: Gpu = Gpu {
    name: "V100 SXM2",
    sm: 70,
    multiprocessors: 80,
    clock: 1.53e9,
    dram: 900e9,
    l2: 2048.0,
    tensor_f16: 1024.0,
    tensor_tf32: f64::NAN,
};

/// 19.5 TFLOP/s fp32, 156 TF32, 312 fp16.
pub const A100: Gpu = Gpu {
    name: "A100 40 GB",
    sm: 80,
    multiprocessors: 108,
    clock: 1.41e9,
    dram: 1555e9,
    l2: 5120.0,
    tensor_f16: 2048.0,
    tensor_tf32: 1024.0,
};

/// Warp instructions that a multiprocessor issues in a clock, one of each of its schedulers.
pub const SCHEDULERS: f64 = 4.0;
/// Warp instructions per clock of the pipes: 64 lanes for fp32 and for integers, 32 for f64 and for loads and stores, 16 for
/// conversions and special functions.
pub const FP32: f64 = 2.0;
pub const INTEGER: f64 = 2.0;
pub const F64: f64 = 1.0;
pub const MEMORY: f64 = 1.0;
pub const SPECIAL: f64 = 0.5;
/// Sectors of 32 bytes in the 128 that shared memory or L1 delivers per clock
pub const SECTORS_PER_WAVEFRONT: f64 = 4.0;

impl Gpu {
    /// FLOP per second of fused multiply-adds in fp32, or of the tensor cores.
    pub fn peak(&self, precision: &str) -> f64 {
        let per_clock = match precision {
            "fp16" => self.tensor_f16,
            "tf32" => self.tensor_tf32,
            _ => 2.0 * 32.0 * FP32,
        };
        per_clock * self.multiprocessors as f64 * self.clock
    }
}

/// What ptxas made of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Resources {
    pub blocks_per_multiprocessor: u64,
    /// Machine instructions of the inner loop per fused multiply-add or matrix instruction in it
    pub instructions_per_fma: Option<f64>,
    /// Of a kernel on the tensor cores, whose loop has no barrier
    pub schedule: Option<Schedule>,
}

/// What the control codes of a kernel on the tensor cores come to (`kernels/schedule.py`).
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Matrix instructions of a pass of the main loop
    pub products: f64,
    /// Cycles of a pass, and of all outside of the loop, with one, two and more blocks on a multiprocessor at a time
    pub pass: Vec<f64>,
    pub rest: Vec<f64>,
}

impl Schedule {
    /// Cycles of a multiprocessor that is given so many blocks and holds some of them at a time.
    pub fn cycles(&self, launch: &Launch, given: u64, held: u64) -> f64 {
        let of_warp = launch.work().fma / (launch.blocks * launch.warps_per_block).max(1) as f64;
        // The warp with the most units decides.
        let passes = (of_warp / self.products).ceil();
        let round = |blocks: u64| match blocks as usize {
            0 => 0.0,
            n => passes * self.pass[n - 1] + self.rest[n - 1],
        };
        (given / held) as f64 * round(held) + round(given % held)
    }
}

/// The table of one architecture in `kernels/RESOURCES.md`.
pub fn resources(text: &str, sm: u32) -> HashMap<String, Resources> {
    let section = text.split("\n## ").find(|part| part.starts_with(&format!("sm_{sm}\n")));
    let rows = section.expect("the architecture has a table").lines();
    rows.filter_map(resources_of).collect()
}

/// "| `name` | threads | registers | shared | blocks | warps | 512 FFMA of 589 (87%), 33 shared loads |", of the tensor cores with
/// "; pass 925 1170, rest 3408 4215" in the end
fn resources_of(row: &str) -> Option<(String, Resources)> {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let name = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
    let words: Vec<&str> = cells.get(7)?.split_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
    let cycles = |behind: &str| -> Option<Vec<f64>> {
        let (list, _) = cells[7]
            .split_once(behind)?
            .1
            .split_once(',')
            .unwrap_or((cells[7].split_once(behind)?.1, ""));
        list.split_whitespace().map(|word| word.parse().ok()).collect()
    };
    let schedule = cycles("; pass ").zip(cycles(", rest ")).zip(number(0));
    Some((
        name.to_owned(),
        Resources {
            blocks_per_multiprocessor: cells[5].parse().ok()?,
            instructions_per_fma: number(0).zip(number(3)).map(|(fma, all)| all / fma),
            schedule: schedule.map(|((pass, rest), products)| Schedule { products, pass, rest }),
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_multiply_to_the_published_peaks() {
        let tera = |gpu: Gpu, precision| (gpu.peak(precision) / 1e12 * 10.0).round() / 10.0;
        assert_eq!((tera(V100, "fp32"), tera(V100, "fp16")), (15.7, 125.3));
        assert_eq!(tera(A100, "fp32"), 19.5);
        assert_eq!((tera(A100, "tf32"), tera(A100, "fp16")), (155.9, 311.9));
    }

    #[test]
    fn the_table_of_an_architecture_is_read() {
        let text = "# Kernels\n\n## sm_70\n\n| kernel | threads |\n|---|---|\n\
                    | `a` | 256 | 8 | 0 | 8 | 100% |  |\n\
                    | `b` | 128 | 85 | 13080 | 5 | 31% | 256 FFMA of 320 (80%), 25 shared loads |\n\
                    | `c` | 128 | 255 | 40960 | 2 | 12% | 256 HMMA of 359 (71%); stalls 596 for 512 (1.16), loads 77 ahead; \
                    pass 925 1170, rest 3408 4215 |\n\n\
                    ## sm_80\n\n| `a` | 256 | 8 | 0 | 7 | 100% |  |\n";
        let table = resources(text, 70);
        assert_eq!(table.len(), 3);
        assert_eq!(
            (table["a"].blocks_per_multiprocessor, table["a"].instructions_per_fma),
            (8, None)
        );
        assert_eq!(
            (table["b"].blocks_per_multiprocessor, table["b"].instructions_per_fma),
            (5, Some(1.25))
        );
        let read = Schedule {
            products: 256.0,
            pass: vec![925.0, 1170.0],
            rest: vec![3408.0, 4215.0],
        };
        assert_eq!((&table["c"].schedule, &table["b"].schedule), (&Some(read), &None));
        assert_eq!(resources(text, 80)["a"].blocks_per_multiprocessor, 7);
    }
}
