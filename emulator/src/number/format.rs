//! Floating-point formats, and the one place where an exact value is rounded into one.

/// How an exact result becomes a representable one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// To nearest, ties to even (`.rn`).
    Nearest,
    /// To nearest, ties away from zero (`.rna`).
    NearestAway,
    /// Towards zero (`.rz`).
    Zero,
    /// Towards minus infinity (`.rm`).
    Down,
    /// Towards plus infinity (`.rp`).
    Up,
}

/// A binary interchange format: widths of the stored significand and of the exponent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    significand: u32,
    exponent: u32,
}

pub const F16: Format = Format {
    significand: 10,
    exponent: 5,
};
pub const BF16: Format = Format {
    significand: 7,
    exponent: 8,
};
/// TF32 as 19 bits; PTX keeps it in the upper bits of a 32-bit register.
pub const TF32: Format = Format {
    significand: 10,
    exponent: 8,
};
pub const F32: Format = Format {
    significand: 23,
    exponent: 8,
};
pub const F64: Format = Format {
    significand: 52,
    exponent: 11,
};

impl Format {
    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    const fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.significand
    }

    const fn sign_bit(self) -> u64 {
        1 << (self.significand + self.exponent)
    }

    /// The NaN that the hardware produces: all bits set but the sign.
    pub const fn nan(self) -> u64 {
        self.sign_bit() - 1
    }
}

/// A number taken apart. Finite non-zero values are `significand · 2^exponent`, plus less than one
/// unit of the significand if `sticky`. A significand uses at most 126 bits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    Nan,
    Infinity {
        negative: bool,
    },
    Zero {
        negative: bool,
    },
    Finite {
        negative: bool,
        exponent: i32,
        significand: u128,
        sticky: bool,
    },
}

use Number::{Finite, Infinity, Nan, Zero};

/// Takes the low bits of `bits` apart as a number of the format.
pub fn decode(bits: u64, format: Format) -> Number {
    let negative = bits & format.sign_bit() != 0;
    let magnitude = bits & (format.sign_bit() - 1);
    let fraction = magnitude & ((1 << format.significand) - 1);
    let stored = (magnitude >> format.significand) as i32;
    if magnitude > format.infinity() {
        return Nan;
    }
    if magnitude == format.infinity() {
        return Infinity { negative };
    }
    if magnitude == 0 {
        return Zero { negative };
    }
    let lowest = 1 - format.bias() - format.significand as i32;
    let (exponent, significand) = if stored == 0 {
        (lowest, fraction)
    } else {
        (lowest + stored - 1, fraction | 1 << format.significand)
    };
    Finite {
        negative,
        exponent,
        significand: significand as u128,
        sticky: false,
    }
}

/// Rounds a number into the format and returns its bits.
pub fn encode(number: Number, format: Format, rounding: Rounding) -> u64 {
    let signed = |negative: bool, magnitude: u64| {
        if negative {
            magnitude | format.sign_bit()
        } else {
            magnitude
        }
    };
    match number {
        Nan => format.nan(),
        Infinity { negative } => signed(negative, format.infinity()),
        Zero { negative } => signed(negative, 0),
        Finite {
            negative,
            exponent,
            significand,
            sticky,
        } => signed(
            negative,
            round(negative, exponent, significand, sticky, format, rounding),
        ),
    }
}

fn round(negative: bool, exponent: i32, significand: u128, sticky: bool, format: Format, rounding: Rounding) -> u64 {
    let leading = exponent + 127 - significand.leading_zeros() as i32;
    let lowest_normal = 1 - format.bias();
    let subnormal = leading < lowest_normal;
    // `unit` is the exponent of the last place kept.
    let unit = leading.max(lowest_normal) - format.significand as i32;
    let shift = unit - exponent;
    let (kept, over_half, at_half, inexact) = if shift <= 0 {
        ((significand << -shift) as u64, false, false, sticky)
    } else if shift > 127 {
        (0, false, false, true)
    } else {
        let rest = significand & ((1 << shift) - 1);
        let half = 1u128 << (shift - 1);
        let over = rest > half || (rest == half && sticky);
        (
            (significand >> shift) as u64,
            over,
            rest == half && !sticky,
            rest != 0 || sticky,
        )
    };
    let up = match rounding {
        Rounding::Nearest => over_half || (at_half && kept & 1 == 1),
        Rounding::NearestAway => over_half || at_half,
        Rounding::Zero => false,
        Rounding::Down => inexact && negative,
        Rounding::Up => inexact && !negative,
    };
    // The leading one of `kept` adds 1 to the exponent field, and so does a carry out of rounding.
    let field = if subnormal {
        0
    } else {
        (leading + format.bias() - 1) as u64
    };
    let magnitude = (field << format.significand) + kept + up as u64;
    if magnitude < format.infinity() {
        return magnitude;
    }
    let to_infinity = match rounding {
        Rounding::Nearest | Rounding::NearestAway => true,
        Rounding::Zero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
    };
    format.infinity() - !to_infinity as u64
}
