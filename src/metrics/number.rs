//! How a metric is written down where it is no finite number.
//!
//! JSON has no infinity. An infinite PSNR (the image equals the truth) becomes the string `"inf"` and what is no
//! number `"nan"`, both of which Python's `float` takes back; `null` is left to mean
//! that there is nothing to tell, because there is no truth.

use serde::Serializer;

/// For `#[serde(serialize_with)]` on an `f64`.
pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        serializer.serialize_f64(*value)
    } else {
        serializer.serialize_str(&text(*value))
    }
}

/// For `#[serde(serialize_with)]` on an `Option<f64>`.
pub(crate) fn serialize_option<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serialize(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// The shortest text that is read back as the same number; `inf` or `nan` where it is none.
pub(crate) fn text(value: f64) -> String {
    if value.is_nan() {
        "nan".into()
    } else {
        value.to_string()
    }
}
