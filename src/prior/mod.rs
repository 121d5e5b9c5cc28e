//! The prior: a score network behind one door, its weights, and what its file says of it.

mod callable;
pub mod convert;
mod denoiser;
mod file;
mod frame;
mod generator;
mod layers;
mod ncsnv2;
pub mod published;
mod registry;
mod schedule;
mod shipped;
mod unet;
pub mod units;

use std::any::Any;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use qcs_kernels::philox::{Domain, Stream};

use crate::plan::{Contents, Op, Param, PlanBuilder, Target, TensorId};
use crate::{ImageShape, Result};
pub use callable::Denoise;
pub use denoiser::Denoiser;
pub use frame::Frame;
pub use generator::{Activations, Generator, LANES, Lane};
pub use ncsnv2::{Depth, Ncsnv2};
pub use schedule::Schedule;
pub use unet::{Norms, UNet};

/// A score network: a description that pushes ops.
pub trait Network: Send + Sync {
    /// What it is, for people: "NCSNv2, ngf 24".
    fn describe(&self) -> String;

    /// The images that it works on.
    fn image(&self) -> ImageShape;

    /// Appends the forward pass: the score of `x`, `[C·H·W]` per state, at the noise level of each state goes to `score`.
    fn push(&self, plan: &mut PlanBuilder, x: TensorId, level: TensorId, score: TensorId);

    /// Numbers that its ops read and that follow from the description: no weights, and in no file.
    fn tables(&self) -> HashMap<String, Vec<f32>> {
        HashMap::new()
    }

    /// What else is worth telling of it, and what each thing is called: how it was trained, what it says.
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The description as the metadata of a file hold it, where tensors do not tell it.
    fn config(&self) -> Option<String> {
        None
    }
}

/// A loaded score network.
pub struct Prior {
    network: Box<dyn Network>,
    /// The file, or what stands for it in messages.
    pub source: PathBuf,
    /// From the file, if it names one.
    pub schedule: Option<Schedule>,
    /// The file's metadata, as written by whoever trained it: what it advises a method, too.
    pub metadata: HashMap<String, String>,
    /// What it knows of itself as a denoiser, where that was measured.
    denoiser: Option<Denoiser>,
    /// Weights by checkpoint key, in f32.
    weights: HashMap<String, Vec<f32>>,
    /// The network's tables and the vectors of the denoiser, by the names that plans have for them.
    vectors: HashMap<String, Vec<f32>>,
    packed: Packed,
    /// What is called in the place of a network, if it is a function.
    function: Option<Box<Denoise>>,
}

/// Weights as engines have packed them, by names of their own: sessions come and go, a prior stays.
#[derive(Default)]
struct Packed(Mutex<HashMap<String, Arc<dyn Any + Send + Sync>>>);

impl Prior {
    /// A network with the given weights.
    ///
    /// Panics unless `weights` holds exactly the tensors of [`parameters`].
    pub fn new(
        network: impl Network + 'static,
        schedule: Option<Schedule>,
        weights: HashMap<String, Vec<f32>>,
    ) -> Self {
        Self::of(Box::new(network), schedule, weights)
    }

    fn of(network: Box<dyn Network>, schedule: Option<Schedule>, weights: HashMap<String, Vec<f32>>) -> Self {
        let expected = parameters(network.as_ref());
        assert_eq!(expected.len(), weights.len(), "a weight is missing or unknown");
        for param in expected {
            let elements = param.shape.iter().product::<usize>();
            assert_eq!(weights[&param.name].len(), elements, "{}", param.name);
        }
        Self {
            vectors: network.tables(),
            network,
            source: PathBuf::from("the model"),
            schedule,
            metadata: HashMap::new(),
            denoiser: None,
            weights,
            packed: Packed::default(),
            function: None,
        }
    }

    /// A network with random weights, for benchmarks and tests: convolutions keep the variance of their input, norms
    /// are the identity up to a random offset.
    pub fn random(network: impl Network + 'static, seed: u64) -> Self {
        let value = |(step, param): (usize, Param)| {
            let mut values = vec![0.0; param.shape.iter().product()];
            let stream = Stream {
                seed,
                domain: Domain::Weights,
                image: 0,
                chain: 0,
                step: step as u32,
            };
            stream.fill_normals(0, &mut values);
            let fan_in: usize = param.shape[1..].iter().product();
            let (scale, mean) = match param.shape.len() {
                1 if param.name.ends_with("gamma") => (0.1, 1.0),
                1 if param.name.contains("norm") && param.name.ends_with(".weight") => (0.1, 1.0),
                1 => (0.1, 0.0),
                _ => (1.0 / (fan_in as f32).sqrt(), 0.0),
            };
            values.iter_mut().for_each(|v| *v = mean + scale * *v);
            (param.name, values)
        };
        let weights = parameters(&network).into_iter().enumerate().map(value).collect();
        Self::new(network, None, weights)
    }

    /// An NCSNv2 of `width` feature maps (ngf) with random weights.
    pub fn random_of_width(width: usize, image: ImageShape, seed: u64) -> Self {
        Self::random(Ncsnv2::new(width, image), seed)
    }

    pub fn network(&self) -> &dyn Network {
        self.network.as_ref()
    }

    /// The images that it works on.
    pub fn image(&self) -> ImageShape {
        self.network.image()
    }

    /// The values of one weight.
    ///
    /// Panics for a name that is not the network's.
    pub fn weight(&self, name: &str) -> &[f32] {
        self.weights.get(name).unwrap_or_else(|| &self.vectors[name])
    }

    /// What an engine makes of the weights under a name of its own, made once.
    pub(crate) fn packed<T: Any + Send + Sync>(&self, name: String, make: impl FnOnce() -> T) -> Arc<T> {
        let mut all = self.packed.0.lock().expect("nobody panics while packing");
        let packed = all.entry(name).or_insert_with(|| Arc::new(make()));
        Arc::clone(packed).downcast().expect("a name stands for one type")
    }

    pub fn denoiser(&self) -> Option<&Denoiser> {
        self.denoiser.as_ref()
    }

    /// The same prior, knowing this of itself.
    ///
    /// # Errors
    /// As [`Denoiser::check`].
    pub fn with_denoiser(mut self, denoiser: Denoiser) -> Result<Self> {
        denoiser.check(self.image())?;
        self.vectors.extend(denoiser.params());
        self.denoiser = Some(denoiser);
        Ok(self)
    }

    pub fn parameter_count(&self) -> usize {
        self.weights.values().map(Vec::len).sum()
    }
}

/// Every weight of a network, with its name in the checkpoint and its shape.
pub fn parameters(network: &dyn Network) -> Vec<Param> {
    struct Nowhere;
    impl Target for Nowhere {
        fn channel_block(&self) -> usize {
            1
        }
        fn scratch_bytes(&self, _: &Op, _: &PlanBuilder) -> usize {
            0
        }
    }
    let mut plan = PlanBuilder::new(1, &Nowhere);
    let [x, score] = [(); 2].map(|()| plan.persistent(Contents::F32(network.image().len())));
    let level = plan.persistent(Contents::F64(1));
    network.push(&mut plan, x, level, score);
    let tables = network.tables();
    let params = plan.params().iter();
    params
        .filter(|param| !tables.contains_key(&param.name))
        .cloned()
        .collect()
}

/// The image shape a square prior of this size and depth works on.
pub(crate) fn square(channels: usize, size: usize) -> ImageShape {
    ImageShape::new(channels, size, size)
}
