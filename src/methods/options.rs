//! Settings that may be left open: one struct is at once what a program writes, a command's flags, a table in a configuration
//! and a model file's advice.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::files::Size;
use crate::prior::Prior;
use crate::problem::Measurements;
use crate::{Error, Result};

/// One setting, for code that reads it from a flag or a text.
pub struct Setting {
    /// The name of the field, and of the key in a file
    pub name: &'static str,
    /// What it does. A setting's name stands in backticks.
    pub help: &'static str,
    /// What its value is called on a command line; `None` if it is not offered there
    pub value_name: Option<&'static str>,
    /// The words that it may be, where it is one of a few
    pub choices: &'static [&'static str],
    /// Refuses a text that is not a value of it, with the reason.
    pub check: fn(&str) -> Result<(), String>,
}

/// A struct of optional settings, made by the macro `options!`.
pub trait Options: Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Every setting, in the order of the fields.
    const SETTINGS: &'static [Setting];

    /// These settings, and those of `below` where one is not given.
    fn over(self, below: Self) -> Self;

    /// Gives the setting `name` the value that `text` stands for.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such setting, [`Error::Setting`] if the text is no value of it.
    fn set(&mut self, name: &str, text: &str) -> Result<()>;

    /// What a model's file advises: the entries of its metadata that have a setting's name, or that with the method's key
    /// in front ("ep.xi"), which count for this method alone.
    ///
    /// # Errors
    /// [`Error::BadFile`] if such an entry is not a value of its setting.
    fn advised(prior: &Prior, key: &str, signs: bool) -> Result<Self> {
        Ok(Self::advised_alone(prior, key, signs)?.over(Self::entries(prior, "")?))
    }

    /// The part of it that counts for this method alone; what is said of measurements that are signs ("ep.signs.xi") counts
    /// for these alone, and first.
    ///
    /// # Errors
    /// As [`advised`](Options::advised).
    fn advised_alone(prior: &Prior, key: &str, signs: bool) -> Result<Self> {
        // Read also where it does not count: a file is wrong whatever it is used for.
        let of_signs = Self::entries(prior, &format!("{key}.signs."))?;
        let of_method = Self::entries(prior, &format!("{key}."))?;
        Ok(if signs { of_signs.over(of_method) } else { of_method })
    }

    /// The entries of a model's metadata that have a setting's name with `prefix` in front.
    ///
    /// # Errors
    /// As [`advised`](Options::advised).
    fn entries(prior: &Prior, prefix: &str) -> Result<Self> {
        let mut found = Self::default();
        for setting in Self::SETTINGS {
            let name = format!("{prefix}{}", setting.name);
            if let Some(text) = prior.metadata.get(&name) {
                found.set(setting.name, text).map_err(|e| {
                    let reason = format!("its advice in the metadata ({name}) cannot be used: {e}");
                    Error::bad_file(&prior.source, reason)
                })?;
            }
        }
        Ok(found)
    }
}

/// A value of a setting.
pub trait Value: Sized {
    /// The words that it may be, where it is one of a few.
    const CHOICES: &'static [&'static str] = &[];

    /// # Errors
    /// What the text should have been.
    fn parse(text: &str) -> Result<Self, String>;
}

impl Value for f64 {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "a number is needed".to_owned())
    }
}

impl Value for u64 {
    fn parse(text: &str) -> Result<Self, String> {
        let number = text.parse().map_err(|_| "a whole number is needed".to_owned())?;
        // A configuration's integers end there.
        if number > i64::MAX as Self {
            return Err(format!("at most {}", i64::MAX));
        }
        Ok(number)
    }
}

impl Value for usize {
    fn parse(text: &str) -> Result<Self, String> {
        let number = u64::parse(text)?;
        Self::try_from(number).map_err(|_| format!("at most {}", Self::MAX))
    }
}

impl Value for u8 {
    fn parse(text: &str) -> Result<Self, String> {
        let number = u64::parse(text)?;
        Self::try_from(number).map_err(|_| format!("at most {}", Self::MAX))
    }
}

impl Value for bool {
    const CHOICES: &'static [&'static str] = &["true", "false"];

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "true or false is needed".to_owned())
    }
}

impl Value for Measurements {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

impl Value for Size {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

impl Value for String {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl Value for Vec<f32> {
    fn parse(text: &str) -> Result<Self, String> {
        let number = |part: &str| {
            part.trim()
                .parse()
                .map_err(|_| "a list of numbers is needed".to_owned())
        };
        text.split(',').map(number).collect()
    }
}

/// Defines an enum whose variants are words: as a setting's value, in a configuration and where it is shown.
macro_rules! words {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $($(#[$meta:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$meta])* #[serde(rename = $word)] $variant,)*
        }

        impl $crate::methods::options::Value for $name {
            const CHOICES: &'static [&'static str] = &[$($word),*];

            fn parse(text: &str) -> std::result::Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(format!("one of {} is needed", Self::CHOICES.join(", "))),
                }
            }
        }
    };
}
pub(crate) use words;

/// Defines a struct of [`Options`]. Each field is given as `name: Type = "VALUE"` and becomes an `Option<Type>`; its
/// documentation is the flag's help, `"VALUE"` what the flag's value is called. Without it there is no flag.
macro_rules! options {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $($(#[doc = $doc:literal])* pub $field:ident: $type:ty $(= $value:literal)?,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[doc = $doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }

        impl $name {
            /// Each setting, or that of `below` where it is not given.
            #[allow(dead_code)] // QCS-SGM goes by the rules of QCS-SGM+
            pub(crate) fn or(self, below: Self) -> Self {
                Self { $($field: self.$field.or(below.$field),)* }
            }

            const FIELDS: &'static [$crate::methods::options::Setting] = &[$($crate::methods::options::Setting {
                name: stringify!($field),
                help: concat!($($doc, "\n"),*),
                value_name: $crate::methods::options::first(&[$($value)?]),
                choices: <$type as $crate::methods::options::Value>::CHOICES,
                check: |text| <$type as $crate::methods::options::Value>::parse(text).map(|_| ()),
            }),*];

            /// See [`Options::set`](crate::methods::Options::set).
            fn set_field(&mut self, name: &str, text: &str) -> $crate::Result<()> {
                match name {
                    $(stringify!($field) => {
                        let value = <$type as $crate::methods::options::Value>::parse(text);
                        let refused = |reason| $crate::methods::options::refused(stringify!($field), text, reason);
                        self.$field = Some(value.map_err(refused)?);
                    })*
                    _ => return Err($crate::methods::options::unknown(name, Self::FIELDS)),
                }
                Ok(())
            }
        }
    };
}
pub(crate) use options;

pub(crate) const fn first(names: &[&'static str]) -> Option<&'static str> {
    match names {
        [name, ..] => Some(*name),
        [] => None,
    }
}

pub(crate) fn refused(name: &'static str, text: &str, reason: impl std::fmt::Display) -> Error {
    Error::setting(name, format!("cannot be {text:?}: {reason}"))
}

pub(crate) fn unknown(name: &str, settings: &[Setting]) -> Error {
    let names: Vec<&str> = settings.iter().map(|setting| setting.name).collect();
    Error::usage(format!("there is no setting {name}: there are {}", names.join(", ")))
}

/// Refuses a number that is not positive and finite.
pub fn positive(setting: &'static str, value: f64) -> Result<f64> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(Error::setting(
            setting,
            format!("must be positive and finite, not {}", shown(value)),
        ))
    }
}

/// Refuses a number outside a range.
pub fn between(setting: &'static str, least: usize, most: usize, value: usize) -> Result<usize> {
    if value < least {
        Err(Error::setting(
            setting,
            format!("must be at least {least}, not {value}"),
        ))
    } else if value > most {
        Err(Error::setting(setting, format!("must be at most {most}, not {value}")))
    } else {
        Ok(value)
    }
}

/// A number as a person would write it: 1e-300 without its zeros.
pub fn shown(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e7).contains(&magnitude) {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}
