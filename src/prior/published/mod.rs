//! Checkpoints as their authors published them, as priors: what family a set of tensors belongs to, the list of units that it is,
//! and each weight under the name and in the order of `units/`.
//!
//! A weight that is missing, left over or of another shape is refused by its name; nothing goes on without it.

mod adm;
mod builder;
mod ddim;
mod diffusers;
mod drunet;
mod edm;
mod open;
mod source;
#[cfg(test)]
mod tests;
mod write;

use std::collections::{HashMap, HashSet};

use super::units::UnitNetwork;
use super::{Prior, parameters};
use crate::files::quoted;
use crate::plan::Param;
use builder::{Arrangement, Part};
pub use diffusers::is_folder;
pub use open::files;
pub(super) use open::{is_checkpoint, of_bytes, of_folder};
pub use source::Tensors;
pub use write::Written;

/// What a front end makes of a set of tensors.
pub struct Translation {
    pub network: UnitNetwork,
    /// By the name of a weight, what it is made of
    parts: HashMap<String, Vec<Part>>,
    /// Tensors that are there and mean nothing here
    ignored: Vec<String>,
    /// What the file does not say and was inferred, for people
    pub notes: Vec<String>,
    /// Height and width of the images of the training, where they are known
    trained: Option<(usize, usize)>,
    /// Where in a checkpoint the tensors were
    entry: Option<String>,
}

/// What the caller knows of the images, where the file does not say.
pub type Side = Option<(usize, usize)>;

/// The family of a set of tensors without a configuration, recognised by its first layer. The error is the reason in words.
fn translate(tensors: &dyn Tensors, side: Side) -> Result<Translation, String> {
    let has = |name: &str| tensors.shape(name).is_some();
    if has("all_modules.0.weight") || has("all_modules.0.W") {
        Err("score_sde's NCSN++ with its filters is not supported".into())
    } else if LATENT.into_iter().any(has) {
        Err("a latent model: its images are those of an encoder, not pixels".into())
    } else if has("input_blocks.0.0.weight") {
        adm::translate(tensors, side)
    } else if has("m_head.weight") {
        drunet::translate(tensors, side)
    } else if has("map_layer0.weight") {
        edm::translate(tensors)
    } else if has("temb.dense.0.weight") {
        ddim::translate(tensors, side)
    } else if has("time_embedding.linear_1.weight") {
        Err("a UNet2DModel without its config.json: name the folder that holds both".into())
    } else {
        Err("of no family that is known: NCSNv2, diffusers' UNet2DModel, DDIM, ADM, EDM or DRUNet".into())
    }
}

/// Those of latent models; names in a checkpoint have lost their `model.`.
const LATENT: [&str; 3] = [
    "first_stage_model.decoder.conv_in.weight",
    "model.diffusion_model.input_blocks.0.0.weight",
    "diffusion_model.input_blocks.0.0.weight",
];

/// The tensors that families are recognised by.
pub(in crate::prior) const FIRSTS: [&str; 10] = [
    LATENT[0],
    LATENT[1],
    LATENT[2],
    "all_modules.0.W",
    "input_blocks.0.0.weight",
    "m_head.weight",
    "map_layer0.weight",
    "temb.dense.0.weight",
    "time_embedding.linear_1.weight",
    "all_modules.0.weight",
];

impl Translation {
    /// Every weight, after all names and shapes of the tensors were compared with it. The error is the reason in words, and names the
    /// first tensor that disagrees.
    fn check(&self, tensors: &dyn Tensors) -> Result<Vec<Param>, String> {
        self.network.check().map_err(|e| e.to_string())?;
        let family = &self.network.family;
        let mut unused: HashSet<String> = tensors.names().into_iter().collect();
        for name in &self.ignored {
            unused.remove(name);
        }
        let params = parameters(&self.network);
        for Param { name, shape } in &params {
            let parts = self.parts_of(name);
            let mut found = 0;
            for part in parts {
                unused.remove(&part.name);
                found += part.fit(tensors, shape)?;
            }
            if found != shape.iter().product::<usize>() {
                let name = quoted(&parts[0].name);
                return Err(format!(
                    "tensor {name} gives {found} values, but this network ({family}) needs {shape:?}"
                ));
            }
        }
        match unused.iter().min() {
            Some(name) => {
                let name = quoted(name);
                Err(format!(
                    "unknown tensor {name}: not a weight of this network ({family})"
                ))
            }
            None => Ok(params),
        }
    }

    fn parts_of(&self, weight: &str) -> &[Part] {
        let parts = self.parts.get(weight);
        parts.unwrap_or_else(|| panic!("{weight} has no source: a front end is wrong"))
    }

    /// The values of a weight that was checked. The error is the reason in words.
    fn weight(&self, param: &Param, tensors: &dyn Tensors) -> Result<Vec<f32>, String> {
        let mut values = Vec::with_capacity(param.shape.iter().product());
        for part in self.parts_of(&param.name) {
            values.extend(part.values(tensors)?);
        }
        Ok(values)
    }

    /// What is known beside the weights, as the metadata of a file.
    fn metadata(&self) -> HashMap<String, String> {
        let notes = self.notes.iter().enumerate();
        let mut metadata: HashMap<String, String> = notes
            .map(|(at, note)| (format!("inferred.{}", at + 1), note.clone()))
            .collect();
        let trained = self.trained.map(|(height, width)| format!("{height},{width}"));
        metadata.extend(trained.map(|size| (TRAINED.to_owned(), size)));
        metadata.extend(self.entry.clone().map(|entry| ("entry".to_owned(), entry)));
        metadata
    }

    /// The prior, each weight read, checked and arranged. The error is the reason in words.
    fn prior(self, tensors: &dyn Tensors) -> Result<Prior, String> {
        let mut weights = HashMap::new();
        for param in self.check(tensors)? {
            let values = self.weight(&param, tensors)?;
            weights.insert(param.name, values);
        }
        let metadata = self.metadata();
        let schedule = self.network.schedule();
        let mut prior = Prior::new(self.network, schedule, weights);
        prior.metadata = metadata;
        Ok(prior)
    }
}

/// The metadata that tell the size of the images of the training, "height,width".
pub const TRAINED: &str = "trained_at";

impl Part {
    /// How many values of a weight of this shape the tensor gives. The error is the reason in words.
    fn fit(&self, tensors: &dyn Tensors, shape: &[usize]) -> Result<usize, String> {
        let name = quoted(&self.name);
        let found = tensors
            .shape(&self.name)
            .ok_or_else(|| format!("tensor {name} is missing"))?;
        let (found, wanted) = (squeezed(&found), squeezed(shape));
        let inside = |found: &[usize]| found.get(1..).unwrap_or_default() == wanted.get(1..).unwrap_or_default();
        let fits = !found.is_empty()
            && match &self.arrangement {
                Arrangement::Rows(None) => inside(&found) && found[0] <= wanted[0],
                Arrangement::Rows(Some(rows)) => inside(&found) && rows.iter().all(|&row| row < found[0]),
                Arrangement::Unfolded => {
                    matches!(found[..], [o, i, 2, 2] if wanted[..] == [o, 4 * i])
                }
                Arrangement::Folded => {
                    matches!(found[..], [i, o, 2, 2] if wanted[..] == [4 * o, i])
                }
            };
        if !fits {
            return Err(format!(
                "tensor {name} has shape {found:?}, which does not fit {wanted:?}"
            ));
        }
        let rows = match &self.arrangement {
            Arrangement::Rows(Some(rows)) => rows.len(),
            _ => found[0],
        };
        Ok(rows * found[1..].iter().product::<usize>())
    }

    /// Of a tensor that fits. The error is the reason in words.
    fn values(&self, tensors: &dyn Tensors) -> Result<Vec<f32>, String> {
        let found = squeezed(&tensors.shape(&self.name).unwrap_or_default());
        let mut values = tensors.values(&self.name)?;
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            let name = quoted(&self.name);
            return Err(format!("tensor {name} is not finite at element {at}"));
        }
        match &self.arrangement {
            Arrangement::Rows(None) => {}
            Arrangement::Rows(Some(rows)) => {
                let len = values.len() / found[0].max(1);
                values = rows
                    .iter()
                    .flat_map(|row| &values[row * len..(row + 1) * len])
                    .copied()
                    .collect();
            }
            Arrangement::Unfolded => {
                let (outputs, inputs) = (found[0], found[1]);
                let at = |o: usize, place: usize, i: usize| values[(o * inputs + i) * 4 + place];
                values = (0..outputs * 4 * inputs)
                    .map(|n| at(n / (4 * inputs), n / inputs % 4, n % inputs))
                    .collect();
            }
            Arrangement::Folded => {
                let (inputs, outputs) = (found[0], found[1]);
                let at = |place: usize, o: usize, i: usize| values[(i * outputs + o) * 4 + place];
                values = (0..4 * outputs * inputs)
                    .map(|n| at(n / (outputs * inputs), n / inputs % outputs, n % inputs))
                    .collect();
            }
        }
        values.iter_mut().for_each(|value| *value *= self.factor);
        Ok(values)
    }
}

/// A shape without the ones at its end: a matrix and a 1×1 convolution are the same.
fn squeezed(shape: &[usize]) -> Vec<usize> {
    let ones = shape.iter().rev().take_while(|&&size| size == 1).count();
    shape[..shape.len() - ones.min(shape.len().saturating_sub(1))].to_vec()
}
