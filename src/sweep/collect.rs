//! Reads the points of a sweep back, and writes them as tidy tables.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::{Ended, Materials, Point, Sweep};
use crate::Result;
use crate::methods;
use crate::metrics::{Calibration, Summary, number};
use crate::output::report::{quoted, write_text};
use crate::output::{MethodMetrics, Report};
use crate::run::{RunConfig, RunFolder};

/// A point that was run.
pub struct Row {
    pub point: Point,
    pub folder: RunFolder,
    /// Resolved: with every default
    pub config: RunConfig,
    pub report: Report,
}

/// Everything that a sweep brought.
pub struct Collected {
    pub sweep: Sweep,
    pub rows: Vec<Row>,
    /// Points that could not be run, and why
    pub failed: Vec<(Point, String)>,
    /// Where all of it lies
    pub out: PathBuf,
    /// What the points ran on
    pub device: String,
}

impl Collected {
    /// Reads what lies below `out`.
    ///
    /// # Errors
    /// If a point's files cannot be read.
    pub fn read(
        sweep: &Sweep,
        points: &[Point],
        ended: &[Ended],
        out: &Path,
        materials: &mut Materials,
        device: String,
    ) -> Result<Self> {
        let (mut rows, mut failed) = (Vec::new(), Vec::new());
        for (point, ended) in points.iter().zip(ended) {
            if let Ended::Failed(reason) = ended {
                failed.push((point.clone(), reason.clone()));
                continue;
            }
            let folder = materials.folder(point, out)?;
            rows.push(Row {
                point: point.clone(),
                config: RunConfig::read(&folder.config())?,
                report: Report::read_json(&folder.metrics_json())?,
                folder,
            });
        }
        Ok(Self {
            sweep: sweep.clone(),
            rows,
            failed,
            out: out.to_path_buf(),
            device,
        })
    }

    /// A point's name, with its grid's title where there are several.
    pub fn name(&self, row: &Row) -> String {
        let title = &self.sweep.grids[row.point.grid].title;
        if self.sweep.grids.len() > 1 && !title.is_empty() {
            format!("{title}: {}", row.point.name())
        } else {
            row.point.name()
        }
    }

    /// The settings that differ anywhere in the sweep.
    fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for row in &self.rows {
            for axis in row.point.axes.iter().filter(|axis| axis.as_str() != "method") {
                if !keys.contains(axis) {
                    keys.push(axis.clone());
                }
            }
        }
        keys
    }

    fn fields(&self, row: &Row, keys: &[String]) -> Vec<String> {
        let grid = &self.sweep.grids[row.point.grid];
        let mut fields = vec![quoted(&grid.title)];
        // As numbers that any program reads.
        let exact = |key: &String| match row.point.number(key) {
            Some(value) => value.to_string(),
            None => quoted(&row.point.shown(key)),
        };
        fields.extend(keys.iter().map(exact));
        fields.push(row.metrics().method.clone());
        fields
    }

    /// One line per point: means and their standard errors.
    pub fn write_points_csv(&self, path: &Path) -> Result<()> {
        let keys = self.keys();
        let metrics = "images,psnr,psnr_se,ssim,ssim_se,consistency,consistency_se,predicted_error,evaluations,ep_iterations,held_50,held_80,held_95,spread_over_error,same_digit,diverged,seconds,folder";
        let mut text = format!(
            "grid,{}method,{metrics}\n",
            keys.iter().map(|key| format!("{key},")).collect::<String>()
        );
        for row in &self.rows {
            let metrics = row.metrics();
            let pair = |summary: &Option<Summary>| {
                let mean = summary.map_or(String::new(), |s| number::text(s.mean));
                let error = summary
                    .and_then(|s| s.standard_error)
                    .map_or(String::new(), number::text);
                format!("{mean},{error}")
            };
            let mean = |summary: &Option<Summary>| summary.map_or(String::new(), |s| number::text(s.mean));
            let calibration = row.calibration().map_or(",,,".to_owned(), |calibration| {
                let held = calibration.coverage.iter().map(|coverage| number::text(coverage.held));
                let ratio = number::text(calibration.spread_over_error());
                held.chain([ratio]).collect::<Vec<_>>().join(",")
            });
            let name = row.folder.path().file_name().unwrap_or_default().to_string_lossy();
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{calibration},{},{},{:.1},{}",
                self.fields(row, &keys).join(","),
                metrics.images,
                pair(&metrics.psnr),
                pair(&metrics.ssim),
                pair(&metrics.consistency),
                mean(&metrics.predicted_error),
                mean(&metrics.evaluations),
                mean(&metrics.ep_iterations),
                mean(&metrics.same_digit),
                row.report.diverged.len(),
                metrics.seconds.unwrap_or(0.0),
                quoted(&name)
            );
        }
        write_text(path, &text)
    }

    /// One line per image of each point.
    pub fn write_images_csv(&self, path: &Path) -> Result<()> {
        let keys = self.keys();
        let mut text = format!(
            "grid,{}method,index,psnr,ssim,consistency,predicted_error,evaluations,name\n",
            keys.iter().map(|key| format!("{key},")).collect::<String>()
        );
        for row in &self.rows {
            let fields = self.fields(row, &keys).join(",");
            for image in &row.report.images {
                let metrics = [image.psnr, image.ssim, image.consistency, image.predicted_error];
                let metrics = metrics.map(|metric| metric.map_or(String::new(), number::text));
                let evaluations = image.evaluations.map_or(String::new(), |n| n.to_string());
                let name = quoted(image.name.as_deref().unwrap_or_default());
                let _ = writeln!(
                    text,
                    "{fields},{},{},{evaluations},{name}",
                    image.index,
                    metrics.join(",")
                );
            }
        }
        write_text(path, &text)
    }
}

impl Row {
    /// The metrics of the point's one method.
    pub fn metrics(&self) -> &MethodMetrics {
        &self.report.methods[0]
    }

    /// How the method's draws are spread, where there are several.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.report.calibration.first().map(|one| &one.calibration)
    }

    /// The method's name in the literature.
    pub fn title(&self) -> &'static str {
        methods::find(&self.metrics().method).map_or("?", |kind| kind.title())
    }
}
