//! The prior: an NCSNv2 score network and the noise levels it was trained for.

pub mod convert;
mod file;
mod ncsnv2;
mod schedule;
mod score;
mod shipped;

use std::collections::HashMap;

use qcs_kernels::philox::{Domain, Stream};

use crate::ImageShape;
use crate::plan::{Contents, Op, Param, Plan, PlanBuilder, Program, Target, TensorId};
pub use ncsnv2::Ncsnv2;
pub use schedule::Schedule;
pub(crate) use score::{check_finite, check_level};

/// A loaded score network.
pub struct Prior {
    pub network: Ncsnv2,
    /// From the file, if it names one.
    pub schedule: Option<Schedule>,
    /// How to sample with it, where the file says so.
    pub recommended: Recommended,
    /// The file's metadata, as written by whoever trained it.
    pub metadata: HashMap<String, String>,
    /// Weights by checkpoint key, in f32.
    weights: HashMap<String, Vec<f32>>,
}

/// Settings of the sampler that whoever trained a prior found to be best for it, from the metadata of the same names.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recommended {
    pub steps_per_level: Option<usize>,
    pub step_scale: Option<f64>,
    pub momentum: Option<f64>,
    pub xi: Option<f64>,
}

impl Prior {
    /// A network with the given weights.
    ///
    /// Panics unless `weights` holds exactly the tensors of [`parameters`].
    pub fn new(network: Ncsnv2, schedule: Option<Schedule>, weights: HashMap<String, Vec<f32>>) -> Self {
        let expected = parameters(&network);
        assert_eq!(expected.len(), weights.len(), "a weight is missing or unknown");
        for param in expected {
            let elements = param.shape.iter().product::<usize>();
            assert_eq!(weights[&param.name].len(), elements, "{}", param.name);
        }
        Self {
            network,
            schedule,
            recommended: Recommended::default(),
            metadata: HashMap::new(),
            weights,
        }
    }

    /// A network with random weights, for benchmarks and tests: convolutions keep the variance of their input, norms
    /// are the identity up to a random offset.
    pub fn random(network: Ncsnv2, seed: u64) -> Self {
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
                1 => (0.1, 0.0),
                _ => (1.0 / (fan_in as f32).sqrt(), 0.0),
            };
            values.iter_mut().for_each(|v| *v = mean + scale * *v);
            (param.name, values)
        };
        let weights = parameters(&network).into_iter().enumerate().map(value).collect();
        Self::new(network, None, weights)
    }

    /// The values of one weight.
    ///
    /// Panics for a name that is not the network's.
    pub fn weight(&self, name: &str) -> &[f32] {
        &self.weights[name]
    }

    pub fn parameter_count(&self) -> usize {
        self.weights.values().map(Vec::len).sum()
    }
}

/// Every weight of a network, with its name in the checkpoint and its shape.
pub fn parameters(network: &Ncsnv2) -> Vec<Param> {
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
    let x = plan.persistent(Contents::F32(network.image.len()));
    let score = plan.persistent(Contents::F32(network.image.len()));
    network.push(&mut plan, x, score);
    plan.params().to_vec()
}

/// A plan that only evaluates the prior score, and where its input and output lie.
pub struct ScorePlan {
    pub plan: Plan,
    pub x: TensorId,
    pub score: TensorId,
}

impl ScorePlan {
    pub fn new(network: &Ncsnv2, batch: usize, target: &dyn Target) -> Self {
        let mut plan = PlanBuilder::new(batch, target);
        let x = plan.persistent(Contents::F32(network.image.len()));
        let score = plan.persistent(Contents::F32(network.image.len()));
        plan.begin(Program::Score);
        network.push(&mut plan, x, score);
        Self {
            plan: plan.finish(target),
            x,
            score,
        }
    }
}

/// The image shape a square prior of this size and depth works on.
pub(crate) fn square(channels: usize, size: usize) -> ImageShape {
    ImageShape::new(channels, size, size)
}
