//! Images and how to measure them: the part of a configuration that makes a problem.

use std::path::Path;

use super::Reuse;
use crate::files::{Fit, LoadOptions, Loaded, Size, load_named};
use crate::methods::options::options;
use crate::methods::{Options, Preset, Setting};
use crate::problem::{Ensemble, Matrix, Measurements, Problem, Quantiser, Sensing, Simulation, Structure};
use crate::{Error, Images, Result};

/// The names of the laws of A, as `matrix` takes them.
pub const ENSEMBLES: [&str; 4] = ["gaussian", "row-orthogonal", "ill-conditioned", "correlated"];
/// The names of operators without a matrix; anything else is a file.
pub const STRUCTURES: [&str; 8] = [
    "hadamard",
    "dct",
    "hartley",
    "separable",
    "mask",
    "blur:PIXELS",
    "shrink:K",
    "blocks:SIDE",
];

/// Entries of A: 32 GiB of them.
const MOST_ENTRIES: usize = 1 << 32;

/// E\[x²\] of colour photographs where no preset fits: that of CelebA; CIFAR-10's is 0.2868.
const PHOTOGRAPHS: f64 = 0.28;

/// Where A comes from.
enum Source {
    Drawn(Ensemble),
    Structured(Structure),
    File,
}

options! {
    /// y = Q(Ax + n) for images from a file or folder.
    pub struct MeasureConfig {
        /// A file or folder that [`load_images`](crate::files::load_images) reads, or a bundled name
        pub images: String,
        /// Index of the first image to take [default: 0]
        pub first: usize = "I",
        /// How many are taken; all that follow `first` if absent
        pub count: usize,
        /// Cut the middle out of each image, so many pixels wide and high: 640x480, or 256 for a square
        pub crop: Size = "WxH",
        /// Make each image smaller, after `crop`: a pixel becomes the mean of the area that it covers
        pub resize: Size = "WxH",
        /// Law of A (gaussian, row-orthogonal, ill-conditioned, correlated), an operator without a matrix (hadamard, dct,
        /// hartley, separable, mask, blur:PIXELS, shrink:K, blocks:SIDE), or a file with A (.npy, .safetensors)
        /// [default: gaussian]
        pub matrix: String = "LAW|FILE",
        /// Condition of A, ill-conditioned or separable: singular values fall by kappa^(1/M), along each of the two axes of a
        /// separable one to the root of it
        pub kappa: f64 = "KAPPA",
        /// Correlation of A, correlated or separable (along each axis), 0 ≤ rho < 1
        pub rho: f64 = "RHO",
        /// M, the measurements of each image: a count, or a share of its pixels like 50% [default: the preset's, or 50% without
        /// a matrix]
        pub measurements: Measurements = "M|P%",
        /// For 1 bit: known thresholds drawn by the seed instead of 0, so that signs tell the contrast too
        pub dither: bool = "BOOL",
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
            measurements: Some(Measurements::Count(preset.measurements)),
            mean_square: Some(preset.mean_square),
            ..Self::default()
        }
    }

    /// Loads the images.
    ///
    /// # Errors
    /// As [`load_images`](crate::files::load_images).
    pub fn load(&self) -> Result<Loaded> {
        self.load_from(Path::new(self.images.as_deref().unwrap_or_default()))
    }

    /// Loads those images of a file or folder that are to be measured.
    ///
    /// # Errors
    /// As [`load_images`](crate::files::load_images).
    pub fn load_from(&self, images: &Path) -> Result<Loaded> {
        let options = LoadOptions {
            first: self.first.unwrap_or(0),
            count: self.count,
            fit: self.fit(),
            ..LoadOptions::default()
        };
        load_named(images, &options)
    }

    /// How each image is cut and made smaller.
    pub fn fit(&self) -> Fit {
        Fit {
            crop: self.crop,
            resize: self.resize,
        }
    }

    /// Whether nothing but signs will be kept.
    pub(crate) fn keeps_signs(&self) -> bool {
        self.bits.unwrap_or(Self::BITS) == 1 && !self.dither.unwrap_or(false)
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
    pub fn resolve_with<L: Into<Loaded>>(&mut self, load: impl FnOnce(&Self) -> Result<L>) -> Result<Problem> {
        self.resolve_sharing(load, &mut Reuse::default())
    }

    /// The same, with A from an earlier problem where that is the same.
    pub(super) fn resolve_sharing<L: Into<Loaded>>(
        &mut self,
        load: impl FnOnce(&Self) -> Result<L>,
        shared: &mut Reuse,
    ) -> Result<Problem> {
        let (bits, sigma, seed) = (
            *self.bits.get_or_insert(Self::BITS),
            *self.sigma.get_or_insert(0.05),
            *self.seed.get_or_insert(0),
        );
        self.first.get_or_insert(0);
        // What makes no sense is refused before anything large is read or built.
        let source = self.source()?;
        Quantiser::new(bits, self.step, 1.0)?;
        let Loaded { images, names, array } = load(self)?.into();
        // What was left open is written down: which array of an archive.
        if let (Some(file), Some(array)) = (&mut self.images, &array) {
            *file = format!("{file}:{array}");
        }
        let preset = Preset::of_shape(images.shape);
        let n = images.shape.len();
        let sensing = match source {
            Source::Drawn(ensemble) => {
                let m = self
                    .measurements
                    .or(preset.map(|p| Measurements::Count(p.measurements)));
                let m = m.ok_or_else(|| Error::setting("measurements", "is missing: how many rows should A have?"))?;
                let m = m.of(n);
                if m.saturating_mul(n) > MOST_ENTRIES {
                    let gigabytes = 8.0 * m as f64 * n as f64 / 1e9;
                    return Err(Error::setting(
                        "measurements",
                        format!(
                            "{m}: a matrix of {m} by {n} takes {gigabytes:.0} GB; these need none: {}",
                            STRUCTURES.join(", ")
                        ),
                    ));
                }
                self.measurements = Some(Measurements::Count(m));
                shared.take(ensemble, m, n, seed)
            }
            Source::Structured(structure) => {
                let a = structure.draw(images.shape, self.measurements, seed)?;
                self.measurements = Some(Measurements::Count(a.rows()));
                Sensing::Inputs(a)
            }
            Source::File => {
                let path = Path::new(self.matrix());
                let a = Matrix::read(path)?;
                check_size(&a, self.measurements.map(|m| m.of(n)), &images, path)?;
                Sensing::Inputs(a.into())
            }
        };
        let colour = (images.shape.channels == 3).then_some(PHOTOGRAPHS);
        let mean_square = self.mean_square.or(preset.map(|p| p.mean_square)).or(colour);
        let dither = self.dither.unwrap_or(false);
        if dither && bits > 1 {
            return Err(Error::setting("dither", format!("is for 1 bit, not for {bits}")));
        }
        if dither && mean_square.is_none() {
            return Err(Error::setting(
                "dither",
                "needs a preset: none fits these images, so that nobody knows how far thresholds should reach",
            ));
        }
        if bits > 1 && self.step.is_none() && mean_square.is_none() {
            return Err(Error::setting(
                "step",
                "is missing: no preset fits these images, so there is no default quantiser step; name a step or a preset",
            ));
        }
        let count = images.count();
        let mut problem = Problem::simulate(
            images,
            sensing,
            &Simulation {
                bits,
                step: self.step,
                sigma,
                mean_square: mean_square.unwrap_or(1.0),
                dither,
                seed,
            },
        )?;
        if let Some(names) = names {
            problem = problem.with_names(names)?;
        }
        self.step = problem.quantiser().and_then(|q| q.step());
        self.mean_square = None;
        self.count = Some(count);
        Ok(problem)
    }

    fn matrix(&self) -> &str {
        self.matrix.as_deref().unwrap_or(ENSEMBLES[0])
    }

    /// The law of A, a family of operators, or a file.
    fn source(&mut self) -> Result<Source> {
        let matrix = self.matrix().to_owned();
        let needs = |name: &'static str, value: Option<f64>| {
            value.ok_or_else(|| Error::setting(name, format!("is missing, which the matrix {matrix} needs")))
        };
        let (name, number) = matrix.split_once(':').unwrap_or((&matrix, ""));
        let wrong = |what: &str| Error::setting("matrix", format!("{matrix}: write {name}:{what}"));
        let source = match name {
            "gaussian" => Source::Drawn(Ensemble::Gaussian),
            "row-orthogonal" => Source::Drawn(Ensemble::RowOrthogonal),
            "ill-conditioned" => Source::Drawn(Ensemble::IllConditioned {
                kappa: needs("kappa", self.kappa)?,
            }),
            "correlated" => Source::Drawn(Ensemble::Correlated {
                rho: needs("rho", self.rho)?,
            }),
            "separable" => Source::Structured(Structure::Separable(match (self.kappa, self.rho) {
                (None, None) => Ensemble::Gaussian,
                (Some(kappa), None) => Ensemble::IllConditioned { kappa },
                (None, Some(rho)) => Ensemble::Correlated { rho },
                _ => {
                    return Err(Error::setting(
                        "rho",
                        "and a condition exclude each other: leave one out",
                    ));
                }
            })),
            "hadamard" => Source::Structured(Structure::Hadamard),
            "dct" => Source::Structured(Structure::Dct),
            "hartley" => Source::Structured(Structure::Hartley),
            "mask" => Source::Structured(Structure::Mask),
            "blur" => {
                let radius = number
                    .parse()
                    .map_err(|_| wrong("PIXELS, the blur's standard deviation"))?;
                Source::Structured(Structure::Blur(radius))
            }
            "shrink" => {
                let by = number.parse().map_err(|_| wrong("K, for means of K by K pixels"))?;
                Source::Structured(Structure::Shrink(by))
            }
            "blocks" => {
                let side = number.parse().map_err(|_| wrong("SIDE, in pixels"))?;
                Source::Structured(Structure::Blocks(side))
            }
            _ => Source::File,
        };
        let (kappa, rho) = match source {
            Source::Drawn(Ensemble::IllConditioned { .. })
            | Source::Structured(Structure::Separable(Ensemble::IllConditioned { .. })) => (true, false),
            Source::Drawn(Ensemble::Correlated { .. })
            | Source::Structured(Structure::Separable(Ensemble::Correlated { .. })) => (false, true),
            _ => (false, false),
        };
        if self.kappa.is_some() && !kappa {
            return Err(Error::setting(
                "kappa",
                "belongs to the matrices ill-conditioned and separable",
            ));
        }
        if self.rho.is_some() && !rho {
            return Err(Error::setting(
                "rho",
                "belongs to the matrices correlated and separable",
            ));
        }
        if matches!(source, Source::File) && !Path::new(&matrix).exists() {
            let names = [&ENSEMBLES[..], &STRUCTURES[..]].concat().join(", ");
            return Err(Error::setting(
                "matrix",
                format!("{matrix}: neither a file nor one of {names}"),
            ));
        }
        self.matrix = Some(matrix);
        Ok(source)
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
