//! Drives a method that computes on the host: batch by batch, with the same progress and the same checkpoints as plans have.

use std::time::Instant;

use super::checkpoint::{At, Checkpoint};
use super::driver::{Driver, Next, Observer, Outcome, Progress};
use crate::engine::Engine;
use crate::methods::{HostMethod, X};
use crate::{Error, Result};

impl Driver<'_> {
    pub(super) fn run_on_host(
        &self,
        direct: &dyn HostMethod,
        mut run: Checkpoint,
        engine: &mut dyn Engine,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let states = self.images * self.given.chains;
        let row = self.given.prior.image().len() * size_of::<f32>();
        let is_finished = run.at == At::End;
        let kept = run.left.values.entry(X.name.to_owned()).or_default().len();
        if !is_finished && (run.next > states || kept != run.next * row) {
            return Err(Error::usage(
                "the checkpoint belongs to another run: its states or image size differ",
            ));
        }
        let (before, begun, steps) = (run.left.seconds, Instant::now(), direct.steps());
        let first = run.next;
        if !is_finished && direct.needs_spectrum() {
            self.factorise(engine, observer)?;
        }
        while !is_finished && run.next < states {
            let batch = run.next..states.min(run.next + self.batch);
            let (mut stopped, size) = (false, batch.len());
            let mut after = |step: usize| {
                let done = batch.start + if step == steps { size } else { 0 };
                let progress = Progress {
                    fraction: (batch.start * steps + size * step) as f64 / (states * steps) as f64,
                    evaluations: (batch.start - first) * steps + size * step,
                    done,
                    working: states.min(batch.end) - done,
                    states,
                    stage: (direct.stage(), step as u32, steps as u32),
                    at_stage_end: step == steps,
                };
                stopped = observer.after_step(&progress) == Next::Stop;
                !stopped || step == steps
            };
            // Noise is keyed by the image's place in the problem.
            let before_first = self.first * self.given.chains;
            let keyed = before_first + batch.start..before_first + batch.end;
            let drawn = direct.states(keyed, self.seed, &mut after);
            run.left.seconds = before + begun.elapsed().as_secs_f64();
            if let Some(drawn) = drawn {
                run.next = batch.end;
                let bytes = run.left.values.get_mut(X.name).expect("entered above");
                bytes.extend_from_slice(bytemuck::cast_slice(&drawn));
            }
            observer.checkpoint(&run)?;
            if stopped && run.next < states {
                return Ok(Outcome::Stopped);
            }
        }
        let finished = Checkpoint::finished(run.left);
        observer.checkpoint(&finished)?;
        Ok(Outcome::Finished(self.outcome(&finished.left)))
    }
}
