//! Floating-point arithmetic with every PTX rounding mode, in integers.
//!
//! The host rounds to nearest only, and changing its mode is invisible to the optimiser. So the
//! directed modes are computed as the exact result (a 128-bit significand and a sticky bit for
//! what lies below it), rounded once into the target format.

pub use super::format::{BF16, F16, F32, F64, Format, Number, Rounding, TF32, decode, encode};
use Number::{Finite, Infinity, Nan, Zero};

/// Bit position of the leading one after `Parts::normalised`.
const TOP: u32 = 125;

#[derive(Clone, Copy)]
struct Parts {
    negative: bool,
    exponent: i32,
    significand: u128,
}

impl Parts {
    /// Shifts the leading one to bit `TOP`. Exact, because operands are far shorter than that.
    fn normalised(self) -> Parts {
        let shift = self.significand.leading_zeros() as i32 - (127 - TOP as i32);
        Parts {
            significand: if shift >= 0 {
                self.significand << shift
            } else {
                self.significand >> -shift
            },
            exponent: self.exponent - shift,
            ..self
        }
    }
}

/// An integer as a number.
pub fn from_integer(value: i128) -> Number {
    if value == 0 {
        return Zero { negative: false };
    }
    Finite {
        negative: value < 0,
        exponent: 0,
        significand: value.unsigned_abs(),
        sticky: false,
    }
}

pub fn negate(number: Number) -> Number {
    match number {
        Nan => Nan,
        Infinity { negative } => Infinity { negative: !negative },
        Zero { negative } => Zero { negative: !negative },
        Finite {
            negative,
            exponent,
            significand,
            sticky,
        } => Finite {
            negative: !negative,
            exponent,
            significand,
            sticky,
        },
    }
}

/// The exact sum. `rounding` decides only the sign of an exact zero.
pub fn add(a: Number, b: Number, rounding: Rounding) -> Number {
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Infinity { negative: x }, Infinity { negative: y }) if x != y => Nan,
        (Infinity { .. }, _) => a,
        (_, Infinity { .. }) => b,
        (Zero { negative: x }, Zero { negative: y }) => Zero {
            negative: if x == y { x } else { rounding == Rounding::Down },
        },
        (Zero { .. }, _) => b,
        (_, Zero { .. }) => a,
        (
            Finite {
                negative: n,
                exponent: e,
                significand: s,
                ..
            },
            Finite {
                negative: m,
                exponent: f,
                significand: t,
                ..
            },
        ) => add_parts(
            Parts {
                negative: n,
                exponent: e,
                significand: s,
            },
            Parts {
                negative: m,
                exponent: f,
                significand: t,
            },
            rounding,
        ),
    }
}

fn add_parts(a: Parts, b: Parts, rounding: Rounding) -> Number {
    let (a, b) = (a.normalised(), b.normalised());
    let a_is_larger = (a.exponent, a.significand) >= (b.exponent, b.significand);
    let (large, small) = if a_is_larger { (a, b) } else { (b, a) };
    let shift = (large.exponent - small.exponent) as u32;
    // At most one bit cancels once bits are shifted out, so the sticky bit stays far below rounding.
    let (aligned, sticky) = if shift > TOP {
        (0, true)
    } else {
        (small.significand >> shift, small.significand & ((1 << shift) - 1) != 0)
    };
    let significand = if large.negative == small.negative {
        large.significand + aligned
    } else {
        // What was shifted out makes the difference smaller: borrow one unit, keep the rest as sticky.
        large.significand - aligned - sticky as u128
    };
    if significand == 0 && !sticky {
        return Zero {
            negative: rounding == Rounding::Down,
        };
    }
    let (significand, exponent, sticky) = if significand >> (TOP + 1) != 0 {
        (significand >> 1, large.exponent + 1, sticky || significand & 1 != 0)
    } else {
        (significand, large.exponent, sticky)
    };
    Finite {
        negative: large.negative,
        exponent,
        significand,
        sticky,
    }
}

/// The exact product.
pub fn multiply(a: Number, b: Number) -> Number {
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Infinity { .. }, Zero { .. }) | (Zero { .. }, Infinity { .. }) => Nan,
        (Infinity { .. }, _) | (_, Infinity { .. }) => Infinity {
            negative: sign(a) != sign(b),
        },
        (Zero { .. }, _) | (_, Zero { .. }) => Zero {
            negative: sign(a) != sign(b),
        },
        (
            Finite {
                exponent: e,
                significand: s,
                ..
            },
            Finite {
                exponent: f,
                significand: t,
                ..
            },
        ) => Finite {
            negative: sign(a) != sign(b),
            exponent: e + f,
            significand: s * t,
            sticky: false,
        },
    }
}

/// `a·b + c` with no rounding in between.
pub fn multiply_add(a: Number, b: Number, c: Number, rounding: Rounding) -> Number {
    add(multiply(a, b), c, rounding)
}

/// The quotient, to more bits than any format keeps.
pub fn divide(a: Number, b: Number) -> Number {
    let negative = sign(a) != sign(b);
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Infinity { .. }, Infinity { .. }) | (Zero { .. }, Zero { .. }) => Nan,
        (Infinity { .. }, _) | (_, Zero { .. }) => Infinity { negative },
        (Zero { .. }, _) | (_, Infinity { .. }) => Zero { negative },
        (
            Finite {
                exponent: e,
                significand: s,
                ..
            },
            Finite {
                exponent: f,
                significand: t,
                ..
            },
        ) => {
            let a = Parts {
                negative,
                exponent: e,
                significand: s,
            }
            .normalised();
            Finite {
                negative,
                exponent: a.exponent - f,
                significand: a.significand / t,
                sticky: !a.significand.is_multiple_of(t),
            }
        }
    }
}

/// The square root, to more bits than any format keeps.
pub fn square_root(a: Number) -> Number {
    match a {
        Nan | Zero { .. } | Infinity { negative: false } => a,
        Infinity { negative: true } | Finite { negative: true, .. } => Nan,
        Finite {
            exponent, significand, ..
        } => {
            let mut a = Parts {
                negative: false,
                exponent,
                significand,
            }
            .normalised();
            if a.exponent % 2 != 0 {
                a.significand >>= 1; // exact: operands have at most 64 bits
                a.exponent += 1;
            }
            let root = a.significand.isqrt();
            Finite {
                negative: false,
                exponent: a.exponent / 2,
                significand: root,
                sticky: root * root != a.significand,
            }
        }
    }
}

fn sign(number: Number) -> bool {
    match number {
        Nan => false,
        Infinity { negative } | Zero { negative } | Finite { negative, .. } => negative,
    }
}

#[cfg(test)]
#[path = "exact_tests.rs"]
mod tests;
