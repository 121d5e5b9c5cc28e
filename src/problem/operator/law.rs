//! Structured operators by name, drawn for an image: what `matrix` takes besides the laws of dense ones.

use qcs_kernels::philox::{Domain, Stream};

use super::Operator;
use super::factor::Factor;
use super::structured::Parts;
use crate::error::{Error, Result};
use crate::images::ImageShape;
use crate::problem::Ensemble;

/// How many measurements of an image: so many, or a share of its pixels ("50%").
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Measurements {
    Count(usize),
    #[serde(with = "share")]
    Share(f64),
}

/// A family of operators without a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Structure {
    /// Orthonormal Walsh–Hadamard along each axis (the DCT along one that is no power of two), random signs, random rows.
    Hadamard,
    /// Orthonormal DCT-II along each axis, random signs, random rows.
    Dct,
    /// Orthonormal Hartley along each axis, random signs, random rows.
    Hartley,
    /// Matrices of this law along rows and columns.
    Separable(Ensemble),
    /// A Gaussian blur of this standard deviation, in pixels.
    Blur(f64),
    /// Means of so many by so many pixels.
    Shrink(usize),
    /// Random pixels.
    Mask,
    /// The same Gaussian matrix for every block of so many by so many pixels, of all channels.
    Blocks(usize),
}

/// Streams of [`Domain::Matrix`] beside those of the dense laws.
const SIGNS: u32 = 16;
const ROWS: u32 = 17;
const FACTORS: u32 = 18;

impl Structure {
    /// The operator of this family for images of a shape.
    ///
    /// # Errors
    /// [`Error::Usage`] if the family has no such operator for the shape or the number of measurements.
    pub fn draw(&self, shape: ImageShape, measurements: Option<Measurements>, seed: u64) -> Result<Operator> {
        let ImageShape {
            channels,
            height,
            width,
        } = shape;
        let axes = [channels, height, width];
        let mut parts = Parts {
            label: self.to_string(),
            factors: axes.map(Factor::Identity).to_vec(),
            signs: None,
            order: None,
            rows: None,
        };
        match *self {
            Self::Hadamard | Self::Dct | Self::Hartley => {
                let factor = |n: usize| match self {
                    Self::Hartley if n > 1 => Factor::Hartley(n),
                    Self::Hadamard if n > 1 && n.is_power_of_two() => Factor::Hadamard(n),
                    _ => Factor::dct(n),
                };
                parts.factors = axes.map(factor).to_vec();
                parts.signs = Some(signs(shape.len(), seed));
                parts.rows = rows(count(shape.len(), measurements)?, shape.len(), seed);
            }
            Self::Mask => parts.rows = rows(count(shape.len(), measurements)?, shape.len(), seed),
            Self::Separable(ensemble) => {
                let [rows, columns] = sides(shape, measurements)?;
                // A product of two has the product of their conditions.
                let ensemble = match ensemble {
                    Ensemble::IllConditioned { kappa } => Ensemble::IllConditioned { kappa: kappa.sqrt() },
                    other => other,
                };
                for (axis, m) in [(1, rows), (2, columns)] {
                    let (matrix, _) = ensemble.build(m, axes[axis], seed_of(seed, axis as u32))?;
                    parts.factors[axis] = Factor::Matrix(matrix);
                }
            }
            Self::Blur(radius) => {
                if !(radius > 0.0 && radius <= 100.0) {
                    return Err(Error::usage(format!(
                        "a blur of {radius} pixels: it must be above 0 and at most 100"
                    )));
                }
                parts.factors[1] = Factor::blur(height, radius)?;
                parts.factors[2] = Factor::blur(width, radius)?;
                only(shape.len(), shape, measurements, "a blur measures every pixel")?;
            }
            Self::Shrink(by) => {
                parts.factors[1] = Factor::mean(height, by)?;
                parts.factors[2] = Factor::mean(width, by)?;
                let m = shape.len() / by.saturating_mul(by).max(1);
                only(m, shape, measurements, "shrinking leaves a measurement for each mean")?;
            }
            Self::Blocks(side) => {
                if side == 0 || !height.is_multiple_of(side) || !width.is_multiple_of(side) {
                    return Err(Error::usage(format!(
                        "blocks of {side}×{side} do not tile images of {height}×{width}: the side must divide both"
                    )));
                }
                let (pixels, blocks) = (channels * side * side, height / side * (width / side));
                let m = count(shape.len(), measurements)?;
                let of_block = match measurements {
                    Some(Measurements::Count(_)) if !m.is_multiple_of(blocks) => {
                        return Err(Error::usage(format!(
                            "{m} measurements cannot be shared out evenly to {blocks} blocks: take a multiple, or a share"
                        )));
                    }
                    _ => (m as f64 / blocks as f64).round().max(1.0) as usize,
                };
                let (matrix, _) = Ensemble::Gaussian.build(of_block, pixels, seed_of(seed, 0))?;
                parts.factors = vec![Factor::Identity(blocks), Factor::Matrix(matrix)];
                parts.order = Some(in_blocks(shape, side));
            }
        }
        Operator::structured(parts)
    }
}

impl std::fmt::Display for Structure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hadamard => write!(f, "hadamard"),
            Self::Dct => write!(f, "dct"),
            Self::Hartley => write!(f, "hartley"),
            Self::Separable(ensemble) => write!(f, "separable {ensemble}"),
            Self::Blur(radius) => write!(f, "blur of {radius} pixels"),
            Self::Shrink(by) => write!(f, "means of {by}×{by} pixels"),
            Self::Mask => write!(f, "mask"),
            Self::Blocks(side) => write!(f, "blocks of {side}×{side} pixels"),
        }
    }
}

impl Measurements {
    /// Of N pixels.
    pub fn of(self, n: usize) -> usize {
        match self {
            Self::Count(m) => m,
            Self::Share(share) => ((share * n as f64).round() as usize).max(1),
        }
    }
}

impl std::str::FromStr for Measurements {
    type Err = String;

    /// "400" or "50%".
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("{text:?} is neither a count nor a share: write 400 or 50%");
        match text.strip_suffix('%') {
            None => text.parse().map(Self::Count).map_err(|_| wrong()),
            Some(number) => {
                let percent: f64 = number.trim().parse().map_err(|_| wrong())?;
                if percent > 0.0 && percent <= 1000.0 {
                    Ok(Self::Share(percent / 100.0))
                } else {
                    Err(format!("{text:?}: a share is above 0 % and at most 1000 %"))
                }
            }
        }
    }
}

impl std::fmt::Display for Measurements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(m) => write!(f, "{m}"),
            Self::Share(share) => write!(f, "{}%", 100.0 * share),
        }
    }
}

/// A share is written as people write it.
mod share {
    use super::Measurements;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(share: &f64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&Measurements::Share(*share))
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
        match String::deserialize(from)?.parse() {
            Ok(Measurements::Share(share)) => Ok(share),
            Ok(Measurements::Count(_)) => Err(de::Error::custom("a count is a number, not a text")),
            Err(reason) => Err(de::Error::custom(reason)),
        }
    }
}

/// At most one measurement for each pixel; half as many where nobody says how many.
fn count(n: usize, measurements: Option<Measurements>) -> Result<usize> {
    let m = measurements.unwrap_or(Measurements::Share(0.5)).of(n);
    if (1..=n).contains(&m) {
        return Ok(m);
    }
    Err(Error::usage(format!(
        "{m} measurements of {n} pixels: this operator has 1 to {n}"
    )))
}

/// Refuses another number of measurements than the operator has.
fn only(m: usize, shape: ImageShape, measurements: Option<Measurements>, why: &str) -> Result<()> {
    match measurements.map(|wanted| wanted.of(shape.len())) {
        Some(wanted) if wanted != m => Err(Error::usage(format!(
            "{wanted} measurements: {why}, {m} of an image of shape {shape}; leave the number out"
        ))),
        _ => Ok(()),
    }
}

/// Rows and columns that are left of an image's: their product times the channels is M, their ratio as near the image's as
/// M allows. A share is met as nearly as whole numbers do.
fn sides(shape: ImageShape, measurements: Option<Measurements>) -> Result<[usize; 2]> {
    let ImageShape {
        channels,
        height,
        width,
    } = shape;
    let m = count(shape.len(), measurements)?;
    let share = (m as f64 / shape.len() as f64).sqrt();
    let near = |side: usize| ((side as f64 * share).round() as usize).clamp(1, side);
    if let Some(Measurements::Count(_)) = measurements {
        let fits = |&rows: &usize| m.is_multiple_of(channels * rows) && m / (channels * rows) <= width;
        let rows = (1..=height).filter(fits).min_by_key(|rows| rows.abs_diff(near(height)));
        let near = near(height) * near(width) * channels;
        let rows = rows.ok_or_else(|| {
            Error::usage(format!(
                "{m} measurements are not {channels} channels times rows times columns: take {near}, or a share"
            ))
        })?;
        return Ok([rows, m / (channels * rows)]);
    }
    let rows = near(height);
    let columns = (m as f64 / (channels * rows) as f64).round() as usize;
    Ok([rows, columns.clamp(1, width)])
}

fn stream(seed: u64, step: u32) -> Stream {
    Stream {
        seed,
        domain: Domain::Matrix,
        image: 0,
        chain: 0,
        step,
    }
}

/// A seed for the matrix along an axis.
fn seed_of(seed: u64, axis: u32) -> u64 {
    let [low, high, ..] = stream(seed, FACTORS).words(axis);
    u64::from(high) << 32 | u64::from(low)
}

fn signs(n: usize, seed: u64) -> Vec<f32> {
    let stream = stream(seed, SIGNS);
    let word = |at: usize| stream.words((at / 4) as u32)[at % 4];
    (0..n).map(|at| if word(at) >> 31 == 0 { 1.0 } else { -1.0 }).collect()
}

/// M of N rows, in their order; none need be chosen where all are taken.
fn rows(m: usize, n: usize, seed: u64) -> Option<Vec<u32>> {
    if m == n {
        return None;
    }
    let stream = stream(seed, ROWS);
    let mut drawn: Vec<(u32, u32)> = (0..n as u32)
        .map(|row| (stream.words(row / 4)[row as usize % 4], row))
        .collect();
    drawn.select_nth_unstable(m);
    let mut rows: Vec<u32> = drawn[..m].iter().map(|&(_, row)| row).collect();
    rows.sort_unstable();
    Some(rows)
}

/// The pixels block by block; within one, channel by channel.
fn in_blocks(shape: ImageShape, side: usize) -> Vec<u32> {
    let ImageShape {
        channels,
        height,
        width,
    } = shape;
    let mut order = Vec::with_capacity(shape.len());
    for top in (0..height).step_by(side) {
        for left in (0..width).step_by(side) {
            for channel in 0..channels {
                for row in top..top + side {
                    let first = (channel * height + row) * width + left;
                    order.extend((first..first + side).map(|at| at as u32));
                }
            }
        }
    }
    order
}
