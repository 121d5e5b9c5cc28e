//! The state of an unfinished run: enough to continue to the same bits, because noise is keyed by state and step.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Divergence, SamplerPlan, Samples, Settings};
use crate::engine::Session;
use crate::files::safetensors::{self, Slice, Tensor, TensorFile};
use crate::{Error, ImageShape, Result};

/// Finished states, and the batch that is being worked on.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// `[states, N]`: final where finished, current where in work, 0 beyond
    pub(super) x: Vec<f32>,
    pub(super) n: usize,
    /// First state of the batch in work
    pub(super) next_state: usize,
    /// Langevin steps that the batch in work has behind it
    pub(super) step: usize,
    /// `[batch, N]` of the batch in work, where the sampler has momentum; empty before its first step
    pub(super) velocity: Vec<f32>,
    /// Flags of the batch in work; empty before its first step
    pub(super) frozen: Vec<u32>,
    /// Of the finished states
    pub(super) diverged: Vec<Divergence>,
    /// Time spent so far, over all sessions of the run
    pub(super) seconds: f64,
}

impl Checkpoint {
    pub(super) fn new(states: usize, shape: ImageShape) -> Self {
        Self {
            x: vec![0.0; states * shape.len()],
            n: shape.len(),
            next_state: 0,
            step: 0,
            velocity: Vec::new(),
            frozen: Vec::new(),
            diverged: Vec::new(),
            seconds: 0.0,
        }
    }

    /// The checkpoint of a run that is complete: starting from it gives the samples at once.
    pub fn finished(samples: &Samples) -> Self {
        Self {
            next_state: samples.states.count(),
            x: samples.states.data.clone(),
            diverged: samples.diverged.clone(),
            seconds: samples.seconds,
            ..Self::new(0, samples.states.shape)
        }
    }

    pub(super) fn batch_x(&self, batch: usize) -> &[f32] {
        &self.x[self.next_state * self.n..(self.next_state + batch) * self.n]
    }

    /// Takes over the batch's state from the device.
    pub(super) fn take(&mut self, session: &mut dyn Session, plan: &SamplerPlan, batch: usize) -> Result<()> {
        let at = self.next_state * self.n..(self.next_state + batch) * self.n;
        session.read_f32(plan.x, &mut self.x[at])?;
        if let Some(velocity) = plan.velocity {
            self.velocity.resize(batch * self.n, 0.0);
            session.read_f32(velocity, &mut self.velocity)?;
        }
        self.frozen.resize(batch, 0);
        session.read_u32(plan.frozen, &mut self.frozen)
    }

    /// Refuses the checkpoint of a run with other states, steps or settings.
    pub(super) fn check(&self, states: usize, shape: ImageShape, steps: usize, settings: &Settings) -> Result<()> {
        let batch = settings.batch.min(states.saturating_sub(self.next_state));
        let velocity = if settings.has_velocity() { batch * self.n } else { 0 };
        let fits = self.n == shape.len()
            && self.x.len() == states * shape.len()
            && self.next_state <= states
            && self.step <= steps
            && (self.step == 0 || self.frozen.len() == batch && self.velocity.len() == velocity);
        if fits {
            Ok(())
        } else {
            Err(Error::usage(
                "the checkpoint belongs to another run: its states, image size, steps, batch or momentum differ",
            ))
        }
    }

    /// Writes the checkpoint, whole or not at all. `fingerprint` names the run; see [`Checkpoint::read`].
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path, fingerprint: &str) -> Result<()> {
        let states = self.x.len() / self.n;
        let tensors = [
            Tensor::new("x", &[states, self.n], Slice::F32(&self.x)),
            Tensor::new("velocity", &[self.velocity.len()], Slice::F32(&self.velocity)),
            Tensor::new("frozen", &[self.frozen.len()], Slice::U32(&self.frozen)),
        ];
        let diverged = serde_json::to_string(&self.diverged).expect("plain numbers");
        let metadata = BTreeMap::from([
            ("fingerprint", fingerprint.to_owned()),
            ("next_state", self.next_state.to_string()),
            ("step", self.step.to_string()),
            ("diverged", diverged),
            ("seconds", self.seconds.to_string()),
        ]);
        crate::files::write_atomically(path, |out| {
            safetensors::write(out, &tensors, &metadata).map_err(|e| Error::io(path, "write", e))
        })
    }

    /// Reads a checkpoint of the run that `fingerprint` names.
    ///
    /// # Errors
    /// If the file is damaged or of a run with other settings.
    pub fn read(path: &Path, fingerprint: &str) -> Result<Self> {
        let bad = |reason: &str| Error::bad_file(path, format!("{reason}; start again without --resume"));
        let bytes = crate::files::map(path)?;
        let file = TensorFile::parse(&bytes).map_err(|_| bad("not a whole checkpoint"))?;
        let entry = |key: &str| file.text(key).ok_or_else(|| bad("not a checkpoint"));
        if entry("fingerprint")? != fingerprint {
            return Err(bad("the checkpoint is of a run with other settings"));
        }
        let damaged = || bad("a damaged checkpoint");
        let number = |key: &str| entry(key)?.parse::<usize>().map_err(|_| damaged());
        let floats = |name: &str| file.widened(name).map_err(|_| damaged());
        let Some(&[_, n]) = file.shape("x").as_deref() else {
            return Err(damaged());
        };
        Ok(Self {
            x: floats("x")?,
            n,
            next_state: number("next_state")?,
            step: number("step")?,
            velocity: floats("velocity")?,
            frozen: file.words("frozen").map_err(|_| damaged())?,
            diverged: serde_json::from_str(entry("diverged")?).map_err(|_| damaged())?,
            seconds: entry("seconds")?.parse().map_err(|_| damaged())?,
        })
    }
}
