//! Random numbers as a function of what they are for.
//!
//! Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011) maps a 128-bit counter
//! and a 64-bit key to four words. A [`Stream`] names one use (seed, domain, image, chain, step) and its elements are
//! numbered, so a value does not depend on batch size, order, threads or device.

use crate::coefficients::{COS, LN, SIN};
use crate::float::{Float, horner};

/// Philox4x32-10: four random words for a counter and a key.
#[inline(always)]
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    let mut round = 0;
    while round < 10 {
        let p0 = u64::from(c0) * 0xD251_1F53;
        let p1 = u64::from(c2) * 0xCD9E_8D57;
        (c0, c1, c2, c3) = (
            (p1 >> 32) as u32 ^ c1 ^ k0,
            p1 as u32,
            (p0 >> 32) as u32 ^ c3 ^ k1,
            p0 as u32,
        );
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
        round += 1;
    }
    [c0, c1, c2, c3]
}

/// What random numbers are used for; no two uses share a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Domain {
    /// Langevin noise.
    Noise = 0,
    /// The start of a chain, uniform on (0, 1).
    Start = 1,
    /// The entries of a measurement matrix.
    Matrix = 2,
    /// The noise n of simulated measurements.
    Measurement = 3,
    /// Random weights of a network, for benchmarks and tests.
    Weights = 4,
}

/// A numbered sequence of random values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The run's seed.
    pub seed: u64,
    /// What the values are for.
    pub domain: Domain,
    /// Index of the image in the problem.
    pub image: u32,
    /// Index of the chain of that image, below 2²⁴.
    pub chain: u32,
    /// Langevin step, counted over all levels.
    pub step: u32,
}

impl Stream {
    /// The four words of elements `4·block` to `4·block + 3`.
    #[inline(always)]
    pub fn words(&self, block: u32) -> [u32; 4] {
        debug_assert!(
            self.chain < 1 << 24,
            "the chain shares its counter word with the domain"
        );
        let use_and_chain = (self.domain as u32) << 24 | self.chain;
        philox4x32(
            [block, self.step, use_and_chain, self.image],
            [self.seed as u32, (self.seed >> 32) as u32],
        )
    }

    /// Elements `first`, `first + 1`, … of this stream as standard normal values; any sub-range gives the same values.
    #[inline(always)]
    pub fn fill_normals(&self, first: usize, out: &mut [f32]) {
        self.fill(first, out, Law::Normal);
    }

    /// Elements `first`, `first + 1`, … of this stream, uniform on [0, 1); any sub-range gives the same values.
    #[inline(always)]
    pub fn fill_uniforms(&self, first: usize, out: &mut [f32]) {
        self.fill(first, out, Law::Uniform);
    }

    /// Element e is value e % 4 of block e / 4.
    #[inline(always)]
    fn fill(&self, first: usize, out: &mut [f32], law: Law) {
        let skipped = first % 4;
        let (head, body) = out.split_at_mut(out.len().min((4 - skipped) % 4));
        if !head.is_empty() {
            let values = law.values(self.words((first / 4) as u32));
            head.copy_from_slice(&values[skipped..skipped + head.len()]);
        }
        let mut block = first.div_ceil(4) as u32;
        let (whole, rest) = body.as_chunks_mut::<4>();
        for chunk in whole {
            *chunk = law.values(self.words(block));
            block += 1;
        }
        if !rest.is_empty() {
            rest.copy_from_slice(&law.values(self.words(block))[..rest.len()]);
        }
    }
}

/// What a word becomes. An enum, not a closure: a closure would be compiled apart, without the caller's fma.
#[derive(Clone, Copy)]
enum Law {
    Normal,
    Uniform,
}

impl Law {
    #[inline(always)]
    fn values(self, words: [u32; 4]) -> [f32; 4] {
        match self {
            Law::Normal => normals(words),
            Law::Uniform => words.map(uniform),
        }
    }
}

/// A multiple of 2⁻²⁴ in [0, 1), from a word's upper 24 bits.
#[inline(always)]
pub fn uniform(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Four standard normal values from four words: two Box–Muller pairs, each a radius and an angle.
#[inline(always)]
pub fn normals(words: [u32; 4]) -> [f32; 4] {
    let [a, b] = normal_pair(words[0], words[1]);
    let [c, d] = normal_pair(words[2], words[3]);
    [a, b, c, d]
}

#[inline(always)]
fn normal_pair(radius: u32, angle: u32) -> [f32; 2] {
    // In (0, 1], never 0: the smallest is 2⁻³³, a radius of 6.76.
    let u = (radius as f32).fma(1.0 / 4_294_967_296.0, 0.5 / 4_294_967_296.0);
    let radius = (-2.0 * ln(u)).root();
    let (sine, cosine) = sin_cos_turns(angle);
    [radius * cosine, radius * sine]
}

/// `ln x` of a positive normal f32, within two units in the last place.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    const LN2_HIGH: f32 = 355.0 / 512.0; // nine bits: exact times any exponent
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // x = m·2^e with √½ ≤ m < √2: the exponent field counts from the bits of √½.
    const ROOT_HALF: u32 = 0x3f35_04f3;
    let offset = x.to_bits().wrapping_sub(ROOT_HALF) as i32;
    let exponent = (offset >> 23) as f32;
    let f = f32::from_bits(((offset & 0x007f_ffff) as u32).wrapping_add(ROOT_HALF)) - 1.0;
    let tail = horner!(f; LN; 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let square = f * f;
    let small = exponent.fma(LN2_LOW, square * f.fma(tail, -0.5));
    exponent.fma(LN2_HIGH, f + small)
}

/// Sine and cosine of `2π·turns/2³²`, within two units in the last place.
#[inline(always)]
pub fn sin_cos_turns(turns: u32) -> (f32, f32) {
    // The nearest quarter turn, and the exact signed rest of at most an eighth.
    let quarter = turns.wrapping_add(1 << 29) >> 30;
    let rest = turns.wrapping_sub(quarter << 30) as i32;
    // rest·π/2³¹ rounded once: the integer has 30 bits and π no end, so both are taken in two parts.
    const RADIANS_HIGH: f32 = core::f32::consts::PI / 2_147_483_648.0;
    const RADIANS_LOW: f32 = -8.742_278e-8 / 2_147_483_648.0;
    let high = rest as f32;
    let low = (rest - high as i32) as f32;
    let theta = high.fma(RADIANS_HIGH, high.fma(RADIANS_LOW, low * RADIANS_HIGH));
    let z = theta * theta;
    let sine = (theta * z).fma(horner!(z; SIN; 2, 1, 0), theta);
    let cosine = (z * z).fma(horner!(z; COS; 2, 1, 0), z.fma(-0.5, 1.0));
    let (sine, cosine) = if quarter & 1 == 1 {
        (cosine, -sine)
    } else {
        (sine, cosine)
    };
    if quarter & 2 == 2 {
        (-sine, -cosine)
    } else {
        (sine, cosine)
    }
}
