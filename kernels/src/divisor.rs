//! Division by a number that the host knows: a GPU has no instruction for it, and takes some hundred cycles.

/// A number with its reciprocal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Divisor {
    /// The number.
    pub by: u32,
    /// (2³² − 1) / by, rounded down
    pub reciprocal: u32,
}

impl Divisor {
    /// Of an argument that is not set yet.
    pub const NONE: Self = Self { by: 0, reciprocal: 0 };

    /// Of `by` itself.
    ///
    /// # Panics
    /// If it is 0.
    #[cfg(not(target_arch = "nvptx64"))]
    pub const fn of(by: u32) -> Self {
        Self {
            by,
            reciprocal: u32::MAX / by,
        }
    }

    /// Quotient and remainder: n · reciprocal / 2³² is less than n / by, by less than one.
    #[inline(always)]
    pub const fn divide(self, n: u32) -> (u32, u32) {
        let least = ((n as u64 * self.reciprocal as u64) >> 32) as u32;
        let rest = n.wrapping_sub(least.wrapping_mul(self.by));
        if rest >= self.by {
            (least + 1, rest - self.by)
        } else {
            (least, rest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_those_of_the_processor() {
        let numbers = [
            1,
            2,
            3,
            7,
            9,
            28,
            196,
            208,
            784,
            1 << 16,
            65_537,
            (1 << 31) - 1,
            1 << 31,
            u32::MAX - 1,
            u32::MAX,
        ];
        for by in numbers {
            let multiples = (0..70).flat_map(|k| [by.wrapping_mul(k), by.wrapping_mul(k).wrapping_sub(1)]);
            for n in multiples
                .chain(numbers)
                .chain((0..4000).map(|k| k * 1_073_741))
                .chain([0])
            {
                assert_eq!(Divisor::of(by).divide(n), (n / by, n % by), "{n} / {by}");
            }
        }
    }
}
