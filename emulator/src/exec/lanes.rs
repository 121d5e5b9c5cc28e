//! Values of 32 lanes, and the loops over them that must be fast.

pub const LANES: usize = 32;

/// One 32-bit value per lane.
pub type Lanes = [u32; LANES];

/// One 64-bit value per lane.
pub type Wide = [u64; LANES];

/// A register plane, aligned to cache lines so that vector loads never straddle two.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Plane(pub Lanes);

/// Overwrites the lanes of `mask`.
#[inline(always)]
pub fn blend<T: Copy>(target: &mut [T; LANES], value: &[T; LANES], mask: u32) {
    if mask == u32::MAX {
        *target = *value;
        return;
    }
    for lane in 0..LANES {
        if mask >> lane & 1 != 0 {
            target[lane] = value[lane];
        }
    }
}

/// `f` of each lane. A plain loop: `array::from_fn` is not always inlined, and then not vectorised.
#[inline(always)]
pub fn zip2<T: Copy + Default>(a: &[T; LANES], b: &[T; LANES], f: impl Fn(T, T) -> T) -> [T; LANES] {
    let mut value = [T::default(); LANES];
    for lane in 0..LANES {
        value[lane] = f(a[lane], b[lane]);
    }
    value
}

#[inline(always)]
pub fn zip3<T: Copy + Default>([a, b, c]: [&[T; LANES]; 3], f: impl Fn(T, T, T) -> T) -> [T; LANES] {
    let mut value = [T::default(); LANES];
    for lane in 0..LANES {
        value[lane] = f(a[lane], b[lane], c[lane]);
    }
    value
}

/// The lanes of a mask, in order.
#[inline(always)]
pub fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

/// The mask of the lanes for which `f` holds.
#[inline(always)]
pub fn mask_where(f: impl Fn(usize) -> bool) -> u32 {
    (0..LANES).fold(0, |mask, lane| mask | (f(lane) as u32) << lane)
}

macro_rules! fused_multiply_add {
    ($name:ident, $fast:ident, $lane:ty, $float:ty) => {
        /// `a·b + c`, rounded once. Without the instruction the compiler calls libm lane by lane.
        #[inline(always)]
        pub fn $name(a: &[$lane; LANES], b: &[$lane; LANES], c: &[$lane; LANES]) -> [$lane; LANES] {
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                // SAFETY: the processor has both features.
                return unsafe { $fast(a, b, c) };
            }
            let f = <$float>::from_bits;
            std::array::from_fn(|l| f(a[l]).mul_add(f(b[l]), f(c[l])).to_bits())
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn $fast(a: &[$lane; LANES], b: &[$lane; LANES], c: &[$lane; LANES]) -> [$lane; LANES] {
            let f = <$float>::from_bits;
            let mut d = [0; LANES];
            for l in 0..LANES {
                d[l] = f(a[l]).mul_add(f(b[l]), f(c[l])).to_bits();
            }
            d
        }
    };
}

fused_multiply_add!(fma_f32, fma_f32_avx2, u32, f32);
fused_multiply_add!(fma_f64, fma_f64_avx2, u64, f64);
