//! One row or column of the grid: what it shows, and its values turned into colours.

use super::legend::ColourBar;
use super::picture::Picture;
use super::{font, heat, png};
use crate::Images;

/// One kind of picture for every image: the truth, a method's reconstructions, a deviation.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    pub title: String,
    /// A line below the title, the mean PSNR for example.
    pub note: Option<String>,
    pub images: &'a Images,
    /// One short line below each image, its PSNR for example.
    pub captions: Option<Vec<String>>,
    pub style: Style,
}

/// How values become colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// As they are, [0, 1].
    Intensity,
    /// As a heat map from 0 to the greatest value of all such series, the mean over channels, with its scale.
    Heat,
}

/// Room between an image and what stands below it.
pub(super) const GAP: u32 = 8;

impl Series<'_> {
    /// Room for the captions below the images.
    pub(super) fn caption_height(&self) -> u32 {
        self.captions.as_ref().map_or(0, |_| GAP + font::HEIGHT)
    }

    /// The widest caption, which may be wider than the images.
    pub(super) fn caption_width(&self) -> u32 {
        let widths = self.captions.iter().flatten().map(|caption| font::width(caption));
        widths.max().unwrap_or(0)
    }

    /// The greatest value of a heat map.
    pub(super) fn greatest(&self) -> Option<f32> {
        let means = || {
            self.images
                .iter()
                .flat_map(|image| self.channel_means(image))
                .collect::<Vec<f32>>()
        };
        (self.style == Style::Heat).then(|| scale_of(means().iter()))
    }

    /// Every image in colours and, for a heat map, the scale up to `greatest`.
    pub(super) fn pictures(&self, greatest: f32) -> (Vec<Picture>, Option<ColourBar>) {
        match self.style {
            Style::Intensity => {
                let picture = |image| png::to_rgb(self.images.shape, image);
                (self.images.iter().map(picture).collect(), None)
            }
            Style::Heat => {
                let means: Vec<Vec<f32>> = self.images.iter().map(|image| self.channel_means(image)).collect();
                let pictures = means.iter().map(|means| self.heat_map(means, greatest));
                (pictures.collect(), Some(ColourBar { greatest }))
            }
        }
    }

    fn channel_means(&self, image: &[f32]) -> Vec<f32> {
        let shape = self.images.shape;
        let plane = shape.height * shape.width;
        let sum = |pixel| image[pixel..].iter().step_by(plane).sum::<f32>();
        (0..plane).map(|pixel| sum(pixel) / shape.channels as f32).collect()
    }

    fn heat_map(&self, values: &[f32], greatest: f32) -> Picture {
        let shape = self.images.shape;
        Picture::from_fn(shape.width as u32, shape.height as u32, |x, y| {
            heat::colour(values[y as usize * shape.width + x as usize] / greatest)
        })
    }
}

/// The upper end of a heat map: the greatest finite value, or 1 if there is none above 0.
fn scale_of<'v>(values: impl Iterator<Item = &'v f32>) -> f32 {
    let greatest = values.copied().filter(|value| value.is_finite()).fold(0.0, f32::max);
    if greatest > 0.0 { greatest } else { 1.0 }
}
