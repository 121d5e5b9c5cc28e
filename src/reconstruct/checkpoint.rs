//! The state of an unfinished run: enough to continue to the same bits, because noise is keyed by state and step.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::fingerprint;
use crate::files::safetensors::{self, Slice, Tensor, TensorFile};
use crate::methods::{BatchPlan, Held, Outputs};
use crate::{Error, Result};

/// What is left of finished states, and the batch that is being worked on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    pub(super) at: At,
    /// Of the finished states, by name
    pub(crate) left: Outputs,
    /// First state of the pass that no slot has taken
    pub(super) next: usize,
    /// The batch in work; empty between batches
    pub(super) slots: Vec<Slot>,
    /// The tensors of the batch in work, by name
    pub(super) work: BTreeMap<String, Vec<u8>>,
}

/// How far a method has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// In this pass
    Pass(usize),
    /// Through all of them
    End,
}

impl Default for At {
    fn default() -> Self {
        Self::Pass(0)
    }
}

impl At {
    /// The number that says so in a file.
    const END: usize = usize::MAX;

    fn number(self) -> usize {
        match self {
            Self::Pass(index) => index,
            Self::End => Self::END,
        }
    }

    fn of(number: usize) -> Self {
        match number {
            Self::END => Self::End,
            index => Self::Pass(index),
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Pass(index) => Self::Pass(index + 1),
            Self::End => Self::End,
        }
    }
}

/// A place in the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Slot {
    /// The state that has it, if any
    pub state: Option<usize>,
    /// Steps that the state has behind it
    pub step: usize,
}

/// Everything of a checkpoint that is not a tensor.
#[derive(Serialize, Deserialize)]
struct Header {
    pass: usize,
    next: usize,
    slots: Vec<Slot>,
    seconds: f64,
}

/// What the names of tensors begin with.
const LEFT: &str = "left.";
const WORK: &str = "work.";

impl Checkpoint {
    /// The checkpoint of a method that is complete: starting from it gives the samples at once.
    pub(super) fn finished(left: Outputs) -> Self {
        Self {
            at: At::End,
            left,
            ..Self::default()
        }
    }

    pub(super) fn next_pass(&mut self) {
        *self = Self {
            at: self.at.next(),
            left: std::mem::take(&mut self.left),
            ..Self::default()
        };
    }

    /// Drops the free slots, and their part of every tensor.
    pub(super) fn compact(&mut self) {
        let busy: Vec<bool> = self.slots.iter().map(|slot| slot.state.is_some()).collect();
        for bytes in self.work.values_mut() {
            let row = bytes.len() / busy.len();
            let rows = bytes.chunks(row).zip(&busy).filter(|(_, busy)| **busy);
            *bytes = rows.flat_map(|(row, _)| row).copied().collect();
        }
        self.slots.retain(|slot| slot.state.is_some());
    }

    /// Refuses the checkpoint of a run with other states, steps or tensors.
    pub(super) fn check(&self, states: usize, steps: usize, compiled: &BatchPlan) -> Result<()> {
        let slot_fits = |slot: &Slot| slot.state.is_none_or(|state| state < self.next) && slot.step <= steps;
        let tensor_fits = |&Held { name, tensor }: &Held| {
            let bytes = self.work.get(name).map(Vec::len);
            bytes == Some(compiled.plan.tensor(tensor).bytes)
        };
        let fits = self.next <= states
            && self.slots.iter().all(slot_fits)
            && (self.slots.is_empty()
                || self.work.len() == compiled.state.len() && compiled.state.iter().all(tensor_fits));
        if fits {
            Ok(())
        } else {
            Err(Error::usage(
                "the checkpoint belongs to another run: its states, image size, steps, batch or settings differ",
            ))
        }
    }

    /// Writes the checkpoint, whole or not at all. `fingerprint` names the run; see [`Checkpoint::read`].
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path, fingerprint: &str) -> Result<()> {
        let left = self
            .left
            .values
            .iter()
            .map(|(name, bytes)| (format!("{LEFT}{name}"), bytes));
        let work = self.work.iter().map(|(name, bytes)| (format!("{WORK}{name}"), bytes));
        let tensors: BTreeMap<String, &Vec<u8>> = left.chain(work).collect();
        let header = serde_json::to_string(&Header {
            pass: self.at.number(),
            next: self.next,
            slots: self.slots.clone(),
            seconds: self.left.seconds,
        });
        let header = header.expect("plain numbers");
        let metadata = BTreeMap::from([
            ("fingerprint", fingerprint.to_owned()),
            ("checksum", checksum(&header, &tensors)),
            ("header", header),
        ]);
        let tensors = tensors
            .iter()
            .map(|(name, bytes)| Tensor::new(name, &[bytes.len()], Slice::bytes_of(bytes)));
        let tensors: Vec<Tensor<'_>> = tensors.collect();
        crate::files::write_atomically(path, |out| {
            safetensors::write(out, &tensors, &metadata).map_err(|e| Error::io(path, "write", e))
        })
    }

    /// Reads a checkpoint of the run that `fingerprint` names.
    ///
    /// # Errors
    /// If the file is damaged or of a run with other settings.
    pub fn read(path: &Path, fingerprint: &str) -> Result<Self> {
        let bad =
            |reason: &str| Error::bad_file(path, format!("{reason}; remove it, and its images are computed again"));
        let bytes = crate::files::map(path)?;
        let file = TensorFile::parse(&bytes).map_err(|_| bad("not a whole checkpoint"))?;
        let entry = |key: &str| file.text(key).ok_or_else(|| bad("not a checkpoint"));
        if entry("fingerprint")? != fingerprint {
            return Err(bad("the checkpoint is of a run with other settings"));
        }
        let tensor = |name: &str| Ok((name.to_owned(), file.bytes(name)?.to_vec()));
        let tensors: BTreeMap<String, Vec<u8>> = file.names().into_iter().map(tensor).collect::<Result<_>>()?;
        let text = entry("header")?;
        if *entry("checksum")?
            != checksum(
                text,
                &tensors.iter().map(|(name, bytes)| (name.clone(), bytes)).collect(),
            )
        {
            return Err(bad("a damaged checkpoint"));
        }
        let header: Header = serde_json::from_str(text).map_err(|_| bad("a damaged checkpoint"))?;
        let of = |prefix: &str| {
            let own = tensors
                .iter()
                .filter_map(|(name, bytes)| Some((name.strip_prefix(prefix)?, bytes)));
            own.map(|(name, bytes)| (name.to_owned(), bytes.clone())).collect()
        };
        Ok(Self {
            at: At::of(header.pass),
            left: Outputs {
                values: of(LEFT),
                seconds: header.seconds,
            },
            next: header.next,
            slots: header.slots,
            work: of(WORK),
        })
    }
}

/// The checksum of everything that a run goes on from.
fn checksum(header: &str, tensors: &BTreeMap<String, &Vec<u8>>) -> String {
    let mut hash = fingerprint::Hash::new();
    hash.bytes(header.as_bytes());
    for (name, bytes) in tensors {
        hash.bytes(name.as_bytes());
        hash.blob(bytes);
    }
    hash.hex()
}
