//! Drawing on a white picture: rectangles, enlarged images and text.

use image::{Rgb, RgbImage};

use super::font;

pub(super) const WHITE: Rgb<u8> = Rgb([255, 255, 255]);
/// Titles.
pub(super) const INK: Rgb<u8> = Rgb([32, 33, 36]);
/// Captions and scales.
pub(super) const MUTED: Rgb<u8> = Rgb([107, 111, 118]);
/// Separators and frames.
pub(super) const HAIRLINE: Rgb<u8> = Rgb([222, 225, 230]);

/// A box on the canvas, in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
}

/// Where text stands between the left and right side of its area.
#[derive(Clone, Copy, Debug)]
pub(super) enum Align {
    Left,
    Centre,
    Right,
}

pub(super) struct Canvas(pub RgbImage);

impl Canvas {
    pub fn new(width: u32, height: u32) -> Self {
        Self(RgbImage::from_pixel(width, height, WHITE))
    }

    pub fn fill(&mut self, area: Area, colour: Rgb<u8>) {
        for y in area.y..area.y + area.height {
            for x in area.x..area.x + area.width {
                self.0.put_pixel(x, y, colour);
            }
        }
    }

    /// Draws `picture` with every pixel as a square of `factor` pixels.
    pub fn enlarge(&mut self, x: u32, y: u32, picture: &RgbImage, factor: u32) {
        for (column, row, &colour) in picture.enumerate_pixels() {
            let square = Area {
                x: x + column * factor,
                y: y + row * factor,
                width: factor,
                height: factor,
            };
            self.fill(square, colour);
        }
    }

    /// Draws one line of text whose top is the area's; what does not fit onto the canvas is cut off.
    pub fn text(&mut self, area: Area, align: Align, text: &str, colour: Rgb<u8>) {
        let free = area.width.saturating_sub(font::width(text));
        let left = area.x
            + match align {
                Align::Left => 0,
                Align::Centre => free / 2,
                Align::Right => free,
            };
        font::draw(text, |x, y, coverage| {
            if let Some(pixel) = self.0.get_pixel_mut_checked(left + x, area.y + y) {
                for (below, above) in pixel.0.iter_mut().zip(colour.0) {
                    let mixed = f32::from(*below) * (1.0 - coverage) + f32::from(above) * coverage;
                    *below = mixed.round() as u8;
                }
            }
        });
    }
}
