//! The state of an unfinished run: enough to continue to the same bits, because noise is keyed by state and step.

use std::collections::HashMap;
use std::path::Path;

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use super::{Divergence, SamplerPlan, Samples, Settings};
use crate::engine::Session;
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
        let bytes = |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
        let (x, velocity) = (bytes(&self.x), bytes(&self.velocity));
        let frozen: Vec<u8> = self.frozen.iter().flat_map(|v| v.to_le_bytes()).collect();
        let states = self.x.len() / self.n;
        let view = |dtype, shape, data| TensorView::new(dtype, shape, data).expect("the shape is the data's");
        let tensors = [
            ("x", view(Dtype::F32, vec![states, self.n], &x[..])),
            ("velocity", view(Dtype::F32, vec![self.velocity.len()], &velocity[..])),
            ("frozen", view(Dtype::U32, vec![self.frozen.len()], &frozen[..])),
        ];
        let diverged = serde_json::to_string(&self.diverged).expect("plain numbers");
        let metadata = HashMap::from([
            ("fingerprint".to_owned(), fingerprint.to_owned()),
            ("next_state".to_owned(), self.next_state.to_string()),
            ("step".to_owned(), self.step.to_string()),
            ("diverged".to_owned(), diverged),
            ("seconds".to_owned(), self.seconds.to_string()),
        ]);
        let bytes = safetensors::serialize(tensors, Some(metadata)).expect("the names differ");
        crate::files::write_atomically(path, |w| w.write_all(&bytes).map_err(|e| Error::io(path, "write", e)))
    }

    /// Reads a checkpoint of the run that `fingerprint` names.
    ///
    /// # Errors
    /// If the file is damaged or of a run with other settings.
    pub fn read(path: &Path, fingerprint: &str) -> Result<Self> {
        let bad = |reason: &str| Error::bad_file(path, format!("{reason}; start again without --resume"));
        let bytes = crate::files::map(path)?;
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|_| bad("not a whole checkpoint"))?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|_| bad("not a whole checkpoint"))?;
        let metadata = header.metadata().clone().unwrap_or_default();
        let entry = |key: &str| metadata.get(key).ok_or_else(|| bad("not a checkpoint"));
        if entry("fingerprint")? != fingerprint {
            return Err(bad("the checkpoint is of a run with other settings"));
        }
        let number = |key: &str| entry(key)?.parse::<usize>().map_err(|_| bad("a damaged checkpoint"));
        let seconds = entry("seconds")?.parse().map_err(|_| bad("a damaged checkpoint"))?;
        let diverged = serde_json::from_str(entry("diverged")?).map_err(|_| bad("a damaged checkpoint"))?;
        let tensor = |name: &str| tensors.tensor(name).map_err(|_| bad("a damaged checkpoint"));
        let (x, velocity, frozen) = (tensor("x")?, tensor("velocity")?, tensor("frozen")?);
        let types = (x.dtype(), velocity.dtype(), frozen.dtype());
        let (&[_, n], (Dtype::F32, Dtype::F32, Dtype::U32)) = (x.shape(), types) else {
            return Err(bad("a damaged checkpoint"));
        };
        let words = |data: &[u8]| {
            data.chunks_exact(4)
                .map(|b| [b[0], b[1], b[2], b[3]])
                .collect::<Vec<_>>()
        };
        let floats = |data: &[u8]| words(data).into_iter().map(f32::from_le_bytes).collect();
        Ok(Self {
            x: floats(x.data()),
            n,
            next_state: number("next_state")?,
            step: number("step")?,
            velocity: floats(velocity.data()),
            frozen: words(frozen.data()).into_iter().map(u32::from_le_bytes).collect(),
            diverged,
            seconds,
        })
    }
}
