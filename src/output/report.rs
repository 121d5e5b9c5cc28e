//! The metrics of a run: one row per image and method, and a summary per method.

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::hash::of_text;
use crate::files::write_atomically;
use crate::methods::Divergence;
use crate::metrics::{Calibration, Summary, number};
use crate::{Error, Result};

/// What is known of one image as one method reconstructed it. Metrics that need a truth are absent without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageMetrics {
    /// Position of the image in the problem.
    pub index: usize,
    /// The name of its file, where it had one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub method: String,
    /// dB; in JSON `null` where it is infinite.
    #[serde(with = "number::option")]
    pub psnr: Option<f64>,
    /// Whether the image equals the truth: its PSNR is infinite.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exact: bool,
    /// dB, of the image times the factor that brings it closest to the truth.
    #[serde(default, with = "number::option")]
    pub psnr_scaled: Option<f64>,
    #[serde(with = "number::option")]
    pub ssim: Option<f64>,
    /// Share of measurements whose cell holds A·x, x clipped to [0, 1] as for the other metrics.
    #[serde(with = "number::option")]
    pub consistency: Option<f64>,
    /// Root mean squared error per pixel that the method itself predicts, where it does.
    #[serde(with = "number::option")]
    pub predicted_error: Option<f64>,
    /// Evaluations of the network, where they differ from image to image.
    pub evaluations: Option<usize>,
    /// EP's iterations, likewise.
    pub ep_iterations: Option<usize>,
    /// Whether it shows the digit that the truth shows, where both are digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_digit: Option<bool>,
    /// Whether its measurements lie farther from it than the noise and its predicted error explain.
    #[serde(default, skip_serializing_if = "is_false")]
    pub contradicted: bool,
    /// Whether every chain of the image diverged: its metrics are told, but count in no mean.
    #[serde(default)]
    pub diverged: bool,
}

/// Mean ± standard error of each metric over a method's images that did not diverge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodMetrics {
    pub method: String,
    /// Number of images; a metric's own count is smaller where it is absent for some.
    pub images: usize,
    /// Those of them that diverged, and are in no mean.
    pub diverged: usize,
    pub psnr: Option<Summary>,
    #[serde(default)]
    pub psnr_scaled: Option<Summary>,
    pub ssim: Option<Summary>,
    pub consistency: Option<Summary>,
    pub predicted_error: Option<Summary>,
    pub evaluations: Option<Summary>,
    pub ep_iterations: Option<Summary>,
    /// Those whose measurements contradict them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub contradicted: usize,
    /// The share of images that show the digit they should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_digit: Option<Summary>,
    /// Wall-clock time of the method on all images.
    pub seconds: Option<f64>,
}

/// The content of `metrics.json` and `metrics.csv`.
///
/// An infinite PSNR is `inf` in CSV. JSON has no such number: it is `null` there, beside `"exact": true`, and so is the mean of it
/// and others. Else `null` or an empty field means that there is no truth to compare with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub methods: Vec<MethodMetrics>,
    pub images: Vec<ImageMetrics>,
    /// States that diverged. An image with other chains is estimated from those; one without is marked.
    pub diverged: Vec<Diverged>,
    /// Of methods that drew several samples of each image, where the truth is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<MethodCalibration>,
}

/// Whether a method's draws are spread as the truth is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodCalibration {
    pub method: String,
    #[serde(flatten)]
    pub calibration: Calibration,
}

/// A state that diverged, and the method whose state it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diverged {
    pub method: String,
    #[serde(flatten)]
    pub at: Divergence,
}

impl Report {
    /// Summarises `images` by method, in the order in which the methods appear; `seconds` gives the
    /// time of those methods that were timed.
    pub fn new(images: Vec<ImageMetrics>, seconds: &[(&str, f64)]) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for image in &images {
            if !names.contains(&image.method.as_str()) {
                names.push(&image.method);
            }
        }
        let methods = names
            .into_iter()
            .map(|name| {
                let of_method = || images.iter().filter(|image| image.method == name);
                let summary = |metric: fn(&ImageMetrics) -> Option<f64>| {
                    let healthy = of_method().filter(|image| !image.diverged);
                    Summary::of(&healthy.filter_map(metric).collect::<Vec<_>>())
                };
                MethodMetrics {
                    method: name.to_owned(),
                    images: of_method().count(),
                    diverged: of_method().filter(|image| image.diverged).count(),
                    contradicted: of_method().filter(|image| image.contradicted).count(),
                    psnr: summary(|image| image.psnr),
                    psnr_scaled: summary(|image| image.psnr_scaled),
                    ssim: summary(|image| image.ssim),
                    consistency: summary(|image| image.consistency),
                    predicted_error: summary(|image| image.predicted_error),
                    evaluations: summary(|image| image.evaluations.map(|n| n as f64)),
                    ep_iterations: summary(|image| image.ep_iterations.map(|n| n as f64)),
                    same_digit: summary(|image| image.same_digit.map(|same| if same { 1.0 } else { 0.0 })),
                    seconds: seconds.iter().find(|(timed, _)| *timed == name).map(|timed| timed.1),
                }
            })
            .collect();
        Self {
            methods,
            images,
            diverged: Vec::new(),
            calibration: Vec::new(),
        }
    }

    /// Records how a method's draws are spread.
    pub fn with_calibration(self, calibration: Vec<MethodCalibration>) -> Self {
        Self { calibration, ..self }
    }

    /// Records the states that diverged.
    pub fn with_diverged(self, diverged: Vec<Diverged>) -> Self {
        Self { diverged, ..self }
    }

    /// Reads back what [`Report::write_json`] has written.
    ///
    /// # Errors
    /// If the file cannot be read, is no such report, or has changed since: one of an earlier version, without a checksum, is
    /// believed.
    pub fn read_json(path: &Path) -> Result<Self> {
        let text = crate::files::read_text(path)?;
        let bad = |reason: String| Error::bad_file(path, reason);
        let mut report: Self = serde_json::from_str(&text).map_err(|e| bad(format!("is no report of a run: {e}")))?;
        if unsealed(&text).is_some_and(|(checksum, rest)| checksum != of_text(&rest)) {
            return Err(bad(
                "has changed since it was written: its checksum is another".to_owned()
            ));
        }
        for image in report.images.iter_mut().filter(|image| image.exact) {
            (image.psnr, image.psnr_scaled) = (Some(f64::INFINITY), Some(f64::INFINITY));
        }
        Ok(report)
    }

    /// Writes everything as JSON, with a checksum of it.
    pub fn write_json(&self, path: impl AsRef<Path>) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::Failed(format!("the metrics cannot be written as JSON: {e}")))?;
        write_text(path.as_ref(), &(sealed(&text) + "\n"))
    }

    /// Writes one row per image and method as CSV; the summaries are in the JSON file only.
    pub fn write_csv(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut text = String::from(
            "index,method,psnr,psnr_scaled,ssim,consistency,predicted_error,evaluations,ep_iterations,same_digit,diverged,name\n",
        );
        for image in &self.images {
            let metrics = [
                image.psnr,
                image.psnr_scaled,
                image.ssim,
                image.consistency,
                image.predicted_error,
            ];
            let metrics = metrics.map(|metric| metric.map_or(String::new(), number::text));
            let same = image.same_digit.map(usize::from);
            let counts =
                [image.evaluations, image.ep_iterations, same].map(|n| n.map_or(String::new(), |n| n.to_string()));
            let method = quoted(&image.method);
            let (metrics, counts) = (metrics.join(","), counts.join(","));
            let name = quoted(image.name.as_deref().unwrap_or_default());
            text += &format!(
                "{},{method},{metrics},{counts},{},{name}\n",
                image.index, image.diverged
            );
        }
        write_text(path.as_ref(), &text)
    }
}

/// What a sealed text begins with; the checksum and the rest follow.
const SEAL: &str = "{\n  \"checksum\": \"";
const AFTER: &str = "\",\n";

/// The JSON text of an object with a checksum of that text as its first member.
fn sealed(text: &str) -> String {
    let rest = text.strip_prefix("{\n").expect("an object, laid out in lines");
    format!("{SEAL}{}{AFTER}{rest}", of_text(text))
}

/// The checksum of a sealed text, and the text that it should be of; nothing if it has none.
fn unsealed(text: &str) -> Option<(&str, String)> {
    let (checksum, rest) = text.strip_prefix(SEAL)?.split_once(AFTER)?;
    Some((checksum, format!("{{\n{}", rest.trim_end())))
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

pub(crate) fn write_text(path: &Path, text: &str) -> Result<()> {
    write_atomically(path, |w: &mut dyn Write| {
        w.write_all(text.as_bytes()).map_err(|e| Error::io(path, "write", e))
    })
}

/// A CSV field, in quotes where it needs them.
pub(crate) fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
