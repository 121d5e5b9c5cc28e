//! What a run computes with: the noise levels, and the steps that lead through them.

use crate::likelihood::Likelihood;
use crate::plan::{GammaRule, LangevinNumbers, Step};
use crate::prior::Schedule;

/// How x gets from one noise level to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dynamics {
    /// Annealed Langevin dynamics
    Langevin(LangevinSteps),
    /// The reverse SDE: x gets noise of the first level, and each step takes it to the next level's. It draws from a prior
    /// alone in fewer steps than Langevin dynamics, and truer to it; with a likelihood it fails (QCS-SGM+, 1 bit,
    /// kappa = 1000, 300 levels, 20 digits: 11.9 dB for 22.9).
    Reverse,
}

/// The steps of annealed Langevin dynamics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LangevinSteps {
    /// K, Langevin steps at each noise level
    pub steps_per_level: usize,
    /// epsilon/beta_T²: the step of Algorithm 1 is alpha_t = epsilon·beta_t²/beta_T² = step_scale·beta_t². Inputs this way it does
    /// not change meaning with the schedule's last level.
    pub step_scale: f64,
    /// The share of a step's movement that the next one repeats, at the next one's scale: 0 is the paper's sampler, larger
    /// shares cross the posterior in fewer steps. Underdamped Langevin dynamics with friction 1 − momentum.
    pub momentum: f64,
}

/// Everything that decides the samples, besides the prior, the problem and the seed.
#[derive(Clone, Debug, PartialEq)]
pub struct LangevinSettings {
    pub likelihood: Likelihood,
    /// beta_1 > … > beta_T
    pub schedule: Schedule,
    pub dynamics: Dynamics,
    pub gamma: GammaRule,
    /// Ends with x + beta_T²·score, NCSNv2's final denoising
    pub denoise: bool,
}

impl LangevinSettings {
    /// Whether a state has a velocity beside its x.
    pub fn has_velocity(&self) -> bool {
        matches!(self.dynamics, Dynamics::Langevin(steps) if steps.momentum != 0.0)
    }

    /// Whether the final denoising is a program of its own, after all steps.
    pub fn finishes(&self) -> bool {
        self.denoise && self.dynamics != Dynamics::Reverse
    }

    /// All steps.
    pub fn steps(&self) -> Vec<Step> {
        let levels: Vec<f64> = self.schedule.levels().iter().copied().map(f64::from).collect();
        let numbered = |(index, langevin): (usize, LangevinNumbers)| Step {
            langevin,
            index: index as u32,
            stage: self.place(index).0 as u32,
        };
        let steps = match self.dynamics {
            Dynamics::Langevin(steps) => steps.all(&levels),
            Dynamics::Reverse => reverse(&levels, self.denoise),
        };
        steps.into_iter().enumerate().map(numbered).collect()
    }

    /// At which level a step is, and which of the level's it is, both from 1.
    pub fn place(&self, step: usize) -> (usize, usize) {
        match self.dynamics {
            Dynamics::Langevin(LangevinSteps { steps_per_level, .. }) => {
                (step / steps_per_level + 1, step % steps_per_level + 1)
            }
            // The first step brings x to the first level, the second leads away from it.
            Dynamics::Reverse => (step.max(1), if step == 1 { 2 } else { 1 }),
        }
    }
}

impl LangevinSteps {
    /// K at each level.
    fn all(&self, levels: &[f64]) -> Vec<LangevinNumbers> {
        let beta = |index: usize| levels[index / self.steps_per_level];
        let step = |index: usize| self.step(beta(index), index.checked_sub(1).map(beta));
        (0..levels.len() * self.steps_per_level).map(step).collect()
    }

    /// A step at noise level `beta`, after one at `previous` if it is not the first. Movements are kept in units of the level,
    /// and the noise is what leaves a Gaussian as it is when the step is small.
    pub fn step(&self, beta: f64, previous: Option<f64>) -> LangevinNumbers {
        let alpha = self.step_scale * beta * beta;
        LangevinNumbers {
            beta,
            alpha,
            noise: (2.0 * alpha * (1.0 - self.momentum)).sqrt(),
            momentum: previous.map_or(0.0, |previous| self.momentum * beta / previous),
        }
    }
}

/// The noise of the first level, then a step from each level a to the next, b: x ← d + (b/a)²·(x − d) + b·sqrt(1 − (b/a)²)·z
/// with d = x + a²·score, which is a step of size a² − b². After the last level there is none, which leaves d.
fn reverse(levels: &[f64], denoise: bool) -> Vec<LangevinNumbers> {
    let step = |a: f64, b: f64| LangevinNumbers {
        beta: a,
        alpha: (a - b) * (a + b),
        noise: b * ((1.0 - b / a) * (1.0 + b / a)).sqrt(),
        momentum: 0.0,
    };
    let start = LangevinNumbers {
        noise: levels[0],
        alpha: 0.0,
        ..step(levels[0], 0.0)
    };
    let between = levels.windows(2).map(|pair| step(pair[0], pair[1]));
    let last = denoise.then(|| step(levels[levels.len() - 1], 0.0));
    [start].into_iter().chain(between).chain(last).collect()
}
