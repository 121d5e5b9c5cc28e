//! What a run brought, and how it is written: samples, pictures, the grid and the metrics.

use std::path::Path;

use super::{Run, RunFolder, compare_digits, evaluate};
use crate::files::npy;
use crate::methods::{Divergence, Kind, Samples};
use crate::metrics::Calibration;
use crate::output::{Diverged, Grid, MethodCalibration, Report, Series, Style, png};
use crate::{Error, Images, Result};

/// The samples of one method.
pub struct MethodSamples {
    pub kind: &'static dyn Kind,
    pub samples: Samples,
}

/// Everything a finished run knows.
pub struct Results {
    pub methods: Vec<MethodSamples>,
    /// Per method: the sample itself, or the mean over the chains
    pub estimates: Vec<Images>,
    pub truth: Option<Images>,
    pub report: Report,
}

/// More images than this make a grid that nobody looks at.
const MOST_IN_GRID: usize = 100;

impl Results {
    pub(super) fn new(run: &Run, methods: Vec<MethodSamples>) -> Self {
        let (first, images) = (run.first(), run.images());
        let truth = run.problem.truth().map(|truth| truth.part(first, images));
        let estimates: Vec<Images> = methods.iter().map(|m| m.samples.mean()).collect();
        let rows = methods.iter().zip(&estimates).flat_map(|(m, estimate)| {
            let mut rows = evaluate(m.kind.key(), estimate, first, truth.as_ref(), Some(&run.problem))
                .expect("the driver has checked that its images fit the problem");
            let of_digits = run
                .prior
                .metadata
                .get("dataset")
                .is_some_and(|dataset| dataset == "mnist");
            if let (Some(truth), true) = (&truth, of_digits) {
                compare_digits(&mut rows, estimate, truth);
            }
            for (index, row) in rows.iter_mut().enumerate() {
                row.diverged = m.samples.is_lost(index);
                if let Some(own) = &m.samples.estimate {
                    row.predicted_error = Some(own.predicted_error[index]);
                    row.evaluations = Some(own.evaluations[index]);
                    row.ep_iterations = Some(own.ep_iterations[index]);
                }
            }
            rows
        });
        let seconds: Vec<(&str, f64)> = methods.iter().map(|m| (m.kind.key(), m.samples.seconds)).collect();
        let diverged = methods.iter().flat_map(|m| {
            let method = m.kind.key();
            m.samples.diverged.iter().map(move |&at| Diverged {
                method: method.to_owned(),
                at: Divergence {
                    image: first + at.image,
                    ..at
                },
            })
        });
        let calibration = methods.iter().filter_map(|m| {
            let calibration = Calibration::of(&m.samples.states, m.samples.chains, truth.as_ref()?)?;
            let method = m.kind.key().to_owned();
            Some(MethodCalibration { method, calibration })
        });
        let calibration = calibration.collect();
        let report = Report::new(rows.collect(), &seconds)
            .with_diverged(diverged.collect())
            .with_calibration(calibration);
        Self {
            methods,
            estimates,
            truth,
            report,
        }
    }

    /// Writes everything into the folder; the metrics come last, so that their presence says "complete".
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, folder: &RunFolder) -> Result<()> {
        if let Some(truth) = &self.truth {
            write_npy(&folder.truth(), truth)?;
        }
        for (one, estimate) in self.methods.iter().zip(&self.estimates) {
            write_method(&folder.method(one.kind)?, &one.samples, estimate)?;
        }
        // Pictures are grey or RGB; other images are kept as arrays only.
        if matches!(self.estimates[0].shape.channels, 1 | 3) {
            self.write_grid(&folder.grid())?;
        }
        self.report.write_csv(folder.metrics_csv())?;
        self.report.write_json(folder.metrics_json())
    }

    fn write_grid(&self, path: &Path) -> Result<()> {
        let shown = |images: &Images| images.part(0, images.count().min(MOST_IN_GRID));
        let truth = self.truth.as_ref().map(shown);
        let estimates: Vec<Images> = self.estimates.iter().map(shown).collect();
        let deviations: Vec<Option<Images>> = self
            .methods
            .iter()
            .map(|m| m.samples.std().as_ref().map(shown))
            .collect();
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
        for ((one, images), std) in self.methods.iter().zip(&estimates).zip(&deviations) {
            let key = one.kind.key();
            let summary = self
                .report
                .methods
                .iter()
                .find(|m| m.method == key)
                .and_then(|m| m.psnr.as_ref());
            let of_method = self.report.images.iter().filter(|image| image.method == key);
            let captions: Option<Vec<String>> = of_method
                .take(images.count())
                .map(|image| match (image.psnr, image.predicted_error) {
                    _ if image.diverged => Some("diverged".to_owned()),
                    (Some(psnr), Some(error)) => Some(format!("{psnr:.1} dB ±{error:.2}")),
                    (Some(psnr), None) => Some(format!("{psnr:.1} dB")),
                    (None, Some(error)) => Some(format!("±{error:.3}")),
                    (None, None) => None,
                })
                .collect();
            series.push(Series {
                title: one.kind.title().to_owned(),
                note: summary.map(|psnr| format!("{:.1} dB", psnr.mean)),
                images,
                captions,
                style: Style::Intensity,
            });
            if let Some(std) = std {
                series.push(Series {
                    title: format!("{} deviation", one.kind.title()),
                    note: None,
                    images: std,
                    captions: None,
                    style: Style::Heat,
                });
            }
        }
        Grid::new(series).write(path)
    }
}

fn write_method(folder: &Path, samples: &Samples, estimate: &Images) -> Result<()> {
    let (shape, chains) = (samples.states.shape, samples.chains);
    let images = samples.states.count() / chains;
    let size = [images, chains, shape.channels, shape.height, shape.width];
    npy::write(folder.join("samples.npy"), &size, &samples.states.data)?;
    let pictures = matches!(shape.channels, 1 | 3);
    if let Some(std) = samples.std() {
        write_npy(&folder.join("mean.npy"), estimate)?;
        write_npy(&folder.join("std.npy"), &std)?;
    }
    if pictures {
        // With one chain these are the samples themselves.
        png::write_images(folder, estimate)?;
    }
    if pictures && chains > 1 {
        let single = folder.join("samples");
        std::fs::create_dir_all(&single).map_err(|e| Error::io(&single, "create", e))?;
        for (state, image) in samples.states.iter().enumerate() {
            let name = format!("{:04}-{:02}.png", state / chains, state % chains);
            png::write_image(single.join(name), shape, image)?;
        }
    }
    Ok(())
}

fn write_npy(path: &Path, images: &Images) -> Result<()> {
    let shape = images.shape;
    npy::write(
        path,
        &[images.count(), shape.channels, shape.height, shape.width],
        &images.data,
    )
}
