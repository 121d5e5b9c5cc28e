//! Writes what a method brings, part by part, so that no more than a part is ever held.

use std::path::{Path, PathBuf};

use super::{Pictures, Run, RunFolder};
use crate::files::npy::NpyWriter;
use crate::methods::{Divergence, Kind, Samples};
use crate::metrics::Tally;
use crate::output::{Diverged, ImageMetrics, png};
use crate::reconstruct::{compare_digits, compare_measurements, evaluate};
use crate::{Error, Images, Result};

/// More images than this make a grid that nobody looks at.
const MOST_IN_GRID: usize = 100;

/// What is known of a method's results beside its files.
pub(super) struct MethodResults {
    pub kind: &'static Kind,
    pub rows: Vec<ImageMetrics>,
    pub diverged: Vec<Diverged>,
    pub tally: Tally,
    pub seconds: f64,
    pub states: usize,
    /// The first estimates, for the grid
    pub estimates: Images,
    /// Whether the estimates are the method's own, rather than means over the chains
    pub own: bool,
    /// Deviations over the chains
    pub deviations: Option<Images>,
}

/// The files of one method: arrays appear when all of it is there, pictures as they come.
pub(super) struct MethodWriter<'a> {
    run: &'a Run,
    folder: PathBuf,
    samples: NpyWriter<f32>,
    /// Mean and deviation over the chains
    moments: Option<[NpyWriter<f32>; 2]>,
    /// Images that are written
    done: usize,
    brought: MethodResults,
}

impl<'a> MethodWriter<'a> {
    pub fn begin(run: &'a Run, kind: &'static Kind, folder: &RunFolder) -> Result<Self> {
        let folder = folder.method(kind)?;
        let (shape, chains, images) = (run.prior.image(), run.config.chains, run.images());
        let [c, h, w] = [shape.channels, shape.height, shape.width];
        let moment = |name: &str| NpyWriter::begin(&folder.join(name), &[images, c, h, w]);
        let none = || Images::new(shape, Vec::new());
        Ok(Self {
            run,
            samples: NpyWriter::begin(&folder.join("samples.npy"), &[images, chains, c, h, w])?,
            moments: match chains {
                1 => None,
                _ => Some([moment("mean.npy")?, moment("std.npy")?]),
            },
            folder,
            done: 0,
            brought: MethodResults {
                kind,
                rows: Vec::new(),
                diverged: Vec::new(),
                tally: Tally::new(chains),
                seconds: 0.0,
                states: 0,
                estimates: none(),
                own: false,
                deviations: (chains > 1).then(none),
            },
        })
    }

    /// Takes the samples of the next images.
    pub fn append(&mut self, samples: &Samples) -> Result<()> {
        let (estimates, deviations) = (samples.mean(), samples.std());
        let first = self.run.first() + self.done;
        let truth = self.run.problem.truth();
        let truth = truth.map(|truth| truth.part(first, estimates.count()));
        self.samples.append(&samples.states.data)?;
        if let (Some([mean, std]), Some(deviations)) = (&mut self.moments, &deviations) {
            mean.append(&estimates.data)?;
            std.append(&deviations.data)?;
        }
        if self.run.pictures() == Pictures::All && matches!(estimates.shape.channels, 1 | 3) {
            self.write_pictures(samples, &estimates)?;
        }
        let brought = &mut self.brought;
        let mut rows = rows(self.run, brought.kind, samples, &estimates, first, truth.as_ref());
        brought.rows.append(&mut rows);
        brought.diverged.extend(samples.diverged.iter().map(|&at| Diverged {
            method: brought.kind.key().to_owned(),
            at: Divergence {
                image: first + at.image,
                ..at
            },
        }));
        if let Some(truth) = &truth {
            brought.tally.add(&samples.states, truth);
        }
        brought.own |= samples.estimate.is_some();
        brought.seconds += samples.seconds;
        brought.states += samples.states.count();
        let shown = MOST_IN_GRID.saturating_sub(self.done).min(estimates.count());
        let n = shown * estimates.shape.len();
        brought.estimates.data.extend_from_slice(&estimates.data[..n]);
        if let (Some(all), Some(new)) = (&mut brought.deviations, &deviations) {
            all.data.extend_from_slice(&new.data[..n]);
        }
        self.done += estimates.count();
        Ok(())
    }

    fn write_pictures(&self, samples: &Samples, estimates: &Images) -> Result<()> {
        // With one chain these are the samples themselves.
        let (shape, chains, all) = (estimates.shape, samples.chains, self.run.images());
        let first = self.run.first() + self.done;
        let names = self.run.problem.names();
        let names = names.map(|names| &names[first..first + estimates.count()]);
        png::write_images(&self.folder, estimates, self.done..all, names)?;
        if chains == 1 {
            return Ok(());
        }
        let single = self.folder.join("samples");
        std::fs::create_dir_all(&single).map_err(|e| Error::io(&single, "create", e))?;
        for (state, image) in samples.states.iter().enumerate() {
            let (index, chain) = (state / chains, state % chains);
            let stem = png::stem(self.done + index, all, names.map(|names| names[index].as_str()));
            png::write_image(single.join(format!("{stem}-{chain:02}.png")), shape, image)?;
        }
        Ok(())
    }

    /// # Panics
    /// If images are missing.
    pub fn finish(self) -> Result<MethodResults> {
        self.samples.finish()?;
        for moment in self.moments.into_iter().flatten() {
            moment.finish()?;
        }
        Ok(self.brought)
    }
}

/// One row for each image.
fn rows(
    run: &Run,
    kind: &Kind,
    samples: &Samples,
    estimates: &Images,
    first: usize,
    truth: Option<&Images>,
) -> Vec<ImageMetrics> {
    let mut rows = evaluate(kind.key(), estimates, first, truth, Some(&run.problem))
        .expect("the driver has checked that its images fit the problem");
    let dataset = run.prior.metadata.get("dataset");
    if let (Some(truth), true) = (truth, dataset.is_some_and(|dataset| dataset == "mnist")) {
        compare_digits(&mut rows, estimates, truth);
    }
    for (index, row) in rows.iter_mut().enumerate() {
        row.diverged = samples.is_lost(index);
        if let Some(own) = &samples.estimate {
            row.predicted_error = Some(own.predicted_error[index]);
            row.evaluations = Some(own.evaluations[index]);
            row.ep_iterations = Some(own.ep_iterations[index]);
        }
    }
    compare_measurements(&mut rows, estimates, first, &run.problem);
    rows
}

/// Writes images as an array, without a copy of them.
pub(super) fn write_images(path: &Path, images: &Images, first: usize, count: usize) -> Result<()> {
    let (shape, n) = (images.shape, images.shape.len());
    let size = [count, shape.channels, shape.height, shape.width];
    crate::files::npy::write(path, &size, &images.data[first * n..(first + count) * n])
}
