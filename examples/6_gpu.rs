//! Choose a device, watch the run, and stop it when it takes too long.
//!
//! `cargo run --release --example 6_gpu -- cuda`

use std::time::{Duration, Instant};

use qcs::problem::{Ensemble, Sensing, Simulation};
use qcs::{Device, Error, Job, Next, Observer, Prior, Problem, Progress, QcsSgmPlus};

struct Patience(Instant);

impl Observer for Patience {
    fn after_step(&mut self, progress: &Progress) -> Next {
        let (name, stage, stages) = progress.stage;
        if progress.at_stage_end && stage.is_multiple_of(10) {
            println!("{name} {stage} of {stages}");
        }
        let tired = self.0.elapsed() > Duration::from_secs(60);
        if tired { Next::Stop } else { Next::Continue }
    }
}

fn main() -> qcs::Result<()> {
    let device: Device = std::env::args().nth(1).as_deref().unwrap_or("auto").parse()?;
    let (ensemble, m) = (Ensemble::Gaussian, 400);
    let digits = qcs::bundled::digits(0, None)?;
    let problem = Problem::simulate(digits, Sensing::Drawn { ensemble, m }, &Simulation::default())?;

    let (prior, mut patience) = (Prior::shipped()?, Patience(Instant::now()));
    let job = Job::new(&problem, &prior, QcsSgmPlus::default()).device(device);
    match job.observer(&mut patience).run() {
        Ok(found) => println!("{:.1} dB in {:.1} s", found.psnr().unwrap_or(0.0), found.seconds),
        Err(Error::Interrupted(why)) => println!("{why}"),
        Err(error) => return Err(error),
    }
    Ok(())
}
