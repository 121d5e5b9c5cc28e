//! The charts that show whether draws and predictions are as sure as they may be.

use super::figures::{Figure, file_name, line_of, slug};
use crate::output::chart::{Chart, Form, Line, Point as Mark, Scale};
use crate::sweep::{Collected, Row};

impl Collected {
    /// For each problem whose methods drew several chains: where the truth stands among the draws, and the error of their
    /// mean against their spread. For all problems of the grid: the error against the one that a method predicts.
    pub(super) fn calibration_figures(&self, grid: usize) -> Vec<Figure> {
        let of = &self.sweep.grids[grid];
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.point.grid == grid).collect();
        let mut problems: Vec<(String, Vec<&Row>)> = Vec::new();
        for row in rows.iter().copied().filter(|row| row.calibration().is_some()) {
            let name = self.problem(row, false);
            match problems.iter_mut().find(|(problem, _)| *problem == name) {
                Some((_, rows)) => rows.push(row),
                None => problems.push((name, vec![row])),
            }
        }
        let name = |index: usize, part: &str| slug(&[&file_name(of, grid), part, "calibration"], index);
        let drawn = |(index, (problem, rows)): (usize, &(String, Vec<&Row>))| Figure {
            name: name(index, problem),
            facet: problem.clone(),
            charts: vec![
                ("ranks", self.ranks(problem, rows)),
                ("error", self.error_by_spread(problem, rows)),
            ],
        };
        let mut figures: Vec<Figure> = problems.iter().enumerate().map(drawn).collect();
        figures.extend(self.error_by_prediction(&rows).map(|chart| Figure {
            facet: String::new(),
            name: name(figures.len(), ""),
            charts: vec![("predicted", chart)],
        }));
        figures
    }

    /// How often the truth has which rank among the draws: flat for draws of the posterior, a hollow for draws that are too
    /// narrow.
    fn ranks(&self, problem: &str, rows: &[&Row]) -> Chart {
        let line = |row: &&Row| {
            let ranks = &row.calibration()?.ranks;
            let width = 1.0 / ranks.len() as f64;
            let mark = |(rank, share): (usize, &f64)| dot((rank as f64 + 0.5) * width, share / width);
            Some(self.line(row, Form::Steps(width), ranks.iter().enumerate().map(mark).collect()))
        };
        Chart {
            title: titled("the truth among the draws", problem),
            x: Scale::Linear {
                label: "below all draws (0) to above all (1)".to_owned(),
                values: vec![0.0, 0.25, 0.5, 0.75, 1.0],
            },
            y: "how often, 1 for draws of the posterior".to_owned(),
            lines: rows.iter().filter_map(line).collect(),
            guide: vec![(0.0, 1.0), (1.0, 1.0)],
        }
    }

    fn error_by_spread(&self, problem: &str, rows: &[&Row]) -> Chart {
        let line = |row: &&Row| {
            let calibration = row.calibration()?;
            let bins = calibration.by_spread.iter();
            let mark = |bin: &crate::metrics::Bin| dot(calibration.expected_error(bin.spread), bin.error);
            Some(self.line(row, Form::Straight, bins.map(mark).collect()))
        };
        agreement(
            titled("pixels by the spread of their draws", problem),
            "error that the spread says",
            "error of the draws' mean",
            rows.iter().filter_map(line).collect(),
        )
    }

    /// A dot to each image whose error was predicted.
    fn error_by_prediction(&self, rows: &[&Row]) -> Option<Chart> {
        let mut lines: Vec<Line> = Vec::new();
        for row in rows {
            let (name, _) = line_of(&self.sweep.grids[row.point.grid], row);
            // PSNR is that of images between 0 and 1.
            let images = row.report.images.iter();
            let dots = images.filter_map(|image| Some(dot(image.predicted_error?, 10f64.powf(-image.psnr? / 20.0))));
            let dots: Vec<Mark> = dots.filter(|dot| dot.x.is_finite()).collect();
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.extend(dots),
                None if dots.is_empty() => {}
                None => lines.push(self.line(row, Form::Dots, dots)),
            }
        }
        (!lines.is_empty()).then(|| {
            let title = "images by the error that was predicted".to_owned();
            agreement(title, "predicted error", "error", lines)
        })
    }

    fn line(&self, row: &Row, form: Form, points: Vec<Mark>) -> Line {
        let (name, style) = line_of(&self.sweep.grids[row.point.grid], row);
        Line {
            name,
            style,
            points,
            form,
        }
    }
}

/// A chart whose lines should lie on the diagonal.
fn agreement(title: String, x: &str, y: &str, lines: Vec<Line>) -> Chart {
    let values: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|mark| mark.x).collect();
    // From zero, so that neither axis exaggerates.
    let x = Scale::from_zero(x, values.iter().copied().fold(0.0, f64::max));
    let high = x.end();
    Chart {
        title,
        x,
        y: y.to_owned(),
        lines,
        guide: vec![(0.0, 0.0), (high, high)],
    }
}

fn dot(x: f64, y: f64) -> Mark {
    Mark { x, y, error: None }
}

fn titled(title: &str, problem: &str) -> String {
    if problem.is_empty() {
        title.to_owned()
    } else {
        format!("{title}: {problem}")
    }
}
