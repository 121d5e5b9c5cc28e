//! The settings of annealed Langevin dynamics as options, of which any may be left open.

use super::super::options::{Setting, Value, between, options, positive, words};
use super::super::{Options, Preset};
use super::{Dynamics, LangevinSettings, LangevinSteps};
use crate::likelihood::{Ep, EpStart, Likelihood, SettledEp};
use crate::plan::GammaRule;
use crate::prior::{Prior, Schedule};
use crate::{Error, Result};

/// Defines the settings of a method that is annealed Langevin dynamics, and others of its own.
macro_rules! langevin_options {
    (
        $(#[$about:meta])*
        pub struct $name:ident { $($own:tt)* }
    ) => {
        options! {
            $(#[$about])*
            pub struct $name {
                /// First noise level beta_1 [default: the model's or the preset's, as for all that follow]
                pub sigma_begin: f64 = "BETA",
                /// Last noise level beta_T
                pub sigma_end: f64 = "BETA",
                /// T, the number of noise levels, geometric between the two
                pub levels: usize = "T",
                /// Every noise level, where they are not geometric
                pub sigmas: Vec<f32>,
                /// K, Langevin steps at each level
                pub steps_per_level: usize = "K",
                /// Step size over beta²: alpha_t = SCALE·beta_t²
                pub step_scale: f64 = "SCALE",
                /// The same as the paper writes it: alpha_t = EPSILON·beta_t²/beta_T²
                pub epsilon: f64 = "EPSILON",
                /// The share of a step's movement that the next one repeats: 0 is the paper's sampler
                pub momentum: f64 = "SHARE",
                /// Adaptive factor of the likelihood: gamma = XI·‖prior score‖/‖likelihood score‖
                pub xi: f64 = "XI",
                /// Constant factor of the likelihood instead
                pub gamma: f64 = "GAMMA",
                /// End with NCSNv2's denoising step, x + beta_T²·score [default: true]
                pub denoise: bool = "BOOL",
                $($own)*
            }
        }
    };
}

langevin_options! {
    /// QCS-SGM+: the likelihood's score by expectation propagation, annealed Langevin dynamics. What is left open is the
    /// prior's advice.
    ///
    /// ```
    /// let method = qcs::QcsSgmPlus { xi: Some(0.3), ep_iters: Some(10), ..Default::default() };
    /// assert_eq!(method.levels, None);
    /// ```
    pub struct QcsSgmPlus {
        /// How EP runs: paper (undamped, afresh in each step, always `ep_iters` iterations) or settled (damped, from the last
        /// step's messages, until they stand still, at most `ep_iters` iterations) [default: paper]
        pub ep_rule: EpRule = "RULE",
        /// EP iterations in each step [default: 5]
        pub ep_iters: usize = "N",
        /// Where EP starts [default: unit]
        pub ep_start: EpStart = "START",
    }
}

langevin_options! {
    /// QCS-SGM: the diagonal forerunner of [`QcsSgmPlus`]. What is left open is the prior's advice.
    ///
    /// ```
    /// let method = qcs::QcsSgm { levels: Some(60), momentum: Some(0.9), ..Default::default() };
    /// assert_eq!(method.xi, None);
    /// ```
    pub struct QcsSgm {}
}

words! {
    /// How EP runs in each step of QCS-SGM+.
    #[derive(Default)]
    pub enum EpRule {
        /// Undamped, afresh in each step
        #[default]
        Paper = "paper",
        /// Damped, from the messages of the step before, until they stand still
        Settled = "settled",
    }
}

impl Value for EpStart {
    const CHOICES: &'static [&'static str] = &["unit", "matched"];

    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

impl From<QcsSgm> for QcsSgmPlus {
    /// The same steps; EP's settings are left open.
    fn from(own: QcsSgm) -> Self {
        Self {
            sigma_begin: own.sigma_begin,
            sigma_end: own.sigma_end,
            levels: own.levels,
            sigmas: own.sigmas,
            steps_per_level: own.steps_per_level,
            step_scale: own.step_scale,
            epsilon: own.epsilon,
            momentum: own.momentum,
            xi: own.xi,
            gamma: own.gamma,
            denoise: own.denoise,
            ..Self::default()
        }
    }
}

impl From<QcsSgmPlus> for QcsSgm {
    /// The same steps, without EP's settings.
    fn from(plus: QcsSgmPlus) -> Self {
        Self {
            sigma_begin: plus.sigma_begin,
            sigma_end: plus.sigma_end,
            levels: plus.levels,
            sigmas: plus.sigmas,
            steps_per_level: plus.steps_per_level,
            step_scale: plus.step_scale,
            epsilon: plus.epsilon,
            momentum: plus.momentum,
            xi: plus.xi,
            gamma: plus.gamma,
            denoise: plus.denoise,
        }
    }
}

/// More steps than any run takes; their records lie in memory.
const MOST_STEPS: usize = 10_000_000;
/// EP has long settled then.
const MOST_EP_ITERATIONS: usize = 10_000;

impl Options for QcsSgm {
    const SETTINGS: &'static [Setting] = Self::FIELDS;

    fn over(self, below: Self) -> Self {
        QcsSgmPlus::from(self).over(below.into()).into()
    }

    fn set(&mut self, name: &str, text: &str) -> Result<()> {
        self.set_field(name, text)
    }
}

impl Options for QcsSgmPlus {
    const SETTINGS: &'static [Setting] = Self::FIELDS;

    fn set(&mut self, name: &str, text: &str) -> Result<()> {
        self.set_field(name, text)
    }

    fn over(self, mut below: Self) -> Self {
        // Where a setting is given in two ways, the one from above counts.
        if self.sigmas.is_some() {
            (below.sigma_begin, below.sigma_end, below.levels) = (None, None, None);
        }
        let geometric = self.sigma_begin.is_some() || self.sigma_end.is_some() || self.levels.is_some();
        if let (true, Some(levels)) = (geometric, &below.sigmas) {
            let ends = Schedule::new(levels.clone()).map_or_else(|_| Self::default(), |levels| Self::ends_of(&levels));
            below = ends.or(Self { sigmas: None, ..below });
        }
        if self.step_scale.is_some() || self.epsilon.is_some() {
            (below.step_scale, below.epsilon) = (None, None);
        }
        if self.xi.is_some() || self.gamma.is_some() {
            (below.xi, below.gamma) = (None, None);
        }
        self.or(below)
    }
}

impl QcsSgmPlus {
    /// The defaults.
    fn base() -> Self {
        Self {
            steps_per_level: Some(3),
            step_scale: Some(1.5),
            momentum: Some(0.0),
            xi: Some(0.5),
            denoise: Some(true),
            ep_rule: Some(EpRule::default()),
            ep_iters: Some(Ep::default().iterations),
            ep_start: Some(EpStart::default()),
            ..Self::default()
        }
    }

    /// The paper's, with a step that works.
    pub fn of_preset(preset: &Preset) -> Self {
        Self {
            steps_per_level: Some(preset.steps_per_level),
            step_scale: Some(preset.step_scale),
            xi: Some(preset.xi),
            ..Self::geometric(preset.sigma_begin, preset.sigma_end, preset.levels)
        }
        .over(Self::base())
    }

    /// Geometric noise levels.
    pub fn geometric(begin: f64, end: f64, levels: usize) -> Self {
        Self {
            sigma_begin: Some(begin),
            sigma_end: Some(end),
            levels: Some(levels),
            ..Self::default()
        }
    }

    /// The noise levels of a schedule: its two ends where they give the same bits, else every level.
    pub fn of_schedule(schedule: &Schedule) -> Self {
        let geometric = Self::ends_of(schedule);
        match geometric.schedule() {
            Ok(same) if same == *schedule => geometric,
            _ => Self {
                sigmas: Some(schedule.levels().to_vec()),
                ..Self::default()
            },
        }
    }

    /// The geometric levels with the ends and the length of the given ones.
    fn ends_of(schedule: &Schedule) -> Self {
        // 0.01 in f32 is 0.00999999977 in f64: its decimal form is what was meant.
        let meant = |level: f32| level.to_string().parse::<f64>().expect("a float's own text");
        Self::geometric(meant(schedule.begin()), meant(schedule.end()), schedule.len())
    }

    /// The settings of the method with this key where the user gives none: see [`Method::advised`](super::super::Method::advised).
    ///
    /// # Errors
    /// [`Error::BadFile`] if the model's advice cannot be used.
    pub fn defaults(prior: &Prior, preset: Option<&Preset>, key: &str, signs: bool) -> Result<Self> {
        if let Some(preset) = preset {
            return Ok(Self::of_preset(preset));
        }
        let fitting = Preset::of_shape(prior.image()).map_or_else(Self::base, Self::of_preset);
        // Without a method's key in front the metadata's levels tell how the network was trained; those to sample with are the
        // file's own list.
        let of_all = Self {
            sigma_begin: None,
            sigma_end: None,
            levels: None,
            sigmas: None,
            ..Self::entries(prior, "")?
        };
        let advice = Self::advised_alone(prior, key, signs)?.over(of_all);
        if let Err(error @ Error::Setting { .. }) = advice.clone().over(fitting.clone()).settings(Likelihood::default())
        {
            return Err(Error::bad_file(
                &prior.source,
                format!("its advice in the metadata: {error}"),
            ));
        }
        let levels = match &prior.schedule {
            Some(own) if !fitting.schedule().is_ok_and(|preset| alike(own, &preset)) => Self::of_schedule(own),
            _ => Self::default(),
        };
        Ok(advice.over(levels).over(fitting))
    }

    /// # Errors
    /// If the levels are incomplete, given twice, or not falling.
    pub fn schedule(&self) -> Result<Schedule> {
        match (self.sigma_begin, self.sigma_end, self.levels, &self.sigmas) {
            (Some(begin), Some(end), Some(count), None) => {
                Schedule::geometric(begin, end, between("levels", 2, 1_000_000, count)?)
            }
            (None, None, None, Some(sigmas)) => Schedule::new(sigmas.clone()),
            (_, _, _, Some(_)) => Err(Error::usage(
                "noise levels are sigmas, or sigma_begin, sigma_end and levels, and not both",
            )),
            _ => Err(Error::usage(
                "the model does not name its noise levels: sigma_begin, sigma_end and levels are needed",
            )),
        }
    }

    /// The settings, every one in its range.
    ///
    /// # Errors
    /// [`Error::Setting`] if a number is out of its range, [`Error::Usage`] if one is missing or given in two ways.
    pub fn settings(&self, likelihood: Likelihood) -> Result<LangevinSettings> {
        let schedule = self.schedule()?;
        let steps = self.langevin_steps(&schedule)?;
        let gamma = match (self.xi, self.gamma) {
            (Some(xi), None) => GammaRule::Adaptive {
                xi: positive("xi", xi)?,
            },
            (None, Some(gamma)) => GammaRule::Constant {
                gamma: positive("gamma", gamma)?,
            },
            (None, None) => return Err(missing("xi")),
            _ => return Err(Error::usage("the likelihood's factor is xi or gamma, and not both")),
        };
        let iterations = between(
            "ep_iters",
            1,
            MOST_EP_ITERATIONS,
            self.ep_iters.unwrap_or(Ep::default().iterations),
        )?;
        let likelihood = match (likelihood, self.ep_rule.unwrap_or_default()) {
            (Likelihood::Diag(diag), _) => Likelihood::Diag(diag),
            (_, EpRule::Settled) => Likelihood::Settled(SettledEp {
                iterations,
                tolerance: SettledEp::TOLERANCE,
            }),
            (_, EpRule::Paper) => Likelihood::Ep(Ep {
                iterations,
                start: self.ep_start.unwrap_or_default(),
            }),
        };
        Ok(LangevinSettings {
            likelihood,
            schedule,
            dynamics: Dynamics::Langevin(steps),
            gamma,
            denoise: self.denoise.ok_or_else(|| missing("denoise"))?,
        })
    }

    /// The settings with every default written down, each in one way, and without what the likelihood does not have.
    ///
    /// # Errors
    /// As [`settings`](Self::settings).
    pub(super) fn resolved(self, likelihood: Likelihood) -> Result<Self> {
        let settings = self.settings(likelihood)?;
        let (ep_rule, ep_iters, ep_start) = match settings.likelihood {
            Likelihood::Ep(ep) => (Some(EpRule::Paper), Some(ep.iterations), Some(ep.start)),
            Likelihood::Settled(ep) => (Some(EpRule::Settled), Some(ep.iterations), None),
            Likelihood::Diag(_) => (None, None, None),
        };
        let Dynamics::Langevin(steps) = settings.dynamics else {
            unreachable!("options have no other")
        };
        Ok(Self {
            step_scale: Some(steps.step_scale),
            epsilon: None,
            ep_rule,
            ep_iters,
            ep_start,
            ..self
        })
    }

    /// Whether any setting is given that Langevin steps alone have.
    pub fn names_langevin_steps(&self) -> bool {
        let numbers = [self.step_scale, self.epsilon, self.momentum];
        self.steps_per_level.is_some() || numbers.iter().any(Option::is_some)
    }

    fn langevin_steps(&self, schedule: &Schedule) -> Result<LangevinSteps> {
        let step_scale = match (self.step_scale, self.epsilon) {
            (Some(scale), None) => positive("step_scale", scale)?,
            (None, Some(epsilon)) => {
                let end = self.sigma_end.unwrap_or(f64::from(schedule.end()));
                positive("epsilon", epsilon)? / (end * end)
            }
            (None, None) => return Err(missing("step_scale")),
            _ => return Err(Error::usage("a step is step_scale or epsilon, and not both")),
        };
        let momentum = self.momentum.ok_or_else(|| missing("momentum"))?;
        if !(0.0..1.0).contains(&momentum) {
            let reason = format!("must be at least 0 and below 1, not {momentum}");
            return Err(Error::setting("momentum", reason));
        }
        let steps_per_level = self.steps_per_level.ok_or_else(|| missing("steps_per_level"))?;
        Ok(LangevinSteps {
            steps_per_level: between("steps_per_level", 1, MOST_STEPS / schedule.len(), steps_per_level)?,
            step_scale,
            momentum,
        })
    }
}

fn missing(name: &str) -> Error {
    Error::usage(format!("the setting {name} is missing"))
}

/// Whether two schedules are the same but for rounding, as a training program's float32 levels and ours are.
fn alike(a: &Schedule, b: &Schedule) -> bool {
    let close = |(a, b): (&f32, &f32)| (a / b - 1.0).abs() < 1e-5;
    a.len() == b.len() && a.levels().iter().zip(b.levels()).all(close)
}
