//! The grid picture: truth, reconstructions and posterior deviation, image by image.

use std::path::Path;

use super::canvas::{Align, Area, Canvas, HAIRLINE, MUTED};
use super::legend::{BAR_WIDTH, ColourBar, Label};
use super::picture::Picture;
use super::series::{GAP, Series};
use super::{font, png};
use crate::Result;

/// Several series of the same images, ready to be drawn.
///
/// Up to three images are drawn one below the other, a column to each series; more are drawn side by
/// side, a row to each series, in bands of ten.
#[derive(Clone, Debug)]
pub struct Grid<'a> {
    series: Vec<Series<'a>>,
}

/// Images are enlarged by the whole factor that brings them closest to this side in rows, …
const CELL_IN_ROW: usize = 112;
/// … and to this one in columns, where there are few.
const CELL_IN_COLUMN: usize = 168;
/// Images in one band.
const PER_BAND: usize = 10;
/// The most images that stand one below the other.
const MOST_IN_COLUMN: usize = 3;
const MARGIN: u32 = 24;
/// Room between two rows.
const ROW_GAP: u32 = 16;
/// Titles are wrapped where they would become wider than this.
const TITLE_LIMIT: u32 = 150;

impl<'a> Grid<'a> {
    /// Panics without series or images, or if the series differ in the number or shape of their images
    /// or in the number of their captions.
    pub fn new(series: Vec<Series<'a>>) -> Self {
        let first = series.first().expect("a grid has at least one series").images;
        assert!(first.count() > 0, "a grid has at least one image");
        for one in &series {
            let alike = one.images.shape == first.shape && one.images.count() == first.count();
            assert!(alike, "every series shows the same images");
            let captioned = one.captions.as_ref().is_none_or(|all| all.len() == first.count());
            assert!(captioned, "every image has one caption");
        }
        Self { series }
    }

    /// Draws the picture and writes it as PNG.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        png::write_picture(path, &self.render())
    }

    /// Draws the picture.
    pub fn render(&self) -> Picture {
        let in_columns = self.count() <= MOST_IN_COLUMN;
        let target = if in_columns { CELL_IN_COLUMN } else { CELL_IN_ROW };
        // One scale for all heat maps: they are there to be compared.
        let greatest = self.series.iter().filter_map(Series::greatest).fold(0.0, f32::max);
        let strip = |one| Strip::of(one, target, greatest);
        let strips: Vec<Strip> = self.series.iter().map(strip).collect();
        if in_columns {
            self.render_columns(&strips)
        } else {
            self.render_rows(&strips)
        }
    }

    fn count(&self) -> usize {
        self.series[0].images.count()
    }

    fn render_rows(&self, strips: &[Strip]) -> Picture {
        let pitch = most(strips, Strip::cell_width) + 2 * GAP;
        let bands = self.count().div_ceil(PER_BAND) as u32;
        let across = self.count().min(PER_BAND) as u32;
        let label_width = most(strips, Strip::legend_width);
        let left = MARGIN + label_width + 3 * GAP;
        let band_height = strips.iter().map(|strip| strip.row_height() + ROW_GAP).sum::<u32>() + ROW_GAP;
        let mut canvas = Canvas::new(
            left + across * pitch - 2 * GAP + MARGIN,
            2 * MARGIN + bands * band_height - 2 * ROW_GAP,
        );
        for band in 0..bands {
            let mut y = MARGIN + band * band_height;
            if band > 0 {
                canvas.separator(y - ROW_GAP);
            }
            for strip in strips {
                let top = y + strip.height.saturating_sub(strip.legend_height()) / 2;
                let below = strip.label.draw(&mut canvas, MARGIN, top, label_width, Align::Left);
                if let Some(bar) = &strip.bar {
                    bar.draw(&mut canvas, MARGIN, below);
                }
                for index in (band as usize * PER_BAND..self.count()).take(PER_BAND) {
                    let x = left + (index % PER_BAND) as u32 * pitch;
                    strip.draw_image(&mut canvas, index, x, y, pitch - 2 * GAP);
                }
                y += strip.row_height() + ROW_GAP;
            }
        }
        canvas.0
    }

    fn render_columns(&self, strips: &[Strip]) -> Picture {
        let width = most(strips, Strip::cell_width).max(most(strips, Strip::legend_width));
        let pitch = width + 2 * GAP;
        let header = most(strips, |strip| strip.label.height());
        let first = MARGIN + header + GAP;
        let row = most(strips, Strip::cell_height) + ROW_GAP;
        let last = first + (self.count() as u32 - 1) * row;
        let bottom = last + most(strips, |strip| strip.cell_height() + strip.bar_height());
        let mut canvas = Canvas::new(2 * MARGIN + strips.len() as u32 * pitch - 2 * GAP, bottom + MARGIN);
        for (strip, position) in strips.iter().zip(0..) {
            let x = MARGIN + position * pitch;
            let top = MARGIN + header - strip.label.height();
            strip.label.draw(&mut canvas, x, top, width, Align::Centre);
            for (index, y) in (0..self.count()).zip((first..).step_by(row as usize)) {
                strip.draw_image(&mut canvas, index, x, y, width);
            }
            // Below the last image, so that all titles stand on one line.
            if let Some(bar) = &strip.bar {
                let y = last + strip.cell_height() + GAP;
                bar.draw(&mut canvas, x + (width - BAR_WIDTH) / 2, y);
            }
        }
        canvas.0
    }
}

fn most<'a>(strips: &[Strip<'a>], measure: impl Fn(&Strip<'a>) -> u32) -> u32 {
    strips.iter().map(measure).max().unwrap_or(0)
}

/// A series in colours, with the sizes its drawing needs.
struct Strip<'a> {
    series: &'a Series<'a>,
    pictures: Vec<Picture>,
    bar: Option<ColourBar>,
    label: Label,
    factor: u32,
    /// Width and height of an enlarged image.
    width: u32,
    height: u32,
}

impl<'a> Strip<'a> {
    fn of(series: &'a Series<'a>, target: usize, greatest: f32) -> Self {
        let shape = series.images.shape;
        let side = shape.height.max(shape.width);
        let factor = ((target + side / 2) / side).max(1) as u32;
        let (pictures, bar) = series.pictures(greatest);
        Self {
            series,
            pictures,
            bar,
            label: Label::new(&series.title, series.note.as_deref(), TITLE_LIMIT),
            factor,
            width: shape.width as u32 * factor,
            height: shape.height as u32 * factor,
        }
    }

    fn cell_width(&self) -> u32 {
        self.width.max(self.series.caption_width())
    }

    fn cell_height(&self) -> u32 {
        self.height + self.series.caption_height()
    }

    fn bar_height(&self) -> u32 {
        self.bar.as_ref().map_or(0, |_| GAP + ColourBar::HEIGHT)
    }

    fn legend_width(&self) -> u32 {
        self.label.width().max(self.bar.as_ref().map_or(0, |_| BAR_WIDTH))
    }

    fn legend_height(&self) -> u32 {
        self.label.height() + self.bar_height()
    }

    fn row_height(&self) -> u32 {
        self.cell_height().max(self.legend_height())
    }

    /// Draws an image and its caption, centred in a column of the given width.
    fn draw_image(&self, canvas: &mut Canvas, index: usize, x: u32, y: u32, width: u32) {
        let left = x + (width - self.width) / 2;
        canvas.enlarge(left, y, &self.pictures[index], self.factor);
        if let Some(captions) = &self.series.captions {
            let area = Area {
                x,
                y: y + self.height + GAP,
                width,
                height: font::HEIGHT,
            };
            canvas.text(area, Align::Centre, &captions[index], MUTED);
        }
    }
}

impl Canvas {
    /// A hairline from margin to margin.
    fn separator(&mut self, y: u32) {
        let line = Area {
            x: MARGIN,
            y,
            width: self.0.width() - 2 * MARGIN,
            height: 1,
        };
        self.fill(line, HAIRLINE);
    }
}
