//! The paper's two baselines for 1-bit measurements: images are points G(z) of a generator's range, and P_G projects onto it.
//!
//! BIPG (Liu et al., NeurIPS 2020, "The generalized Lasso …" and "Sample complexity bounds for 1-bit compressive sensing"):
//! x ← P_G(x + step·Aᵀ(y − sign(A·x))). OneShot (Liu and Scarlett 2022): P_G of the back-projection Aᵀy, rescaled. They compute on
//! the host, whatever the device.

mod options;
mod project;

use std::ops::Range;

pub use options::{NormRule, Projection, ProjectionSettings};

use super::{
    Algorithm, BIPG, HostMethod, Inputs, Kind, MethodOptions, ONE_SHOT, Options, Outputs, Pass, Preset, Samples,
};
use crate::prior::{Generator, Prior};
use crate::problem::Problem;
use crate::{Error, Result};
use project::Projector;

/// What is projected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Bipg,
    OneShot,
}

impl Rule {
    fn of(kind: &Kind) -> Self {
        if kind.key() == BIPG.key() {
            Self::Bipg
        } else {
            Self::OneShot
        }
    }

    /// The name in the literature.
    fn title(self) -> &'static str {
        match self {
            Self::Bipg => BIPG.title(),
            Self::OneShot => ONE_SHOT.title(),
        }
    }
}

impl MethodOptions for Projection {
    fn advised_for(key: &str, prior: &Prior, _: Option<&Preset>, signs: bool) -> Result<Self> {
        Ok(Self::advised(prior, key, signs)?.over(Self::base()))
    }

    fn resolved(self, kind: &Kind) -> Result<Self> {
        let rule = Rule::of(kind);
        self.settings(rule)?;
        Ok(self.of_rule(rule))
    }

    fn algorithm(&self, kind: &Kind) -> Result<Box<dyn Algorithm>> {
        let settings = self.settings(Rule::of(kind))?;
        let generator = Generator::find(&settings.generator)?;
        Ok(Box::new(Baseline { settings, generator }))
    }
}

/// A rule with its settings and its generator.
struct Baseline {
    settings: ProjectionSettings,
    generator: Generator,
}

impl Algorithm for Baseline {
    fn check(&self, given: Inputs<'_>) -> Result<()> {
        let name = self.settings.rule.title();
        let problem = given
            .problem
            .ok_or_else(|| Error::usage(format!("{name} reconstructs measured images: there is no problem")))?;
        let (images, own) = (given.prior.image(), self.generator.image());
        if images != own {
            let reason = format!("{name}'s generator draws images of shape {own}, not {images}");
            return Err(Error::bad_file(&self.generator.source, reason));
        }
        let one_sided = |(&lower, &upper): (&f64, &f64)| {
            lower == f64::NEG_INFINITY && upper == 0.0 || lower == 0.0 && upper == f64::INFINITY
        };
        let cells = problem.cells();
        if !cells.lower().iter().zip(cells.upper()).all(one_sided) {
            return Err(Error::usage(format!(
                "{name} takes 1-bit measurements, the signs of A·x + n; this problem has other cells"
            )));
        }
        if self.settings.norm == NormRule::True && self.settings.rule == Rule::OneShot && problem.truth().is_none() {
            return Err(Error::setting(
                "norm",
                "is true, but the problem does not know its images",
            ));
        }
        Ok(())
    }

    fn passes<'a>(&'a self, _: Inputs<'a>) -> Vec<Box<dyn Pass + 'a>> {
        Vec::new()
    }

    fn on_host<'a>(&'a self, given: Inputs<'a>) -> Option<Box<dyn HostMethod + 'a>> {
        let problem = given.problem.expect("checked before anything is computed");
        Some(Box::new(Reconstruction {
            baseline: self,
            problem,
            chains: given.chains,
        }))
    }

    fn outcome(&self, given: Inputs<'_>, left: &Outputs) -> Samples {
        left.computed(given)
    }
}

struct Reconstruction<'a> {
    baseline: &'a Baseline,
    problem: &'a Problem,
    chains: usize,
}

impl HostMethod for Reconstruction<'_> {
    fn steps(&self) -> usize {
        match self.baseline.settings.rule {
            Rule::Bipg => self.baseline.settings.iterations,
            Rule::OneShot => 1,
        }
    }

    fn stage(&self) -> &'static str {
        "projection"
    }

    fn states(&self, states: Range<usize>, seed: u64, step: &mut dyn FnMut(usize) -> bool) -> Option<Vec<f32>> {
        let Baseline { settings, generator } = self.baseline;
        let a = self.problem.a();
        let keys: Vec<(u32, u32)> = states
            .clone()
            .map(|state| ((state / self.chains) as u32, (state % self.chains) as u32))
            .collect();
        let signs: Vec<Vec<f64>> = keys
            .iter()
            .map(|&(image, _)| {
                let (lower, _) = self.problem.cells().image(image as usize);
                lower
                    .iter()
                    .map(|&lower| if lower == 0.0 { 1.0 } else { -1.0 })
                    .collect()
            })
            .collect();
        let projector = Projector {
            generator,
            steps: settings.projection_steps,
            restarts: settings.restarts,
            seed,
        };
        // The gradient's scale is that of a matrix with entries of variance 1/M.
        let variance = self.problem.diag().iter().sum::<f64>() / (a.rows() * a.cols()) as f64;
        let scale = settings.gradient_step / (variance * a.rows() as f64).sqrt();
        let mut x = vec![vec![0.0f64; a.cols()]; states.len()];
        for iteration in 0..self.steps() {
            let target = |index: usize| -> Vec<f32> {
                let y = &signs[index];
                match settings.rule {
                    Rule::Bipg => {
                        let z = a.times(&x[index]);
                        let residual: Vec<f64> = y.iter().zip(&z).map(|(y, z)| y - sign(*z)).collect();
                        let moved = a.transpose_times(&residual);
                        x[index]
                            .iter()
                            .zip(moved)
                            .map(|(x, moved)| (x + scale * moved) as f32)
                            .collect()
                    }
                    Rule::OneShot => {
                        let back = a.transpose_times(y);
                        let factor =
                            self.norm(keys[index].0) / back.iter().map(|v| v * v).sum::<f64>().sqrt().max(1e-300);
                        back.iter().map(|v| (factor * v) as f32).collect()
                    }
                }
            };
            let targets: Vec<Vec<f32>> = (0..states.len()).map(target).collect();
            let projected = projector.project(&targets, &keys, iteration as u32);
            for (x, image) in x.iter_mut().zip(&projected) {
                x.iter_mut().zip(image).for_each(|(x, &pixel)| *x = f64::from(pixel));
            }
            if !step(iteration + 1) {
                return None;
            }
        }
        Some(x.into_iter().flatten().map(|pixel| pixel as f32).collect())
    }
}

impl Reconstruction<'_> {
    /// The norm that the back-projection is given: that of the truth, or of the generator's training images.
    fn norm(&self, image: u32) -> f64 {
        match (self.baseline.settings.norm, self.problem.truth()) {
            (NormRule::True, Some(truth)) => {
                let squares = truth
                    .image(image as usize)
                    .iter()
                    .map(|&pixel| f64::from(pixel).powi(2));
                squares.sum::<f64>().sqrt()
            }
            _ => self.baseline.generator.norm,
        }
    }
}

/// −1, 0 or 1.
fn sign(value: f64) -> f64 {
    if value > 0.0 {
        1.0
    } else if value < 0.0 {
        -1.0
    } else {
        0.0
    }
}
