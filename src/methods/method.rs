//! A method as a value: which one, and its settings, of which any may be left open.

use std::fmt;

use serde::de::DeserializeSeed;
use serde::{Deserialize, Deserializer, Serialize};

use super::options::{Setting, unknown};
use super::{Algorithm, Linear, Options, Preset, Projection, QcsSgm, QcsSgmPlus, Turbo};
use crate::prior::Prior;
use crate::problem::Problem;
use crate::{Error, Result};

/// A method without settings: its name, and what it is.
pub struct Kind {
    key: &'static str,
    title: &'static str,
    about: &'static str,
    is_baseline: bool,
    settings: &'static [Setting],
    /// The method with every setting left open
    open: fn() -> Method,
}

/// QCS-SGM.
pub const QCS_SGM: &Kind = &Kind {
    key: "diag",
    title: "QCS-SGM",
    about: "diagonal likelihood, annealed Langevin dynamics",
    is_baseline: false,
    settings: QcsSgm::SETTINGS,
    open: || Method::QcsSgm(QcsSgm::default()),
};

/// QCS-SGM+.
pub const QCS_SGM_PLUS: &Kind = &Kind {
    key: "ep",
    title: "QCS-SGM+",
    about: "expectation propagation, annealed Langevin dynamics",
    is_baseline: false,
    settings: QcsSgmPlus::SETTINGS,
    open: || Method::QcsSgmPlus(QcsSgmPlus::default()),
};

/// Turbo.
pub const TURBO: &Kind = &Kind {
    key: "turbo",
    title: "turbo",
    about: "EP and the denoiser exchange messages: the posterior mean",
    is_baseline: false,
    settings: Turbo::SETTINGS,
    open: || Method::Turbo(Turbo::default()),
};

/// BIPG.
pub const BIPG: &Kind = &Kind {
    key: "bipg",
    title: "BIPG",
    about: "baseline for 1 bit: projected gradient onto a generator's range",
    is_baseline: true,
    settings: Projection::SETTINGS,
    open: || Method::Bipg(Projection::default()),
};

/// OneShot.
pub const ONE_SHOT: &Kind = &Kind {
    key: "oneshot",
    title: "OneShot",
    about: "baseline for 1 bit: one projection of the back-projected signs",
    is_baseline: true,
    settings: Projection::SETTINGS,
    open: || Method::OneShot(Projection::default()),
};

/// Linear least squares.
pub const LINEAR: &Kind = &Kind {
    key: "linear",
    title: "least squares",
    about: "baseline without a prior: least squares of the cells' middles",
    is_baseline: true,
    settings: Linear::SETTINGS,
    open: || Method::Linear(Linear::default()),
};

/// All methods, in the order in which results are shown.
pub const METHODS: [&Kind; 6] = [QCS_SGM, QCS_SGM_PLUS, TURBO, BIPG, ONE_SHOT, LINEAR];

/// The method that runs if none is named.
pub const DEFAULT: &str = QCS_SGM_PLUS.key;

impl Kind {
    /// The name on the command line, in a configuration and in file names.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// The name in the literature.
    pub fn title(&self) -> &'static str {
        self.title
    }

    /// What it is, in one line.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// Whether it is there for comparison: `all` leaves it out.
    pub fn is_baseline(&self) -> bool {
        self.is_baseline
    }

    /// Its settings.
    pub fn settings(&self) -> &'static [Setting] {
        self.settings
    }

    /// Whether it has a setting of this name.
    pub fn has(&self, name: &str) -> bool {
        self.settings.iter().any(|setting| setting.name == name)
    }

    /// The method with every setting left open.
    pub fn open(&self) -> Method {
        (self.open)()
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }
}

/// The method of this key.
///
/// # Errors
/// [`Error::Setting`] for an unknown key; the message lists the known ones.
pub fn find(key: &str) -> Result<&'static Kind> {
    METHODS.into_iter().find(|kind| kind.key == key).ok_or_else(|| {
        let keys: Vec<&str> = METHODS.iter().map(|kind| kind.key).collect();
        Error::setting("method", format!("{key:?} is unknown: there are {}", keys.join(", ")))
    })
}

/// Every method that is no baseline.
pub fn own() -> Vec<&'static Kind> {
    METHODS.into_iter().filter(|kind| !kind.is_baseline).collect()
}

/// The methods of a list like "diag,ep", in which `all` is every one but the baselines and `both` QCS-SGM and QCS-SGM+.
///
/// # Errors
/// As [`find`], and if a method is named twice.
pub fn parse_list(list: &str) -> Result<Vec<&'static Kind>> {
    let named = |word: &str| match word {
        "all" => own().iter().map(|kind| kind.key().to_owned()).collect(),
        "both" => vec!["diag".to_owned(), "ep".to_owned()],
        key => vec![key.to_owned()],
    };
    let keys: Vec<String> = list.split(',').map(str::trim).flat_map(named).collect();
    match keys.iter().enumerate().find(|(i, key)| keys[..*i].contains(key)) {
        Some((_, key)) => Err(Error::setting("method", format!("{key} is named twice"))),
        None => keys.iter().map(|key| find(key)).collect(),
    }
}

/// A method and its settings. What is left open is the prior's advice.
///
/// Each method's settings are a struct of their own, which turns into this:
///
/// ```
/// use qcs::{Method, QcsSgmPlus, Turbo};
///
/// let method = Method::from(Turbo::default());
/// assert_eq!(method.kind().title(), "turbo");
/// let method: Method = QcsSgmPlus { xi: Some(0.3), ..Default::default() }.into();
/// assert_eq!(method.kind().key(), "ep");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant)] // a handful in a program
pub enum Method {
    QcsSgm(QcsSgm),
    QcsSgmPlus(QcsSgmPlus),
    Turbo(Turbo),
    Bipg(Projection),
    OneShot(Projection),
    Linear(Linear),
}

impl From<QcsSgm> for Method {
    fn from(settings: QcsSgm) -> Self {
        Self::QcsSgm(settings)
    }
}

impl From<QcsSgmPlus> for Method {
    fn from(settings: QcsSgmPlus) -> Self {
        Self::QcsSgmPlus(settings)
    }
}

impl From<Turbo> for Method {
    fn from(settings: Turbo) -> Self {
        Self::Turbo(settings)
    }
}

/// What a method makes of its settings.
pub(super) trait MethodOptions: Options {
    /// The settings of the method with this key where the user gives none.
    fn advised_for(key: &str, prior: &Prior, preset: Option<&Preset>, signs: bool) -> Result<Self>;

    /// The settings with every default written down.
    fn resolved(self, kind: &Kind) -> Result<Self>;

    /// The computation, with no setting left open.
    fn algorithm(&self, kind: &Kind) -> Result<Box<dyn Algorithm>>;
}

/// Evaluates `$body` with the settings as `$settings`, whichever method's they are.
macro_rules! each {
    ($method:expr, $settings:ident => $body:expr) => {
        match $method {
            Method::QcsSgm($settings) => $body,
            Method::QcsSgmPlus($settings) => $body,
            Method::Turbo($settings) => $body,
            Method::Bipg($settings) | Method::OneShot($settings) => $body,
            Method::Linear($settings) => $body,
        }
    };
}

/// The same, and `$body` is the settings of the same method.
macro_rules! map {
    ($method:expr, $settings:ident => $body:expr) => {
        match $method {
            Method::QcsSgm($settings) => Method::QcsSgm($body),
            Method::QcsSgmPlus($settings) => Method::QcsSgmPlus($body),
            Method::Turbo($settings) => Method::Turbo($body),
            Method::Bipg($settings) => Method::Bipg($body),
            Method::OneShot($settings) => Method::OneShot($body),
            Method::Linear($settings) => Method::Linear($body),
        }
    };
}

impl Method {
    /// Which method it is.
    pub fn kind(&self) -> &'static Kind {
        match self {
            Self::QcsSgm(_) => QCS_SGM,
            Self::QcsSgmPlus(_) => QCS_SGM_PLUS,
            Self::Turbo(_) => TURBO,
            Self::Bipg(_) => BIPG,
            Self::OneShot(_) => ONE_SHOT,
            Self::Linear(_) => LINEAR,
        }
    }

    /// The settings that hold where the user gives none: the model's own advice, which may be another for measurements
    /// that are `signs`, below it the preset of the model's images. A preset that was asked for by name stands above the
    /// model.
    ///
    /// # Errors
    /// [`Error::BadFile`] if the model's advice cannot be used.
    pub fn advised(kind: &Kind, prior: &Prior, preset: Option<&Preset>, signs: bool) -> Result<Self> {
        fn of<O: MethodOptions>(_: O, key: &str, prior: &Prior, preset: Option<&Preset>, signs: bool) -> Result<O> {
            O::advised_for(key, prior, preset, signs)
        }
        Ok(map!(kind.open(), open => of(open, kind.key, prior, preset, signs)?))
    }

    /// The method with every setting written down: its own, and those of [`advised`](Method::advised) where one is left open.
    ///
    /// # Errors
    /// As [`advised`](Method::advised) and [`algorithm`](Method::algorithm).
    pub fn completed(self, prior: &Prior, preset: Option<&Preset>, signs: bool) -> Result<Self> {
        let advice = Self::advised(self.kind(), prior, preset, signs)?;
        self.over(advice).resolved()
    }

    /// Gives the setting `name` the value that `text` stands for.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such setting, [`Error::Setting`] if the text is no value of it.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        if !self.kind().has(name) {
            return Err(unknown(name, self.kind().settings));
        }
        each!(self, settings => settings.set(name, text))
    }

    /// These settings, and those of `below` where one is not given.
    ///
    /// # Panics
    /// If `below` is another method.
    pub fn over(self, below: Self) -> Self {
        match (self, below) {
            (Self::QcsSgm(above), Self::QcsSgm(below)) => Self::QcsSgm(above.over(below)),
            (Self::QcsSgmPlus(above), Self::QcsSgmPlus(below)) => Self::QcsSgmPlus(above.over(below)),
            (Self::Turbo(above), Self::Turbo(below)) => Self::Turbo(above.over(below)),
            (Self::Bipg(above), Self::Bipg(below)) => Self::Bipg(above.over(below)),
            (Self::OneShot(above), Self::OneShot(below)) => Self::OneShot(above.over(below)),
            (Self::Linear(above), Self::Linear(below)) => Self::Linear(above.over(below)),
            (above, below) => panic!("settings of {:?} over those of {:?}", above.kind(), below.kind()),
        }
    }

    /// The settings with every default written down.
    ///
    /// # Errors
    /// As [`Method::algorithm`].
    pub fn resolved(self) -> Result<Self> {
        let kind = self.kind();
        Ok(map!(self, settings => MethodOptions::resolved(settings, kind)?))
    }

    /// The computation.
    ///
    /// # Errors
    /// [`Error::Usage`] if a setting is still open or given in two ways, [`Error::Setting`] if one is out of its range.
    pub fn algorithm(&self) -> Result<Box<dyn Algorithm>> {
        let kind = self.kind();
        each!(self, settings => settings.algorithm(kind))
    }
}

impl Prior {
    /// What the file advises of a method for this problem's measurements: every setting that `method` leaves open.
    ///
    /// ```
    /// # #[cfg(feature = "bundled")] {
    /// use qcs::{Method, Prior, Turbo};
    /// # use qcs::problem::{Ensemble, Problem, Sensing, Simulation};
    /// # let sensing = Sensing::Drawn { ensemble: Ensemble::Gaussian, m: 30 };
    /// # let simulation = Simulation::default();
    /// # let problem = Problem::simulate(qcs::bundled::digits(0, Some(1))?, sensing, &simulation)?;
    ///
    /// let Method::Turbo(settings) = Prior::shipped()?.advice(Turbo::default(), &problem)? else { unreachable!() };
    /// assert_eq!(settings.evaluations, Some(30));
    /// # }
    /// # Ok::<(), qcs::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Method::completed`].
    pub fn advice(&self, method: impl Into<Method>, problem: &Problem) -> Result<Method> {
        method.into().completed(self, None, problem.cells().are_signs())
    }
}

/// Reads the settings of a method whose kind is known.
impl<'de> DeserializeSeed<'de> for &Kind {
    type Value = Method;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Method, D::Error> {
        fn of<'de, O: Deserialize<'de>, D: Deserializer<'de>>(_: O, deserializer: D) -> Result<O, D::Error> {
            O::deserialize(deserializer)
        }
        Ok(map!(self.open(), open => of(open, deserializer)?))
    }
}
