//! The report of a sweep: one HTML file that needs nothing else, and its figures and numbers as files beside it.

mod calibration;
mod figures;
mod page;
mod pictures;

use std::path::PathBuf;

use super::Collected;
use super::mark::Mark;
use crate::output::report::write_text;
use crate::{Error, Result};

impl Collected {
    pub fn html(&self) -> PathBuf {
        self.out.join("report.html")
    }

    /// Writes `report.html`, `figures/` (SVG and PNG), `points.csv`, `images.csv` and `sweep.toml`, which repeats all of it.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self) -> Result<()> {
        let figures = self.out.join("figures");
        std::fs::create_dir_all(&figures).map_err(|e| Error::io(&figures, "create", e))?;
        let mark = Mark::of(&self.out);
        mark.remove_files()?;
        let sections = (0..self.sweep.grids.len())
            .map(|grid| self.section(grid))
            .collect::<Result<Vec<_>>>()?;
        let mut written = Vec::new();
        for section in &sections {
            for figure in section.figures.iter().chain(&section.calibration) {
                for (name, chart) in figure.charts() {
                    write_text(&figures.join(format!("{name}.svg")), &chart.svg())?;
                    chart.write_png(&figures.join(format!("{name}.png")))?;
                    written.extend([format!("figures/{name}.svg"), format!("figures/{name}.png")]);
                }
            }
            for picture in &section.pictures {
                picture.write(&figures)?;
                written.push(format!("figures/{}.png", picture.name));
            }
        }
        mark.write(&written)?;
        self.write_points_csv(&self.out.join("points.csv"))?;
        self.write_images_csv(&self.out.join("images.csv"))?;
        write_text(&self.out.join("sweep.toml"), &self.sweep.to_toml())?;
        write_text(&self.html(), &self.page(&sections, &figures)?)
    }
}
