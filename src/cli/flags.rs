//! Flags that several commands share. All are optional: what is left out comes from the configuration, the preset or the
//! model. What the settings of methods and of measuring are called and do stands with them, in the library; here they become
//! flags.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use qcs::files::{on_one_line, safetensors};
use qcs::methods::{METHODS, Options, Setting};
use qcs::prior::Prior;
use qcs::run::{RunConfig, load_prior, told_of_shape};
use qcs::{ImageShape, Result, bundled};

/// TOML holds no larger integer.
pub const MOST_SEED: i64 = i64::MAX;

/// Which score network.
#[derive(Args, Clone, Debug)]
pub struct ModelFlags {
    /// Weights of a score network (.safetensors), or a published file or folder as it is; the shipped MNIST prior if left out
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Image shape C,H,W, for a model file that does not say it; one that does is told of, and works on this one
    #[arg(long, value_name = "C,H,W")]
    pub shape: Option<ImageShape>,
}

impl ModelFlags {
    pub fn given(&self) -> bool {
        self.model.is_some() || self.shape.is_some()
    }

    /// Puts the flags over a configuration.
    pub fn apply(&self, config: &mut RunConfig) -> Result<()> {
        if let Some(model) = &self.model {
            config.model = absolute(model)?;
            config.shape = None;
        }
        if let Some(shape) = self.shape {
            config.shape = Some(shape.to_string());
        }
        Ok(())
    }

    /// A word on a shape that is not the file's own.
    pub fn note(&self, name: &str, prior: &Prior) -> Option<String> {
        told_of_shape(name, self.shape, prior).map(|words| format!("note: {words}"))
    }

    /// The name of the model, and the model.
    pub fn load(&self) -> Result<(String, Prior)> {
        self.load_for(None)
    }

    /// The same; images of this shape are at hand, where the file does not say its own.
    pub fn load_for(&self, images: Option<ImageShape>) -> Result<(String, Prior)> {
        let name = match &self.model {
            Some(model) if !model.to_str().is_some_and(bundled::is_name) => model,
            bundled => {
                let name = bundled.as_deref().and_then(Path::to_str).unwrap_or(Prior::SHIPPED);
                return Ok((name.to_owned(), load_prior(name, self.shape)?));
            }
        };
        // A published folder or checkpoint has other ways to say it, or none.
        let is_silent = || match is_problem(name) && !name.is_dir() {
            true => safetensors::read(name, |file| Ok(file.text("image_size").is_none())),
            false => Ok(Prior::open(name, None).is_err()),
        };
        let shape = match (self.shape, images) {
            (None, Some(images)) if is_silent()? => Some(images),
            (shape, _) => shape,
        };
        Ok((name.display().to_string(), Prior::open(name, shape)?))
    }
}

/// The path as it will still be right in another folder; names of bundled data stay as they are.
pub fn absolute(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| {
        qcs::Error::usage(format!(
            "{}: the path is not UTF-8, which a configuration must be",
            path.display()
        ))
    })?;
    if bundled::is_name(text) {
        return Ok(text.to_owned());
    }
    let absolute: PathBuf = std::path::absolute(path).map_err(|e| qcs::Error::io(path, "read", e))?;
    Ok(absolute.to_str().map_or_else(|| text.to_owned(), str::to_owned))
}

/// Tells which array of an archive was taken.
pub fn taken(path: &Path, array: &str) -> String {
    format!(
        "note: of several arrays {}:{} is taken",
        path.display(),
        on_one_line(array)
    )
}

/// Whether a file is a problem rather than images: by its name or by its first bytes.
pub fn is_problem(path: &Path) -> bool {
    let named = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("safetensors"));
    // A safetensors file starts with the length of its header, eight bytes, and the header with a brace.
    let starts_so = || {
        use std::io::Read;
        let mut start = [0; 9];
        let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
        read.is_ok() && start[8] == b'{' && start[5..8] == [0; 3]
    };
    named || path.is_file() && starts_so()
}

/// Settings of the library as flags.
#[derive(Clone, Debug, Default)]
pub struct Flags<O> {
    pub options: O,
    /// The names of those that were given
    pub given: Vec<&'static str>,
}

impl<O> Flags<O> {
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }
}

impl<O: Options> Args for Flags<O> {
    fn augment_args(command: Command) -> Command {
        command.args(O::SETTINGS.iter().filter_map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<O: Options> FromArgMatches for Flags<O> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (mut options, mut names) = (O::default(), Vec::new());
        for (name, text) in given(matches, O::SETTINGS) {
            options.set(name, text).map_err(refused)?;
            names.push(name);
        }
        Ok(Self { options, given: names })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The settings of every method as flags: each has one name, so that a flag reaches all methods that have it.
#[derive(Clone, Debug, Default)]
pub struct MethodFlags(Vec<(&'static str, String)>);

impl MethodFlags {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.0.iter().map(|(name, text)| (*name, text.as_str()))
    }

    /// Every setting once, with the methods that have it.
    fn settings() -> Vec<(&'static Setting, Vec<&'static str>)> {
        let mut all: Vec<(&Setting, Vec<&str>)> = Vec::new();
        for kind in METHODS {
            for setting in kind.settings() {
                match all.iter_mut().find(|(known, _)| known.name == setting.name) {
                    Some((_, titles)) => titles.push(kind.title()),
                    None => all.push((setting, vec![kind.title()])),
                }
            }
        }
        all
    }
}

impl Args for MethodFlags {
    fn augment_args(command: Command) -> Command {
        let arg = |(setting, titles): (&'static Setting, Vec<&str>)| {
            let heading = titles.join(" and ");
            let mut letters = heading.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            let heading: String = first.into_iter().chain(letters).collect();
            arg(setting).map(|arg| arg.help_heading(heading))
        };
        command.args(Self::settings().into_iter().filter_map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for MethodFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let settings = Self::settings().into_iter().map(|(setting, _)| setting);
        let given = given(matches, settings).map(|(name, text)| (name, text.clone()));
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flag of a setting, where it has one.
fn arg(setting: &'static Setting) -> Option<Arg> {
    let arg = Arg::new(setting.name)
        .long(setting.name.replace('_', "-"))
        .value_name(setting.value_name?)
        .help(help(setting));
    let check = setting.check;
    let arg = match setting.choices {
        // A switch may stand alone.
        ["true", "false"] => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(PossibleValuesParser::new(setting.choices)),
        [] => arg.value_parser(move |text: &str| check(text).map(|()| text.to_owned())),
        choices => arg.value_parser(PossibleValuesParser::new(choices)),
    };
    Some(match setting.name {
        "measurements" => arg.short('m'),
        // Two ways to say one thing.
        "step_scale" => arg.conflicts_with("epsilon"),
        "xi" => arg.conflicts_with("gamma"),
        _ => arg,
    })
}

/// A setting's help as that of a flag: on one line, settings that it names as flags.
fn help(setting: &Setting) -> String {
    let line: Vec<&str> = setting.help.split_whitespace().collect();
    let mut text = String::new();
    // Every second part stands in backticks.
    for (index, part) in line.join(" ").split('`').enumerate() {
        if index % 2 == 1 {
            text += "--";
            text += &part.replace('_', "-");
        } else {
            text += part;
        }
    }
    text
}

/// Those of the settings that were given, as they were typed.
fn given<'m>(
    matches: &'m ArgMatches,
    settings: impl IntoIterator<Item = &'static Setting> + 'm,
) -> impl Iterator<Item = (&'static str, &'m String)> {
    settings.into_iter().filter_map(|setting| {
        let text = matches.try_get_one::<String>(setting.name).ok().flatten()?;
        Some((setting.name, text))
    })
}

fn refused(error: qcs::Error) -> clap::Error {
    clap::Error::raw(clap::error::ErrorKind::InvalidValue, error)
}
