//! Predicts the time of a Langevin step on GPUs that nobody here has: the CUDA engine runs one step on the emulator, which
//! counts instructions and bytes of a sample of blocks, and a model sets those against the published peaks and what a
//! simulator found.
//!
//! `cargo run --release -p qcs-predict` prints the tables; `-- --write` puts them into `benches/results/predicted.md`; `--reuse`
//! takes the counts of the last time from the target folder instead of counting again.

mod count;
mod counts;
mod gpu;
mod model;
mod table;

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use qcs::methods::Preset;
use qcs::{Error, Result};
use qcs_emulator::stand_in::{self, Library};

use counts::CountedOp;
use gpu::{A100, Gpu, V100};
use table::Predicted;

/// The paper's width.
const NGF: usize = 128;

/// A preset and a batch.
type Size = (&'static str, usize);

/// The first is told op by op.
const SIZES: [Size; 3] = [("cifar10", 8), ("cifar10", 64), ("celeba", 8)];

const CASES: [(Gpu, &str); 5] = [
    (V100, "fp32"),
    (V100, "fp16"),
    (A100, "fp32"),
    (A100, "tf32"),
    (A100, "fp16"),
];

/// The repository
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, preset, batch, precision, launches] = &args[..]
        && word == "count"
    {
        let (preset, batch) = (Preset::find(preset)?, batch.parse().map_err(failed)?);
        let ops = count::count(preset, NGF, batch, precision.parse()?, Path::new(launches))?;
        println!("{}", serde_json::to_string(&ops).map_err(failed)?);
        return Ok(());
    }
    if let Some(unknown) = args.iter().find(|arg| !["--write", "--reuse"].contains(&arg.as_str())) {
        return Err(Error::usage(format!(
            "unknown argument {unknown}; there are --write and --reuse"
        )));
    }
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let resources = read(&Path::new(ROOT).join("kernels/RESOURCES.md"))?;
    let predict = |size: &Size| {
        let mut all: Vec<Predicted> = Vec::new();
        for (gpu, precision) in CASES {
            // Only the tensor-core kernels differ between the architectures.
            let (sm, again) = match precision {
                "fp32" => (V100.sm, !all.is_empty()),
                _ => (gpu.sm, false),
            };
            let ops = counted(*size, sm, precision, again || has("--reuse"))?;
            all.push(Predicted::new(
                gpu,
                precision,
                &ops,
                &gpu::resources(&resources, gpu.sm),
            ));
        }
        Ok((*size, all))
    };
    let document = document(&SIZES.iter().map(predict).collect::<Result<Vec<_>>>()?)?;
    if !has("--write") {
        print!("{document}");
        return Ok(());
    }
    std::fs::write(Path::new(ROOT).join("benches/results/predicted.md"), document).map_err(failed)
}

/// The counts of a step, from a child process that finds the emulator as its CUDA driver.
fn counted((preset, batch): Size, sm: u32, precision: &str, reuse: bool) -> Result<Vec<CountedOp>> {
    let program = std::env::current_exe().map_err(failed)?;
    let folder = program.with_file_name("predict");
    let saved = folder.join(format!("{preset}-{batch}-sm_{sm}-{precision}.json"));
    if !(reuse && saved.exists()) {
        eprintln!("counting {preset}, batch {batch}, sm_{sm}, {precision}");
        // The driver, and NVTX, whose ranges tell the ops apart. Without cuBLAS all products are our own.
        let libraries = folder.join("lib");
        stand_in::link(&libraries, &[Library::Driver, Library::Nvtx]).map_err(failed)?;
        let launches = folder.join("launches.jsonl");
        let mut command = Command::new(&program);
        stand_in::search_first(&mut command, &libraries);
        let output = command
            .args(["count", preset, &batch.to_string(), precision])
            .arg(&launches)
            .env("QCS_EMU_SM", sm.to_string())
            .env("QCS_EMU_LAUNCHES", &launches)
            .env("QCS_EMU_PROFILE", "1")
            .env("QCS_EMU_SAMPLE", counts::SAMPLE.to_string())
            .env("QCS_EMU_RACES", "0")
            .stderr(Stdio::inherit())
            .output()
            .map_err(failed)?;
        if !output.status.success() {
            return Err(Error::Failed(format!(
                "counting sm_{sm}, {precision}: {}",
                output.status
            )));
        }
        std::fs::write(&saved, output.stdout).map_err(failed)?;
    }
    serde_json::from_str(&read(&saved)?).map_err(failed)
}

fn document(sizes: &[(Size, Vec<Predicted>)]) -> Result<String> {
    let mut text = format!(
        "`cargo run --release -p qcs-predict -- --write`\n\n\
         **A prediction. Nothing below has run on hardware.** The CUDA engine ran one step (ngf {NGF}, EP with five iterations) on \
         the emulator, which counted instructions and bytes of {} blocks of every launch. *At least*: a launch takes as long \
         as the slowest of what it needs takes at its published rate, plus {} µs for its node in the graph (an assumption). \
         *Expected*: with the waiting and the overhead that a cycle-level simulator of the V100 found in our convolutions and \
         products (`benches/predict/src/model.rs`); for the A100 nobody has simulated anything, and the same is assumed.\n",
        counts::SAMPLE,
        1e6 * model::NODE
    );
    for ((name, batch), all) in sizes {
        let preset = Preset::find(name)?;
        let (levels, steps) = (preset.levels, preset.steps_per_level);
        let m = preset.measurements;
        let _ = writeln!(
            text,
            "\n### {name}, batch {batch}, M = {m}, whole schedule of {levels} levels of {steps} steps\n"
        );
        text += &table::summary(all, *batch, levels * steps);
    }
    text += "\nShares of peak count products only, convolutions as direct ones. With cuBLAS the products with U are not our kernels; \
             here they are.\n";
    let ((name, batch), all) = &sizes[0];
    let _ = writeln!(text, "\nThe three largest costs, {name}, batch {batch}:\n");
    for predicted in all {
        let _ = writeln!(text, "- {}, {}:", predicted.gpu.name, predicted.precision);
        text += &table::largest(predicted);
    }
    for precision in ["fp32", "tf32", "fp16"] {
        let group: Vec<&Predicted> = all.iter().filter(|p| p.precision == precision).collect();
        let _ = writeln!(text, "\n### Predicted per op, {name}, batch {batch}, {precision}\n");
        text += &table::per_op(&group);
    }
    text += ASSUMPTIONS;
    Ok(text)
}

const ASSUMPTIONS: &str = "
### What the prediction assumes

- *bound* is what takes the largest part of the op's least time: *launch* is the cost of the nodes. *MB once* are the sectors that a
  launch touches, each once (of a product or a convolution no more than its operands), at the rate of DRAM: L2 is taken to serve all further accesses within a launch, and nothing
  from one launch to the next. There alone an A100, whose L2 of 40 MB holds several maps, may be faster. *MB asked* are the sectors of all requests. Those of stores pass L2, and of loads what a block
  reads, each sector once; all loads pass L1, on the path of shared memory, where 16 bytes per lane take four passes, broadcast or not. MB are those of the last GPU of a table.
- *busy* is the tail: blocks are equal and whole, and the multiprocessor with the most of them decides. A multiprocessor with
  fewer than four warps uses as many of its four schedulers.
- *Expected* adds, for what a multiprocessor computes, 13 % (20 % on the tensor cores and shared memory), and 298 clocks for every
  barrier of a block and every round of blocks that a multiprocessor holds at a time: with fewer blocks they weigh more. The tensor
  cores' loop has no barrier: it waits where the products of all resident blocks take less than 400 clocks, which a load from a busy L2 is
  assumed to need (an idle one: about 200). DRAM and L2 give 67 % of their rate, less if blocks are fewer than multiprocessors. The simulator's figures for three fp32 layers and two products
  are met within 15 %.
- Clocks are 1.53 GHz (V100: 80 multiprocessors, 900 GB/s, L2 2048 bytes per clock) and 1.41 GHz (A100: 108, 1555 GB/s, 5120).
  Per clock, a multiprocessor issues 4 warp instructions, of which 2 fp32, 2 integer, 1 f64, 1 load or store, 1/2 conversion or
  special function; it moves 128 bytes of shared memory or L1; its tensor cores do 1024 FLOP in fp16 (V100), 2048 in fp16 and
  1024 in TF32 (A100).
- Instructions are PTX without register moves, parameters and widened indices. For the convolutions and products, where ptxas
  needs fewer instructions than the PTX has, those of its inner loop per multiply-add count (`kernels/RESOURCES.md`).
- In fp32, layers with channels enough are computed by Winograd's algorithm: their rows are the 36 products, those of the transforms
  stand apart.
- Convolutions of one shape were counted once. The PTX of all kernels but those of the tensor cores is the same for both GPUs.
";

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Error::Failed(format!("{}: {e}", path.display())))
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// From `.entry NAME(` to the brace that ends it, labels without the function's number.
    fn kernels(sm: u32) -> BTreeMap<String, String> {
        let path = format!("{ROOT}/kernels/ptx/qcs_sm_{sm}.ptx");
        let text = std::fs::read_to_string(path).unwrap();
        let bodies = text
            .split(".entry ")
            .skip(1)
            .map(|rest| rest.split_once("\n}").unwrap().0);
        let labels = |body: &str| {
            let mut parts = body.split("$L__BB");
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |text, part| {
                text + part.trim_start_matches(|c: char| c.is_ascii_digit())
            })
        };
        bodies
            .map(|body| (body.split('(').next().unwrap().to_owned(), labels(body)))
            .collect()
    }

    #[test]
    fn kernels_without_tensor_cores_are_the_same_on_both_architectures() {
        let (volta, ampere) = (kernels(V100.sm), kernels(A100.sm));
        assert!(volta.len() > 30);
        for (name, body) in volta.iter().filter(|(name, _)| !name.starts_with("conv_f16")) {
            assert!(ampere[name] == *body, "{name}");
        }
    }
}
