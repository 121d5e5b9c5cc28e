//! `qcs convert`: a PyTorch checkpoint of NCSNv2 into the safetensors file the other commands read.

use std::path::PathBuf;

use clap::Args;
use qcs::Result;
use qcs::prior::convert::{ConvertOptions, Precision, convert};

/// Turn an NCSNv2 checkpoint written by PyTorch into safetensors
#[derive(Args, Debug)]
#[command(
    long_about = "Turns an NCSNv2 checkpoint written by PyTorch (.pth, .pt; zip or legacy container) into the safetensors \
                  file that the other commands read. Nothing in the checkpoint is executed.",
    after_help = "Examples:
  qcs convert checkpoint_300000.pth celeba.safetensors --image-size 64
  qcs convert checkpoint.pth --raw --f16"
)]
pub struct ConvertArgs {
    /// The checkpoint: a list [model, optimiser, epoch, step, EMA], a dict with such entries, or a bare state dict
    #[arg(value_name = "CHECKPOINT")]
    pub input: PathBuf,

    /// The file to write [default: the checkpoint's name with .safetensors]
    #[arg(value_name = "OUTPUT")]
    pub output: Option<PathBuf>,

    /// Take the plain weights instead of their exponential moving average
    #[arg(long)]
    pub raw: bool,

    /// Store the weights as f16: half the size
    #[arg(long)]
    pub f16: bool,

    /// Side of the images in pixels; needed unless the checkpoint or its noise levels tell
    #[arg(long, value_name = "PIXELS")]
    pub image_size: Option<usize>,
}

/// Converts, and says on standard output what was written.
pub fn run(args: &ConvertArgs) -> Result<()> {
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| args.input.with_extension("safetensors"));
    let options = ConvertOptions {
        raw: args.raw,
        precision: if args.f16 { Precision::F16 } else { Precision::F32 },
        image_size: args.image_size,
    };
    let converted = convert(&args.input, &output, &options)?;
    println!("{}: {converted}", output.display());
    Ok(())
}
