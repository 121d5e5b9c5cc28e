//! How a metric is written down where it is no finite number.
//!
//! JSON has no infinity. An infinite PSNR (the image equals the truth) becomes the string `"inf"` and what is no
//! number `"nan"`, both of which Python's `float` takes back; `null` is left to mean
//! that there is nothing to tell, because there is no truth.

use serde::{Deserialize, Deserializer, Serializer, de};

/// A number, or the word that stands for one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(f64),
    Word(String),
}

impl Written {
    fn number<E: de::Error>(self) -> Result<f64, E> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Word(word) => word.parse().map_err(|_| E::custom(format!("{word:?} is no number"))),
        }
    }
}

/// For `#[serde(serialize_with)]` and the like on an `f64`.
pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        serializer.serialize_f64(*value)
    } else {
        serializer.serialize_str(&text(*value))
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Written::deserialize(deserializer)?.number()
}

/// The same for an `Option<f64>`.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Serializer, Written};

    pub(crate) fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Option::<Written>::deserialize(deserializer)?
            .map(Written::number)
            .transpose()
    }
}

/// The shortest text that is read back as the same number; `inf` or `nan` where it is not finite.
pub(crate) fn text(value: f64) -> String {
    if value.is_nan() {
        "nan".into()
    } else {
        value.to_string()
    }
}
