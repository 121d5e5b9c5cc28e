//! Options of a method: one struct is at once its flags, its table in a configuration and a model file's advice.

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::prior::Prior;
use crate::{Error, Result};

/// A struct of optional settings, made by the macro `options!`.
pub trait Options: Default + Serialize + DeserializeOwned {
    /// The settings' names: those of the fields, of the flags (with dashes) and of the keys in a file.
    const NAMES: &'static [&'static str];

    /// These settings, and those of `below` where one is not given.
    fn over(self, below: Self) -> Self;

    /// From a configuration's table.
    ///
    /// # Errors
    /// [`Error::Usage`] if a key is unknown or a value of another type.
    fn from_table(table: &Table) -> Result<Self> {
        let read = Self::deserialize(Value::Table(table.clone()));
        read.map_err(|e| Error::usage(e.message().replace('\n', " ")))
    }

    /// For a configuration: what is given.
    fn to_table(&self) -> Table {
        Table::try_from(self).expect("options are plain values")
    }

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
        let there = |name: &&&str| prior.metadata.contains_key(&format!("{prefix}{name}"));
        let table: Table = Self::NAMES
            .iter()
            .filter(there)
            .map(|&name| (name.to_owned(), value_of(&prior.metadata[&format!("{prefix}{name}")])))
            .collect();
        Self::from_table(&table).map_err(|e| {
            let names: Vec<String> = table.keys().map(|name| format!("{prefix}{name}")).collect();
            let reason = format!("its advice in the metadata ({}) cannot be used: {e}", names.join(", "));
            Error::bad_file(&prior.source, reason)
        })
    }
}

/// A value as somebody types it, or as a model's metadata hold it: a number, true or false, or a text.
pub fn value_of(text: &str) -> Value {
    if let Ok(number) = text.parse::<i64>() {
        Value::Integer(number)
    } else if let Ok(number) = text.parse::<f64>() {
        Value::Float(number)
    } else if let Ok(flag) = text.parse::<bool>() {
        Value::Boolean(flag)
    } else {
        Value::String(text.to_owned())
    }
}

/// Defines a struct of `Options`. Each field is given as `name: Type` and becomes an `Option<Type>`; its documentation is
/// the flag's help.
macro_rules! options {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $($(#[$meta:meta])* pub $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, clap::Args, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[$meta])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }

        impl $name {
            /// Each setting, or that of `below` where it is not given.
            pub(crate) fn or(self, below: Self) -> Self {
                Self { $($field: self.$field.or(below.$field),)* }
            }

            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];
        }
    };
}
pub(crate) use options;

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
