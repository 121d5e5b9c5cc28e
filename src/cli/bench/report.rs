//! Timings as Markdown, CSV or JSON lines.

use serde::Serialize;

use qcs::engine::{Device, Precision};
use qcs::{Error, Result};

use super::cases::{Setting, Timing};
use crate::cli::terminal;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Markdown,
    Csv,
    JsonLines,
}

/// One line. Scripts rely on the names of the first nine.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    preset: &'static str,
    /// Of a network with random weights
    ngf: Option<usize>,
    batch: usize,
    device: String,
    precision: String,
    ms_mean: f64,
    ms_stddev: f64,
    /// Of the products, counted as direct convolutions
    gflops: f64,
    /// Share of the device's peak; above 1 where an algorithm does less work than it is counted for
    peak_share: Option<f64>,
    /// Langevin steps of the batch
    steps_per_second: Option<f64>,
    /// Reconstructions, were the whole schedule of the preset run
    images_per_second: Option<f64>,
    measurements: usize,
    repetitions: usize,
    network: String,
}

/// Prints a line for each timing, as soon as it is there.
pub struct Reporter {
    format: Format,
    rows: usize,
}

impl Reporter {
    pub fn new(format: Format) -> Self {
        Self { format, rows: 0 }
    }

    pub fn report(
        &mut self,
        setting: &Setting,
        device: &Device,
        precision: Precision,
        timing: Timing,
        peak: Option<f64>,
    ) -> Result<()> {
        let (mean, deviation) = mean_and_deviation(&timing.seconds);
        let gflops = timing.flops as f64 / mean / 1e9;
        let steps_per_second = timing.steps.map(|steps| steps as f64 / mean);
        let preset = &setting.subject.preset;
        let whole = (preset.levels * preset.steps_per_level) as f64;
        let row = Row {
            name: timing.name,
            preset: preset.name,
            ngf: setting.subject.ngf,
            batch: setting.batch,
            device: device.to_string(),
            precision: precision.to_string(),
            ms_mean: 1e3 * mean,
            ms_stddev: 1e3 * deviation,
            gflops,
            peak_share: peak.map(|peak| gflops / peak),
            steps_per_second,
            images_per_second: steps_per_second.map(|rate| rate * setting.batch as f64 / whole),
            measurements: setting.measurements,
            repetitions: setting.repetitions,
            network: setting.subject.network.clone(),
        };
        let text = match self.format {
            Format::JsonLines => to_json(&row)?,
            Format::Csv => self.csv(&row),
            Format::Markdown => self.markdown(&row),
        };
        self.rows += 1;
        terminal::print(&(text + "\n"))
    }

    /// Says what the figures mean, where a table is read by people.
    pub fn finish(self) -> Result<()> {
        match self.format {
            Format::Markdown => terminal::print(
                "\nGFLOP/s count convolutions as direct ones and no other arithmetic than products; images/s are for the \
                 preset's whole schedule.\n",
            ),
            _ => Ok(()),
        }
    }

    fn markdown(&self, row: &Row) -> String {
        let or_dash = |value: Option<f64>, digits: usize| value.map_or("–".to_owned(), |v| format!("{v:.digits$}"));
        let network = match (row.network.as_str(), row.ngf) {
            ("ncsnv2", Some(ngf)) => ngf.to_string(),
            (other, Some(ngf)) => format!("{other} {ngf}"),
            (model, None) => model.to_owned(),
        };
        let head = "| test | preset | network | batch | device | precision | ms | GFLOP/s | of peak | steps/s | images/s |\n\
                    |---|---|---:|---:|---|---|---:|---:|---:|---:|---:|\n";
        format!(
            "{}| {} | {} | {} | {} | {} | {} | {:.3} ± {:.3} | {:.1} | {} | {} | {} |",
            if self.rows == 0 { head } else { "" },
            row.name,
            row.preset,
            network,
            row.batch,
            row.device,
            row.precision,
            row.ms_mean,
            row.ms_stddev,
            row.gflops,
            or_dash(row.peak_share, 2),
            or_dash(row.steps_per_second, 2),
            or_dash(row.images_per_second, 4),
        )
    }

    /// The fields of the JSON object, in its order.
    fn csv(&self, row: &Row) -> String {
        let numbers = |values: &[f64]| values.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
        let or_empty = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
        let head = "name,preset,ngf,batch,device,precision,ms_mean,ms_stddev,gflops,peak_share,steps_per_second,\
                    images_per_second,measurements,repetitions,network\n";
        format!(
            // A list of devices may hold a comma.
            "{}{},{},{},{},\"{}\",{},{},{},{},{},{},{},{}",
            if self.rows == 0 { head } else { "" },
            row.name,
            row.preset,
            row.ngf.map_or(String::new(), |ngf| ngf.to_string()),
            row.batch,
            row.device,
            row.precision,
            numbers(&[row.ms_mean, row.ms_stddev, row.gflops]),
            or_empty(row.peak_share),
            or_empty(row.steps_per_second),
            or_empty(row.images_per_second),
            row.measurements,
            row.repetitions,
            quoted(&row.network),
        )
    }
}

/// A field of a line of CSV: a path may hold a comma.
fn quoted(field: &str) -> String {
    match field.contains([',', '"']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

fn to_json(row: &Row) -> Result<String> {
    serde_json::to_string(row).map_err(|e| Error::Failed(format!("the result cannot be written as JSON: {e}")))
}

/// The standard deviation has n − 1 in its denominator, and is 0 for a single repetition.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, (squares / (values.len().max(2) - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_of_one_value_is_none() {
        assert_eq!(mean_and_deviation(&[2.0]), (2.0, 0.0));
        assert_eq!(mean_and_deviation(&[1.0, 3.0]), (2.0, 2.0f64.sqrt()));
    }
}
