//! The settings of the baselines.

use super::super::Options;
use super::super::options::{Setting, between, options, positive, words};
use super::Rule;
use crate::prior::Generator;
use crate::{Error, Result};

options! {
    /// BIPG and OneShot, the paper's baselines for one bit.
    ///
    /// ```
    /// let method = qcs::Method::Bipg(qcs::Projection { restarts: Some(4), ..Default::default() });
    /// assert!(method.kind().is_baseline());
    /// ```
    pub struct Projection {
        /// The generator (.safetensors) that images are projected onto [default: the shipped decoder of digits]
        pub generator: String = "FILE",
        /// Adam's steps in a projection [default: 200]
        pub projection_steps: usize = "N",
        /// Latent vectors that a projection begins with; the best one counts [default: 2]
        pub restarts: usize = "N",
        /// Projected gradient steps of BIPG [default: 15]
        pub iterations: usize = "N",
        /// Size of BIPG's gradient step, for an A with entries of variance 1/M [default: 1.25]
        pub gradient_step: f64 = "STEP",
        /// The norm that OneShot gives its back-projection: of the training images (estimated), or that of the true image, which
        /// its authors' program takes although no sensor knows it (true) [default: estimated]
        pub norm: NormRule = "RULE",
    }
}

words! {
    /// Where OneShot has the norm of an image from: signs do not tell it.
    #[derive(Default)]
    pub enum NormRule {
        /// From the training images
        #[default]
        Estimated = "estimated",
        /// From the true image: an oracle
        True = "true",
    }
}

impl Options for Projection {
    const SETTINGS: &'static [Setting] = Self::FIELDS;

    fn over(self, below: Self) -> Self {
        self.or(below)
    }

    fn set(&mut self, name: &str, text: &str) -> Result<()> {
        self.set_field(name, text)
    }
}

impl Projection {
    /// The defaults.
    pub(super) fn base() -> Self {
        Self {
            generator: Some(Generator::SHIPPED.to_owned()),
            projection_steps: Some(200),
            restarts: Some(2),
            iterations: Some(15),
            gradient_step: Some(1.25),
            norm: Some(NormRule::default()),
        }
    }

    /// Without what the rule does not have.
    pub(super) fn of_rule(self, rule: Rule) -> Self {
        match rule {
            Rule::Bipg => Self { norm: None, ..self },
            Rule::OneShot => Self {
                iterations: None,
                gradient_step: None,
                ..self
            },
        }
    }

    /// The settings, every one in its range.
    ///
    /// # Errors
    /// [`Error::Setting`] if a number is out of its range.
    pub fn settings(&self, rule: Rule) -> Result<ProjectionSettings> {
        let all = self.clone().or(Self::base());
        let missing = || Error::usage("a setting of the baseline is missing");
        Ok(ProjectionSettings {
            rule,
            generator: all.generator.ok_or_else(missing)?,
            projection_steps: between(
                "projection_steps",
                1,
                100_000,
                all.projection_steps.ok_or_else(missing)?,
            )?,
            restarts: between("restarts", 1, 10_000, all.restarts.ok_or_else(missing)?)?,
            iterations: between("iterations", 1, 100_000, all.iterations.ok_or_else(missing)?)?,
            gradient_step: positive("gradient_step", all.gradient_step.ok_or_else(missing)?)?,
            norm: all.norm.ok_or_else(missing)?,
        })
    }
}

/// See [`Projection`].
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectionSettings {
    pub rule: Rule,
    pub generator: String,
    pub projection_steps: usize,
    pub restarts: usize,
    pub iterations: usize,
    pub gradient_step: f64,
    pub norm: NormRule,
}
