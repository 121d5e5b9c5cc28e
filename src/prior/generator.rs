//! A generator: the decoder of a variational autoencoder, dense layers with a softplus between them and a sigmoid at the end.
//! The prior of the methods that the paper compares with.

use std::path::{Path, PathBuf};

use super::file::finite;
use super::square;
use crate::files::safetensors::{self, TensorFile};
use crate::{Error, ImageShape, Result};

/// Latent vectors that are decoded at once.
pub const LANES: usize = 8;

/// One value of each of them.
pub type Lane = [f32; LANES];

/// See the module's documentation.
pub struct Generator {
    layers: Vec<Dense>,
    image: ImageShape,
    /// Root mean square of the norm of its training images
    pub norm: f64,
    /// The file, or what stands for it in messages
    pub source: PathBuf,
}

/// Values of every layer for [`LANES`] latent vectors.
#[derive(Clone, Debug)]
pub struct Activations {
    /// What goes into each layer, the latent vectors first
    inputs: Vec<Vec<Lane>>,
    /// The images
    pub images: Vec<Lane>,
}

struct Dense {
    inputs: usize,
    outputs: usize,
    /// `[outputs, inputs]`
    weight: Vec<f32>,
    /// `[inputs, outputs]`
    transposed: Vec<f32>,
    bias: Vec<f32>,
}

impl Generator {
    /// What names the shipped generator where a path could stand.
    pub const SHIPPED: &str = crate::bundled::GENERATOR;

    /// Reads the generator of this name: a file, or the shipped one.
    ///
    /// # Errors
    /// If the file cannot be read or is no such decoder.
    pub fn find(name: &str) -> Result<Self> {
        let path = Path::new(name);
        let read = |bytes: &[u8]| safetensors::read_bytes(path, bytes, |file| Self::parse(file, path));
        if name == Self::SHIPPED {
            read(crate::bundled::file(name)?)
        } else {
            read(&crate::files::map(path)?)
        }
    }

    fn parse(file: &TensorFile<'_>, source: &Path) -> Result<Self> {
        let mut layers: Vec<Dense> = Vec::new();
        while file.has(&format!("decoder.{}.weight", layers.len())) {
            let name = format!("decoder.{}", layers.len());
            let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
            let before = layers.last().map(|layer| layer.outputs);
            let (&[outputs, inputs], Some(of_bias)) = (&file.shape(&weight).unwrap_or_default()[..], file.shape(&bias))
            else {
                return Err(Error::usage(format!("`{weight}` is no matrix, or `{bias}` is missing")));
            };
            if before.is_some_and(|before| before != inputs) || of_bias != [outputs] || inputs * outputs == 0 {
                return Err(Error::usage(format!(
                    "`{name}` does not fit the layer before it, or its bias"
                )));
            }
            layers.push(Dense::new(
                inputs,
                outputs,
                finite(file, &weight)?,
                finite(file, &bias)?,
            ));
        }
        let missing = |key: &str| Error::usage(format!("the metadata lack `{key}`"));
        let last = layers
            .last()
            .ok_or_else(|| Error::usage("holds no decoder: `decoder.0.weight` is missing"))?;
        let channels = file.number("channels")?.unwrap_or(1);
        let size = file.number("image_size")?.ok_or_else(|| missing("image_size"))?;
        let image = square(channels, size);
        if image.len() != last.outputs {
            let pixels = last.outputs;
            return Err(Error::usage(format!(
                "decodes {pixels} pixels, but its images are {image}"
            )));
        }
        let norm: f64 = file
            .number("root_mean_square_norm")?
            .ok_or_else(|| missing("root_mean_square_norm"))?;
        if !(norm > 0.0 && norm.is_finite()) {
            return Err(Error::usage("the metadata's `root_mean_square_norm` must be positive"));
        }
        Ok(Self {
            layers,
            image,
            norm,
            source: source.to_owned(),
        })
    }

    pub fn image(&self) -> ImageShape {
        self.image
    }

    /// Numbers of a latent vector.
    pub fn latent(&self) -> usize {
        self.layers[0].inputs
    }

    /// Room for [`Generator::decode`].
    pub fn activations(&self) -> Activations {
        let width = |layer: &Dense| vec![[0.0; LANES]; layer.inputs];
        Activations {
            inputs: self.layers.iter().map(width).collect(),
            images: vec![[0.0; LANES]; self.image.len()],
        }
    }

    /// The images of the latent vectors `z`.
    pub fn decode(&self, z: &[Lane], values: &mut Activations) {
        values.inputs[0].copy_from_slice(z);
        for (index, layer) in self.layers.iter().enumerate() {
            match values.inputs.split_at_mut_checked(index + 1) {
                Some((before, [next, ..])) => {
                    product(&layer.weight, &before[index], next);
                    add(next, &layer.bias);
                    next.as_flattened_mut().iter_mut().for_each(|v| *v = softplus(*v));
                }
                _ => {
                    product(&layer.weight, &values.inputs[index], &mut values.images);
                    add(&mut values.images, &layer.bias);
                    values
                        .images
                        .as_flattened_mut()
                        .iter_mut()
                        .for_each(|v| *v = sigmoid(*v));
                }
            }
        }
    }

    /// The gradient with respect to the latent vectors of what has the gradient `of_images` with respect to the images that
    /// were decoded last. Overwrites `of_images`.
    pub fn gradient(&self, values: &Activations, of_images: &mut Vec<Lane>, of_latent: &mut Vec<Lane>) {
        let slopes = values.images.as_flattened();
        for (gradient, image) in of_images.as_flattened_mut().iter_mut().zip(slopes) {
            *gradient *= image * (1.0 - image);
        }
        for (index, layer) in self.layers.iter().enumerate().rev() {
            of_latent.resize(layer.inputs, [0.0; LANES]);
            product(&layer.transposed, of_images, of_latent);
            if index > 0 {
                // softplus' = sigmoid, which is 1 − exp(−softplus).
                let inputs = values.inputs[index].as_flattened();
                for (gradient, value) in of_latent.as_flattened_mut().iter_mut().zip(inputs) {
                    *gradient *= -(-value).exp_m1();
                }
                std::mem::swap(of_images, of_latent);
            }
        }
    }
}

impl Dense {
    fn new(inputs: usize, outputs: usize, weight: Vec<f32>, bias: Vec<f32>) -> Self {
        let mut transposed = vec![0.0; weight.len()];
        for (output, row) in weight.chunks_exact(inputs).enumerate() {
            for (input, &value) in row.iter().enumerate() {
                transposed[input * outputs + output] = value;
            }
        }
        Self {
            inputs,
            outputs,
            weight,
            transposed,
            bias,
        }
    }
}

/// Rows of the matrix that are multiplied at once: each lane of the vector is loaded for all of them.
const ROWS: usize = 4;

/// matrix·x, the matrix row by row.
fn product(matrix: &[f32], x: &[Lane], y: &mut [Lane]) {
    let width = x.len();
    for (rows, y) in matrix.chunks(ROWS * width).zip(y.chunks_mut(ROWS)) {
        let mut sums = [[0.0f32; LANES]; ROWS];
        if y.len() == ROWS {
            let (a, rest) = rows.split_at(width);
            let (b, rest) = rest.split_at(width);
            let (c, d) = rest.split_at(width);
            for ((((x, a), b), c), d) in x.iter().zip(a).zip(b).zip(c).zip(d) {
                for lane in 0..LANES {
                    sums[0][lane] += a * x[lane];
                    sums[1][lane] += b * x[lane];
                    sums[2][lane] += c * x[lane];
                    sums[3][lane] += d * x[lane];
                }
            }
        } else {
            for (row, sums) in rows.chunks_exact(width).zip(&mut sums) {
                for (x, a) in x.iter().zip(row) {
                    (0..LANES).for_each(|lane| sums[lane] += a * x[lane]);
                }
            }
        }
        y.copy_from_slice(&sums[..y.len()]);
    }
}

fn add(values: &mut [Lane], bias: &[f32]) {
    for (lane, bias) in values.iter_mut().zip(bias) {
        lane.iter_mut().for_each(|value| *value += bias);
    }
}

/// ln(1 + exp(v)), without overflow.
fn softplus(v: f32) -> f32 {
    v.max(0.0) + (-v.abs()).exp().ln_1p()
}

fn sigmoid(v: f32) -> f32 {
    1.0 / (1.0 + (-v).exp())
}

#[cfg(all(test, feature = "bundled"))]
mod tests {
    use super::*;

    /// A latent vector, another one in each lane.
    fn latent(generator: &Generator) -> Vec<Lane> {
        let value = |i: usize, lane: usize| ((i * 37 + lane * 11) % 23) as f32 / 10.0 - 1.1;
        (0..generator.latent())
            .map(|i| std::array::from_fn(|lane| value(i, lane)))
            .collect()
    }

    #[test]
    fn the_shipped_generator_draws_digits_of_28_by_28() {
        let generator = Generator::find(Generator::SHIPPED).unwrap();
        assert_eq!(
            (generator.image(), generator.latent()),
            (ImageShape::new(1, 28, 28), 20)
        );
        let mut values = generator.activations();
        generator.decode(&latent(&generator), &mut values);
        for lane in 0..LANES {
            let ink: f32 = values.images.iter().map(|pixel| pixel[lane]).sum();
            assert!((20.0..250.0).contains(&ink), "lane {lane}: {ink}");
        }
    }

    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        let generator = Generator::find(Generator::SHIPPED).unwrap();
        let (z, mut values) = (latent(&generator), generator.activations());
        let weights: Vec<f32> = (0..784).map(|i| ((i * 7919) % 101) as f32 / 50.0 - 1.0).collect();
        let mut objective = |z: &[Lane], lane: usize| -> f64 {
            generator.decode(z, &mut values);
            values
                .images
                .iter()
                .zip(&weights)
                .map(|(pixel, w)| f64::from(pixel[lane] * w))
                .sum()
        };
        let numeric = |objective: &mut dyn FnMut(&[Lane], usize) -> f64, i: usize, lane: usize| {
            let moved = |by: f32| {
                let mut z = z.clone();
                z[i][lane] += by;
                z
            };
            (objective(&moved(0.01), lane) - objective(&moved(-0.01), lane)) / 0.02
        };
        let expected: Vec<f64> = (0..20).map(|i| numeric(&mut objective, i, 3)).collect();
        generator.decode(&z, &mut values);
        let mut of_images: Vec<Lane> = weights.iter().map(|&w| [w; LANES]).collect();
        let mut of_latent = Vec::new();
        generator.gradient(&values, &mut of_images, &mut of_latent);
        let scale = expected.iter().fold(0.0f64, |most, v| most.max(v.abs()));
        for (gradient, expected) in of_latent.iter().zip(&expected) {
            assert!(
                (f64::from(gradient[3]) - expected).abs() < 2e-3 * scale,
                "{} for {expected}",
                gradient[3]
            );
        }
    }
}
