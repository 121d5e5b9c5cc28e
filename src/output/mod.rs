//! What a run leaves behind: pictures, the grid, and the metrics as JSON and CSV.

mod canvas;
pub mod chart;
mod contact_sheet;
mod font;
mod grid;
mod heat;
mod legend;
mod picture;
pub mod png;
pub(crate) mod report;
mod series;

pub use contact_sheet::contact_sheet;
pub use grid::Grid;
pub use picture::{Colour, Picture};
pub use report::{Diverged, ImageMetrics, MethodCalibration, MethodMetrics, Report};
pub use series::{Series, Style};
