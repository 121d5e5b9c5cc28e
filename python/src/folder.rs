//! A run that keeps its state in a folder, as `qcs run` does: either goes on with what the other has begun.

use std::path::PathBuf;

use pyo3::prelude::*;
use qcs::Error;
use qcs::engine::Engine;
use qcs::run::{Batch, Found, Run, RunConfig, RunFolder};

use crate::options::Options;
use crate::problem::Problem;
use crate::watch::{Watch, watched};

/// Runs, goes on, or finds that the folder holds the finished run already. `file` is the problem's, where it has one.
#[pyfunction]
#[pyo3(signature = (out, problem, file, model, options, *, resume))]
pub fn run_in_folder(
    py: Python<'_>,
    out: PathBuf,
    problem: &Problem,
    file: Option<PathBuf>,
    model: String,
    options: Options,
    resume: bool,
) -> PyResult<()> {
    watched(py, options.watch.as_ref(), |watch| {
        let method = options.method()?;
        let mut config = RunConfig {
            model,
            methods: vec![method.kind().key().to_owned()],
            problem: file,
            first: options.images.map(|(first, _)| first),
            count: options.images.map(|(first, end)| end.saturating_sub(first)),
            precision: options.precision()?,
            chains: options.chains,
            seed: options.seed,
            batch: Batch::Of(options.batch),
            ..RunConfig::default()
        };
        config.settings.insert(method);
        let mut engine = qcs::engine::open(&options.device()?, config.precision, options.threads)?.engine;
        execute(
            config,
            &problem.inner,
            &RunFolder::new(out),
            resume,
            engine.as_mut(),
            watch,
        )
    })
}

/// The problem's file in a folder, where it has none elsewhere: what `qcs run --config` will read.
const PROBLEM: &str = "problem.safetensors";

fn execute(
    mut config: RunConfig,
    problem: &qcs::Problem,
    folder: &RunFolder,
    resume: bool,
    engine: &mut dyn Engine,
    watch: &mut Watch<'_>,
) -> qcs::Result<()> {
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
    let run = match Run::load(config, engine) {
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
    let results = run.execute(engine, folder, watch)?;
    results.write(&run, folder)?;
    folder.remove_checkpoints()
}
