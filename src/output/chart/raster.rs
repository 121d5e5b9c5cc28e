//! A chart as pixels: two to a unit, so that the letters of pictures fit.

use super::palette::{Ink, Marker, light};
use super::{Anchor, Surface};
use crate::output::canvas::{Align, Area, Canvas};
use crate::output::font;
use crate::output::picture::Picture;

/// Pixels of a unit.
const FACTOR: f64 = 2.0;
/// Half the size of a marker, in pixels.
const RADIUS: f64 = 8.0;

pub(super) struct Raster {
    canvas: Canvas,
}

impl Raster {
    pub fn new(size: (f64, f64)) -> Self {
        let pixels = |side: f64| (side * FACTOR) as u32;
        Self {
            canvas: Canvas::new(pixels(size.0), pixels(size.1)),
        }
    }

    pub fn picture(self) -> Picture {
        self.canvas.0
    }

    /// Covers the pixels for which `distance` to a shape, in pixels, is below zero, within a box; those on its edge in part.
    fn cover(&mut self, low: (f64, f64), high: (f64, f64), ink: Ink, distance: impl Fn(f64, f64) -> f64) {
        let colour = light(ink);
        let range = |low: f64, high: f64| (low - 1.0).max(0.0) as u32..(high + 2.0).max(0.0) as u32;
        for y in range(low.1, high.1) {
            for x in range(low.0, high.0) {
                let coverage = 0.5 - distance(f64::from(x) + 0.5, f64::from(y) + 0.5);
                if let (Some(pixel), true) = (self.canvas.0.pixel_mut(x, y), coverage > 0.0) {
                    let coverage = coverage.min(1.0);
                    for (below, above) in pixel.iter_mut().zip(colour) {
                        let mixed = f64::from(*below) * (1.0 - coverage) + f64::from(above) * coverage;
                        *below = mixed.round() as u8;
                    }
                }
            }
        }
    }
}

impl Surface for Raster {
    fn stroke(&mut self, points: &[(f64, f64)], ink: Ink, width: f64) {
        let half = width * FACTOR / 2.0;
        for pair in points.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|point| (point.0 * FACTOR, point.1 * FACTOR));
            let low = (a.0.min(b.0) - half, a.1.min(b.1) - half);
            let high = (a.0.max(b.0) + half, a.1.max(b.1) + half);
            let (dx, dy) = (b.0 - a.0, b.1 - a.1);
            let square = (dx * dx + dy * dy).max(1e-9);
            self.cover(low, high, ink, |x, y| {
                let t = (((x - a.0) * dx + (y - a.1) * dy) / square).clamp(0.0, 1.0);
                (x - a.0 - t * dx).hypot(y - a.1 - t * dy) - half
            });
        }
    }

    fn marker(&mut self, at: (f64, f64), marker: Marker, ink: Ink) {
        let (x0, y0, r) = (at.0 * FACTOR, at.1 * FACTOR, RADIUS);
        let reach = 1.4 * r;
        let (low, high) = ((x0 - reach, y0 - reach), (x0 + reach, y0 + reach));
        self.cover(low, high, ink, |x, y| {
            let (x, y) = ((x - x0).abs(), y - y0);
            match marker {
                Marker::Circle => x.hypot(y) - r,
                Marker::Square => x.max(y.abs()) - r,
                Marker::Triangle => (y - r).max((x - (y + 1.2 * r) * 0.545) * 0.878),
                Marker::Diamond => (x + y.abs() - 1.3 * r) * std::f64::consts::FRAC_1_SQRT_2,
                Marker::Cross => ((x - y.abs()).abs() * std::f64::consts::FRAC_1_SQRT_2 - 2.0).max(x.max(y.abs()) - r),
            }
        });
    }

    fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str, ink: Ink) {
        let text = plain(text);
        let width = font::width(&text);
        let shift = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => f64::from(width) / 2.0,
            Anchor::End => f64::from(width),
        };
        let area = Area {
            x: (at.0 * FACTOR - shift).max(0.0) as u32,
            y: (at.1 * FACTOR).max(0.0) as u32 - font::HEIGHT,
            width,
            height: font::HEIGHT,
        };
        self.canvas.text(area, Align::Left, &text, light(ink));
    }
}

/// Powers as the bitmap font can write them: 10⁶ is 1e6.
fn plain(text: &str) -> String {
    const RAISED: &str = "⁰¹²³⁴⁵⁶⁷⁸⁹";
    let digit = |c: char| RAISED.chars().position(|raised| raised == c);
    let raised = |c: char| c == '⁻' || digit(c).is_some();
    match text
        .strip_prefix("10")
        .filter(|rest| !rest.is_empty() && rest.chars().all(raised))
    {
        Some(power) => {
            let digits = power
                .chars()
                .map(|c| digit(c).map_or("-".to_owned(), |digit| digit.to_string()));
            format!("1e{}", digits.collect::<String>())
        }
        None => text.to_owned(),
    }
}
