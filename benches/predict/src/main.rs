//! Predicts the time of a Langevin step, or of an evaluation, on GPUs that nobody here has: the CUDA engine runs it on the emulator, which
//! counts instructions and bytes of a sample of blocks, and a model sets those against the published peaks and what a
//! simulator found.
//!
//! `cargo run --release -p qcs-predict` prints the tables; `-- --write` puts them into `benches/results/predicted.md`; `--reuse`
//! takes the counts of the last time from the target folder instead of counting again. A name, such as `cifar10-8`, does so much alone.

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

use count::Subject;
use counts::CountedOp;
use gpu::{A100, Gpu, V100};
use table::Predicted;

/// The paper's width.
const NGF: usize = 128;

/// A row of tables.
#[derive(Clone, Copy)]
struct Case {
    /// What it is called, in files too
    name: &'static str,
    what: What,
    batch: usize,
    precisions: &'static [&'static str],
    /// Those that are told op by op
    by_op: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum What {
    Preset(&'static str),
    /// File, pixels a side, words
    Prior(&'static str, Option<usize>, &'static str),
    Hadamard,
}

const ALL: &[&str] = &["fp32", "tf32", "fp16"];
const HALF: &[&str] = &["fp16"];
const DIGITS: What = What::Prior("weights/mnist-unet.safetensors", None, "the default U-Net, 28×28");
const PHOTO: What = What::Prior("weights/photo.safetensors", Some(256), "the photograph prior, 256×256");

const TABLES: &[Case] = &[
    Case {
        name: "cifar10-8",
        what: What::Preset("cifar10"),
        batch: 8,
        precisions: ALL,
        by_op: ALL,
    },
    Case {
        name: "cifar10-64",
        what: What::Preset("cifar10"),
        batch: 64,
        precisions: ALL,
        by_op: &[],
    },
    Case {
        name: "celeba-8",
        what: What::Preset("celeba"),
        batch: 8,
        precisions: ALL,
        by_op: &[],
    },
    Case {
        name: "mnist-unet-64",
        what: DIGITS,
        batch: 64,
        precisions: ALL,
        by_op: HALF,
    },
    Case {
        name: "photo-1",
        what: PHOTO,
        batch: 1,
        precisions: ALL,
        by_op: HALF,
    },
    Case {
        name: "photo-4",
        what: PHOTO,
        batch: 4,
        precisions: ALL,
        by_op: HALF,
    },
    Case {
        name: "hadamard-1",
        what: What::Hadamard,
        batch: 1,
        precisions: &["fp32"],
        by_op: &["fp32"],
    },
];

impl Case {
    fn subject(&self) -> Result<Subject> {
        Ok(match self.what {
            What::Preset(name) => Subject::Step {
                preset: Preset::find(name)?,
                ngf: NGF,
            },
            What::Prior(prior, side, _) => Subject::Evaluation { prior, side },
            What::Hadamard => Subject::Hadamard,
        })
    }

    fn title(&self) -> Result<String> {
        Ok(match self.what {
            What::Preset(name) => {
                let Preset {
                    levels,
                    steps_per_level,
                    measurements,
                    ..
                } = Preset::find(name)?;
                format!(
                    "{name}, batch {}, M = {measurements}, whole schedule of {levels} levels of {steps_per_level} steps",
                    self.batch
                )
            }
            What::Prior(_, _, words) => format!("{words}, batch {}, one evaluation", self.batch),
            What::Hadamard => format!(
                "EP's likelihood with the Hadamard operator, 3×256×256, M = 98304, batch {}, five iterations",
                self.batch
            ),
        })
    }

    /// Steps of a whole schedule; an evaluation is one.
    fn steps(&self) -> Result<usize> {
        Ok(match self.what {
            What::Preset(name) => Preset::find(name)?.levels * Preset::find(name)?.steps_per_level,
            _ => 1,
        })
    }
}

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
    if let [word, name, precision, launches] = &args[..]
        && word == "count"
    {
        let case = TABLES
            .iter()
            .find(|case| case.name == name)
            .expect("the parent knows its names");
        let ops = count::count(case.subject()?, case.batch, precision.parse()?, Path::new(launches))?;
        println!("{}", serde_json::to_string(&ops).map_err(failed)?);
        return Ok(());
    }
    let names: Vec<&str> = args
        .iter()
        .map(String::as_str)
        .filter(|arg| !["--write", "--reuse"].contains(arg))
        .collect();
    if let Some(unknown) = names.iter().find(|name| TABLES.iter().all(|case| case.name != **name)) {
        let known: Vec<&str> = TABLES.iter().map(|case| case.name).collect();
        return Err(Error::usage(format!(
            "unknown argument {unknown}; there are --write, --reuse and {}",
            known.join(", ")
        )));
    }
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let resources = read(&Path::new(ROOT).join("kernels/RESOURCES.md"))?;
    let predict = |case: &Case| {
        let mut all: Vec<Predicted> = Vec::new();
        for (gpu, precision) in CASES
            .into_iter()
            .filter(|(_, precision)| case.precisions.contains(precision))
        {
            // Only the tensor-core kernels differ between the architectures.
            let (sm, again) = match precision {
                "fp32" => (V100.sm, !all.is_empty()),
                _ => (gpu.sm, false),
            };
            let ops = counted(case, sm, precision, again || has("--reuse"))?;
            all.push(Predicted::new(
                gpu,
                precision,
                &ops,
                &gpu::resources(&resources, gpu.sm),
            ));
        }
        Ok((*case, all))
    };
    let wanted = TABLES
        .iter()
        .filter(|case| names.is_empty() || names.contains(&case.name));
    let document = document(&wanted.map(predict).collect::<Result<Vec<_>>>()?)?;
    if !has("--write") {
        print!("{document}");
        return Ok(());
    }
    std::fs::write(Path::new(ROOT).join("benches/results/predicted.md"), document).map_err(failed)
}

/// The counts of a step, from a child process that finds the emulator as its CUDA driver.
fn counted(case: &Case, sm: u32, precision: &str, reuse: bool) -> Result<Vec<CountedOp>> {
    let program = std::env::current_exe().map_err(failed)?;
    let folder = program.with_file_name("predict");
    let saved = folder.join(format!("{}-sm_{sm}-{precision}.json", case.name));
    if !(reuse && saved.exists()) {
        eprintln!("counting {}, sm_{sm}, {precision}", case.name);
        // The driver, and NVTX, whose ranges tell the ops apart. Without cuBLAS all products are our own.
        let libraries = folder.join("lib");
        stand_in::link(&libraries, &[Library::Driver, Library::Nvtx]).map_err(failed)?;
        let launches = folder.join("launches.jsonl");
        let mut command = Command::new(&program);
        stand_in::search_first(&mut command, &libraries);
        let output = command
            .args(["count", case.name, precision])
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

fn document(tables: &[(Case, Vec<Predicted>)]) -> Result<String> {
    let mut text = format!(
        "`cargo run --release -p qcs-predict -- --write`\n\n\
         **A prediction. Nothing below has run on hardware.** The CUDA engine ran one step of QCS-SGM+ with NCSNv2 (ngf {NGF}, EP with five \
         iterations), one evaluation of a U-Net, or one of a likelihood on \
         the emulator, which counted instructions and bytes of {} blocks of every launch. *At least*: a launch takes as long \
         as the slowest of what it needs takes at its published rate, plus {} µs for its node in the graph (an assumption). \
         *Expected*: with the waiting and the overhead that a cycle-level simulator of the V100 found in our convolutions and \
         products, and on the tensor cores the cycles that the machine code's own control codes come to (`benches/predict/src/model.rs`); for the A100 nobody has simulated anything, and \
         the same is assumed.\n",
        counts::SAMPLE,
        1e6 * model::NODE
    );
    for (case, all) in tables {
        let _ = writeln!(text, "\n### {}\n", case.title()?);
        text += &table::summary(all, case.batch, case.steps()?);
    }
    text += "\nShares of peak count products only, convolutions as direct ones. With cuBLAS the products with U are not our kernels; \
             here they are.\n";
    let (case, all) = &tables[0];
    let _ = writeln!(text, "\nThe three largest costs, {}:\n", case.title()?);
    for predicted in all {
        let _ = writeln!(text, "- {}, {}:", predicted.gpu.name, predicted.precision);
        text += &table::largest(predicted);
    }
    for (case, all) in tables {
        for precision in case.by_op {
            let group: Vec<&Predicted> = all.iter().filter(|p| p.precision == *precision).collect();
            let _ = writeln!(text, "\n### By op: {}, {precision}\n", case.title()?);
            text += &table::per_op(&group);
        }
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
- *in vain* is the part of a layer's products on the tensor cores that no output needs: channels and pixels that fill up a tile, units of depth
  that fill up a pass of four warps.
- *Expected* adds, for what a multiprocessor computes, 13 % (20 % for shared memory), and 298 clocks for every
  barrier of a block and every round of blocks that a multiprocessor holds at a time: with fewer blocks they weigh more. The tensor
  cores' kernels take what their stall counts and scoreboards come to if a load takes 240 clocks (*pass* and *rest* of `kernels/RESOURCES.md`). DRAM and L2
  give 67 % of their rate, less if blocks are fewer than multiprocessors. The simulator's figures are met within 10 % for seven layers on the tensor
  cores and six of an older loop, within 15 % for three fp32 layers and two products.
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
