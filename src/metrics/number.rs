//! How a metric is written down where it is no finite number.
//!
//! JSON has no infinity, and programs that read it want a number or `null`. An infinite PSNR (the image equals the truth) is
//! `null` beside `exact: true`, and the mean of one with others is `null`: where there is nothing to tell, there is no mean at
//! all. In CSV it is `inf`.

use serde::{Deserialize, Deserializer, Serializer, de};

/// A number, nothing, or the word that stood for one in files of earlier versions.
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
        serializer.serialize_none()
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let written = Option::<Written>::deserialize(deserializer)?;
    written.map_or(Ok(f64::INFINITY), Written::number)
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
