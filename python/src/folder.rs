//! A run that keeps its state in a folder, as `qcs run` does: either goes on with what the other has begun.

use std::path::PathBuf;

use pyo3::prelude::*;
use qcs::run::{Batch, Found, Run, RunConfig, RunFolder};
use qcs::{Device, Error};

use crate::errors::raised;
use crate::problem::Problem;
use crate::run::method_of;
use crate::watch::Watch;

/// Runs, goes on, or finds that the folder holds the finished run already.
#[pyfunction]
#[pyo3(signature = (out, problem, file, model, method, settings, *, resume, chains, seed, images, batch, device, precision, threads, watch))]
#[allow(clippy::too_many_arguments)] // named at the call, in Python
pub fn run_in_folder(
    py: Python<'_>,
    out: PathBuf,
    problem: &Problem,
    file: Option<PathBuf>,
    model: String,
    method: &str,
    settings: Vec<(String, String)>,
    resume: bool,
    chains: usize,
    seed: u64,
    images: Option<(usize, usize)>,
    batch: usize,
    device: &str,
    precision: Option<&str>,
    threads: usize,
    watch: Option<Py<PyAny>>,
) -> PyResult<()> {
    let method = method_of(method, &settings).map_err(raised)?;
    let device: Device = device.parse().map_err(raised)?;
    let precision = precision.map(str::parse).transpose().map_err(raised)?;
    let mut config = RunConfig {
        model,
        methods: vec![method.kind().key().to_owned()],
        problem: file,
        first: images.map(|(first, _)| first),
        count: images.map(|(first, end)| end.saturating_sub(first)),
        precision,
        chains,
        seed,
        batch: Batch::Of(batch),
        ..RunConfig::default()
    };
    config.settings.insert(method);
    let (ended, stopped_by) = py.detach(|| {
        let mut watching = Watch::new(watch.as_ref());
        let ended = execute(
            config,
            &problem.inner,
            &RunFolder::new(out),
            resume,
            &device,
            threads,
            &mut watching,
        );
        (ended, watching.raised)
    });
    match stopped_by {
        Some(exception) => Err(exception),
        None => ended.map_err(raised),
    }
}

/// The problem's file in a folder, where it has none elsewhere: what `qcs run --config` will read.
const PROBLEM: &str = "problem.safetensors";

fn execute(
    mut config: RunConfig,
    problem: &qcs::Problem,
    folder: &RunFolder,
    resume: bool,
    device: &Device,
    threads: usize,
    watch: &mut Watch<'_>,
) -> qcs::Result<()> {
    let mut engine = qcs::engine::open(device, config.precision, threads)?.engine;
    let _lock = folder.lock()?;
    let found = folder.find()?;
    let shown = folder.path().display();
    match &found {
        Found::Other => {
            return Err(Error::usage(format!(
                "out {shown} is not empty and holds no run: choose another folder"
            )));
        }
        Found::Finished(_) | Found::Unfinished(_) if !resume => {
            let reason = "holds a run: resume=True goes on with it, or loads it; else choose another folder";
            return Err(Error::usage(format!("out {shown} {reason}")));
        }
        _ => {}
    }
    let begins = matches!(found, Found::Nothing);
    if config.problem.is_none() {
        let path = std::path::absolute(folder.path()).map_err(|e| Error::io(folder.path(), "find", e))?;
        let path = path.join(PROBLEM);
        if begins {
            problem.write(&path)?;
        }
        config.problem = Some(path);
    }
    let run = match Run::load(config, engine.as_ref()) {
        // What a run has begun with stays, of one that cannot begin nothing does.
        Err(error) if begins => {
            let _ = std::fs::remove_file(folder.path().join(PROBLEM));
            return Err(error);
        }
        loaded => loaded?,
    };
    match &found {
        Found::Finished(config) | Found::Unfinished(config) if *config != run.config => {
            return Err(Error::usage(format!(
                "out {shown} holds a run with other settings or files ({}): choose another folder",
                config.differences(&run.config).join("; ")
            )));
        }
        Found::Finished(_) => return Ok(()),
        Found::Unfinished(_) => folder.remove_temporaries()?,
        Found::Nothing | Found::Other => folder.claim(&run.config, true)?,
    }
    let results = run.execute(engine.as_mut(), folder, watch)?;
    results.write(&run, folder)?;
    folder.remove_checkpoints()
}
