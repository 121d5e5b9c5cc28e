//! What stands beside or above a series of the grid: its title, a note and the scale of a heat map.

use super::canvas::{Align, Area, Canvas, INK, MUTED};
use super::{font, heat};

pub(super) const BAR_WIDTH: u32 = 112;
const BAR_HEIGHT: u32 = 10;
const BAR_GAP: u32 = 5;

/// A title, wrapped, and a note below it.
pub(super) struct Label {
    title: Vec<String>,
    note: Option<String>,
}

impl Label {
    /// Wraps the title into lines of at most `limit` pixels where its words allow it.
    pub fn new(title: &str, note: Option<&str>, limit: u32) -> Self {
        Self {
            title: font::wrap(title, limit),
            note: note.map(str::to_owned),
        }
    }

    pub fn width(&self) -> u32 {
        let lines = self.title.iter().chain(&self.note);
        lines.map(|line| font::width(line)).max().unwrap_or(0)
    }

    pub fn height(&self) -> u32 {
        let lines = self.title.len() + usize::from(self.note.is_some());
        (lines as u32 * font::LINE).saturating_sub(font::LINE - font::HEIGHT)
    }

    /// Draws the label into a column of the given width and returns where the next line would stand.
    pub fn draw(&self, canvas: &mut Canvas, x: u32, mut y: u32, width: u32, align: Align) -> u32 {
        let titles = self.title.iter().map(|line| (line, INK));
        for (line, colour) in titles.chain(self.note.iter().map(|note| (note, MUTED))) {
            let height = font::HEIGHT;
            canvas.text(Area { x, y, width, height }, align, line, colour);
            y += font::LINE;
        }
        y
    }
}

/// The heat map from 0 to the greatest value.
pub(super) struct ColourBar {
    pub greatest: f32,
}

impl ColourBar {
    pub const HEIGHT: u32 = BAR_HEIGHT + BAR_GAP + font::HEIGHT;

    /// Draws the bar with 0 below its start and the greatest value below its end.
    pub fn draw(&self, canvas: &mut Canvas, x: u32, y: u32) {
        for step in 0..BAR_WIDTH {
            let colour = heat::colour(step as f32 / (BAR_WIDTH - 1) as f32);
            let slice = Area {
                x: x + step,
                y,
                width: 1,
                height: BAR_HEIGHT,
            };
            canvas.fill(slice, colour);
        }
        let below = Area {
            x,
            y: y + BAR_HEIGHT + BAR_GAP,
            width: BAR_WIDTH,
            height: font::HEIGHT,
        };
        canvas.text(below, Align::Left, "0", MUTED);
        canvas.text(below, Align::Right, &significant(self.greatest), MUTED);
    }
}

/// Two decimals, or the two leading digits of something smaller.
fn significant(value: f32) -> String {
    if value >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.1e}")
    }
}
