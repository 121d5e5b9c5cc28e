//! The charts of a grid: each metric against what was swept.

use crate::methods::METHODS;
use crate::metrics::Summary;
use crate::output::chart::{Chart, Form, Line, Point as Mark, Scale};
use crate::sweep::{Collected, Grid, Row};

/// A metric, its name in files, its name on an axis, and where it stands.
type Metric = (&'static str, &'static str, fn(&Row) -> Option<Summary>);

const METRICS: [Metric; 5] = [
    ("psnr", "PSNR (dB)", |row| row.metrics().psnr),
    ("ssim", "SSIM", |row| row.metrics().ssim),
    ("consistency", "consistency", |row| row.metrics().consistency),
    ("digit", "share that shows the right digit", |row| {
        row.metrics().same_digit
    }),
    ("spread", "spread of the draws over that of the posterior", |row| {
        Summary::of(&[row.calibration()?.spread_over_error()])
    }),
];

/// The charts of one combination of the settings that neither axis nor lines show.
pub(super) struct Figure {
    /// That combination: "bits = 3"; empty if there is only one
    pub facet: String,
    /// Start of the files' names
    pub name: String,
    /// By metric
    pub charts: Vec<(&'static str, Chart)>,
}

impl Figure {
    /// Each chart and the name of its files.
    pub fn charts(&self) -> impl Iterator<Item = (String, &Chart)> {
        self.charts
            .iter()
            .map(|(metric, chart)| (format!("{}-{metric}", self.name), chart))
    }
}

impl Collected {
    /// The rows of a grid by facet, in the order in which they come.
    pub(super) fn facets(&self, grid: usize) -> Vec<(String, Vec<&Row>)> {
        let keys = self.sweep.grids[grid].facets();
        let mut facets: Vec<(String, Vec<&Row>)> = Vec::new();
        for row in self.rows.iter().filter(|row| row.point.grid == grid) {
            let parts: Vec<String> = keys
                .iter()
                .map(|key| format!("{key} = {}", row.point.shown(key)))
                .collect();
            let name = parts.join(", ");
            match facets.iter_mut().find(|(facet, _)| *facet == name) {
                Some((_, rows)) => rows.push(row),
                None => facets.push((name, vec![row])),
            }
        }
        facets
    }

    /// The figures of a grid; none where nothing is swept but the lines.
    pub(super) fn figures(&self, grid: usize) -> Vec<Figure> {
        let of = &self.sweep.grids[grid];
        let Some(x) = of.x() else { return Vec::new() };
        let facets = self.facets(grid);
        let figure = |(index, (facet, rows)): (usize, &(String, Vec<&Row>))| Figure {
            facet: facet.clone(),
            name: slug(&[&file_name(of, grid), facet], index),
            charts: METRICS
                .into_iter()
                .filter_map(|metric| chart(of, x, facet, rows, metric).map(|chart| (metric.0, chart)))
                .collect(),
        };
        facets.iter().enumerate().map(figure).collect()
    }
}

/// A file's name from a grid's title.
pub(super) fn file_name(grid: &Grid, index: usize) -> String {
    if grid.title.is_empty() {
        format!("grid-{}", index + 1)
    } else {
        grid.title.clone()
    }
}

/// Lower case, letters and digits, joined by dashes.
pub(super) fn slug(parts: &[&str], index: usize) -> String {
    let text = parts.join(" ").to_lowercase();
    let words: Vec<&str> = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .filter(|word| !word.is_empty())
        .collect();
    let slug = words.join("-");
    if slug.is_empty() {
        format!("figure-{}", index + 1)
    } else {
        slug
    }
}

fn chart(grid: &Grid, x: &str, facet: &str, rows: &[&Row], (_, label, metric): Metric) -> Option<Chart> {
    if rows.iter().all(|row| metric(row).is_none()) {
        return None;
    }
    let values = &grid.settings[x];
    let names: Vec<String> = values.iter().map(crate::sweep::keys::shown).collect();
    let numbers: Option<Vec<f64>> = values.iter().map(crate::sweep::keys::number).collect();
    let axis = label_of(x);
    let scale = match &numbers {
        Some(numbers) => Scale::of(&axis, numbers),
        None => Scale::Names {
            label: axis,
            names: names.clone(),
        },
    };
    let place = |row: &Row| match &numbers {
        Some(_) => row.point.number(x),
        None => names
            .iter()
            .position(|name| *name == row.point.shown(x))
            .map(|at| at as f64),
    };
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let (Some(x), Some(summary)) = (place(row), metric(row)) else {
            continue;
        };
        let (name, style) = line_of(grid, row);
        let mark = Mark {
            x,
            y: summary.mean,
            error: summary.standard_error,
        };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(mark),
            None => lines.push(Line {
                name,
                style,
                points: vec![mark],
                form: Form::Straight,
            }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    let title = [grid.title.as_str(), facet]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join(": ");
    Some(Chart {
        title,
        x: scale,
        y: label.to_owned(),
        lines,
        guide: Vec::new(),
    })
}

/// The name of the line that a point belongs to, and its style: a method has its own everywhere.
pub(super) fn line_of(grid: &Grid, row: &Row) -> (String, usize) {
    let of_method = METHODS
        .iter()
        .position(|kind| kind.key() == row.metrics().method)
        .unwrap_or(0);
    if grid.lines() == "method" {
        return (row.title().to_owned(), of_method);
    }
    let value = row.point.shown(grid.lines());
    let values = grid.settings[grid.lines()].iter().map(crate::sweep::keys::shown);
    let style = values.into_iter().position(|one| one == value).unwrap_or(0);
    (format!("{} = {value}", grid.lines()), style)
}

/// What a setting is called on an axis.
pub(super) fn label_of(key: &str) -> String {
    match key {
        "measurements" => "M, measurements of an image".to_owned(),
        "kappa" => "kappa, condition of A".to_owned(),
        "rho" => "rho, correlation of A".to_owned(),
        "sigma" => "sigma, noise before quantisation".to_owned(),
        "bits" => "bits of a measurement".to_owned(),
        "ep_iters" => "EP iterations in a step".to_owned(),
        "evaluations" => "evaluations of the network, at most".to_owned(),
        other => other.replace('_', " "),
    }
}
