//! All images of a batch on one picture, unlabelled.

use super::canvas::Canvas;
use super::picture::Picture;
use super::png;
use crate::Images;

/// Images are enlarged by the whole factor that brings them closest to this side.
const CELL: usize = 84;
const GAP: u32 = 4;

/// Draws the images row by row, `per_row` to a row. Panics if `per_row` is 0.
pub fn contact_sheet(images: &Images, per_row: usize) -> Picture {
    assert!(per_row > 0, "a row holds at least one image");
    let (shape, count) = (images.shape, images.count());
    let side = shape.height.max(shape.width);
    let factor = ((CELL + side / 2) / side).max(1) as u32;
    let pitch_x = shape.width as u32 * factor + GAP;
    let pitch_y = shape.height as u32 * factor + GAP;
    let (columns, rows) = (per_row.min(count.max(1)) as u32, count.div_ceil(per_row) as u32);
    let mut canvas = Canvas::new(columns * pitch_x + GAP, rows * pitch_y + GAP);
    for (index, image) in images.iter().enumerate() {
        let x = GAP + (index % per_row) as u32 * pitch_x;
        let y = GAP + (index / per_row) as u32 * pitch_y;
        canvas.enlarge(x, y, &png::to_rgb(shape, image), factor);
    }
    canvas.0
}
