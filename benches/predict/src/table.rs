//! The predictions as Markdown.

use std::collections::HashMap;
use std::fmt::Write;

use super::counts::CountedOp;
use super::gpu::{Gpu, Resources};
use super::model::{NODE, predict};

/// The ops of a name, added up.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: String,
    pub launches: usize,
    pub flops: u64,
    /// What the tensor cores execute, of it or of zeros
    pub executed: f64,
    /// Bytes of each launch's operands, each once, and those of all sectors it asks for
    pub bytes_once: u64,
    pub bytes_asked: u64,
    /// At least and expected, nodes included
    pub seconds: f64,
    pub expected: f64,
    /// The bounds that decide, with their seconds
    bounds: HashMap<&'static str, f64>,
    /// Seconds that would do if every multiprocessor were busy to the end
    without_tail: f64,
}

/// One GPU in one precision.
pub struct Predicted {
    pub gpu: Gpu,
    pub precision: &'static str,
    /// The largest first
    pub rows: Vec<Row>,
}

/// The row of what a convolution launches beside its products.
fn around_products(kernel: &str) -> Option<&'static str> {
    [
        ("conv_prepare", "conv_prepare: norm, ELU, rounding"),
        ("winograd_input", "winograd_input: norm, ELU, transform"),
        (
            "winograd_output",
            "winograd_output: transform, bias, residual, statistics",
        ),
    ]
    .into_iter()
    .find_map(|(prefix, row)| kernel.starts_with(prefix).then_some(row))
}

impl Row {
    pub fn bound(&self) -> &'static str {
        let largest = self.bounds.iter().max_by(|a, b| a.1.total_cmp(b.1));
        largest.map_or("", |(bound, _)| bound)
    }

    /// Of what the tensor cores execute
    fn in_vain(&self) -> String {
        match self.executed {
            0.0 => String::new(),
            executed => format!("{:.0} %", 100.0 * (1.0 - self.flops as f64 / executed)),
        }
    }

    pub fn busy(&self) -> f64 {
        self.without_tail / self.seconds
    }
}

impl Predicted {
    pub fn new(gpu: Gpu, precision: &'static str, ops: &[CountedOp], resources: &HashMap<String, Resources>) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for op in ops {
            let mut flops = op.flops;
            for launch in &op.launches {
                let around = around_products(&launch.kernel);
                let name = around.unwrap_or(&op.name);
                let at = rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
                    rows.push(Row::new(name));
                    rows.len() - 1
                });
                let row = &mut rows[at];
                let predicted = predict(launch, &gpu, &resources[&launch.kernel]);
                let (seconds, bound) = (predicted.seconds + NODE, predicted.bound);
                row.launches += 1;
                let work = launch.work();
                row.executed += work.flops_f16 + work.flops_tf32;
                row.bytes_once += launch.bytes_once;
                row.bytes_asked += 32 * (launch.l1_sectors + launch.l2_sectors);
                row.seconds += seconds;
                row.expected += predicted.expected + NODE;
                row.without_tail += match bound {
                    "L2" | "DRAM" => seconds,
                    _ => predicted.seconds * predicted.busy + NODE,
                };
                *row.bounds.entry(bound).or_default() += predicted.seconds;
                *row.bounds.entry("launch").or_default() += NODE;
                if around.is_none() {
                    row.flops += std::mem::take(&mut flops);
                }
            }
        }
        rows.sort_by(|a, b| b.expected.total_cmp(&a.expected));
        Self { gpu, precision, rows }
    }

    pub fn seconds(&self) -> f64 {
        self.rows.iter().map(|row| row.seconds).sum()
    }

    pub fn expected(&self) -> f64 {
        self.rows.iter().map(|row| row.expected).sum()
    }

    pub fn flops(&self) -> u64 {
        self.rows.iter().map(|row| row.flops).sum()
    }

    fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

impl Row {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            launches: 0,
            flops: 0,
            executed: 0.0,
            bytes_once: 0,
            bytes_asked: 0,
            seconds: 0.0,
            expected: 0.0,
            bounds: HashMap::new(),
            without_tail: 0.0,
        }
    }
}

/// A line per GPU and precision.
pub fn summary(all: &[Predicted], batch: usize, steps: usize) -> String {
    let mut text = String::from(
        "| GPU | precision | ms, at least | expected | images/s, expected | of peak, expected | busy | launches |\n\
         |---|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for predicted in all {
        let (seconds, expected) = (predicted.seconds(), predicted.expected());
        let rate = predicted.flops() as f64 / expected;
        let busy: f64 = predicted.rows.iter().map(|row| row.without_tail).sum();
        let launches: usize = predicted.rows.iter().map(|row| row.launches).sum();
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {:.2} | {:.3} | {:.0} % | {:.0} % | {launches} |",
            predicted.gpu.name,
            predicted.precision,
            1e3 * seconds,
            1e3 * expected,
            batch as f64 / (steps as f64 * expected),
            100.0 * rate / predicted.gpu.peak(predicted.precision),
            100.0 * busy / seconds,
        );
    }
    text
}

/// The ops of one precision, side by side on its GPUs.
pub fn per_op(all: &[&Predicted]) -> String {
    let (last, head) = (all[all.len() - 1], "| op | launches | GFLOP | MB once | MB asked |");
    let mut text = head.to_owned();
    for predicted in all {
        let _ = write!(
            text,
            " {} µs, at least | expected | share | bound | busy | in vain |",
            predicted.gpu.name
        );
    }
    let _ = writeln!(
        text,
        "\n|---|---:|---:|---:|---:|{}",
        "---:|---:|---:|---|---:|---:|".repeat(all.len())
    );
    for row in &last.rows {
        let _ = write!(
            text,
            "| {} | {} | {:.2} | {:.1} | {:.1} |",
            row.name,
            row.launches,
            row.flops as f64 / 1e9,
            row.bytes_once as f64 / 1e6,
            row.bytes_asked as f64 / 1e6
        );
        for predicted in all {
            let row = predicted.row(&row.name).expect("the plan is the same on every GPU");
            let _ = write!(
                text,
                " {:.1} | {:.1} | {:.1} % | {} | {:.0} % | {} |",
                1e6 * row.seconds,
                1e6 * row.expected,
                100.0 * row.expected / predicted.expected(),
                row.bound(),
                100.0 * row.busy(),
                row.in_vain()
            );
        }
        text.push('\n');
    }
    text
}

/// The three largest rows of one GPU in words.
pub fn largest(predicted: &Predicted) -> String {
    let mut text = String::new();
    for row in predicted.rows.iter().take(3) {
        let _ = writeln!(
            text,
            "  - {}: {:.0} µs expected, {:.0} at least, {:.0} % of the step, bound by {}, multiprocessors {:.0} % busy",
            row.name,
            1e6 * row.expected,
            1e6 * row.seconds,
            100.0 * row.expected / predicted.expected(),
            row.bound(),
            100.0 * row.busy()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::counts::Launch;
    use super::super::gpu::V100;
    use super::*;

    fn op(name: &str, kernels: &[&str], bytes_once: u64) -> CountedOp {
        let launch = |kernel: &&str| Launch {
            kernel: (*kernel).to_owned(),
            blocks: 80,
            warps_per_block: 8,
            bytes_once,
            ..Launch::default()
        };
        CountedOp {
            name: name.to_owned(),
            flops: 1000,
            launches: kernels.iter().map(launch).collect(),
        }
    }

    #[test]
    fn ops_of_a_name_are_added_up_and_the_rounding_of_inputs_is_apart() {
        let known = Resources {
            blocks_per_multiprocessor: 2,
            instructions_per_fma: None,
            schedule: None,
        };
        let resources = ["conv_prepare_f16", "conv_f16_64x64", "elu"].map(|name| (name.to_owned(), known.clone()));
        let conv = ["conv_prepare_f16", "conv_f16_64x64"];
        let ops = [
            op("conv", &conv, 900_000),
            op("elu", &["elu"], 90_000),
            op("conv", &conv, 900_000),
        ];
        let predicted = Predicted::new(V100, "fp16", &ops, &resources.into());
        let names: Vec<(&str, usize, u64)> = predicted.rows.iter().map(|r| (&*r.name, r.launches, r.flops)).collect();
        assert_eq!(names[2], ("elu", 1, 1000));
        assert!(names[..2].contains(&("conv", 2, 2000)), "{names:?}");
        assert!(names[..2].contains(&("conv_prepare: norm, ELU, rounding", 2, 0)));
        // Four launches of a microsecond, one of a tenth, and the nodes.
        assert!((predicted.seconds() - (4.1e-6 + 5.0 * NODE)).abs() < 1e-12);
        assert_eq!(predicted.row("elu").unwrap().bound(), "launch");
    }

    #[test]
    fn a_layer_in_two_parts_is_counted_once_and_its_transforms_are_apart() {
        let known = Resources {
            blocks_per_multiprocessor: 2,
            instructions_per_fma: None,
            schedule: None,
        };
        let part = ["winograd_input_elu", "conv_f32_64x64_none", "winograd_output"];
        let resources = part.map(|name| (name.to_owned(), known.clone()));
        let ops = [op("conv", &[part, part].concat(), 900_000)];
        let predicted = Predicted::new(V100, "fp32", &ops, &resources.into());
        let mut rows: Vec<(&str, usize, u64)> =
            predicted.rows.iter().map(|r| (&*r.name, r.launches, r.flops)).collect();
        rows.sort_unstable();
        assert_eq!(rows[0], ("conv", 2, 1000));
        assert!(rows[1].0.starts_with("winograd_input") && rows[1].1 == 2 && rows[1].2 == 0);
        assert!(rows[2].0.starts_with("winograd_output") && rows[2].1 == 2 && rows[2].2 == 0);
    }
}
