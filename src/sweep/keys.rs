//! The keys of a sweep: the settings of a run by their own names, wherever in a configuration they stand.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use crate::methods::{self, METHODS, Options};
use crate::run::{MeasureConfig, RunConfig};
use crate::{Error, Result, bundled};

/// Keys at the top of a configuration that a sweep may set. Of them `count` and `seed` count for measuring as well.
const TOP: [&str; 9] = [
    "model", "shape", "preset", "problem", "count", "chains", "seed", "batch", "pictures",
];
/// The method of a point: one of `run`'s methods.
pub(super) const METHOD: &str = "method";
/// Settings of measuring that no file gives: they follow from others.
const INTERNAL: [&str; 1] = ["mean_square"];

/// Every key, for help and messages.
pub fn flat_keys() -> Vec<&'static str> {
    let mut keys = [&TOP[..], &[METHOD]].concat();
    let of_methods = METHODS.iter().flat_map(|kind| kind.settings());
    keys.extend(
        MeasureConfig::SETTINGS
            .iter()
            .chain(of_methods)
            .map(|setting| setting.name),
    );
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| !INTERNAL.contains(key));
    keys
}

/// Whether a key is a setting of a run; "ep.xi" is that of one method.
pub(super) fn check(key: &str) -> Result<()> {
    let known = match key.split_once('.') {
        Some((method, name)) => methods::find(method)?.has(name),
        None => flat_keys().contains(&key),
    };
    if known {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{key} is no setting of a run: there are {}",
        flat_keys().join(", ")
    )))
}

/// A value as somebody types it: a number, true or false, or a text.
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

/// A value as it is shown in names and tables: 1000 or 1e6, and a path by its last part.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.rsplit('/').next().unwrap_or(text).to_owned(),
        Value::Float(number) => number_shown(*number),
        Value::Integer(number) => number_shown(*number as f64),
        other => other.to_string(),
    }
}

fn number_shown(value: f64) -> String {
    let plain = value.to_string();
    let scientific = format!("{value:e}");
    if scientific.len() < plain.len() {
        scientific
    } else {
        plain
    }
}

/// The value as a number, where it is one.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

/// The run that these settings describe. A setting that the point's method does not have is not its own: it is left out.
pub(super) fn config(settings: &BTreeMap<String, Value>) -> Result<RunConfig> {
    let (mut top, mut measure, mut own) = (Table::new(), Table::new(), Table::new());
    let method = match settings.get(METHOD) {
        None => methods::DEFAULT,
        Some(Value::String(method)) => method,
        Some(other) => return Err(Error::setting("method", format!("{other} is no method's name"))),
    };
    let kind = methods::find(method)?;
    for (key, value) in settings {
        let value = absolute(key, value)?;
        if let Some((of, name)) = key.split_once('.') {
            if of == method {
                own.insert(name.to_owned(), value);
            }
        } else if kind.has(key) {
            // What is meant for this method alone stands above.
            own.entry(key.as_str()).or_insert(value);
        } else {
            if TOP.contains(&key.as_str()) {
                top.insert(key.clone(), value.clone());
            }
            if MeasureConfig::SETTINGS.iter().any(|setting| setting.name == key) {
                measure.insert(key.clone(), value);
            }
        }
    }
    top.insert(
        "methods".to_owned(),
        Value::Array(vec![Value::String(method.to_owned())]),
    );
    if top.contains_key("problem") {
        let about_both = |key: &&String| !["count", "seed"].contains(&key.as_str());
        if let Some(key) = measure.keys().find(about_both) {
            return Err(Error::usage(format!(
                "{key} is about measuring images, but a problem file holds its measurements already"
            )));
        }
    } else if measure.contains_key("images") {
        top.insert("measure".to_owned(), Value::Table(measure));
    } else {
        return Err(Error::usage(
            "what should be reconstructed? Name `images` or a `problem`, as in `images = \"digits/\"`",
        ));
    }
    top.insert(
        "settings".to_owned(),
        Value::Table(Table::from_iter([(method.to_owned(), Value::Table(own))])),
    );
    use serde::Deserialize;
    let config = RunConfig::deserialize(Value::Table(top));
    config.map_err(|e| Error::usage(e.message().replace('\n', " ")))
}

/// Paths as they will still be right in another folder.
fn absolute(key: &str, value: &Value) -> Result<Value> {
    let Value::String(text) = value else {
        return Ok(value.clone());
    };
    let is_path = match key {
        "model" | "images" | "problem" => !bundled::is_name(text),
        "matrix" => Path::new(text).is_file(),
        _ => false,
    };
    if !is_path {
        return Ok(value.clone());
    }
    let path = std::path::absolute(text).map_err(|e| Error::io(text, "read", e))?;
    let path = path
        .to_str()
        .ok_or_else(|| Error::usage(format!("{text}: the path is not UTF-8")))?;
    Ok(Value::String(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::{QcsSgm, QcsSgmPlus};

    fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, Value> {
        pairs
            .iter()
            .map(|&(key, value)| (key.to_owned(), value_of(value)))
            .collect()
    }

    #[test]
    fn a_setting_goes_where_a_run_has_it() {
        let of = |method: &str| {
            config(&settings(&[
                ("images", bundled::DIGITS),
                ("count", "3"),
                ("kappa", "1e3"),
                ("matrix", "ill-conditioned"),
                ("method", method),
                ("ep_iters", "7"),
                ("ep.xi", "0.25"),
                ("xi", "2"),
                ("seed", "5"),
            ]))
            .unwrap()
        };
        let ep = of("ep");
        let measure = ep.measure.as_ref().unwrap();
        assert_eq!(
            (ep.count, ep.seed, measure.count, measure.seed),
            (Some(3), 5, Some(3), Some(5))
        );
        assert_eq!(
            (measure.kappa, measure.matrix.as_deref()),
            (Some(1e3), Some("ill-conditioned"))
        );
        let settings = |method: &str| of(method).settings.of(methods::find(method).unwrap());
        let ep = QcsSgmPlus {
            ep_iters: Some(7),
            xi: Some(0.25),
            ..Default::default()
        };
        assert_eq!(settings("ep"), ep.into(), "the method's own stands above");
        let diag = QcsSgm {
            xi: Some(2.0),
            ..Default::default()
        };
        assert_eq!(settings("diag"), diag.into());
        assert_eq!(settings("turbo"), methods::TURBO.open(), "turbo has none of these");
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let refused = |pairs: &[(&str, &str)], words: &str| {
            let error = config(&settings(pairs)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        refused(&[("kappa", "3")], "what should be reconstructed");
        refused(&[("images", "x"), ("method", "magic")], "magic");
        refused(&[("images", "x"), ("kappa", "many")], "many");
        refused(&[("problem", "x"), ("kappa", "3")], "kappa is about measuring");
        assert!(check("kapa").unwrap_err().to_string().contains("kappa"));
        assert!(check("ep.kappa").is_err() && check("magic.xi").is_err());
        assert!(check("ep.xi").is_ok() && check("measurements").is_ok());
    }

    #[test]
    fn numbers_are_shown_in_their_shorter_form() {
        let all: Vec<String> = ["1000", "1e6", "0.05", "1e-300", "diag", "a/b.idx", "true"]
            .iter()
            .map(|text| shown(&value_of(text)))
            .collect();
        assert_eq!(all, ["1e3", "1e6", "0.05", "1e-300", "diag", "b.idx", "true"]);
    }
}
