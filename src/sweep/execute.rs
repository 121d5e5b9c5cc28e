//! Runs the points that are not there yet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{POINTS, Point};
use crate::engine::Engine;
use crate::files::Fit;
use crate::output::Report;
use crate::prior::Prior;
use crate::problem::Problem;
use crate::reconstruct::Observer;
use crate::reconstruct::fingerprint;
use crate::run::{Found, MeasureConfig, Reuse, Run, RunConfig, RunFolder, load_prior};
use crate::{Error, Result};

/// How a point ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// It was there already
    There,
    /// It was run; this many of its states diverged
    Run { diverged: usize },
    /// Why it could not be run
    Failed(String),
}

/// Watches a sweep, and the runs of its points.
pub trait SweepObserver: Observer {
    /// Point number `index` begins.
    fn begin_point(&mut self, index: usize, point: &Point);

    /// Point number `index` has ended.
    fn end_point(&mut self, index: usize, point: &Point, ended: &Ended);
}

/// What the points of a sweep have in common, read once.
#[derive(Default)]
pub struct Materials {
    priors: BTreeMap<(String, Option<String>), Prior>,
    /// Hashes of images by file, first, count, and what is cut out of them
    images: BTreeMap<(String, Option<usize>, Option<usize>, Fit), String>,
    /// Names of points' folders by sweep and digest: points of other grids, or of earlier sweeps, may be the same run
    folders: BTreeMap<(PathBuf, String), String>,
    shared: Reuse,
}

impl Materials {
    /// The folder of a point below `out`: its name holds the digest of all that decides the run, of what the files hold
    /// rather than of what they are called.
    ///
    /// # Errors
    /// If the settings are no run's, or a file cannot be used.
    pub fn folder(&mut self, point: &Point, out: &Path) -> Result<RunFolder> {
        let digest = self.digest(point.config()?)?[..DIGITS].to_owned();
        let points = out.join(POINTS);
        let name = match self.folders.get(&(points.clone(), digest.clone())) {
            Some(name) => name.clone(),
            None => there(&points, &digest).unwrap_or_else(|| point.folder(&digest)),
        };
        self.folders.insert((points.clone(), digest), name.clone());
        Ok(RunFolder::new(points.join(name)))
    }

    fn digest(&mut self, mut config: RunConfig) -> Result<String> {
        let key = (config.model.clone(), config.shape.clone());
        if !self.priors.contains_key(&key) {
            let prior = load_prior(&config.model, config.shape()?)?;
            self.priors.insert(key.clone(), prior);
        }
        let prior = &self.priors[&key];
        let preset = config.preset.clone().unwrap_or_default();
        let signs = match (&config.problem, &config.measure) {
            (Some(path), _) => Problem::read(path)?.cells().are_signs(),
            (None, measure) => measure.as_ref().is_some_and(MeasureConfig::keeps_signs),
        };
        config.resolve_settings(prior, signs)?;
        config.model = fingerprint::of_prior(prior);
        if let Some(path) = config.problem.take() {
            config.problem = Some(PathBuf::from(of_file(&path)?));
        }
        if let Some(measure) = &mut config.measure {
            let images = measure.images.clone().unwrap_or_default();
            let key = (images, measure.first, measure.count, measure.fit());
            if !self.images.contains_key(&key) {
                let images = measure.load()?.images;
                self.images.insert(key.clone(), fingerprint::of_images(&images));
            }
            measure.images = Some(self.images[&key].clone());
            if let Some(file) = measure.matrix.as_mut().filter(|matrix| Path::new(matrix).is_file()) {
                *file = of_file(Path::new(file))?;
            }
        }
        // States of a batch share nothing: its size changes no result.
        config.batch = crate::run::Batch::default();
        (config.block, config.pictures) = (None, None);
        Ok(fingerprint::of_text(&format!("{preset}\n{}", config.to_toml()?)))
    }

    /// Seconds that a point will take, at most, from a trial of its first steps.
    ///
    /// # Errors
    /// As [`Run::load`] and [`Run::execute`].
    pub fn estimate_seconds(&mut self, point: &Point, engine: &mut dyn Engine) -> Result<f64> {
        let run = Run::load_sharing(point.config()?, engine, &mut self.shared)?;
        let predicted = run.estimate_seconds(engine);
        self.shared.keep(run.problem);
        Ok(predicted?.iter().map(|(_, seconds)| seconds).sum())
    }
}

/// Digits of a digest that a folder's name ends with.
const DIGITS: usize = 12;

/// The folder of the run with this digest, whatever its point was called.
fn there(points: &Path, digest: &str) -> Option<String> {
    let names = std::fs::read_dir(points)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.into_iter().find(|name| name.ends_with(digest))
}

fn of_file(path: &Path) -> Result<String> {
    let bytes = crate::files::map(path)?;
    let mut hash = fingerprint::Hash::new();
    hash.blob(&bytes);
    Ok(hash.hex())
}

/// Runs every point that is not complete, one after the other. A point that fails does not keep the others from running.
///
/// # Errors
/// [`Error::Interrupted`] if the observer said stop: what is done is kept, and the same call goes on from there.
/// Failures of points are no errors here; they are in what is returned, in the order of the points.
pub fn execute(
    points: &[Point],
    out: &Path,
    engine: &mut dyn Engine,
    materials: &mut Materials,
    observer: &mut dyn SweepObserver,
) -> Result<Vec<Ended>> {
    let mut all = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let ended = match execute_point(index, point, out, engine, materials, observer) {
            Ok(ended) => ended,
            Err(Error::Interrupted(_)) => {
                let (done, all) = (all.len(), points.len());
                let words = format!("stopped with {done} of {all} points done; the same command goes on");
                return Err(Error::Interrupted(words));
            }
            Err(error) => Ended::Failed(error.to_string()),
        };
        observer.end_point(index, point, &ended);
        all.push(ended);
    }
    Ok(all)
}

fn execute_point(
    index: usize,
    point: &Point,
    out: &Path,
    engine: &mut dyn Engine,
    materials: &mut Materials,
    observer: &mut dyn SweepObserver,
) -> Result<Ended> {
    let folder = materials.folder(point, out)?;
    // Files of a point that cannot be read are made again: nobody but a sweep writes them.
    let found = folder.find().unwrap_or(Found::Other);
    let mut damage = None;
    if matches!(found, Found::Finished(_)) {
        match Report::read_json(&folder.metrics_json()) {
            Ok(_) => return Ok(Ended::There),
            Err(error) => damage = Some(error),
        }
    }
    let run = Run::load_sharing(point.config()?, engine, &mut materials.shared)?;
    if !matches!(&found, Found::Unfinished(config) if *config == run.config) {
        folder.claim(&run.config, true)?;
    }
    observer.begin_point(index, point);
    if let Some(error) = damage {
        observer.note(&format!("{error}; the point is run again"));
    }
    let results = run.execute(engine, &folder, observer);
    let written = results.and_then(|results| {
        results.write(&run, &folder)?;
        folder.remove_checkpoints()?;
        let diverged = results.report.diverged.len();
        Ok(Ended::Run { diverged })
    });
    materials.shared.keep(run.problem);
    written
}
