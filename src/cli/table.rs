//! Metrics as a table for people.

use std::collections::BTreeSet;

use qcs::methods;
use qcs::metrics::{INTERVALS, Summary};
use qcs::output::{ImageMetrics, MethodMetrics, Report};

use super::progress::clock;

/// With more images than this only the summary is shown.
const MOST_ROWS: usize = 20;

/// The PSNR of each image, if there are few and their truth is known, and the summary of each method.
pub fn report(report: &Report, images: usize) -> String {
    let mut rows = vec![header(&report.methods, "image")];
    let known = report.images.iter().any(|image| image.psnr.is_some());
    if known && images <= MOST_ROWS {
        let indices: BTreeSet<usize> = report.images.iter().map(|image| image.index).collect();
        for index in indices {
            let psnr = |m: &MethodMetrics| {
                let image = report.images.iter().find(|i| i.index == index && i.method == m.method);
                match image {
                    Some(image) if image.diverged => "diverged".to_owned(),
                    Some(ImageMetrics { psnr: Some(psnr), .. }) => format!("{psnr:.2} dB"),
                    _ => String::new(),
                }
            };
            let named = report.images.iter().find(|image| image.index == index);
            let name = named.and_then(|image| image.name.as_ref());
            let shown = name.map_or_else(|| index.to_string(), |name| format!("{index} {}", short(name)));
            rows.push(row(&shown, &report.methods, psnr));
        }
        rows.push(Vec::new());
    }
    let mean = |summary: &Option<Summary>, digits: usize, unit: &str| {
        summary.map_or(String::new(), |s| {
            let error = s.standard_error.map_or(String::new(), |e| format!(" ± {e:.digits$}"));
            format!("{:.digits$}{error}{unit}", s.mean)
        })
    };
    if known {
        rows.push(row("PSNR", &report.methods, |m| mean(&m.psnr, 2, " dB")));
        // Told where contrast is what is missing.
        let scaled = |m: &MethodMetrics| {
            m.psnr_scaled
                .zip(m.psnr)
                .is_some_and(|(best, own)| best.mean > own.mean + 0.1)
        };
        if report.methods.iter().any(scaled) {
            rows.push(row("scaled PSNR", &report.methods, |m| mean(&m.psnr_scaled, 2, " dB")));
        }
        rows.push(row("SSIM", &report.methods, |m| mean(&m.ssim, 3, "")));
    }
    if report.methods.iter().any(|m| m.same_digit.is_some()) {
        rows.push(row("same digit", &report.methods, |m| mean(&m.same_digit, 2, "")));
    }
    rows.push(row("consistency", &report.methods, |m| mean(&m.consistency, 3, "")));
    if report.methods.iter().any(|m| m.evaluations.is_some()) {
        rows.push(row("predicted error", &report.methods, |m| {
            mean(&m.predicted_error, 4, "")
        }));
        rows.push(row("evaluations", &report.methods, |m| mean(&m.evaluations, 1, "")));
        rows.push(row("EP iterations", &report.methods, |m| mean(&m.ep_iterations, 1, "")));
    }
    if report.methods.iter().any(|m| m.contradicted > 0) {
        rows.push(row("contradicted by y", &report.methods, |m| match m.contradicted {
            0 => String::new(),
            n => format!("{n} of {} images", m.images),
        }));
    }
    if report.methods.iter().any(|m| m.diverged > 0) {
        rows.push(row("left out", &report.methods, |m| match m.diverged {
            0 => String::new(),
            n => format!("{n} of {} diverged", m.images),
        }));
    }
    if !report.calibration.is_empty() {
        let of = |m: &MethodMetrics| {
            report
                .calibration
                .iter()
                .find(|one| one.method == m.method)
                .map(|one| &one.calibration)
        };
        for (index, interval) in INTERVALS.iter().enumerate() {
            let name = format!("truths in {:.0} %", 100.0 * interval);
            rows.push(row(&name, &report.methods, |m| {
                of(m).map_or(String::new(), |one| {
                    format!("{:.1} %", 100.0 * one.coverage[index].held)
                })
            }));
        }
        rows.push(row("spread", &report.methods, |m| {
            of(m).map_or(String::new(), |one| format!("{:.2} of right", one.spread_over_error()))
        }));
    }
    if report.methods.iter().any(|m| m.seconds.is_some()) {
        rows.push(row("time", &report.methods, |m| m.seconds.map_or(String::new(), clock)));
    }
    aligned(&rows)
}

/// A name that leaves room for what is said of it.
fn short(name: &str) -> String {
    const LONGEST: usize = 40;
    let more = if name.chars().nth(LONGEST).is_some() { "…" } else { "" };
    name.chars().take(LONGEST).collect::<String>() + more
}

fn header(methods: &[MethodMetrics], first: &str) -> Vec<String> {
    row(first, methods, |m| title(&m.method))
}

fn row(name: &str, methods: &[MethodMetrics], cell: impl Fn(&MethodMetrics) -> String) -> Vec<String> {
    std::iter::once(name.to_owned())
        .chain(methods.iter().map(cell))
        .collect()
}

/// A method's name in the literature.
fn title(key: &str) -> String {
    methods::find(key).map_or_else(|_| key.to_owned(), |kind| kind.title().to_owned())
}

/// The first column to the left, the others to the right; an empty row is a blank line.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            text += &if column == 0 {
                format!("{cell:width$}")
            } else {
                format!("  {cell:>width$}")
            };
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_their_letters() {
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        let text = aligned(&[row("PSNR", "1.0 ± 0.1"), Vec::new(), row("t", "10:00")]);
        assert_eq!(text, "PSNR  1.0 ± 0.1\n\nt         10:00\n");
    }
}
