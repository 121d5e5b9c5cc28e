//! What the prior alone believes in.

use pyo3::prelude::*;
use qcs::likelihood::Likelihood;
use qcs::methods::langevin::Dynamics;
use qcs::methods::{Inputs, Options, QcsSgmPlus};
use qcs::reconstruct::{Driver, Outcome};
use qcs::{Device, Error};

use crate::arrays;
use crate::errors::raised;
use crate::prior::Prior;
use crate::watch::watched;

/// Draws images from the prior as `qcs sample` does: by the reverse SDE, unless a setting is given that Langevin's steps alone have.
/// The images, and how many of them diverged.
#[pyfunction]
#[pyo3(signature = (prior, count, settings, *, seed, batch, device, threads, watch))]
#[allow(clippy::too_many_arguments)] // named at the call, in Python
pub fn sample<'py>(
    py: Python<'py>,
    prior: &Prior,
    count: usize,
    settings: Vec<(String, String)>,
    seed: u64,
    batch: usize,
    device: &str,
    threads: usize,
    watch: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, usize)> {
    let device: Device = device.parse().map_err(raised)?;
    let prior = &prior.inner;
    let samples = watched(py, watch.as_ref(), |watch| {
        let mut given = QcsSgmPlus::default();
        for (name, text) in &settings {
            if ["xi", "gamma"].contains(&name.as_str()) || name.starts_with("ep_") {
                let reason = format!("{name} weighs measurements, and a prior alone has none");
                return Err(Error::usage(reason));
            }
            given.set(name, text)?;
        }
        let langevin = given.names_langevin_steps();
        let options = given.over(QcsSgmPlus::defaults(prior, None, "sample", false)?);
        let mut settings = options.settings(Likelihood::default())?;
        if !langevin {
            settings.dynamics = Dynamics::Reverse;
        }
        let driver = Driver {
            algorithm: &settings,
            given: Inputs {
                prior,
                problem: None,
                chains: 1,
            },
            first: 0,
            images: count,
            seed,
            batch,
        };
        let mut engine = qcs::engine::open(&device, None, threads)?.engine;
        match driver.run(engine.as_mut(), None, watch)? {
            Outcome::Finished(samples) => Ok(samples),
            Outcome::Stopped => Err(Error::Interrupted("stopped".to_owned())),
        }
    })?;
    let diverged = samples.diverged.len();
    Ok((arrays::of_images(py, samples.states)?, diverged))
}
