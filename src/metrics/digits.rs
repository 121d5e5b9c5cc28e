//! Which digit an image shows, by a small classifier of MNIST that comes with the program: PSNR does not notice that a
//! reconstruction shows another digit.

use std::path::Path;
use std::sync::OnceLock;

use crate::Result;
use crate::bundled::{self, CLASSIFIER};
use crate::files::safetensors;

/// Two dense layers, 784-256-10, a ReLU between them; 98 % of the test digits. `weights/training/classifier.py` trains it.
pub struct Digits {
    hidden: Dense,
    output: Dense,
}

struct Dense {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

const PIXELS: usize = 28 * 28;

impl Digits {
    /// The shipped one, where the build has it.
    pub fn shipped() -> Option<&'static Self> {
        static SHIPPED: OnceLock<Option<Digits>> = OnceLock::new();
        SHIPPED.get_or_init(|| Self::read().ok()).as_ref()
    }

    fn read() -> Result<Self> {
        safetensors::read_bytes(Path::new(CLASSIFIER), bundled::file(CLASSIFIER)?, |file| {
            let layer = |name: &str| {
                Ok(Dense {
                    weight: file.widened(&format!("{name}.weight"))?,
                    bias: file.widened(&format!("{name}.bias"))?,
                })
            };
            Ok(Self {
                hidden: layer("0")?,
                output: layer("1")?,
            })
        })
    }

    /// The digit that an image of 28×28 pixels shows, more likely than any other.
    ///
    /// # Panics
    /// If it has another size.
    pub fn of(&self, image: &[f32]) -> u8 {
        assert_eq!(image.len(), PIXELS, "an image of MNIST");
        let clamped: Vec<f32> = image.iter().map(|pixel| pixel.clamp(0.0, 1.0)).collect();
        let hidden: Vec<f32> = self.hidden.apply(&clamped).map(|v| v.max(0.0)).collect();
        let scores = self.output.apply(&hidden).enumerate();
        let best = scores.max_by(|a, b| a.1.total_cmp(&b.1));
        best.map_or(0, |(digit, _)| digit as u8)
    }
}

impl Dense {
    fn apply<'a>(&'a self, x: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
        let row = move |(row, bias): (&'a [f32], &f32)| bias + row.iter().zip(x).map(|(w, x)| w * x).sum::<f32>();
        self.weight.chunks_exact(x.len()).zip(&self.bias).map(row)
    }
}

#[cfg(all(test, feature = "bundled"))]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_digits_are_what_they_are() {
        let file = include_bytes!("../../weights/demo-digits.idx3-ubyte");
        for (digit, image) in file[16..].chunks_exact(PIXELS).enumerate() {
            let pixels: Vec<f32> = image.iter().map(|&byte| f32::from(byte) / 255.0).collect();
            assert_eq!(usize::from(Digits::shipped().unwrap().of(&pixels)), digit);
        }
    }
}
