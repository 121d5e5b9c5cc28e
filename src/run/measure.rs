//! Images and how to measure them: the part of a configuration that makes a problem.

use std::path::Path;

use super::Shared;
use crate::bundled;
use crate::files::{LoadOptions, load_images};
use crate::methods::options::options;
use crate::methods::{Options, Preset, Setting};
use crate::problem::{Ensemble, Matrix, Problem, Quantiser, Sensing, Simulation};
use crate::{Error, Images, Result};

/// The names of the laws of A, as `matrix` takes them; anything else is a file.
pub const ENSEMBLES: [&str; 4] = ["gaussian", "row-orthogonal", "ill-conditioned", "correlated"];

/// Entries of A: 32 GiB of them.
const MOST_ENTRIES: usize = 1 << 32;

options! {
    /// y = Q(Ax + n) for images from a file or folder.
    pub struct MeasureConfig {
        /// A file or folder that [`load_images`] reads, or [`bundled::DIGITS`]
        pub images: String,
        /// Index of the first image to take [default: 0]
        pub first: usize = "I",
        /// How many are taken; all that follow `first` if absent
        pub count: usize,
        /// Law of A (gaussian, row-orthogonal, ill-conditioned, correlated) or a file with A (.npy, .safetensors)
        /// [default: gaussian]
        pub matrix: String = "LAW|FILE",
        /// Condition of the ill-conditioned A: singular values fall by kappa^(1/M)
        pub kappa: f64 = "KAPPA",
        /// Correlation of the correlated A, 0 ≤ rho < 1
        pub rho: f64 = "RHO",
        /// M, the measurements of each image [default: the preset's]
        pub measurements: usize = "M",
        /// Standard deviation of the noise before quantisation [default: 0.05]
        pub sigma: f64 = "SIGMA",
        /// Bits of the quantiser, 1 to 8 [default: 1]
        pub bits: u8 = "BITS",
        /// Step of the quantiser [default: the optimum for the preset's data]
        pub step: f64 = "STEP",
        /// E\[x²\] of the data at large, for the step's computation; from the preset of the images' shape if absent
        pub mean_square: f64,
        /// Of A and of the noise
        pub seed: u64,
    }
}

impl Options for MeasureConfig {
    const SETTINGS: &'static [Setting] = Self::FIELDS;

    fn set(&mut self, name: &str, text: &str) -> Result<()> {
        self.set_field(name, text)
    }

    fn over(self, mut below: Self) -> Self {
        if let Some(matrix) = &self.matrix {
            // Another matrix brings its own parameters, and one from a file its size.
            (below.kappa, below.rho) = (None, None);
            if !ENSEMBLES.contains(&matrix.as_str()) {
                below.measurements = None;
            }
        }
        if self.bits.is_some() {
            below.step = None;
        }
        self.or(below)
    }
}

impl MeasureConfig {
    /// Bits where nobody says how many.
    const BITS: u8 = 1;

    /// What a preset says of measuring its data.
    pub fn of_preset(preset: &Preset) -> Self {
        Self {
            measurements: Some(preset.measurements),
            mean_square: Some(preset.mean_square),
            ..Self::default()
        }
    }

    /// Loads the images.
    ///
    /// # Errors
    /// As [`load_images`].
    pub fn load(&self) -> Result<Images> {
        self.load_from(Path::new(self.images.as_deref().unwrap_or_default()))
    }

    /// Loads those images of a file or folder that are to be measured.
    ///
    /// # Errors
    /// As [`load_images`].
    pub fn load_from(&self, images: &Path) -> Result<Images> {
        let options = LoadOptions {
            first: self.first.unwrap_or(0),
            count: self.count,
            ..LoadOptions::default()
        };
        if images == Path::new(bundled::DIGITS) {
            return bundled::digits(options.first, options.count);
        }
        load_images(images, &options)
    }

    /// Whether nothing but signs will be kept.
    pub(crate) fn keeps_signs(&self) -> bool {
        self.bits.unwrap_or(Self::BITS) == 1
    }

    /// Loads and measures the images, and writes down what was left open.
    ///
    /// # Errors
    /// As [`MeasureConfig::load`], [`Matrix::read`] and [`Problem::simulate`].
    pub fn resolve(&mut self) -> Result<Problem> {
        self.resolve_with(Self::load)
    }

    /// The same of images from elsewhere.
    ///
    /// # Errors
    /// As [`MeasureConfig::resolve`], and as `load`.
    pub fn resolve_with(&mut self, load: impl FnOnce(&Self) -> Result<Images>) -> Result<Problem> {
        self.resolve_sharing(load, &mut Shared::default())
    }

    /// The same, with A from an earlier problem where that is the same.
    pub(super) fn resolve_sharing(
        &mut self,
        load: impl FnOnce(&Self) -> Result<Images>,
        shared: &mut Shared,
    ) -> Result<Problem> {
        let (bits, sigma, seed) = (
            *self.bits.get_or_insert(Self::BITS),
            *self.sigma.get_or_insert(0.05),
            *self.seed.get_or_insert(0),
        );
        self.first.get_or_insert(0);
        // What makes no sense is refused before anything large is read or built.
        let ensemble = self.ensemble()?;
        Quantiser::new(bits, self.step, 1.0)?;
        let images = load(self)?;
        let preset = Preset::of_shape(images.shape);
        let sensing = match ensemble {
            Some(ensemble) => {
                let m = self.measurements.or(preset.map(|p| p.measurements));
                let m = m.ok_or_else(|| Error::setting("measurements", "is missing: how many rows should A have?"))?;
                if m.saturating_mul(images.shape.len()) > MOST_ENTRIES {
                    return Err(Error::setting(
                        "measurements",
                        format!("{m}: such a matrix does not fit into memory"),
                    ));
                }
                self.measurements = Some(m);
                shared.take(ensemble, m, images.shape.len(), seed)
            }
            None => {
                let path = Path::new(self.matrix());
                let a = Matrix::read(path)?;
                check_size(&a, self.measurements, &images, path)?;
                Sensing::Given(a)
            }
        };
        let mean_square = self.mean_square.or(preset.map(|p| p.mean_square));
        if bits > 1 && self.step.is_none() && mean_square.is_none() {
            return Err(Error::setting(
                "step",
                "is missing: no preset fits these images, so there is no default quantiser step; name a step or a preset",
            ));
        }
        let count = images.count();
        let problem = Problem::simulate(
            images,
            sensing,
            &Simulation {
                bits,
                step: self.step,
                sigma,
                mean_square: mean_square.unwrap_or(1.0),
                seed,
            },
        )?;
        self.step = problem.quantiser().and_then(|q| q.step());
        self.mean_square = None;
        self.count = Some(count);
        Ok(problem)
    }

    fn matrix(&self) -> &str {
        self.matrix.as_deref().unwrap_or(ENSEMBLES[0])
    }

    /// The law of A, or `None` for a file.
    fn ensemble(&mut self) -> Result<Option<Ensemble>> {
        let matrix = self.matrix().to_owned();
        let needs = |name: &'static str, value: Option<f64>| {
            value.ok_or_else(|| Error::setting(name, format!("is missing, which the matrix {matrix} needs")))
        };
        let ensemble = match matrix.as_str() {
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
            return Err(Error::setting("kappa", "belongs to the matrix ill-conditioned"));
        }
        if self.rho.is_some() && !matches!(ensemble, Some(Ensemble::Correlated { .. })) {
            return Err(Error::setting("rho", "belongs to the matrix correlated"));
        }
        if ensemble.is_none() && !Path::new(&matrix).exists() {
            let names = ENSEMBLES.join(", ");
            return Err(Error::setting(
                "matrix",
                format!("{matrix}: neither a file nor one of {names}"),
            ));
        }
        self.matrix = Some(matrix);
        Ok(ensemble)
    }
}

fn check_size(a: &Matrix, m: Option<usize>, images: &Images, path: &Path) -> Result<()> {
    let (rows, cols, n) = (a.rows(), a.cols(), images.shape.len());
    if m.is_some_and(|m| m != rows) {
        let reason = format!("is to be {rows}, the rows of {}, or left out", path.display());
        return Err(Error::setting("measurements", reason));
    }
    if cols != n {
        let shape = images.shape;
        let reason = format!("A has {cols} columns, but an image of shape {shape} has {n} pixels");
        return Err(Error::bad_file(path, reason));
    }
    Ok(())
}
