//! A structured operator in a problem file: what it is as metadata, its numbers as small tensors.

use serde::{Deserialize, Serialize};

use super::{Factor, Operator, Parts};
use crate::error::{Error, Result};
use crate::files::safetensors::{Slice, Tensor, TensorFile};
use crate::problem::{Matrix, Values};

/// The metadata that describe the operator, as JSON.
pub const KEY: &str = "operator";
/// The tensors of factors that are matrices, by axis.
const FACTORS: [&str; 4] = ["factor.0", "factor.1", "factor.2", "factor.3"];

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    /// For people
    #[serde(default)]
    label: String,
    axes: Vec<Axis>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Axis {
    factor: String,
    /// Of the axis; a matrix has it from its tensor
    #[serde(default, skip_serializing_if = "Option::is_none")]
    length: Option<usize>,
}

impl Parts {
    /// The metadata.
    pub(in crate::problem) fn description(&self) -> String {
        let axis = |factor: &Factor| Axis {
            factor: factor.name().to_owned(),
            length: (!matches!(factor, Factor::Matrix(_))).then(|| factor.cols()),
        };
        let description = Description {
            label: self.label.clone(),
            axes: self.factors.iter().map(axis).collect(),
        };
        serde_json::json!(description).to_string()
    }

    /// The tensors.
    pub(in crate::problem) fn tensors(&self) -> Vec<Tensor<'_>> {
        let mut tensors = Vec::new();
        for (factor, name) in self.factors.iter().zip(FACTORS) {
            if let Factor::Matrix(matrix) = factor {
                let values = match matrix.values() {
                    Values::F32(values) => Slice::F32(values),
                    Values::F64(values) => Slice::F64(values),
                };
                tensors.push(Tensor::new(name, &[matrix.rows(), matrix.cols()], values));
            }
        }
        let signs = self.signs.iter();
        tensors.extend(signs.map(|signs| Tensor::new("signs", &[signs.len()], Slice::F32(signs))));
        let indices = [("order", &self.order), ("rows", &self.rows)];
        for (name, index) in indices {
            tensors.extend(
                index
                    .iter()
                    .map(|index| Tensor::new(name, &[index.len()], Slice::U32(index))),
            );
        }
        tensors
    }
}

impl Operator {
    /// The operator that a file describes, if it does.
    pub(in crate::problem) fn read(file: &TensorFile<'_>) -> Result<Option<Self>> {
        let Some(text) = file.text(KEY) else {
            return Ok(None);
        };
        let description: Description = serde_json::from_str(text)
            .map_err(|e| Error::usage(format!("the metadata's `{KEY}` is no operator: {e}")))?;
        if !(1..=FACTORS.len()).contains(&description.axes.len()) {
            return Err(Error::usage(format!(
                "the metadata's `{KEY}` has {} axes: 1 to {} are possible",
                description.axes.len(),
                FACTORS.len()
            )));
        }
        let axes = description.axes.iter().zip(FACTORS);
        let factors = axes
            .map(|(axis, name)| factor(file, axis, name))
            .collect::<Result<_>>()?;
        let index = |name: &str| file.has(name).then(|| file.indices(name)).transpose();
        let parts = Parts {
            label: description.label,
            factors,
            signs: file.has("signs").then(|| file.small("signs")).transpose()?,
            order: index("order")?,
            rows: index("rows")?,
        };
        Self::structured(parts).map(Some)
    }
}

fn factor(file: &TensorFile<'_>, axis: &Axis, tensor: &str) -> Result<Factor> {
    let length = || match axis.length {
        Some(length @ 1..) => Ok(length),
        _ => Err(Error::usage(format!(
            "the metadata's `{KEY}`: an axis of factor {} needs a length of 1 at least",
            axis.factor
        ))),
    };
    Ok(match axis.factor.as_str() {
        "identity" => Factor::Identity(length()?),
        "hadamard" => Factor::Hadamard(length()?),
        "dct" => Factor::Dct(length()?),
        "hartley" => Factor::Hartley(length()?),
        "matrix" => {
            let ([rows, cols], values) = file.values(tensor)?;
            if axis.length.is_some_and(|length| length != cols) {
                return Err(Error::usage(format!(
                    "`{tensor}` has {cols} columns, but its axis a length of {}",
                    axis.length.unwrap_or_default()
                )));
            }
            Factor::Matrix(Matrix::new(rows, cols, values)?)
        }
        other => {
            return Err(Error::usage(format!(
                "the metadata's `{KEY}` has a factor {other:?}: it must be identity, hadamard, dct, hartley or matrix"
            )));
        }
    })
}
