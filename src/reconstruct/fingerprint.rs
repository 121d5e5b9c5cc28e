//! Hashes that tell whether two runs are the same: against accidents, not against forgers.

use crate::Images;
pub use crate::files::hash::{Hash, of_text};
use crate::prior::{Prior, parameters};
use crate::problem::{Array, Operator, Problem, Spectrum};

impl Hash {
    fn f32s(&mut self, values: &[f32]) {
        self.word(values.len() as u64);
        values.iter().for_each(|value| self.word(u64::from(value.to_bits())));
    }

    fn f64s(&mut self, values: &[f64]) {
        self.word(values.len() as u64);
        values.iter().for_each(|value| self.word(value.to_bits()));
    }

    fn operator(&mut self, a: &Operator) {
        self.word(a.rows() as u64);
        if let Some(parts) = a.parts() {
            // What the arrays do not tell: which transform an axis has.
            let factors = parts.factors.iter().map(|f| format!("{} {}", f.name(), f.cols()));
            self.bytes(factors.collect::<Vec<_>>().join(",").as_bytes());
        }
        for array in a.arrays() {
            match array {
                Array::F32(values) => self.f32s(values),
                Array::F64(values) => self.f64s(values),
                Array::U32(values) => self.blob(bytemuck::cast_slice(values)),
            }
        }
    }
}

/// The hash of pixels and their shape.
pub fn of_images(images: &Images) -> String {
    let mut hash = Hash::new();
    hash.bytes(images.shape.to_string().as_bytes());
    hash.f32s(&images.data);
    hash.hex()
}

/// The hash of a network's shape and weights, of its description where they do not tell it, and of what it knows of itself as a denoiser.
pub fn of_prior(prior: &Prior) -> String {
    let mut hash = Hash::new();
    hash.bytes(prior.image().to_string().as_bytes());
    for param in parameters(prior.network()) {
        hash.f32s(prior.weight(&param.name));
    }
    if let Some(config) = prior.network().config() {
        hash.bytes(config.as_bytes());
    }
    if let Some(denoiser) = prior.denoiser() {
        hash.f32s(&denoiser.mean);
        hash.f32s(&denoiser.levels);
        hash.f32s(&denoiser.errors);
        hash.f64s(&[denoiser.variance]);
    }
    hash.hex()
}

/// The hash of an operator.
pub fn of_operator(a: &Operator) -> String {
    let mut hash = Hash::new();
    hash.operator(a);
    hash.hex()
}

/// The hash of a factorisation.
pub fn of_spectrum(spectrum: &Spectrum) -> String {
    let mut hash = Hash::new();
    hash.f64s(&spectrum.eigenvalues);
    spectrum.u.iter().for_each(|u| hash.f64s(u));
    hash.hex()
}

/// The hash of what decides the posterior: A, the cells and the noise.
pub fn of_problem(problem: &Problem) -> String {
    let mut hash = Hash::new();
    hash.operator(problem.a());
    hash.f64s(problem.cells().lower());
    hash.f64s(problem.cells().upper());
    hash.word(problem.sigma().to_bits());
    problem.sigmas().iter().for_each(|sigmas| hash.f64s(sigmas));
    hash.hex()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_bit_of_every_word_changes_the_hash() {
        let mut seen = HashSet::new();
        for at in 0..4 {
            for bit in 0..64 {
                let mut values = [0.5f64; 4];
                values[at] = f64::from_bits(values[at].to_bits() ^ (1 << bit));
                let mut hash = Hash::new();
                hash.f64s(&values);
                assert!(seen.insert(hash.hex()), "word {at}, bit {bit}");
            }
        }
        assert_ne!(of_text("ab"), of_text("ba"));
    }
}
