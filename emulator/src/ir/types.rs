//! Types, state spaces and comparison operators of PTX.

use crate::number::{self, Format};

/// A fundamental PTX type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    BF16,
    BF16x2,
    TF32,
    F32,
    F64,
}

const NAMES: [(&str, Type); 21] = [
    ("pred", Type::Pred),
    ("b8", Type::B8),
    ("b16", Type::B16),
    ("b32", Type::B32),
    ("b64", Type::B64),
    ("b128", Type::B128),
    ("u8", Type::U8),
    ("u16", Type::U16),
    ("u32", Type::U32),
    ("u64", Type::U64),
    ("s8", Type::S8),
    ("s16", Type::S16),
    ("s32", Type::S32),
    ("s64", Type::S64),
    ("f16", Type::F16),
    ("f16x2", Type::F16x2),
    ("bf16", Type::BF16),
    ("bf16x2", Type::BF16x2),
    ("tf32", Type::TF32),
    ("f32", Type::F32),
    ("f64", Type::F64),
];

impl Type {
    /// The type a PTX suffix such as `u32` names.
    pub fn parse(name: &str) -> Option<Type> {
        NAMES.iter().find(|(n, _)| *n == name).map(|(_, t)| *t)
    }

    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, t)| *t == self).map_or("", |(n, _)| n)
    }

    /// Size in memory, in bytes.
    pub fn bytes(self) -> usize {
        use Type::*;
        match self {
            Pred | B8 | U8 | S8 => 1,
            B16 | U16 | S16 | F16 | BF16 => 2,
            B32 | U32 | S32 | F32 | F16x2 | BF16x2 | TF32 => 4,
            B64 | U64 | S64 | F64 => 8,
            B128 => 16,
        }
    }

    pub fn bits(self) -> u32 {
        self.bytes() as u32 * 8
    }

    /// Whether a value needs a 64-bit register.
    pub fn is_wide(self) -> bool {
        self.bytes() == 8
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Type::S8 | Type::S16 | Type::S32 | Type::S64)
    }

    pub fn is_float(self) -> bool {
        use Type::*;
        matches!(self, F16 | F16x2 | BF16 | BF16x2 | TF32 | F32 | F64)
    }

    /// Two 16-bit floats in one register.
    pub fn is_packed(self) -> bool {
        matches!(self, Type::F16x2 | Type::BF16x2)
    }

    pub fn is_bits(self) -> bool {
        matches!(self, Type::B8 | Type::B16 | Type::B32 | Type::B64 | Type::B128)
    }

    /// The format of a floating-point type, of one half for the packed ones.
    pub fn format(self) -> Option<Format> {
        Some(match self {
            Type::F16 | Type::F16x2 => number::F16,
            Type::BF16 | Type::BF16x2 => number::BF16,
            Type::TF32 => number::TF32,
            Type::F32 => number::F32,
            Type::F64 => number::F64,
            _ => return None,
        })
    }

    /// All ones in the bits of the type.
    #[inline(always)]
    pub fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits().min(64))
    }

    /// The integer that the low bits of `value` hold, sign-extended for signed types.
    #[inline(always)]
    pub fn integer(self, value: u64) -> i128 {
        if self.is_signed() {
            let shift = 64 - self.bits();
            (((value << shift) as i64) >> shift) as i128
        } else {
            (value & self.mask()) as i128
        }
    }
}

/// A state space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Param,
    Const,
}

impl Space {
    pub fn name(self) -> &'static str {
        match self {
            Space::Generic => "generic",
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Param => "param",
            Space::Const => "const",
        }
    }

    /// Where the space lies in the generic address space. Global addresses are host addresses,
    /// which never reach 2^56, so the top byte tells the space of a generic address.
    pub fn window(self) -> u64 {
        match self {
            Space::Shared => 1 << 56,
            Space::Local => 2 << 56,
            Space::Param => 3 << 56,
            Space::Generic | Space::Global | Space::Const => 0,
        }
    }

    /// The space a generic address points into, and the address within it.
    #[inline(always)]
    pub fn of_generic(address: u64) -> (Space, u64) {
        let offset = address & ((1 << 56) - 1);
        match address >> 56 {
            0 => (Space::Global, address),
            1 => (Space::Shared, offset),
            2 => (Space::Local, offset),
            3 => (Space::Param, offset),
            _ => (Space::Global, address),
        }
    }
}

/// Comparison operators. The `..u` forms are true for unordered operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// How `setp` and `set` combine their result with a predicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    And,
    Or,
    Xor,
}
