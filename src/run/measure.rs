//! Images and how to measure them: the part of a configuration that makes a problem.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::demo;
use crate::files::{LoadOptions, load_images};
use crate::problem::{Ensemble, Matrix, Problem, Quantiser, Sensing, Simulation};
use crate::sampler::Preset;
use crate::{Error, Images, Result};

/// The names of the laws of A, as `matrix` takes them; anything else is a file.
pub const ENSEMBLES: [&str; 4] = ["gaussian", "row-orthogonal", "ill-conditioned", "correlated"];

/// Entries of A: 32 GiB of them.
const MOST_ENTRIES: usize = 1 << 32;

/// y = Q(Ax + n) for images from a file or folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasureConfig {
    /// A file or folder that [`load_images`] reads, or [`demo::DIGITS`]
    pub images: String,
    /// Index of the first image taken
    #[serde(default)]
    pub first: usize,
    /// How many are taken; all that follow `first` if absent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// One of [`ENSEMBLES`], or a file that [`Matrix::read`] reads
    pub matrix: String,
    /// Of the ill-conditioned ensemble
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kappa: Option<f64>,
    /// Of the correlated ensemble
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rho: Option<f64>,
    /// M; from the preset of the images' shape if absent, and of no use for a matrix from a file
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurements: Option<usize>,
    pub sigma: f64,
    pub bits: u8,
    /// The quantiser's step for 2 bits and more; computed from `mean_square` if absent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// E\[x²\] of the data at large, for the step's computation; from the preset of the images' shape if absent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_square: Option<f64>,
    /// Of A and of the noise
    #[serde(default)]
    pub seed: u64,
}

impl MeasureConfig {
    /// Loads the images.
    ///
    /// # Errors
    /// As [`load_images`].
    pub fn load(&self) -> Result<Images> {
        let options = LoadOptions {
            first: self.first,
            count: self.count,
            ..LoadOptions::default()
        };
        if self.images == demo::DIGITS {
            return demo::digits(self.first, self.count);
        }
        load_images(&self.images, &options)
    }

    /// Loads and measures the images, and writes down the step and the count that came of it.
    ///
    /// # Errors
    /// As [`MeasureConfig::load`], [`Matrix::read`] and [`Problem::simulate`].
    pub fn resolve(&mut self) -> Result<Problem> {
        // What makes no sense is refused before anything large is read or built.
        let ensemble = self.ensemble()?;
        Quantiser::new(self.bits, self.step, 1.0)?;
        let images = self.load()?;
        let preset = Preset::of_shape(images.shape);
        let sensing = match ensemble {
            Some(ensemble) => {
                let m = self.measurements.or(preset.map(|p| p.measurements));
                let m = m.ok_or_else(|| Error::usage("--measurements is missing: how many rows should A have?"))?;
                if m.saturating_mul(images.shape.len()) > MOST_ENTRIES {
                    return Err(Error::usage(format!(
                        "--measurements {m}: such a matrix does not fit into memory"
                    )));
                }
                self.measurements = Some(m);
                Sensing::Drawn { ensemble, m }
            }
            None => {
                let a = Matrix::read(&self.matrix)?;
                check_size(&a, self.measurements, &images, Path::new(&self.matrix))?;
                Sensing::Given(a)
            }
        };
        let mean_square = self.mean_square.or(preset.map(|p| p.mean_square));
        if self.bits > 1 && self.step.is_none() && mean_square.is_none() {
            return Err(Error::usage(
                "no preset fits these images, so there is no default quantiser step: give --step or --preset",
            ));
        }
        let count = images.count();
        let problem = Problem::simulate(
            images,
            sensing,
            &Simulation {
                bits: self.bits,
                step: self.step,
                sigma: self.sigma,
                mean_square: mean_square.unwrap_or(1.0),
                seed: self.seed,
            },
        )?;
        self.step = problem.quantiser().and_then(|q| q.step());
        self.mean_square = None;
        self.count = Some(count);
        Ok(problem)
    }

    /// The law of A, or `None` for a file.
    fn ensemble(&self) -> Result<Option<Ensemble>> {
        let needs = |flag: &str, value: Option<f64>| {
            value.ok_or_else(|| Error::usage(format!("--matrix {} needs --{flag}", self.matrix)))
        };
        let ensemble = match self.matrix.as_str() {
            "gaussian" => Some(Ensemble::Gaussian),
            "row-orthogonal" => Some(Ensemble::RowOrthogonal),
            "ill-conditioned" => Some(Ensemble::IllConditioned {
                kappa: needs("kappa", self.kappa)?,
            }),
            "correlated" => Some(Ensemble::Correlated {
                rho: needs("rho", self.rho)?,
            }),
            _ => None,
        };
        if self.kappa.is_some() && !matches!(ensemble, Some(Ensemble::IllConditioned { .. })) {
            return Err(Error::usage("--kappa belongs to --matrix ill-conditioned"));
        }
        if self.rho.is_some() && !matches!(ensemble, Some(Ensemble::Correlated { .. })) {
            return Err(Error::usage("--rho belongs to --matrix correlated"));
        }
        if ensemble.is_none() && !Path::new(&self.matrix).exists() {
            let names = ENSEMBLES.join(", ");
            return Err(Error::usage(format!(
                "--matrix {}: neither a file nor one of {names}",
                self.matrix
            )));
        }
        Ok(ensemble)
    }
}

fn check_size(a: &Matrix, m: Option<usize>, images: &Images, path: &Path) -> Result<()> {
    let (rows, cols, n) = (a.rows(), a.cols(), images.shape.len());
    if m.is_some_and(|m| m != rows) {
        return Err(Error::usage(format!(
            "{} has {rows} rows: leave --measurements out, or give that number",
            path.display()
        )));
    }
    if cols != n {
        let shape = images.shape;
        let reason = format!("A has {cols} columns, but an image of shape {shape} has {n} pixels");
        return Err(Error::bad_file(path, reason));
    }
    Ok(())
}
