//! Everything that decides a run, as TOML. Threads and device are not part of it: threads never change a result, and
//! a device only what rounding changes.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::{MeasureConfig, Reuse, Settings, Shard};
use crate::engine::Precision;
use crate::methods::options::words;
use crate::methods::{self, Kind, Preset};
use crate::prior::Prior;
use crate::problem::Problem;
use crate::reconstruct::fingerprint;
use crate::{Error, ImageShape, Result};

/// A run: the same configuration gives the same bits on the same kind of device. What is left open is the preset's or the
/// model's; [`Run`](super::Run) holds the configuration with everything written down.
///
/// Written to the run folder as `config.toml`. Keys are named as the flags of `qcs run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// A safetensors file, or [`Prior::SHIPPED`]
    #[serde(default = "shipped")]
    pub model: String,
    /// The images' shape "C,H,W", for a model file that does not say it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// The paper's settings for a data set, instead of the model's advice
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Keys of methods, to run one after the other on the same problem with the same noise
    pub methods: Vec<String>,
    /// A problem file; either this or `[measure]`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<PathBuf>,
    /// Index of the first image of the problem to reconstruct; 0 if absent. Of images that are measured, `[measure]` says it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<usize>,
    /// A share of the images, for one of several jobs; all of them if absent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// How many images of the problem to reconstruct; all that follow `first` if absent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// In which precision the network multiplies; that of the engine if absent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// Samples drawn for each image
    #[serde(default = "one")]
    pub chains: usize,
    /// Keys all noise of the chains
    #[serde(default)]
    pub seed: u64,
    /// States worked on at once: changes speed and memory, never results
    #[serde(default)]
    pub batch: Batch,
    /// Images whose results are held at once: changes memory, never results. So many that they make a thousand states if absent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<usize>,
    /// Which pictures are written; by the number of images if absent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<Pictures>,
    /// Images to measure first; either this or `problem`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<MeasureConfig>,
    /// The settings of each method, by its key
    #[serde(default)]
    pub settings: Settings,
    /// What the named files held when the configuration was resolved
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// Hashes of what was read, to notice that a file has changed since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub model: String,
    pub problem: String,
}

words! {
    /// Which pictures a run writes beside its arrays.
    pub enum Pictures {
        /// None at all
        None = "none",
        /// One that shows the first hundred images
        Grid = "grid",
        /// That and every image
        All = "all",
    }
}

impl std::str::FromStr for Pictures {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        crate::methods::options::Value::parse(text)
    }
}

impl Pictures {
    /// Up to so many images each is a picture of its own.
    const MOST: usize = 1000;

    /// What is written where nobody has said.
    pub(super) fn of_so_many(images: usize) -> Self {
        if images > Self::MOST { Self::Grid } else { Self::All }
    }
}

/// A problem before the settings are resolved.
#[allow(clippy::large_enum_variant)] // one of them in a run
pub(super) enum Begun {
    Read(Problem),
    ToMeasure,
}

impl Begun {
    /// Whether its measurements are signs, or will be.
    pub(super) fn are_signs(&self, config: &RunConfig) -> bool {
        match self {
            Self::Read(problem) => problem.cells().are_signs(),
            Self::ToMeasure => config.measure.as_ref().is_some_and(MeasureConfig::keeps_signs),
        }
    }
}

/// How many states at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Batch {
    Of(usize),
    /// As many as the device has room for, or somewhat fewer that fill it better
    Auto(Auto),
}

/// The word "auto".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auto {
    Auto,
}

impl Batch {
    pub const AUTO: Self = Self::Auto(Auto::Auto);
    const DEFAULT: usize = 8;

    /// The number, or the usual one where it is still open.
    pub fn states(self) -> usize {
        match self {
            Self::Of(batch) => batch,
            Self::Auto(_) => Self::DEFAULT,
        }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::Of(Self::DEFAULT)
    }
}

impl std::str::FromStr for Batch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::AUTO),
            _ => text.parse().map(Self::Of).map_err(|_| "a number or auto".to_owned()),
        }
    }
}

fn shipped() -> String {
    Prior::SHIPPED.to_owned()
}

fn one() -> usize {
    1
}

impl Default for RunConfig {
    /// QCS-SGM+ with the shipped prior, of a problem that is still to be named.
    fn default() -> Self {
        Self {
            model: shipped(),
            shape: None,
            preset: None,
            methods: vec![methods::DEFAULT.to_owned()],
            problem: None,
            first: None,
            shard: None,
            count: None,
            precision: None,
            chains: 1,
            seed: 0,
            batch: Batch::default(),
            block: None,
            pictures: None,
            measure: None,
            settings: Settings::default(),
            identity: None,
        }
    }
}

impl RunConfig {
    /// Reads a configuration; relative paths in it are meant from the current folder.
    ///
    /// # Errors
    /// If the file cannot be read or is no configuration; the message names the line.
    pub fn read(path: &Path) -> Result<Self> {
        let text = crate::files::read_text(path)?;
        let config: Self = toml::from_str(&text).map_err(|e: toml::de::Error| {
            let line = e
                .span()
                .map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
            Error::bad_file(path, format!("line {line}: {}", e.message().replace('\n', " ")))
        })?;
        config.check_names().map_err(|(name, reason)| {
            let names = |line: &str| line.split('=').next().is_some_and(|key| key.contains(&name));
            let line = text.lines().position(names).map_or(0, |line| line + 1);
            Error::bad_file(path, format!("line {line}: {reason}"))
        })?;
        Ok(config)
    }

    /// Every method is known; else what is not, and why.
    fn check_names(&self) -> Result<(), (String, Error)> {
        for key in &self.methods {
            methods::find(key).map_err(|e| ("methods".to_owned(), e))?;
        }
        Ok(())
    }

    /// # Errors
    /// If a path is not UTF-8, which TOML cannot hold.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|e| Error::usage(format!("the configuration cannot be written as TOML: {e}")))
    }

    /// The model's image shape, where the configuration says it.
    pub fn shape(&self) -> Result<Option<ImageShape>> {
        let parse = |text: &String| text.parse().map_err(|e| Error::usage(format!("shape: {e}")));
        self.shape.as_ref().map(parse).transpose()
    }

    /// The problem: read, or measured anew, which writes down what was left open of it.
    ///
    /// # Errors
    /// If it cannot be read or measured, or if it is none or two.
    pub fn load_problem(&mut self) -> Result<Problem> {
        let shared = &mut Reuse::default();
        let begun = self.begin_problem()?;
        self.finish_problem(begun, shared)
    }

    /// Reads the problem, where it is a file. What is measured waits until the settings are known to be right.
    pub(super) fn begin_problem(&self) -> Result<Begun> {
        match (&self.problem, &self.measure) {
            (Some(path), None) => Problem::read(path).map(Begun::Read),
            (None, Some(_)) if self.first.is_some() => Err(Error::usage(
                "of images that are measured, `[measure]` says the `first` one",
            )),
            (None, Some(_)) => Ok(Begun::ToMeasure),
            _ => Err(Error::usage(
                "a configuration names either `problem` or `[measure]`, and not both",
            )),
        }
    }

    /// The problem: read already, or measured now, with A from an earlier problem where that is the same.
    pub(super) fn finish_problem(&mut self, begun: Begun, shared: &mut Reuse) -> Result<Problem> {
        match begun {
            Begun::Read(problem) => Ok(problem),
            Begun::ToMeasure => {
                let measure = self.measure.as_mut().expect("there is nothing else to measure");
                measure.resolve_sharing(MeasureConfig::load, shared)
            }
        }
    }

    /// Whether this is the problem that the configuration was resolved with; of one that never was, nobody knows.
    pub fn is_of(&self, problem: &Problem) -> bool {
        let of = |identity: &Identity| identity.problem == fingerprint::of_problem(problem);
        self.identity.as_ref().is_none_or(of)
    }

    /// The methods, in order.
    ///
    /// # Errors
    /// As [`methods::find`], and if there is none.
    pub fn kinds(&self) -> Result<Vec<&'static Kind>> {
        if self.methods.is_empty() {
            return Err(Error::setting("methods", "is empty: name one"));
        }
        self.methods.iter().map(|key| methods::find(key)).collect()
    }

    /// Puts settings, by name and as text, over those of every method that has them.
    ///
    /// # Errors
    /// As [`Method::set`](crate::methods::Method::set).
    pub fn apply<'a>(&mut self, settings: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Result<()> {
        for kind in self.kinds()? {
            let mut above = kind.open();
            for (name, text) in settings.clone().filter(|(name, _)| kind.has(name)) {
                above.set(name, text)?;
            }
            let below = self.settings.of(kind);
            self.settings.insert(above.over(below));
        }
        Ok(())
    }

    /// Writes down the settings that are left open: the named preset's, the model's for measurements that are `signs` or not,
    /// the preset's of the model's images.
    ///
    /// # Errors
    /// If a setting is unknown or out of its range, or the model's advice cannot be used.
    pub(crate) fn resolve_settings(&mut self, prior: &Prior, signs: bool) -> Result<()> {
        let preset = self.preset.take().map(|name| Preset::find(&name)).transpose()?;
        let mut settings = Settings::default();
        for kind in self.kinds()? {
            settings.insert(self.settings.of(kind).completed(prior, preset, signs)?);
        }
        self.settings = settings;
        Ok(())
    }

    /// Of the images that a resolved configuration asks for, those of its shard, counted from the first that it asks for.
    pub(super) fn share(&self) -> std::ops::Range<usize> {
        let count = self.count.unwrap_or(0);
        self.shard.map_or(0..count, |shard| shard.images(count))
    }

    /// Where two configurations differ: the setting, its value there and here.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let table = |config: &Self| Table::try_from(config).unwrap_or_default();
        let mut found = Vec::new();
        compare("", &table(self), &table(other), &mut found);
        found
    }
}

fn compare(prefix: &str, a: &Table, b: &Table, found: &mut Vec<String>) {
    let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let name = format!("{prefix}{key}");
        match (a.get(key), b.get(key)) {
            (Some(Value::Table(a)), Some(Value::Table(b))) => compare(&format!("{name}."), a, b, found),
            (a, b) if a == b => {}
            (a, b) => {
                let shown = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
                found.push(format!("{name} is {} there, {} here", shown(a), shown(b)));
            }
        }
    }
}
