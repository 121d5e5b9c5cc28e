//! The methods: how images come out of measurements and a prior. A folder each, and [`METHODS`] is the list.
//!
//! A [`Kind`] names a method, a [`Method`] is a kind with its settings, of which any may be left open, and an [`Algorithm`]
//! is a method with none left open: it says what the driver must know, the passes over the states, each a plan and its
//! steps, and what is told of a state afterwards.

mod handle;
pub mod langevin;
mod linear;
mod method;
pub(crate) mod options;
mod preset;
pub mod projection;
mod score;
pub mod turbo;

use std::collections::BTreeMap;
use std::ops::Range;

pub use handle::{Handle, Held, Number};
pub use langevin::{QcsSgm, QcsSgmPlus};
pub use linear::Linear;
pub use method::{
    BIPG, DEFAULT, Kind, LINEAR, METHODS, Method, ONE_SHOT, QCS_SGM, QCS_SGM_PLUS, TURBO, find, own, parse_list,
};
pub use options::{Options, Setting, shown};
pub use preset::{PRESETS, Preset};
pub use projection::Projection;
pub use score::{ScorePlan, likelihood_score, prior_score};
pub use turbo::Turbo;

use crate::engine::Wait;
use crate::plan::{Plan, PlanBuilder, Sites, Step, Target, TensorId};
use crate::prior::Prior;
use crate::problem::Problem;
use crate::{Images, Result};
use method::MethodOptions;

/// The sample of a state, whatever drew it.
pub(crate) const X: Handle<f32> = Handle::new("x");

/// EP's iterations, of all rounds together
pub(crate) const EP_ITERATIONS: Handle<u32> = Handle::new("ep_iterations");

/// EP's sites, where a method carries them on.
fn site_handles(plan: &PlanBuilder, sites: Sites) -> [Held; 4] {
    [
        Handle::<f64>::new("z").at(plan, sites.z),
        Handle::<f64>::new("h_g").at(plan, sites.h_g),
        Handle::<f64>::new("tau_g").at(plan, sites.tau_g),
        EP_ITERATIONS.at(plan, sites.count),
    ]
}

/// What a method works on: a prior and, unless it draws from the prior alone, a problem.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub prior: &'a Prior,
    pub problem: Option<&'a Problem>,
    /// Samples drawn for each image
    pub chains: usize,
}

/// A method with every setting: what the driver executes.
pub trait Algorithm {
    /// Refuses a prior or a problem that the method cannot work with.
    ///
    /// # Errors
    /// Says what is missing.
    fn check(&self, given: Inputs<'_>) -> Result<()>;

    /// The passes over the states, in order. What a pass leaves of an image, the next one may start from.
    fn passes<'a>(&'a self, given: Inputs<'a>) -> Vec<Box<dyn Pass + 'a>>;

    /// Its own computation on the host, where it is no plan of ops. Then it has no passes.
    fn on_host<'a>(&'a self, _: Inputs<'a>) -> Option<Box<dyn HostMethod + 'a>> {
        None
    }

    /// Whether it reads the spectrum of A, which is [factorised](crate::engine::Engine::factorise) for it.
    fn needs_spectrum(&self, given: Inputs<'_>, target: &dyn Target) -> bool {
        let direct = self.on_host(given).is_some_and(|direct| direct.needs_spectrum());
        let mut passes = self.passes(given).into_iter();
        direct || passes.any(|pass| pass.compile(1, target).plan.needs_spectrum())
    }

    /// The result, from what the passes left.
    fn outcome(&self, given: Inputs<'_>, left: &Outputs) -> Samples;
}

/// A method that computes on the host.
pub trait HostMethod {
    /// Steps of each state.
    fn steps(&self) -> usize;

    /// What a step is.
    fn stage(&self) -> &'static str;

    /// Whether it reads the spectrum of A.
    fn needs_spectrum(&self) -> bool {
        false
    }

    /// Reconstructs these states, `[states, N]`; no state's result depends on the others. `step` is called with the number of
    /// each step that is done, and says whether to go on: if not, there is no result.
    fn states(&self, states: Range<usize>, seed: u64, step: &mut dyn FnMut(usize) -> bool) -> Option<Vec<f32>>;
}

/// One pass over the states.
pub trait Pass {
    /// Whether each chain of an image is a state, or the image alone is one.
    fn per_chain(&self) -> bool;

    /// Every step of a state, in order.
    fn steps(&self) -> Vec<Step>;

    /// What a [stage](Step::stage) of the steps is: "level".
    fn stage(&self) -> &'static str;

    /// The plan of a batch.
    fn compile(&self, batch: usize, target: &dyn Target) -> BatchPlan;
}

/// A plan and the tensors that the driver reads and writes between executions.
pub struct BatchPlan {
    pub plan: Plan,
    /// One u32 per state, other than 0 once no further step changes it
    pub done: TensorId,
    /// Which moment `done` tells of when it is read, at the end of each stage
    pub wait: Wait,
    /// One u32 per state, where each goes on by itself: the steps that it has behind it, 0 for one that begins. Then a state
    /// that is done makes room for another one at once. Without, a batch begins and ends together.
    pub counter: Option<TensorId>,
    /// What an earlier pass left of a state's image: written before the state begins
    pub from: Vec<Held>,
    /// Everything that a state in work is: what a checkpoint holds, enough to go on from
    pub state: Vec<Held>,
    /// What is kept of a finished state
    pub left: Vec<Held>,
}

/// What the passes left of all states.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs {
    /// `[states, …]` for each name, as a checkpoint has it
    pub(crate) values: BTreeMap<String, Vec<u8>>,
    /// Time it took, over all sessions of the run
    pub seconds: f64,
}

impl Outputs {
    /// The samples of a method that computed its states on the host: nothing diverges there, and no mean is estimated.
    fn computed(&self, given: Inputs<'_>) -> Samples {
        Samples {
            states: Images::new(given.prior.image(), self.values(X)),
            chains: given.chains,
            diverged: Vec::new(),
            seconds: self.seconds,
            estimate: None,
        }
    }

    /// A value of all states, one after the other.
    ///
    /// # Panics
    /// If no pass left it.
    pub fn values<T: Number>(&self, handle: Handle<T>) -> Vec<T> {
        bytemuck::pod_collect_to_vec(&self.values[handle.name])
    }
}

/// A state that ends with a value farther from 0 has diverged, though every value is finite. Images lie in [0, 1], samples of them
/// overshoot by some tenths, and the highest noise level that an NCSNv2 was published with is 378: beyond this there is neither
/// image nor noise, and what diverges passes it by decades.
pub const FARTHEST: f32 = 1000.0;

/// The value of an image that is farthest from 0.
pub fn reach(image: &[f32]) -> f32 {
    let far = |value: &f32| if value.is_finite() { value.abs() } else { f32::INFINITY };
    image.iter().map(far).fold(0.0, f32::max)
}

/// A state that would have become non-finite and kept its last value from then on, or that ended beyond [`FARTHEST`].
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Divergence {
    pub image: usize,
    pub chain: usize,
    /// The stage in which it happened, from 1
    pub level: usize,
    /// Within the stage, from 1
    pub step: usize,
    /// Where it ended, if that is beyond [`FARTHEST`] and nothing was noticed earlier: then level and step are the last ones
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<f32>,
}

/// What a method draws: the samples of all images and chains.
#[derive(Clone, Debug)]
pub struct Samples {
    /// `[images · chains, C, H, W]`; the chains of an image follow each other
    pub states: Images,
    pub chains: usize,
    pub diverged: Vec<Divergence>,
    /// Time it took, over all sessions of the run
    pub seconds: f64,
    /// Where the method estimates the posterior mean itself
    pub estimate: Option<Estimate>,
}

/// An estimate of the posterior mean, image by image.
#[derive(Clone, Debug)]
pub struct Estimate {
    pub mean: Images,
    /// Predicted root mean squared error per pixel
    pub predicted_error: Vec<f64>,
    /// Evaluations of the network that it took
    pub evaluations: Vec<usize>,
    /// EP's iterations
    pub ep_iterations: Vec<usize>,
}

impl Samples {
    /// Counts the states that ended beyond [`FARTHEST`] among the diverged, at the run's last level and step. An image whose
    /// estimate lies there has no chain left.
    pub(crate) fn mark_far(&mut self, level: usize, step: usize) {
        for state in 0..self.states.count() {
            let (image, chain) = (state / self.chains, state % self.chains);
            let own = self.estimate.as_ref().map_or(0.0, |own| reach(own.mean.image(image)));
            let reach = reach(self.states.image(state)).max(own);
            let known = self.diverged.iter().any(|d| (d.image, d.chain) == (image, chain));
            if reach > FARTHEST && !known {
                self.diverged.push(Divergence {
                    image,
                    chain,
                    level,
                    step,
                    reach: Some(reach),
                });
            }
        }
        self.diverged.sort_by_key(|d| (d.image, d.chain));
    }

    /// Whether every chain of an image diverged: then there is no estimate of it.
    pub fn is_lost(&self, image: usize) -> bool {
        self.diverged.iter().filter(|d| d.image == image).count() == self.chains
    }

    /// The posterior mean of each image: the method's own estimate, or its chains that did not diverge, averaged (all of
    /// them if every one did).
    pub fn mean(&self) -> Images {
        match &self.estimate {
            Some(estimate) => estimate.mean.clone(),
            None => self.across_chains(|_, mean| mean),
        }
    }

    /// The posterior standard deviation of each image (n − 1 in the denominator); `None` with a single chain.
    pub fn std(&self) -> Option<Images> {
        (self.chains > 1).then(|| {
            self.across_chains(|values, mean| {
                let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
                (squares / (values.len().max(2) - 1) as f64).sqrt()
            })
        })
    }

    /// Calls `f` with the values of a pixel over an image's chains and their mean.
    fn across_chains(&self, f: impl Fn(&[f64], f64) -> f64) -> Images {
        let n = self.states.shape.len();
        let images = self.states.count() / self.chains;
        let mut data = vec![0.0; images * n];
        let mut values = Vec::with_capacity(self.chains);
        for (image, result) in data.chunks_exact_mut(n).enumerate() {
            let alive: Vec<usize> = (0..self.chains)
                .filter(|&chain| !self.diverged.iter().any(|d| d.image == image && d.chain == chain))
                .collect();
            let used = if alive.is_empty() {
                (0..self.chains).collect()
            } else {
                alive
            };
            for (pixel, result) in result.iter_mut().enumerate() {
                let of = |&chain: &usize| f64::from(self.states.image(image * self.chains + chain)[pixel]);
                values.clear();
                values.extend(used.iter().map(of));
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                *result = f(&values, mean) as f32;
            }
        }
        Images::new(self.states.shape, data)
    }
}
