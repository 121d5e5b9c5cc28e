//! Inputs: reproducible, different for every use.

use qcs_kernels::philox::{Domain, Stream};

/// Standard normal values; `name` numbers the input.
pub fn normals(name: u32, len: usize) -> Vec<f32> {
    let mut values = vec![0.0; len];
    stream(name).fill_normals(0, &mut values);
    values
}

/// The same in f64.
pub fn normals_f64(name: u32, len: usize) -> Vec<f64> {
    normals(name, len).into_iter().map(f64::from).collect()
}

/// Values in [0, 1).
pub fn uniforms(name: u32, len: usize) -> Vec<f32> {
    let mut values = vec![0.0; len];
    stream(name).fill_uniforms(0, &mut values);
    values
}

/// Noise levels, another one for each state.
pub fn levels(states: usize) -> Vec<f64> {
    (0..states).map(|state| 1.7 / (1 + state) as f64).collect()
}

fn stream(name: u32) -> Stream {
    Stream {
        seed: 7,
        domain: Domain::Weights,
        image: name,
        chain: 0,
        step: 0,
    }
}

/// A feature map `[batch][channels / 8][pixels][8]` of normal values, its padding channels 0.
pub fn feature_map(name: u32, batch: usize, channels: usize, pixels: usize) -> Vec<f32> {
    let blocks = channels.div_ceil(8);
    let mut values = normals(name, batch * blocks * pixels * 8);
    for (at, value) in values.iter_mut().enumerate() {
        let channel = at / (8 * pixels) % blocks * 8 + at % 8;
        if channel >= channels {
            *value = 0.0;
        }
    }
    values
}
