//! Reading the committed oracles.

use std::path::PathBuf;

use safetensors::{Dtype, SafeTensors};

/// One golden file, in memory.
pub struct Golden {
    bytes: Vec<u8>,
}

impl Golden {
    pub fn open(name: &str) -> Self {
        let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "goldens", name].iter().collect();
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self { bytes }
    }

    pub fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.bytes).expect("goldens are whole")
    }

    pub fn shape(&self, name: &str) -> Vec<usize> {
        self.tensors().tensor(name).expect(name).shape().to_vec()
    }

    pub fn f64(&self, name: &str) -> Vec<f64> {
        let tensors = self.tensors();
        let tensor = tensors.tensor(name).expect(name);
        let bytes = |width: usize| tensor.data().chunks_exact(width);
        match tensor.dtype() {
            Dtype::F64 => bytes(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
            Dtype::F32 => bytes(4)
                .map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap())))
                .collect(),
            Dtype::F16 => bytes(2)
                .map(|b| half::f16::from_le_bytes(b.try_into().unwrap()).to_f64())
                .collect(),
            Dtype::I64 => bytes(8)
                .map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f64)
                .collect(),
            other => panic!("{name} is {other:?}"),
        }
    }

    pub fn f32(&self, name: &str) -> Vec<f32> {
        self.f64(name).into_iter().map(|v| v as f32).collect()
    }

    pub fn names(&self) -> Vec<String> {
        self.tensors().names().into_iter().map(str::to_owned).collect()
    }
}

/// ‖a − b‖/‖b‖
pub fn relative_error(a: &[f32], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let difference: f64 = a.iter().zip(b).map(|(&a, b)| (f64::from(a) - b).powi(2)).sum();
    let norm: f64 = b.iter().map(|b| b * b).sum();
    (difference / norm).sqrt()
}
