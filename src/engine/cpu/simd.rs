//! Eight floats or four doubles at a time: AVX2 with FMA where the machine has it, plain arrays elsewhere; sixteen floats
//! with AVX-512.
//!
//! Vector code is written once, generic over [`F32x8`] or [`F64x4`] and `#[inline(always)]`; [`dispatch!`] compiles it
//! for both. The two differ in rounding (the plain one has no fused multiply-add), so bits are a matter of the
//! instruction set, never of batch, threads or timing. AVX-512 gives the bits of AVX2: it does the same sums, two blocks of
//! channels at once. It serves where arithmetic is the limit, in Winograd's sums; [`dispatch_wide!`] compiles that.

use qcs_kernels::network::activation::Function;

/// The instruction set that the ops were compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Isa {
    /// The best that this machine offers.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return if is_x86_feature_detected!("avx512f") {
                Self::Avx512
            } else {
                Self::Avx2
            };
        }
        Self::Portable
    }

    /// Every one that this machine offers, the plainest first.
    pub fn all() -> Vec<Self> {
        match Self::detect() {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => vec![Self::Portable, Self::Avx2, Self::Avx512],
            best if best == Self::Portable => vec![best],
            best => vec![Self::Portable, best],
        }
    }

    /// Whether there are instructions that multiply bf16: AVX-512 BF16.
    pub fn multiplies_bf16(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        if self == Self::Avx512 {
            return is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512bw");
        }
        false
    }

    /// What results are told apart by. AVX-512 counts as another set than AVX2: our ops give the same bits with both, the
    /// eigendecomposition of A·Aᵀ does not.
    pub fn rounds_as(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "cpu-avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "cpu-avx2",
            Self::Portable if cfg!(target_arch = "x86_64") => "cpu-x86",
            Self::Portable if cfg!(target_arch = "aarch64") => "cpu-aarch64",
            Self::Portable => "cpu-portable",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "AVX2+FMA",
            Self::Portable => "portable",
        }
    }
}

/// Calls `body::<V, …>(…)` with the vector types of `isa`, compiled with that instruction set enabled.
///
/// `dispatch!(isa, body(args…))` expects `fn body<F: F32x8, D: F64x4>(args…)`, inlined.
macro_rules! dispatch {
    ($isa:expr, $body:ident ( $($arg:ident : $ty:ty),* $(,)? )) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        #[allow(clippy::too_many_arguments)] // the operands of an op
        unsafe fn avx2($($arg: $ty),*) {
            $body::<$crate::engine::cpu::simd::avx2::F32, $crate::engine::cpu::simd::avx2::F64>($($arg),*)
        }
        match $isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: both are only made where `Isa::detect` found AVX2 and FMA.
            $crate::engine::cpu::simd::Isa::Avx512 | $crate::engine::cpu::simd::Isa::Avx2 => unsafe { avx2($($arg),*) },
            $crate::engine::cpu::simd::Isa::Portable => $body::<[f32; 8], [f64; 4]>($($arg),*),
        }
    }};
}
pub(crate) use dispatch;

/// The same as [`dispatch!`], with one more version for AVX-512.
macro_rules! dispatch_wide {
    ($isa:expr, $body:ident ( $($arg:ident : $ty:ty),* $(,)? )) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,avx512f")]
        unsafe fn avx512($($arg: $ty),*) {
            $body::<$crate::engine::cpu::simd::avx512::F32, $crate::engine::cpu::simd::avx2::F64>($($arg),*)
        }
        match $isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Isa::Avx512` is only made where `Isa::detect` found all three.
            $crate::engine::cpu::simd::Isa::Avx512 => unsafe { avx512($($arg),*) },
            other => $crate::engine::cpu::simd::dispatch!(other, $body($($arg: $ty),*)),
        }
    }};
}
pub(crate) use dispatch_wide;

/// The same as [`dispatch!`], with one more version for AVX-512 BF16. Elsewhere its instructions are imitated, slowly.
macro_rules! dispatch_bf16 {
    ($isa:expr, $body:ident ( $($arg:ident : $ty:ty),* $(,)? )) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512bf16")]
        unsafe fn avx512($($arg: $ty),*) {
            $body::<$crate::engine::cpu::simd::avx512::F32, $crate::engine::cpu::simd::avx2::F64>($($arg),*)
        }
        match $isa {
            #[cfg(target_arch = "x86_64")]
            isa if isa.multiplies_bf16() => {
                // SAFETY: the machine was found to have all five.
                unsafe { avx512($($arg),*) }
            }
            other => $crate::engine::cpu::simd::dispatch!(other, $body($($arg: $ty),*)),
        }
    }};
}
pub(crate) use dispatch_bf16;

/// Arithmetic on several f32 at once.
pub trait Floats: Copy {
    fn splat(value: f32) -> Self;
    /// self·a + b
    fn mul_add(self, a: Self, b: Self) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    /// The larger; `other` where either is NaN.
    fn max(self, other: Self) -> Self;
    /// The smaller; `other` where either is NaN.
    fn min(self, other: Self) -> Self;
    /// To the nearest integer, ties to even.
    fn round(self) -> Self;
    /// 2 to the power of an integer between −126 and 127.
    fn exp2_integer(self) -> Self;
    /// `self` where `condition` is greater than zero, `other` elsewhere.
    fn where_positive(self, condition: Self, other: Self) -> Self;
}

/// Eight f32. Loads and stores panic unless the slice holds eight values from its start.
pub trait F32x8: Floats {
    /// Two blocks of eight side by side.
    type Pair: F32x16<Half = Self>;
    fn load(from: &[f32]) -> Self;
    fn store(self, to: &mut [f32]);
}

/// Sixteen f32: two of [`F32x8`]. Loads and stores panic unless the slice holds sixteen values from its start.
pub trait F32x16: Floats {
    type Half: F32x8<Pair = Self>;
    /// How many of them can be summed in registers at once.
    const SUMS: usize;
    fn load(from: &[f32]) -> Self;
    fn store(self, to: &mut [f32]);
    fn of_halves(halves: [Self::Half; 2]) -> Self;
    fn halves(self) -> [Self::Half; 2];
    /// Each half rounded to bf16, two numbers to a float's bits, in order.
    fn to_bf16(self) -> [[f32; 4]; 2] {
        self.halves().map(|half| {
            let mut values = [0.0; 8];
            half.store(&mut values);
            std::array::from_fn(|k| bf16_pair(values[2 * k], values[2 * k + 1]))
        })
    }
    /// In each place the pair (self, other), rounded to bf16.
    fn with_bf16(self, other: Self) -> Self {
        let (mut first, mut second) = ([0.0; 16], [0.0; 16]);
        self.store(&mut first);
        other.store(&mut second);
        Self::load(&std::array::from_fn::<_, 16, _>(|k| bf16_pair(first[k], second[k])))
    }
    /// a·b of pairs in bf16, plus self, in f32.
    fn add_bf16_products(self, a: Self, b: Self) -> Self {
        let unpacked = |pairs: Self| {
            let mut bits = [0.0; 16];
            pairs.store(&mut bits);
            let low = bits.map(|pair| f32::from_bits(pair.to_bits() << 16));
            let high = bits.map(|pair| f32::from_bits(pair.to_bits() & 0xffff_0000));
            [Self::load(&low), Self::load(&high)]
        };
        let ([a0, a1], [b0, b1]) = (unpacked(a), unpacked(b));
        a0.mul_add(b0, a1.mul_add(b1, self))
    }
}

/// Two numbers in bf16, to the nearest, ties to even, the first in the lower half.
fn bf16_pair(low: f32, high: f32) -> f32 {
    let bf16 = |x: f32| {
        let bits = x.to_bits();
        if x.is_nan() {
            return bits >> 16 | 0x40;
        }
        (bits + 0x7fff + (bits >> 16 & 1)) >> 16
    };
    f32::from_bits(bf16(low) | bf16(high) << 16)
}

/// Four f64. Loads and stores panic unless the slice holds four values from its start.
pub trait F64x4: Copy {
    fn splat(value: f64) -> Self;
    fn load(from: &[f64]) -> Self;
    /// Four f32, widened.
    fn load_f32(from: &[f32]) -> Self;
    fn store(self, to: &mut [f64]);
    /// self·a + b
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// (0 + 1) + (2 + 3)
    fn sum(self) -> f64;
}

/// Two registers of eight; twelve sums leave four of AVX2's sixteen registers for the factors.
impl<F: F32x8<Pair = Self>> F32x16 for [F; 2] {
    type Half = F;
    const SUMS: usize = 6;
    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        [F::load(from), F::load(&from[8..])]
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        self[0].store(to);
        self[1].store(&mut to[8..]);
    }
    #[inline(always)]
    fn of_halves(halves: [F; 2]) -> Self {
        halves
    }
    #[inline(always)]
    fn halves(self) -> [F; 2] {
        self
    }
}

impl<F: Floats> Floats for [F; 2] {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        [F::splat(value); 2]
    }
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        [self[0].mul_add(a[0], b[0]), self[1].mul_add(a[1], b[1])]
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        [self[0].add(other[0]), self[1].add(other[1])]
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        [self[0].sub(other[0]), self[1].sub(other[1])]
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        [self[0].mul(other[0]), self[1].mul(other[1])]
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        [self[0].div(other[0]), self[1].div(other[1])]
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        [self[0].max(other[0]), self[1].max(other[1])]
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        [self[0].min(other[0]), self[1].min(other[1])]
    }
    #[inline(always)]
    fn round(self) -> Self {
        [self[0].round(), self[1].round()]
    }
    #[inline(always)]
    fn exp2_integer(self) -> Self {
        [self[0].exp2_integer(), self[1].exp2_integer()]
    }
    #[inline(always)]
    fn where_positive(self, condition: Self, other: Self) -> Self {
        [
            self[0].where_positive(condition[0], other[0]),
            self[1].where_positive(condition[1], other[1]),
        ]
    }
}

impl Floats for [f32; 8] {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        [value; 8]
    }
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        std::array::from_fn(|i| self[i] * a[i] + b[i])
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        std::array::from_fn(|i| self[i] + other[i])
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        std::array::from_fn(|i| self[i] - other[i])
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        std::array::from_fn(|i| self[i] * other[i])
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        std::array::from_fn(|i| self[i] / other[i])
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        std::array::from_fn(|i| if self[i] > other[i] { self[i] } else { other[i] })
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        std::array::from_fn(|i| if self[i] < other[i] { self[i] } else { other[i] })
    }
    #[inline(always)]
    fn round(self) -> Self {
        // Adding and removing 1.5·2²³ rounds to an integer for |x| < 2²²; exp's arguments are far smaller.
        const MAGIC: f32 = 12_582_912.0;
        std::array::from_fn(|i| (self[i] + MAGIC) - MAGIC)
    }
    #[inline(always)]
    fn exp2_integer(self) -> Self {
        std::array::from_fn(|i| f32::from_bits(((self[i] as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    fn where_positive(self, condition: Self, other: Self) -> Self {
        std::array::from_fn(|i| if condition[i] > 0.0 { self[i] } else { other[i] })
    }
}

impl F32x8 for [f32; 8] {
    type Pair = [Self; 2];
    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        std::array::from_fn(|i| from[i])
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        to[..8].copy_from_slice(&self);
    }
}

impl F64x4 for [f64; 4] {
    #[inline(always)]
    fn splat(value: f64) -> Self {
        [value; 4]
    }
    #[inline(always)]
    fn load(from: &[f64]) -> Self {
        std::array::from_fn(|i| from[i])
    }
    #[inline(always)]
    fn load_f32(from: &[f32]) -> Self {
        std::array::from_fn(|i| f64::from(from[i]))
    }
    #[inline(always)]
    fn store(self, to: &mut [f64]) {
        to[..4].copy_from_slice(&self);
    }
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        std::array::from_fn(|i| self[i] * a[i] + b[i])
    }
    #[inline(always)]
    fn sum(self) -> f64 {
        (self[0] + self[1]) + (self[2] + self[3])
    }
}

/// The AVX2 vectors. Every method needs AVX2 and FMA, which holds because the types are only named inside functions
/// that [`dispatch!`] compiles and calls for [`Isa::Avx2`] or [`Isa::Avx512`].
#[cfg(target_arch = "x86_64")]
pub mod avx2 {
    use std::arch::x86_64::*;

    use super::{F32x8, F64x4, Floats};

    #[derive(Clone, Copy)]
    pub struct F32(pub(super) __m256);

    #[derive(Clone, Copy)]
    pub struct F64(__m256d);

    // SAFETY of every block below: the instruction set is there (see the module), and loads and stores are bounded by
    // a slice of the right length.
    impl Floats for F32 {
        #[inline(always)]
        fn splat(value: f32) -> Self {
            unsafe { Self(_mm256_set1_ps(value)) }
        }
        #[inline(always)]
        fn mul_add(self, a: Self, b: Self) -> Self {
            unsafe { Self(_mm256_fmadd_ps(self.0, a.0, b.0)) }
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            unsafe { Self(_mm256_add_ps(self.0, other.0)) }
        }
        #[inline(always)]
        fn sub(self, other: Self) -> Self {
            unsafe { Self(_mm256_sub_ps(self.0, other.0)) }
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            unsafe { Self(_mm256_mul_ps(self.0, other.0)) }
        }
        #[inline(always)]
        fn div(self, other: Self) -> Self {
            unsafe { Self(_mm256_div_ps(self.0, other.0)) }
        }
        #[inline(always)]
        fn max(self, other: Self) -> Self {
            unsafe { Self(_mm256_max_ps(self.0, other.0)) }
        }
        #[inline(always)]
        fn min(self, other: Self) -> Self {
            unsafe { Self(_mm256_min_ps(self.0, other.0)) }
        }
        #[inline(always)]
        fn round(self) -> Self {
            unsafe {
                Self(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(
                    self.0,
                ))
            }
        }
        #[inline(always)]
        fn exp2_integer(self) -> Self {
            unsafe {
                let biased = _mm256_add_epi32(_mm256_cvtps_epi32(self.0), _mm256_set1_epi32(127));
                Self(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased)))
            }
        }
        #[inline(always)]
        fn where_positive(self, condition: Self, other: Self) -> Self {
            unsafe {
                let positive = _mm256_cmp_ps::<_CMP_GT_OQ>(condition.0, _mm256_setzero_ps());
                Self(_mm256_blendv_ps(other.0, self.0, positive))
            }
        }
    }

    impl F32x8 for F32 {
        type Pair = [Self; 2];
        #[inline(always)]
        fn load(from: &[f32]) -> Self {
            unsafe { Self(_mm256_loadu_ps(from[..8].as_ptr())) }
        }
        #[inline(always)]
        fn store(self, to: &mut [f32]) {
            unsafe { _mm256_storeu_ps(to[..8].as_mut_ptr(), self.0) }
        }
    }

    impl F64x4 for F64 {
        #[inline(always)]
        fn splat(value: f64) -> Self {
            unsafe { Self(_mm256_set1_pd(value)) }
        }
        #[inline(always)]
        fn load(from: &[f64]) -> Self {
            unsafe { Self(_mm256_loadu_pd(from[..4].as_ptr())) }
        }
        #[inline(always)]
        fn load_f32(from: &[f32]) -> Self {
            unsafe { Self(_mm256_cvtps_pd(_mm_loadu_ps(from[..4].as_ptr()))) }
        }
        #[inline(always)]
        fn store(self, to: &mut [f64]) {
            unsafe { _mm256_storeu_pd(to[..4].as_mut_ptr(), self.0) }
        }
        #[inline(always)]
        fn mul_add(self, a: Self, b: Self) -> Self {
            unsafe { Self(_mm256_fmadd_pd(self.0, a.0, b.0)) }
        }
        #[inline(always)]
        fn sum(self) -> f64 {
            let mut lanes = [0.0; 4];
            self.store(&mut lanes);
            (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
        }
    }
}

/// The AVX-512 vectors: those of AVX2, but a pair of them is one register. Only named inside functions that
/// [`dispatch_wide!`] compiles and calls for [`Isa::Avx512`].
#[cfg(target_arch = "x86_64")]
pub mod avx512 {
    use std::arch::x86_64::*;

    use super::{F32x8, F32x16, Floats, avx2};

    #[derive(Clone, Copy)]
    pub struct F32(avx2::F32);

    #[derive(Clone, Copy)]
    pub struct Pair(__m512);

    /// 0, 16, 1, 17, …: two rows of sixteen as pairs.
    const INTERLEAVED: [u16; 32] = {
        let mut order = [0; 32];
        let mut k = 0;
        while k < 32 {
            order[k] = (k / 2 + k % 2 * 16) as u16;
            k += 1;
        }
        order
    };

    // SAFETY of every block below: the instruction set is there (see the module), and loads and stores are bounded by
    // a slice of the right length.
    impl F32x16 for Pair {
        type Half = F32;
        /// More than the eight that hide the latency of a multiply-add, and few enough loads beside them.
        const SUMS: usize = 24;
        #[inline(always)]
        fn load(from: &[f32]) -> Self {
            unsafe { Self(_mm512_loadu_ps(from[..16].as_ptr())) }
        }
        #[inline(always)]
        fn store(self, to: &mut [f32]) {
            unsafe { _mm512_storeu_ps(to[..16].as_mut_ptr(), self.0) }
        }
        /// This and the next two need AVX-512 BF16 and are only named in what [`dispatch_bf16!`] compiles for it.
        #[inline(always)]
        fn to_bf16(self) -> [[f32; 4]; 2] {
            // SAFETY: of the same size.
            unsafe { std::mem::transmute(_mm512_cvtneps_pbh(self.0)) }
        }
        #[inline(always)]
        fn with_bf16(self, other: Self) -> Self {
            unsafe {
                let both = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(other.0, self.0));
                let order = _mm512_loadu_si512(INTERLEAVED.as_ptr().cast());
                Self(_mm512_castsi512_ps(_mm512_permutexvar_epi16(order, both)))
            }
        }
        #[inline(always)]
        fn add_bf16_products(self, a: Self, b: Self) -> Self {
            // SAFETY: of the same size.
            let bits = |pairs: Self| unsafe { std::mem::transmute::<__m512, __m512bh>(pairs.0) };
            unsafe { Self(_mm512_dpbf16_ps(self.0, bits(a), bits(b))) }
        }
        #[inline(always)]
        fn of_halves([low, high]: [F32; 2]) -> Self {
            unsafe {
                let low = _mm512_castps_pd(_mm512_castps256_ps512(low.0.0));
                let both = _mm512_insertf64x4::<1>(low, _mm256_castps_pd(high.0.0));
                Self(_mm512_castpd_ps(both))
            }
        }
        #[inline(always)]
        fn halves(self) -> [F32; 2] {
            unsafe {
                let high = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(self.0));
                [
                    F32(avx2::F32(_mm512_castps512_ps256(self.0))),
                    F32(avx2::F32(_mm256_castpd_ps(high))),
                ]
            }
        }
    }

    impl Floats for Pair {
        #[inline(always)]
        fn splat(value: f32) -> Self {
            unsafe { Self(_mm512_set1_ps(value)) }
        }
        #[inline(always)]
        fn mul_add(self, a: Self, b: Self) -> Self {
            unsafe { Self(_mm512_fmadd_ps(self.0, a.0, b.0)) }
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            unsafe { Self(_mm512_add_ps(self.0, other.0)) }
        }
        #[inline(always)]
        fn sub(self, other: Self) -> Self {
            unsafe { Self(_mm512_sub_ps(self.0, other.0)) }
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            unsafe { Self(_mm512_mul_ps(self.0, other.0)) }
        }
        #[inline(always)]
        fn div(self, other: Self) -> Self {
            unsafe { Self(_mm512_div_ps(self.0, other.0)) }
        }
        #[inline(always)]
        fn max(self, other: Self) -> Self {
            unsafe { Self(_mm512_max_ps(self.0, other.0)) }
        }
        #[inline(always)]
        fn min(self, other: Self) -> Self {
            unsafe { Self(_mm512_min_ps(self.0, other.0)) }
        }
        #[inline(always)]
        fn round(self) -> Self {
            unsafe { Self(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)) }
        }
        #[inline(always)]
        fn exp2_integer(self) -> Self {
            unsafe {
                let biased = _mm512_add_epi32(_mm512_cvtps_epi32(self.0), _mm512_set1_epi32(127));
                Self(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased)))
            }
        }
        #[inline(always)]
        fn where_positive(self, condition: Self, other: Self) -> Self {
            unsafe {
                let positive = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(condition.0, _mm512_setzero_ps());
                Self(_mm512_mask_blend_ps(positive, other.0, self.0))
            }
        }
    }

    impl Floats for F32 {
        #[inline(always)]
        fn splat(value: f32) -> Self {
            Self(Floats::splat(value))
        }
        #[inline(always)]
        fn mul_add(self, a: Self, b: Self) -> Self {
            Self(self.0.mul_add(a.0, b.0))
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            Self(self.0.add(other.0))
        }
        #[inline(always)]
        fn sub(self, other: Self) -> Self {
            Self(self.0.sub(other.0))
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            Self(self.0.mul(other.0))
        }
        #[inline(always)]
        fn div(self, other: Self) -> Self {
            Self(self.0.div(other.0))
        }
        #[inline(always)]
        fn max(self, other: Self) -> Self {
            Self(self.0.max(other.0))
        }
        #[inline(always)]
        fn min(self, other: Self) -> Self {
            Self(self.0.min(other.0))
        }
        #[inline(always)]
        fn round(self) -> Self {
            Self(self.0.round())
        }
        #[inline(always)]
        fn exp2_integer(self) -> Self {
            Self(self.0.exp2_integer())
        }
        #[inline(always)]
        fn where_positive(self, condition: Self, other: Self) -> Self {
            Self(self.0.where_positive(condition.0, other.0))
        }
    }

    impl F32x8 for F32 {
        type Pair = Pair;
        #[inline(always)]
        fn load(from: &[f32]) -> Self {
            Self(F32x8::load(from))
        }
        #[inline(always)]
        fn store(self, to: &mut [f32]) {
            self.0.store(to);
        }
    }
}

/// Asks for `count` floats from `start`, as far as there are any, without waiting for them.
#[inline(always)]
pub fn prefetch(floats: &[f32], start: usize, count: usize) {
    const LINE: usize = 16;
    let end = (start + count).min(floats.len());
    for at in (start..end).step_by(LINE) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the address lies inside of the slice; x86-64 always has the instruction.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(floats.as_ptr().add(at).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}

/// elu(x) = x for x > 0, exp(x) − 1 elsewhere: the vectorised form of the kernel's twin, with an absolute error below 2e-7, which
/// is what f32 leaves of a value near 1.
#[inline(always)]
pub fn elu<F: Floats>(x: F) -> F {
    x.where_positive(x, exp_of_negative(x).sub(F::splat(1.0)))
}

/// exp(x) for x ≤ 0, and 1 beyond; e⁻⁸⁷ from x = −87 downwards.
///
/// 2^k·p(r) with a degree-6 polynomial on |r| ≤ ln(2)/2.
#[inline(always)]
pub fn exp_of_negative<F: Floats>(x: F) -> F {
    const LN2_HIGH: f32 = 0.693_145_75;
    const LN2_LOW: f32 = 1.428_606_8e-6;
    // In this order a NaN passes through both.
    let negative = F::splat(-87.0).max(F::splat(0.0).min(x));
    let k = negative.mul(F::splat(std::f32::consts::LOG2_E)).round();
    let r = k.mul_add(F::splat(-LN2_HIGH), negative);
    let r = k.mul_add(F::splat(-LN2_LOW), r);
    let mut p = F::splat(1.0 / 720.0);
    for c in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = p.mul_add(r, F::splat(c));
    }
    p.mul(k.exp2_integer())
}

/// x·sigmoid(x): the vectorised form of the kernel's twin. e^−|x| is at most 1, so nothing overflows.
#[inline(always)]
pub fn silu<F: Floats>(x: F) -> F {
    let small = exp_of_negative(x.min(F::splat(0.0).sub(x)));
    let numerator = x.where_positive(x, x.mul(small));
    numerator.div(small.add(F::splat(1.0)))
}

/// What a value passes behind its norm.
#[inline(always)]
pub fn activate<F: Floats>(function: Function, x: F) -> F {
    match function {
        Function::Identity => x,
        Function::Elu => elu(x),
        Function::Silu => silu(x),
        // In this order a NaN passes.
        Function::Relu => F::splat(0.0).max(x),
    }
}
