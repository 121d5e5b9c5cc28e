//! Annealed Langevin dynamics (Algorithm 1 of the paper), with momentum if the settings ask for it. QCS-SGM and QCS-SGM+
//! differ in their likelihood alone.

mod options;
mod plan;
mod settings;
#[cfg(test)]
mod tests;

pub use options::{EpRule, QcsSgm, QcsSgmPlus};
pub use settings::{Dynamics, LangevinSettings, LangevinSteps};

use super::{Algorithm, BatchPlan, Divergence, Inputs, Kind, MethodOptions, Outputs, Pass, Preset, Samples, X};
use crate::likelihood::{Diag, Ep, Likelihood};
use crate::plan::{Step, Target};
use crate::prior::Prior;
use crate::{Images, Result};

impl QcsSgmPlus {
    /// What EP is, before its settings.
    fn likelihood() -> Likelihood {
        Likelihood::Ep(Ep::default())
    }
}

impl QcsSgm {
    fn likelihood() -> Likelihood {
        Likelihood::Diag(Diag)
    }
}

impl MethodOptions for QcsSgmPlus {
    fn advised_for(key: &str, prior: &Prior, preset: Option<&Preset>, signs: bool) -> Result<Self> {
        Self::defaults(prior, preset, key, signs)
    }

    fn resolved(self, _: &Kind) -> Result<Self> {
        Self::resolved(self, Self::likelihood())
    }

    fn algorithm(&self, _: &Kind) -> Result<Box<dyn Algorithm>> {
        Ok(Box::new(self.settings(Self::likelihood())?))
    }
}

impl MethodOptions for QcsSgm {
    fn advised_for(key: &str, prior: &Prior, preset: Option<&Preset>, signs: bool) -> Result<Self> {
        QcsSgmPlus::defaults(prior, preset, key, signs).map(Self::from)
    }

    fn resolved(self, _: &Kind) -> Result<Self> {
        QcsSgmPlus::from(self).resolved(Self::likelihood()).map(Self::from)
    }

    fn algorithm(&self, _: &Kind) -> Result<Box<dyn Algorithm>> {
        let settings = QcsSgmPlus::from(self.clone()).settings(Self::likelihood())?;
        Ok(Box::new(settings))
    }
}

impl Algorithm for LangevinSettings {
    fn check(&self, _: Inputs<'_>) -> Result<()> {
        Ok(())
    }

    fn passes<'a>(&'a self, given: Inputs<'a>) -> Vec<Box<dyn Pass + 'a>> {
        vec![Box::new(Sampling { settings: self, given })]
    }

    fn outcome(&self, given: Inputs<'_>, left: &Outputs) -> Samples {
        let frozen = left.values(plan::FROZEN);
        let divergence = |(state, &frozen): (usize, &u32)| {
            let (level, step) = self.place((frozen as usize).checked_sub(1)?);
            Some(Divergence {
                image: state / given.chains,
                chain: state % given.chains,
                level,
                step,
                reach: None,
            })
        };
        Samples {
            states: Images::new(given.prior.image(), left.values(X)),
            chains: given.chains,
            diverged: frozen.iter().enumerate().filter_map(divergence).collect(),
            seconds: left.seconds,
            estimate: None,
        }
    }
}

/// The one pass: every chain of every image by itself.
struct Sampling<'a> {
    settings: &'a LangevinSettings,
    given: Inputs<'a>,
}

impl Pass for Sampling<'_> {
    fn per_chain(&self) -> bool {
        true
    }

    fn steps(&self) -> Vec<Step> {
        self.settings.steps()
    }

    fn stage(&self) -> &'static str {
        "level"
    }

    fn compile(&self, batch: usize, target: &dyn Target) -> BatchPlan {
        plan::batch_plan(self.settings, self.given, batch, target)
    }
}
