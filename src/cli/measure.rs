//! `qcs measure`: from images to a problem file.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use qcs::Result;
use qcs::methods::{Options, Preset, shown};
use qcs::run::MeasureConfig;

use super::flags::{Flags, MOST_SEED, taken};
use super::{Global, target, terminal};

/// Measure images: y = Q(Ax + n)
#[derive(Args)]
#[command(
    long_about = "Measures images with a random or a given matrix, or with an operator that needs none, adds noise, quantises, \
                  and writes a problem file: A, the cell of every measurement, the noise level, and the images as truth.",
    after_help = "Examples:
  qcs measure photos/ -o p.safetensors --crop 512 --resize 64 --matrix separable -m 50% --bits 2
  qcs measure photo.jpg -o p.safetensors --matrix hadamard -m 50% --bits 2 --sigma 0.02
  qcs measure t10k-images-idx3-ubyte.gz -o p.safetensors --first 100 --count 10
  qcs measure faces/ -o p.safetensors --preset celeba --bits 3 --matrix correlated --rho 0.4
  qcs measure digits.npy -o p.safetensors --matrix A.npy --sigma 0.01 --bits 2 --step 0.8"
)]
pub struct MeasureArgs {
    /// Images: a folder of PNG or JPEG files, or a PNG, JPEG, idx, idx.gz, npy or npz file (file.npz:name)
    #[arg(value_name = "IMAGES")]
    images: PathBuf,
    /// Problem file to write (.safetensors)
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// The paper's settings for a data set: mnist, cifar10 or celeba [default: the one of the images' shape]
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// How many images to take [default: all]
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Seed of A and of the noise
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=MOST_SEED as u64))]
    seed: u64,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Measurements")]
    measure: Flags<MeasureConfig>,
}

#[derive(Serialize)]
struct Done {
    file: String,
    images: usize,
    shape: String,
    operator: String,
    measurements: usize,
    sigma: f64,
    bits: u8,
    step: Option<f64>,
    seed: u64,
}

pub fn measure(args: &MeasureArgs, global: &Global) -> Result<()> {
    let matrix = args.measure.options.matrix.as_deref().map(Path::new);
    let inputs: Vec<&Path> = matrix.into_iter().chain([args.images.as_path()]).collect();
    let _claim = target::claim("--out", &args.out, args.force, &inputs)?;
    let preset = args.preset.as_deref().map(Preset::find).transpose()?;
    let mut config = MeasureConfig {
        count: args.count,
        seed: Some(args.seed),
        ..args.measure.options.clone()
    }
    .over(preset.map_or_else(MeasureConfig::default, MeasureConfig::of_preset));
    global.use_threads()?;
    let mut chosen = None;
    let problem = config.resolve_with(|config| {
        let loaded = config.load_from(&args.images)?;
        chosen.clone_from(&loaded.array);
        Ok(loaded)
    })?;
    problem.write(&args.out)?;
    let shape = problem.shape().map(|shape| shape.to_string()).unwrap_or_default();
    let done = Done {
        file: args.out.display().to_string(),
        images: problem.cells().count(),
        shape,
        operator: problem.a().describe(),
        measurements: problem.a().rows(),
        sigma: problem.sigma(),
        bits: config.bits.unwrap_or(1),
        step: config.step,
        seed: args.seed,
    };
    if args.json {
        return terminal::print_json(&done);
    }
    if let Some(array) = chosen {
        global.note(&taken(&args.images, &array));
    }
    let step = done.step.map_or(String::new(), |step| format!(", step {step:.6}"));
    let Done {
        images,
        shape,
        measurements,
        bits,
        sigma,
        ..
    } = &done;
    global.note(&format!(
        "{}: {images} image(s) of shape {shape}, {measurements} measurements of {bits} bit(s){step}, sigma {}",
        done.file,
        shown(*sigma)
    ));
    if problem.a().matrix().is_none() {
        global.note(&done.operator);
    }
    Ok(())
}
