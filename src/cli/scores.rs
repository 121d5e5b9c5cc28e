//! `qcs score` and `qcs likelihood`: the two scores alone, for checking the engine against other code.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use qcs::files::npy;
use qcs::likelihood::{Diag, Ep, EpStart, Likelihood};
use qcs::methods::{likelihood_score, prior_score};
use qcs::problem::Problem;
use qcs::{Error, ImageShape, Images, Result};

use super::flags::ModelFlags;
use super::{Global, target};

/// Evaluate the prior score of images
#[derive(Args)]
#[command(
    long_about = "Evaluates the prior score s(x, beta) of images [B,C,H,W], or of a run's samples [B,chains,C,H,W], at \
                  one noise level and writes an array of the same shape (float32).",
    after_help = "Examples:
  qcs score --x x.npy --beta 0.5 --out score.npy
  qcs score --model w.safetensors --x x.npy --beta 10 --out score.npy
  qcs score --model w.safetensors --shape 3,64,64 --x x.npy --beta 1 --out score.npy"
)]
pub struct ScoreArgs {
    #[command(flatten)]
    model: ModelFlags,
    /// Images [B,C,H,W] or samples [B,chains,C,H,W] (.npy)
    #[arg(long, value_name = "X.npy")]
    x: PathBuf,
    /// Noise level of the network
    #[arg(long, alias = "sigma", value_name = "BETA")]
    beta: f64,
    /// Where to write the scores (.npy)
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// Evaluate the likelihood score of states
#[derive(Args)]
#[command(
    long_about = "Evaluates the likelihood score, without gamma, of states [B,N] or [B,C,H,W], or of a run's samples \
                  [B,chains,C,H,W], at one noise level and writes an array of the same shape (float32). State b is compared \
                  with the measurements of image b of the problem, or with the only ones there are.",
    after_help = "Examples:
  qcs likelihood --problem p.safetensors --x x.npy --beta 0.5 --method ep --ep-iters 5 --out g.npy
  qcs likelihood --problem p.safetensors --x x.npy --beta 10 --method diag --out g.npy"
)]
pub struct LikelihoodArgs {
    /// Problem file (.safetensors)
    #[arg(long, value_name = "FILE")]
    problem: PathBuf,
    /// States [B,N] or [B,C,H,W], or samples [B,chains,C,H,W] (.npy)
    #[arg(long, value_name = "X.npy")]
    x: PathBuf,
    /// Noise level
    #[arg(long, value_name = "BETA")]
    beta: f64,
    /// Likelihood to use
    #[arg(long, value_name = "METHOD", value_enum, default_value = "ep")]
    method: Choice,
    /// EP iterations
    #[arg(long, value_name = "N", default_value_t = 5)]
    ep_iters: usize,
    /// Where EP starts
    #[arg(long, value_name = "START", default_value = "unit")]
    ep_start: EpStart,
    /// Where to write the scores (.npy)
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// A likelihood.
#[derive(Clone, Copy, ValueEnum)]
enum Choice {
    /// Expectation propagation, of QCS-SGM+
    Ep,
    /// The diagonal, of QCS-SGM
    Diag,
}

pub fn score(args: &ScoreArgs, global: &Global) -> Result<()> {
    let model = args.model.model.as_deref().into_iter();
    let _claim = target::claim(
        "--out",
        &args.out,
        args.force,
        &model.chain([args.x.as_path()]).collect::<Vec<_>>(),
    )?;
    let mut engine = global.exact_engine()?;
    let (shape, x) = read_states(&args.x)?;
    let own = match shape[..] {
        [_, channels, height, width] | [_, _, channels, height, width] => {
            Some(ImageShape::new(channels, height, width))
        }
        _ => None,
    };
    let (name, prior) = args.model.load_for(own)?;
    args.model.note(&name, &prior).iter().for_each(|note| global.note(note));
    let image = prior.image();
    if own != Some(image) {
        let needed = format!("[B,{image}] or [B,chains,{image}], the model's");
        return Err(wrong_shape(&args.x, &shape, &needed));
    }
    let scores = prior_score(engine.as_mut(), &prior, &Images::new(image, x), args.beta)?;
    check_finite(&scores.data, args.beta)?;
    npy::write(&args.out, &shape, &scores.data)
}

pub fn likelihood(args: &LikelihoodArgs, global: &Global) -> Result<()> {
    let _claim = target::claim("--out", &args.out, args.force, &[&args.problem, &args.x])?;
    let mut engine = global.exact_engine()?;
    if args.ep_iters == 0 {
        return Err(Error::usage("--ep-iters must be at least 1"));
    }
    let mut problem = Problem::read(&args.problem)?;
    if problem.sigmas().is_some() {
        problem = problem.balanced()?.0;
    }
    let n = problem.a().cols();
    let (shape, x) = read_states(&args.x)?;
    let chains = if shape.len() == 5 { shape[1] } else { 1 };
    let pixels = shape.iter().skip(1).product::<usize>() / chains;
    if !matches!(shape.len(), 2 | 4 | 5) || pixels != n {
        let needed = format!("[B,{n}], or [B,C,H,W] or [B,chains,C,H,W] with {n} pixels");
        return Err(wrong_shape(&args.x, &shape, &needed));
    }
    let images = problem.cells().count();
    if images > 1 && shape[0] > images {
        let reason = format!(
            "holds {} states, but {} only {images} images",
            shape[0],
            args.problem.display()
        );
        return Err(Error::bad_file(&args.x, reason));
    }
    let likelihood = match args.method {
        Choice::Diag => Likelihood::Diag(Diag),
        Choice::Ep => Likelihood::Ep(Ep {
            iterations: args.ep_iters,
            start: args.ep_start,
        }),
    };
    let scores = likelihood_score(
        engine.as_mut(),
        &likelihood,
        &problem,
        &x,
        chains,
        args.beta,
        &mut |text| global.note(text),
    )?;
    check_finite(&scores, args.beta)?;
    npy::write(&args.out, &shape, &scores)
}

/// The shape and the values of an array of states, at least one, all finite.
fn read_states(path: &Path) -> Result<(Vec<usize>, Vec<f32>)> {
    let array = npy::read(path)?;
    let x = array.to_f32().into_owned();
    if x.is_empty() {
        return Err(Error::bad_file(
            path,
            format!("is an empty array of shape {:?}", array.shape),
        ));
    }
    if let Some(at) = x.iter().position(|v| !v.is_finite()) {
        return Err(Error::bad_file(path, format!("holds NaN or infinity at element {at}")));
    }
    Ok((array.shape, x))
}

/// A score that a float cannot hold is no result.
fn check_finite(scores: &[f32], level: f64) -> Result<()> {
    match scores.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::Failed(format!(
            "the score at noise level {level:e} is NaN or infinite in element {at}: the level, or x, is out of range"
        ))),
    }
}

fn wrong_shape(path: &Path, shape: &[usize], needed: &str) -> Error {
    Error::bad_file(path, format!("has shape {shape:?}: it must be {needed}"))
}
