//! What a run brought over all methods: the metrics, and the grid that shows it.

use std::path::Path;

use super::writer::{MethodResults, write_images};
use super::{Pictures, Run, RunFolder};
use crate::output::{Grid, MethodCalibration, Report, Series, Style};
use crate::{Images, Result};

/// Everything a finished run knows beside what its methods have written.
pub struct Results {
    pub report: Report,
    /// States of all methods
    pub states: usize,
    /// By method, the first images
    shown: Vec<Shown>,
}

struct Shown {
    key: &'static str,
    title: &'static str,
    estimates: Images,
    own: bool,
    deviations: Option<Images>,
}

/// What stands above a method's images: a mean of chains is called so.
fn heading(title: &str, chains: usize, own: bool) -> String {
    if chains > 1 && !own {
        format!("{title}, mean of {chains}")
    } else {
        title.to_owned()
    }
}

impl Results {
    pub(super) fn new(methods: Vec<MethodResults>) -> Self {
        let seconds: Vec<(&str, f64)> = methods.iter().map(|m| (m.kind.key(), m.seconds)).collect();
        let states = methods.iter().map(|m| m.states).sum();
        let (mut rows, mut diverged, mut calibration, mut shown) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for mut brought in methods {
            rows.append(&mut brought.rows);
            diverged.append(&mut brought.diverged);
            calibration.extend(brought.tally.finish().map(|calibration| MethodCalibration {
                method: brought.kind.key().to_owned(),
                calibration,
            }));
            shown.push(Shown {
                key: brought.kind.key(),
                title: brought.kind.title(),
                estimates: brought.estimates,
                own: brought.own,
                // A method that draws nothing has none to show.
                deviations: brought
                    .deviations
                    .filter(|std| std.data.iter().any(|&value| value > 0.0)),
            });
        }
        let report = Report::new(rows, &seconds)
            .with_diverged(diverged)
            .with_calibration(calibration);
        Self { report, states, shown }
    }

    /// Writes the truth, the grid and the metrics; the metrics come last, so that their presence says "complete".
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, run: &Run, folder: &RunFolder) -> Result<()> {
        if let Some(truth) = run.problem.truth() {
            write_images(&folder.truth(), truth, run.first(), run.images())?;
        }
        // Pictures are grey or RGB; other images are kept as arrays only.
        if run.pictures() != Pictures::None && matches!(run.prior.image().channels, 1 | 3) {
            self.write_grid(run, &folder.grid())?;
        }
        self.report.write_csv(folder.metrics_csv())?;
        self.report.write_json(folder.metrics_json())
    }

    fn write_grid(&self, run: &Run, path: &Path) -> Result<()> {
        let count = self.shown[0].estimates.count();
        let truth = run.problem.truth().map(|truth| truth.part(run.first(), count));
        let mut series = Vec::new();
        if let Some(truth) = &truth {
            series.push(Series {
                title: "Truth".to_owned(),
                note: None,
                images: truth,
                captions: None,
                style: Style::Intensity,
            });
        }
        for one in &self.shown {
            series.push(Series {
                title: match &one.deviations {
                    Some(_) => heading(one.title, run.config.chains, one.own),
                    None => one.title.to_owned(),
                },
                // Of one image the caption says it.
                note: self
                    .psnr(one.key)
                    .filter(|_| count > 1)
                    .map(|psnr| format!("{psnr:.1} dB")),
                images: &one.estimates,
                captions: self.captions(one.key, count),
                style: Style::Intensity,
            });
            if let Some(std) = &one.deviations {
                series.push(Series {
                    title: format!("{} deviation", one.title),
                    note: Some(format!("of {} samples", run.config.chains)),
                    images: std,
                    captions: None,
                    style: Style::Heat,
                });
            }
        }
        Grid::new(series).write(path)
    }

    /// A method's mean.
    fn psnr(&self, method: &str) -> Option<f64> {
        let own = self.report.methods.iter().find(|m| m.method == method)?;
        own.psnr.map(|psnr| psnr.mean)
    }

    /// What stands below a method's first images.
    fn captions(&self, method: &str, count: usize) -> Option<Vec<String>> {
        let own = self.report.images.iter().filter(|image| image.method == method);
        let caption = |image: &crate::output::ImageMetrics| match (image.psnr, image.predicted_error) {
            _ if image.diverged => Some("diverged".to_owned()),
            (Some(psnr), _) => Some(format!("{psnr:.1} dB")),
            (None, Some(error)) => Some(format!("error {error:.3}")),
            (None, None) => None,
        };
        own.take(count).map(caption).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_of_chains_is_called_so_and_an_estimate_of_the_methods_own_is_not() {
        assert_eq!(heading("QCS-SGM", 3, false), "QCS-SGM, mean of 3");
        assert_eq!(heading("QCS-SGM", 1, false), "QCS-SGM");
        assert_eq!(heading("turbo", 3, true), "turbo");
    }
}
