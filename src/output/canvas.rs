//! Drawing on a white picture: rectangles, enlarged images and text.

use super::font;
use super::picture::{Colour, Picture};

pub(super) const WHITE: Colour = [255, 255, 255];
/// Titles.
pub(super) const INK: Colour = [32, 33, 36];
/// Captions and scales.
pub(super) const MUTED: Colour = [107, 111, 118];
/// Separators and frames.
pub(super) const HAIRLINE: Colour = [222, 225, 230];

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

pub(super) struct Canvas(pub Picture);

impl Canvas {
    pub fn new(width: u32, height: u32) -> Self {
        Self(Picture::filled(width, height, WHITE))
    }

    /// What does not fit onto the canvas is cut off.
    pub fn fill(&mut self, area: Area, colour: Colour) {
        for y in area.y..area.y + area.height {
            for x in area.x..area.x + area.width {
                if let Some(pixel) = self.0.pixel_mut(x, y) {
                    *pixel = colour;
                }
            }
        }
    }

    /// Draws `picture` with every pixel as a square of `factor` pixels.
    pub fn enlarge(&mut self, x: u32, y: u32, picture: &Picture, factor: u32) {
        for (&colour, index) in picture.pixels().iter().zip(0..) {
            let (column, row) = (index % picture.width(), index / picture.width());
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
    pub fn text(&mut self, area: Area, align: Align, text: &str, colour: Colour) {
        let free = area.width.saturating_sub(font::width(text));
        let left = area.x
            + match align {
                Align::Left => 0,
                Align::Centre => free / 2,
                Align::Right => free,
            };
        font::draw(text, |x, y, coverage| {
            if let Some(pixel) = self.0.pixel_mut(left + x, area.y + y) {
                for (below, above) in pixel.iter_mut().zip(colour) {
                    let mixed = f32::from(*below) * (1.0 - coverage) + f32::from(above) * coverage;
                    *below = mixed.round() as u8;
                }
            }
        });
    }
}
