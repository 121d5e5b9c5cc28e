//! The report as HTML: no script, nothing loaded from elsewhere, light and dark, fit to print.

use std::fmt::Write;
use std::path::Path;

use super::figures::{Figure, label_of, line_of};
use super::pictures::Pictures;
use crate::metrics::Summary;
use crate::output::chart::{Chart, escaped};
use crate::sweep::{Collected, Row, keys};
use crate::{Error, Result};

/// A grid of the sweep, ready to be written.
pub(super) struct Section {
    grid: usize,
    pub figures: Vec<Figure>,
    /// Whether draws and predictions are as sure as they may be
    pub calibration: Vec<Figure>,
    pub pictures: Vec<Pictures>,
}

const STYLE: &str = "
:root{color-scheme:light dark;--page:#fff;--ink:#202124;--muted:#5f6368;--line:#dee1e6;--soft:#f6f7f9}
@media screen and (prefers-color-scheme:dark){:root{--page:#202124;--ink:#e8eaed;--muted:#a9aeb6;--line:#3c4043;--soft:#2a2b2f}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:76rem;padding:2rem 1.25rem 4rem;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
h1{font-size:1.75rem;line-height:1.25;margin:0 0 .5rem}h2{font-size:1.3rem;margin:2.75rem 0 .5rem;padding-top:1rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.5rem 0 .25rem}
p{max-width:48rem;margin:.5rem 0}.muted,figcaption{color:var(--muted)}figcaption{font-size:.875rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,28rem),1fr));gap:1rem;margin:1rem 0}
.charts figure{max-width:40rem}.charts svg{width:100%;height:auto}figure{margin:1rem 0;break-inside:avoid}
img{max-width:100%;height:auto;background:#fff;border:1px solid var(--line);border-radius:4px}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem;margin:.75rem 0}
th,td{padding:.3rem .8rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}th:first-child,td:first-child{text-align:left}
th{font-weight:600}td.best{font-weight:600}details{margin:.75rem 0}summary{cursor:pointer;color:var(--muted)}
code,pre{font:.85rem/1.5 ui-monospace,monospace;background:var(--soft);border-radius:4px}code{padding:.1rem .3rem}pre{padding:.75rem 1rem;overflow-x:auto}
.failed{border-left:4px solid #d55e00;padding:.25rem 1rem;margin:1rem 0}
@media print{body{max-width:none;padding:0;font-size:11pt}h2{break-after:avoid}details>*{display:block}a{color:inherit}}
";

impl Collected {
    pub(super) fn section(&self, grid: usize) -> Result<Section> {
        Ok(Section {
            grid,
            figures: self.figures(grid),
            calibration: self.calibration_figures(grid),
            pictures: self.pictures(grid)?,
        })
    }

    pub(super) fn page(&self, sections: &[Section], figures: &Path) -> Result<String> {
        let title = if self.sweep.title.is_empty() {
            "Sweep"
        } else {
            &self.sweep.title
        };
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{0}</title>\n\
             <style>{STYLE}{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n",
            escaped(title),
            Chart::style_sheet()
        );
        paragraphs(&mut page, &self.sweep.about);
        let images = self.rows.iter().map(|row| row.metrics().images).max().unwrap_or(0);
        let _ = writeln!(
            page,
            "<p class=\"muted\">{} points of at most {images} images each. Means over the images, with their standard errors.</p>",
            self.rows.len()
        );
        self.write_failures(&mut page);
        let (plain, drawn): (Vec<&Section>, Vec<&Section>) =
            sections.iter().partition(|section| section.figures.is_empty());
        if !plain.is_empty() {
            page += "<h2>Problems</h2>\n";
            self.write_table(&mut page, &plain.iter().map(|section| section.grid).collect::<Vec<_>>());
            for section in &plain {
                let title = &self.sweep.grids[section.grid].title;
                write_charts(&mut page, title, &section.calibration);
                write_pictures(&mut page, title, section, figures)?;
            }
        }
        for section in drawn {
            self.write_section(&mut page, section, figures)?;
        }
        self.write_settings(&mut page);
        page += "</main>\n</body>\n</html>\n";
        Ok(page)
    }

    fn write_failures(&self, page: &mut String) {
        if self.failed.is_empty() {
            return;
        }
        let _ = writeln!(
            page,
            "<div class=\"failed\"><p>{} points could not be run:</p><ul>",
            self.failed.len()
        );
        for (point, reason) in &self.failed {
            let _ = writeln!(
                page,
                "<li><code>{}</code> {}</li>",
                escaped(&point.name()),
                escaped(reason)
            );
        }
        *page += "</ul></div>\n";
    }

    fn write_section(&self, page: &mut String, section: &Section, figures: &Path) -> Result<()> {
        let grid = &self.sweep.grids[section.grid];
        let title = if grid.title.is_empty() { "Results" } else { &grid.title };
        let _ = writeln!(page, "<h2>{}</h2>", escaped(title));
        paragraphs(page, &grid.about);
        write_charts(page, "", &section.figures);
        self.write_table(page, &[section.grid]);
        write_charts(page, "Calibration", &section.calibration);
        write_pictures(page, "", section, figures)
    }

    /// A row to each problem, a column to each line: PSNR, SSIM, consistency.
    fn write_table(&self, page: &mut String, grids: &[usize]) {
        let of_grids = || self.rows.iter().filter(|row| grids.contains(&row.point.grid));
        let line = |row: &Row| line_of(&self.sweep.grids[row.point.grid], row).0;
        let mut lines: Vec<String> = Vec::new();
        let mut problems: Vec<String> = Vec::new();
        for row in of_grids() {
            for (name, names) in [
                (line(row), &mut lines),
                (self.problem(row, grids.len() > 1), &mut problems),
            ] {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        for (name, digits, metric) in METRICS {
            if of_grids().all(|row| metric(row).is_none()) {
                continue;
            }
            let open = if name == "PSNR (dB)" { " open" } else { "" };
            let _ = write!(
                page,
                "<details{open}><summary>{name}</summary>\n<div class=\"scroll\"><table>\n<tr><th></th>"
            );
            for name in &lines {
                let _ = write!(page, "<th>{}</th>", escaped(name));
            }
            *page += "</tr>\n";
            for problem in &problems {
                let cells: Vec<Option<Summary>> = lines
                    .iter()
                    .map(|name| {
                        let here = |row: &&Row| line(row) == *name && self.problem(row, grids.len() > 1) == *problem;
                        of_grids().find(here).and_then(metric)
                    })
                    .collect();
                let best = cells
                    .iter()
                    .flatten()
                    .map(|summary| summary.mean)
                    .fold(f64::NEG_INFINITY, f64::max);
                let _ = write!(page, "<tr><td>{}</td>", escaped(problem));
                for cell in cells {
                    let class = if lines.len() > 1 && cell.is_some_and(|cell| cell.mean == best) {
                        " class=\"best\""
                    } else {
                        ""
                    };
                    let text = cell.map_or("–".to_owned(), |cell| {
                        let error = cell
                            .standard_error
                            .map_or(String::new(), |error| format!(" ± {error:.digits$}"));
                        format!("{:.digits$}{error}", cell.mean)
                    });
                    let _ = write!(page, "<td{class}>{text}</td>");
                }
                *page += "</tr>\n";
            }
            *page += "</table></div></details>\n";
        }
    }

    /// What a point is, apart from its line.
    pub(super) fn problem(&self, row: &Row, with_title: bool) -> String {
        let grid = &self.sweep.grids[row.point.grid];
        let mut parts = Vec::new();
        if with_title && !grid.title.is_empty() {
            parts.push(grid.title.clone());
        }
        for axis in grid.axes().into_iter().filter(|&axis| axis != grid.lines()) {
            parts.push(format!("{axis} = {}", row.point.shown(axis)));
        }
        parts.join(", ")
    }

    fn write_settings(&self, page: &mut String) {
        *page += "<h2>How it was made</h2>\n";
        let version = concat!("qcs ", env!("CARGO_PKG_VERSION"), " (", env!("QCS_BUILD"), ")");
        let _ = writeln!(
            page,
            "<p>{version}, on {}. The same again, point by point and bit by bit:</p>",
            escaped(&self.device)
        );
        *page +=
            "<pre>qcs sweep sweep.toml</pre>\n<p>with <code>sweep.toml</code>, which lies beside this report:</p>\n";
        let _ = writeln!(page, "<pre>{}</pre>", escaped(self.sweep.to_toml().trim()));
        *page += "<p>The numbers: <code>points.csv</code> (means), <code>images.csv</code> (every image); the figures as SVG and \
                  PNG in <code>figures/</code>; every point's own <code>config.toml</code> in <code>points/</code>.</p>\n";
        *page += "<details><summary>Settings, seeds and files of each method</summary>\n<div class=\"scroll\"><table>\n\
                  <tr><th>point</th><th>model</th><th>seed</th><th>chains</th><th>settings</th></tr>\n";
        let mut seen: Vec<String> = Vec::new();
        for row in &self.rows {
            let (config, method) = (&row.config, &row.metrics().method);
            let model = config.identity.as_ref().map_or("", |identity| &identity.model);
            let settings = crate::methods::find(method).map(|kind| config.settings.of(kind));
            let settings = settings.ok().and_then(|settings| toml::Table::try_from(settings).ok());
            let settings = settings.into_iter().flatten();
            let settings = settings.map(|(key, value)| format!("{key} {}", keys::shown(&value)));
            let cells = format!(
                "<td>{} {}</td><td>{}</td><td>{}</td><td>{}</td>",
                escaped(&keys::shown(&toml::Value::String(config.model.clone()))),
                &model[..model.len().min(8)],
                config.seed,
                config.chains,
                escaped(&format!("{}: {}", row.title(), settings.collect::<Vec<_>>().join(", ")))
            );
            if !seen.contains(&cells) {
                let _ = writeln!(page, "<tr><td>{}</td>{cells}</tr>", escaped(&row.point.name()));
                seen.push(cells);
            }
        }
        *page += "</table></div></details>\n";
        let axes: Vec<String> = self
            .axes()
            .iter()
            .map(|axis| format!("{axis}: {}", label_of(axis)))
            .collect();
        let _ = writeln!(page, "<p class=\"muted\">{}</p>", escaped(&axes.join("; ")));
    }

    fn axes(&self) -> Vec<String> {
        let mut axes: Vec<String> = Vec::new();
        for grid in &self.sweep.grids {
            for axis in grid.axes() {
                if label_of(axis) != axis && !axes.iter().any(|one| one == axis) {
                    axes.push(axis.to_owned());
                }
            }
        }
        axes
    }
}

type Metric = (&'static str, usize, fn(&Row) -> Option<Summary>);

/// The share of truths in a central interval of the draws, in per cent.
fn held(row: &Row, index: usize) -> Option<Summary> {
    Summary::of(&[100.0 * row.calibration()?.coverage[index].held])
}

const METRICS: [Metric; 11] = [
    ("PSNR (dB)", 2, |row| row.metrics().psnr),
    ("SSIM", 3, |row| row.metrics().ssim),
    ("Consistency with the measurements", 3, |row| row.metrics().consistency),
    ("Share that shows the right digit", 2, |row| row.metrics().same_digit),
    ("Predicted error", 4, |row| row.metrics().predicted_error),
    ("Evaluations of the network", 1, |row| row.metrics().evaluations),
    ("Truths in the central 50 % of the draws", 1, |row| held(row, 0)),
    ("Truths in the central 80 % of the draws", 1, |row| held(row, 1)),
    ("Truths in the central 95 % of the draws", 1, |row| held(row, 2)),
    ("Spread of the draws over that of the posterior", 2, |row| {
        Summary::of(&[row.calibration()?.spread_over_error()])
    }),
    ("Seconds", 1, |row| Summary::of(&[row.metrics().seconds?])),
];

fn paragraphs(page: &mut String, text: &str) {
    for paragraph in text.split("\n\n").map(str::trim).filter(|text| !text.is_empty()) {
        let _ = writeln!(page, "<p>{}</p>", escaped(paragraph));
    }
}

fn write_charts(page: &mut String, title: &str, figures: &[Figure]) {
    for figure in figures {
        let parts: Vec<&str> = [title, &figure.facet]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect();
        if !parts.is_empty() {
            let _ = writeln!(page, "<h3>{}</h3>", escaped(&parts.join(": ")));
        }
        *page += "<div class=\"charts\">\n";
        for (_, chart) in &figure.charts {
            let _ = writeln!(page, "<figure>{}</figure>", chart.inline_svg());
        }
        *page += "</div>\n";
    }
}

fn write_pictures(page: &mut String, title: &str, section: &Section, figures: &Path) -> Result<()> {
    for picture in &section.pictures {
        let path = picture.path(figures);
        let bytes = std::fs::read(&path).map_err(|e| Error::io(&path, "read", e))?;
        let caption: Vec<&str> = [title, &picture.caption]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect();
        let caption = escaped(&caption.join(": "));
        let _ = writeln!(
            page,
            "<figure><img alt=\"Reconstructions{}{caption}\" src=\"data:image/png;base64,{}\"><figcaption>{caption}</figcaption></figure>",
            if caption.is_empty() { "" } else { ": " },
            base64(&bytes)
        );
    }
    Ok(())
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for position in 0..4 {
            if position <= chunk.len() {
                text.push(LETTERS[(word >> (18 - 6 * position) & 63) as usize] as char);
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_that_of_the_standard() {
        let all = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(all, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }
}
