//! A = S·(F₁ ⊗ F₂ ⊗ …)·P·D: signs over the pixels, an order of them, a small matrix along each axis, a choice of rows.
//!
//! Nothing of size M×N or M×M is ever formed. The eigenvalues of A·Aᵀ are products of the factors', and U = U₁ ⊗ U₂ ⊗ …. Rows
//! may be chosen where every factor's rows are orthogonal and of one norm: then all eigenvalues are the same, and there is
//! no rotation.

use qcs_kernels::product::along::{Axis, along};
use qcs_kernels::product::butterflies::butterflies;
use qcs_kernels::product::pick::{NOTHING, pick};
use qcs_kernels::product::signed::signed;

use super::factor::{Factor, transposed};
use super::{Array, Stage};
use crate::error::{Error, Result};
use crate::plan::ArrayId;

/// The parts of a structured operator, as a problem file has them.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// What it is, for people: "hadamard".
    pub label: String,
    /// Along the axes of the image, or of what the order makes of it.
    pub factors: Vec<Factor>,
    /// D, `[N]`, each 1 or −1.
    pub signs: Option<Vec<f32>>,
    /// P, `[N]`: the pixel that comes to each place. Without one, pixels stay where they are.
    pub order: Option<Vec<u32>>,
    /// S, `[M]`: the rows of the product that are measured. Without one, all are.
    pub rows: Option<Vec<u32>>,
}

/// An operator of [`Parts`], with all that follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Structured {
    parts: Parts,
    m: usize,
    n: usize,
    arrays: Vec<Stored>,
    signs: Option<ArrayId>,
    forward: Vec<Stage>,
    adjoint: Vec<Stage>,
    rotation: Vec<Stage>,
    rotation_back: Vec<Stage>,
    eigenvalues: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq)]
enum Stored {
    F32(Vec<f32>),
    F64(Vec<f64>),
    U32(Vec<u32>),
}

/// Indices are u32, and one of them means nothing.
const MOST: usize = NOTHING as usize;

impl Structured {
    /// # Errors
    /// [`Error::Usage`] if the parts do not fit each other: see the messages.
    pub fn new(parts: Parts) -> Result<Self> {
        let n = size(parts.factors.iter().map(Factor::cols))?;
        let whole = size(parts.factors.iter().map(Factor::rows))?;
        parts.check(n, whole)?;
        let spectra = parts.factors.iter().map(Factor::spectrum).collect::<Result<Vec<_>>>()?;
        let rotates = spectra.iter().any(|spectrum| spectrum.u.is_some());
        if rotates && parts.rows.is_some() {
            return Err(Error::usage(
                "rows can be chosen only where each factor has orthogonal rows of one norm: leave `rows` out, or take such factors",
            ));
        }
        let m = parts.rows.as_ref().map_or(whole, Vec::len);
        let mut made = Self {
            m,
            n,
            arrays: Vec::new(),
            signs: None,
            forward: Vec::new(),
            adjoint: Vec::new(),
            rotation: Vec::new(),
            rotation_back: Vec::new(),
            eigenvalues: product(spectra.iter().map(|s| s.eigenvalues.as_slice())),
            parts,
        };
        made.eigenvalues.truncate(m);
        made.signs = made.parts.signs.clone().map(|signs| made.store(Stored::F32(signs)));
        made.lay_out(n, whole);
        if rotates {
            let sizes: Vec<usize> = made.parts.factors.iter().map(Factor::rows).collect();
            let vectors = spectra.into_iter().map(|spectrum| spectrum.u.map(Applied::Matrix));
            let vectors: Vec<Option<Applied>> = vectors.collect();
            // Uᵀ first: entries are the eigenvectors as columns.
            (made.rotation_back, made.rotation) = made.along_axes(&vectors, &sizes, &sizes);
        }
        Ok(made)
    }

    /// The stages of A and of Aᵀ.
    fn lay_out(&mut self, n: usize, whole: usize) {
        let applied = |factor: &Factor| match factor {
            Factor::Hadamard(_) => Some(Applied::Butterflies),
            _ => factor.entries().map(Applied::Matrix),
        };
        let factors: Vec<Option<Applied>> = self.parts.factors.iter().map(applied).collect();
        let rows: Vec<usize> = self.parts.factors.iter().map(Factor::rows).collect();
        let cols: Vec<usize> = self.parts.factors.iter().map(Factor::cols).collect();
        let (forward, adjoint) = self.along_axes(&factors, &rows, &cols);
        let order = self.parts.order.clone().map(|order| self.picks(order, n));
        let chosen = self.parts.rows.clone().map(|rows| self.picks(rows, whole));
        self.forward = order.iter().map(|(there, _)| *there).chain(forward).collect();
        self.forward.extend(chosen.iter().map(|(there, _)| *there));
        self.adjoint = chosen.iter().map(|(_, back)| *back).chain(adjoint).collect();
        self.adjoint.extend(order.iter().map(|(_, back)| *back));
    }

    /// Taking the elements at `places` of so many, and the way back.
    fn picks(&mut self, places: Vec<u32>, of: usize) -> (Stage, Stage) {
        let mut back = vec![NOTHING; of];
        for (at, &place) in places.iter().enumerate() {
            back[place as usize] = at as u32;
        }
        let to = places.len();
        let there = Stage::Pick {
            index: self.store(Stored::U32(places)),
            to,
        };
        let back = Stage::Pick {
            index: self.store(Stored::U32(back)),
            to: of,
        };
        (there, back)
    }

    /// The stages that bring axes of lengths `cols` to lengths `rows`, and those of the transposed matrices.
    fn along_axes(&mut self, factors: &[Option<Applied>], rows: &[usize], cols: &[usize]) -> (Vec<Stage>, Vec<Stage>) {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < factors.len() {
            let mut end = at + 1;
            match &factors[at] {
                None => (),
                // Sylvester's matrices of two axes are that of both as one.
                Some(Applied::Butterflies) => {
                    while matches!(factors.get(end), Some(Some(Applied::Butterflies))) {
                        end += 1;
                    }
                    let length = cols[at..end].iter().product();
                    there.push(Stage::Butterflies {
                        length,
                        inner: cols[end..].iter().product(),
                    });
                    back.push(Stage::Butterflies {
                        length,
                        inner: rows[end..].iter().product(),
                    });
                }
                Some(Applied::Matrix(entries)) => {
                    let other = self.store(Stored::F64(transposed(entries, cols[at])));
                    let matrix = self.store(Stored::F64(entries.clone()));
                    there.push(Stage::Along {
                        matrix,
                        transposed: other,
                        // Axes before this one have been multiplied already.
                        axis: Axis {
                            outer: rows[..at].iter().product(),
                            rows: rows[at],
                            columns: cols[at],
                            inner: cols[end..].iter().product(),
                        },
                    });
                    back.push(Stage::Along {
                        matrix: other,
                        transposed: matrix,
                        axis: Axis {
                            outer: cols[..at].iter().product(),
                            rows: cols[at],
                            columns: rows[at],
                            inner: rows[end..].iter().product(),
                        },
                    });
                }
            }
            at = end;
        }
        (there, back)
    }

    fn store(&mut self, array: Stored) -> ArrayId {
        self.arrays.push(array);
        ArrayId::new(self.arrays.len() - 1)
    }

    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    pub fn rows(&self) -> usize {
        self.m
    }

    pub fn cols(&self) -> usize {
        self.n
    }

    pub fn signs(&self) -> Option<ArrayId> {
        self.signs
    }

    /// From the signed pixels to the measurements.
    pub fn forward(&self) -> &[Stage] {
        &self.forward
    }

    /// From the measurements to pixels that still want their signs.
    pub fn adjoint(&self) -> &[Stage] {
        &self.adjoint
    }

    /// Uᵀ; nothing where there is no rotation.
    pub fn rotation(&self) -> &[Stage] {
        &self.rotation
    }

    /// U
    pub fn rotation_back(&self) -> &[Stage] {
        &self.rotation_back
    }

    /// Of A·Aᵀ, in the order of the rotated measurements.
    pub fn eigenvalues(&self) -> &[f64] {
        &self.eigenvalues
    }

    pub fn diag(&self) -> Vec<f64> {
        let norms: Vec<Vec<f64>> = self.parts.factors.iter().map(Factor::diag).collect();
        let all = product(norms.iter().map(Vec::as_slice));
        match &self.parts.rows {
            None => all,
            Some(rows) => rows.iter().map(|&row| all[row as usize]).collect(),
        }
    }

    pub fn arrays(&self) -> Vec<Array<'_>> {
        let array = |at: usize| self.array(ArrayId::new(at));
        (0..self.arrays.len()).map(array).collect()
    }

    pub fn times(&self, x: &[f64]) -> Vec<f64> {
        assert_eq!(x.len(), self.n, "x must have N entries");
        let mut values = vec![0.0; x.len()];
        signed(x, self.parts.signs.as_deref(), &mut values);
        self.apply(&self.forward, values)
    }

    pub fn transpose_times(&self, z: &[f64]) -> Vec<f64> {
        assert_eq!(z.len(), self.m, "z must have M entries");
        let pixels = self.apply(&self.adjoint, z.to_vec());
        let mut x = vec![0.0; pixels.len()];
        signed(&pixels, self.parts.signs.as_deref(), &mut x);
        x
    }

    /// Stage after stage, by the ops' twins.
    pub fn apply(&self, stages: &[Stage], mut values: Vec<f64>) -> Vec<f64> {
        for stage in stages {
            match *stage {
                Stage::Butterflies { length, inner } => butterflies(length, inner, &mut values),
                Stage::Along { matrix, axis, .. } => {
                    let mut output = vec![0.0; axis.outer * axis.rows * axis.inner];
                    along(self.array(matrix).f64s(), axis, &values, &mut output);
                    values = output;
                }
                Stage::Pick { index, to } => {
                    let mut output = vec![0.0; to];
                    pick(&values, self.array(index).u32s(), &mut output);
                    values = output;
                }
            }
        }
        values
    }

    fn array(&self, id: ArrayId) -> Array<'_> {
        match &self.arrays[id.index()] {
            Stored::F32(values) => Array::F32(values),
            Stored::F64(values) => Array::F64(values),
            Stored::U32(values) => Array::U32(values),
        }
    }
}

/// What is done along an axis.
enum Applied {
    Butterflies,
    Matrix(Vec<f64>),
}

impl Parts {
    /// Whether all of it fits N pixels and so many rows of the product.
    fn check(&self, n: usize, whole: usize) -> Result<()> {
        for (axis, factor) in self.factors.iter().enumerate() {
            if let &Factor::Hadamard(length) = factor
                && !length.is_power_of_two()
            {
                return Err(Error::usage(format!(
                    "a Hadamard factor of length {length} along axis {axis}: the length must be a power of two, take dct"
                )));
            }
        }
        if let Some(signs) = &self.signs {
            if signs.len() != n {
                return Err(Error::usage(format!("there are {} signs for {n} pixels", signs.len())));
            }
            if let Some(at) = signs.iter().position(|sign| sign.abs() != 1.0) {
                return Err(Error::usage(format!("sign {at} is {}: it must be 1 or -1", signs[at])));
            }
        }
        if let Some(order) = &self.order {
            distinct("order", order, n)?;
            if order.len() != n {
                return Err(Error::usage(format!(
                    "`order` has {} places for {n} pixels",
                    order.len()
                )));
            }
        }
        match &self.rows {
            Some(rows) if rows.is_empty() => Err(Error::usage("`rows` is empty: nothing is measured")),
            Some(rows) => distinct("rows", rows, whole),
            None => Ok(()),
        }
    }
}

/// Refuses places that are not there, and a place taken twice.
fn distinct(name: &str, places: &[u32], of: usize) -> Result<()> {
    let mut seen = vec![false; of];
    for (at, &place) in places.iter().enumerate() {
        match seen.get_mut(place as usize) {
            None => {
                return Err(Error::usage(format!(
                    "`{name}` has {place} at {at}: it must be below {of}"
                )));
            }
            Some(true) => {
                return Err(Error::usage(format!(
                    "`{name}` has {place} twice, the second time at {at}"
                )));
            }
            Some(seen) => *seen = true,
        }
    }
    Ok(())
}

fn size(mut lengths: impl Iterator<Item = usize>) -> Result<usize> {
    let product = lengths.try_fold(1usize, |product, length| product.checked_mul(length));
    match product {
        Some(0) => Err(Error::usage("an operator needs axes of one element at least")),
        Some(product) if product < MOST => Ok(product),
        _ => Err(Error::usage(format!(
            "an operator on more than the {MOST} elements that can be indexed"
        ))),
    }
}

/// All products of one value of each list, the last list's running fastest.
fn product<'a>(lists: impl Iterator<Item = &'a [f64]>) -> Vec<f64> {
    lists.fold(vec![1.0], |all, list| {
        all.iter().flat_map(|a| list.iter().map(move |b| a * b)).collect()
    })
}
