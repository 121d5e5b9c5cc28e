//! Annealed Langevin dynamics (Algorithm 1 of the paper), with momentum where asked for. QCS-SGM and QCS-SGM+ differ in
//! their likelihood alone.

mod options;
mod plan;
mod settings;
#[cfg(test)]
mod tests;

use toml::Table;

pub use options::{EpRule, LangevinOptions};
pub use settings::{Dynamics, LangevinSettings, LangevinSteps};

use super::{BatchPlan, Divergence, Flags, Given, Kind, Left, Method, Options, Pass, Preset, Samples};
use crate::likelihood::{Diag, Ep, Likelihood};
use crate::plan::{Step, Target};
use crate::prior::Prior;
use crate::{Images, Result};

/// A likelihood under annealed Langevin dynamics.
pub struct Langevin {
    key: &'static str,
    title: &'static str,
    about: &'static str,
    likelihood: fn() -> Likelihood,
}

/// QCS-SGM.
pub const QCS_SGM: Langevin = Langevin {
    key: "diag",
    title: "QCS-SGM",
    about: "diagonal likelihood, annealed Langevin dynamics",
    likelihood: || Likelihood::Diag(Diag),
};

/// QCS-SGM+.
pub const QCS_SGM_PLUS: Langevin = Langevin {
    key: "ep",
    title: "QCS-SGM+",
    about: "expectation propagation, annealed Langevin dynamics",
    likelihood: || Likelihood::Ep(Ep::default()),
};

impl Kind for Langevin {
    fn key(&self) -> &'static str {
        self.key
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn names(&self) -> &'static [&'static str] {
        LangevinOptions::NAMES
    }

    fn defaults(&self, prior: &Prior, preset: Option<&Preset>, signs: bool) -> Result<Table> {
        Ok(LangevinOptions::defaults(prior, preset, self.key, signs)?.to_table())
    }

    fn of_flags(&self, flags: &Flags) -> Table {
        flags.langevin.to_table()
    }

    fn over(&self, above: &Table, below: &Table) -> Result<Table> {
        let below = LangevinOptions::from_table(below)?;
        Ok(LangevinOptions::from_table(above)?.over(below).to_table())
    }

    fn resolve(&self, settings: &Table) -> Result<Table> {
        let options = LangevinOptions::from_table(settings)?;
        let settings = options.settings((self.likelihood)())?;
        // The diagonal has no EP to set.
        let (ep_rule, ep_iters, ep_start) = match settings.likelihood {
            Likelihood::Ep(ep) => (Some(EpRule::Paper), Some(ep.iterations), Some(ep.start)),
            Likelihood::Settled(ep) => (Some(EpRule::Settled), Some(ep.iterations), None),
            Likelihood::Diag(_) => (None, None, None),
        };
        let Dynamics::Langevin(steps) = settings.dynamics else {
            unreachable!("options have no other")
        };
        let resolved = LangevinOptions {
            step_scale: Some(steps.step_scale),
            epsilon: None,
            ep_rule,
            ep_iters,
            ep_start,
            ..options
        };
        Ok(resolved.to_table())
    }

    fn method(&self, settings: &Table) -> Result<Box<dyn Method>> {
        let settings = LangevinOptions::from_table(settings)?.settings((self.likelihood)())?;
        Ok(Box::new(settings))
    }
}

impl Method for LangevinSettings {
    fn check(&self, _: Given<'_>) -> Result<()> {
        Ok(())
    }

    fn passes<'a>(&'a self, given: Given<'a>) -> Vec<Box<dyn Pass + 'a>> {
        vec![Box::new(Sampling { settings: self, given })]
    }

    fn outcome(&self, given: Given<'_>, left: &Left) -> Samples {
        let frozen = left.values::<u32>("frozen");
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
            states: Images::new(given.prior.image(), left.values("x")),
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
    given: Given<'a>,
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
