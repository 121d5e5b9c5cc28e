//! The settings of a run's methods, as a configuration holds them: a table to each method, under its key.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Result;
use crate::methods::{self, Kind, Method};

/// The settings of methods. Any may be left open, and so may every one of a method.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings(BTreeMap<&'static str, Method>);

impl Settings {
    /// Those of a method; all are open if nobody has said anything.
    pub fn of(&self, kind: &Kind) -> Method {
        self.0.get(kind.key()).cloned().unwrap_or_else(|| kind.open())
    }

    /// Puts settings in the place of what was there for their method.
    pub fn insert(&mut self, method: Method) {
        self.0.insert(method.kind().key(), method);
    }
}

impl Serialize for Settings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.0)
    }
}

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tables;
        impl<'de> Visitor<'de> for Tables {
            type Value = Settings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of settings to each method")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut tables: A) -> Result<Settings, A::Error> {
                let mut settings = Settings::default();
                while let Some(key) = tables.next_key::<String>()? {
                    let kind = methods::find(&key).map_err(A::Error::custom)?;
                    settings.insert(tables.next_value_seed(kind)?);
                }
                Ok(settings)
            }
        }
        deserializer.deserialize_map(Tables)
    }
}
