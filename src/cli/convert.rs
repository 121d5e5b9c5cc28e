//! `qcs convert`: a published network into the safetensors file the other commands read.

use std::path::PathBuf;

use clap::Args;

use qcs::Result;
use qcs::prior::convert::{self, ConvertOptions};

use super::{Global, target};

/// Convert a published network (a checkpoint of PyTorch, a diffusers folder) to safetensors
#[derive(Args)]
#[command(
    long_about = "Converts a network as its authors published it to the safetensors file that --model takes: a checkpoint that \
                  torch.save wrote, in either of its formats (NCSNv2, DDIM, ADM, EDM, DRUNet), or a folder of diffusers' \
                  UNet2DModel. Nothing in a checkpoint is executed. The moving average (EMA) of the weights is taken where \
                  there is one.",
    after_help = "Examples:
  qcs convert checkpoint_300000.pth -o cifar10.safetensors
  qcs convert checkpoint.pth -o faces.safetensors --image-size 64 --f16
  qcs convert ddpm-cifar10-32 -o ddpm-cifar10.safetensors"
)]
pub struct ConvertArgs {
    /// Checkpoint (a list [model, optimiser, epoch, step, EMA], a dict with such entries, or a bare state dict), or folder
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: PathBuf,
    /// File to write (.safetensors)
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Take the plain weights, not their moving average
    #[arg(long)]
    raw: bool,
    /// Store the weights as f16: half the size
    #[arg(long)]
    f16: bool,
    /// Side of the images [default: what the checkpoint or its noise levels tell]
    #[arg(long, value_name = "PIXELS")]
    image_size: Option<usize>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

pub fn convert(args: &ConvertArgs, global: &Global) -> Result<()> {
    let _claim = target::claim("--out", &args.out, args.force, &[&args.checkpoint])?;
    let options = ConvertOptions {
        raw: args.raw,
        f16: args.f16,
        image_size: args.image_size,
    };
    if let Some(written) = convert::convert_published(&args.checkpoint, &args.out, &options)? {
        let (network, image, parameters) = (written.network, written.image, written.parameters);
        let out = args.out.display();
        global.note(&format!("{out}: {network}, images {image}, {parameters} weights"));
        written
            .inferred
            .iter()
            .for_each(|note| global.note(&format!("note: {note}")));
        return Ok(());
    }
    let converted = convert::convert(&args.checkpoint, &args.out, &options)?;
    global.note(&format!("{}: {converted}", args.out.display()));
    Ok(())
}
