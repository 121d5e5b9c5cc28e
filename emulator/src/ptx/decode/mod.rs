//! Opcode and suffixes to IR, one file per instruction family.
//!
//! A decoder takes the suffixes it knows; whatever is left over makes the instruction unknown. So
//! an unsupported variant is an error at load and never silently something else.

mod arithmetic;
mod bits;
mod compare;
mod convert;
mod matrix;
mod memory;
mod warp;

use super::Result;
use super::builder::Builder;
use super::operand::{Args, Operand, fail};
use crate::ir::{Op, Type};
use crate::number::Rounding;

pub fn instruction<'a>(builder: &mut Builder<'a>, word: &str, operands: Vec<Operand<'a>>) -> Result<Op> {
    let mut m = Mnemonic::new(word);
    let args = &mut Args::new(builder, operands);
    let op = decode(&mut m, args)?;
    m.finish()?;
    args.finish()?;
    Ok(op)
}

fn decode(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    match m.base {
        "add" | "addc" | "sub" | "subc" | "mul" | "mad" | "madc" | "mul24" | "fma" | "div" | "rem" | "abs" | "neg"
        | "min" | "max" | "sad" | "dp4a" | "copysign" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos"
        | "tanh" => arithmetic::decode(m, args),
        "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "popc" | "clz" | "brev" | "bfind" | "bfe" | "bfi"
        | "prmt" | "shf" | "lop3" => bits::decode(m, args),
        "setp" | "set" | "selp" | "slct" | "testp" => compare::decode(m, args),
        "cvt" | "cvta" | "mov" | "isspacep" => convert::decode(m, args),
        "ld" | "ldu" | "st" | "atom" | "red" | "cp" => memory::decode(m, args),
        "shfl" | "vote" | "match" | "redux" | "bar" | "barrier" | "activemask" => warp::decode(m, args),
        "mma" | "ldmatrix" => matrix::decode(m, args),
        "trap" | "brkpt" => Ok(Op::Trap),
        "membar" | "fence" => {
            // Memory is sequentially consistent here.
            m.ignore(&["gl", "cta", "sys", "gpu", "sc", "acq_rel", "proxy", "alias"]);
            Ok(Op::Nothing)
        }
        "prefetch" | "prefetchu" => {
            m.ignore(&["global", "local", "L1", "L2"]);
            args.next().map(|_| Op::Nothing)
        }
        "nanosleep" => {
            m.ignore(&["u32"]);
            args.next().map(|_| Op::Nothing)
        }
        _ => fail("unknown instruction"),
    }
}

/// An opcode with its suffixes, which decoders tick off.
pub struct Mnemonic<'w> {
    pub base: &'w str,
    suffixes: Vec<(&'w str, bool)>,
}

impl<'w> Mnemonic<'w> {
    pub fn new(word: &'w str) -> Mnemonic<'w> {
        let mut parts = word.split('.');
        let base = parts.next().unwrap_or("");
        Mnemonic {
            base,
            suffixes: parts.map(|s| (s, false)).collect(),
        }
    }

    /// Whether the suffix is there.
    pub fn flag(&mut self, suffix: &str) -> bool {
        let found = self.suffixes.iter_mut().find(|(s, used)| *s == suffix && !used);
        found.map(|f| f.1 = true).is_some()
    }

    /// The meaning of the first suffix that stands in the table.
    pub fn choose<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        let (found, value) = self.suffixes.iter_mut().filter(|s| !s.1).find_map(|s| {
            let entry = table.iter().find(|(name, _)| *name == s.0)?;
            Some((s, entry.1))
        })?;
        found.1 = true;
        Some(value)
    }

    /// The next type suffix.
    pub fn ty(&mut self) -> Result<Type> {
        for (suffix, used) in &mut self.suffixes {
            if let (false, Some(ty)) = (*used, Type::parse(suffix)) {
                *used = true;
                return Ok(ty);
            }
        }
        fail("the type is missing")
    }

    pub fn rounding(&mut self) -> Option<Rounding> {
        self.choose(&[
            ("rn", Rounding::Nearest),
            ("rz", Rounding::Zero),
            ("rm", Rounding::Down),
            ("rp", Rounding::Up),
            ("rna", Rounding::NearestAway),
        ])
    }

    pub fn ignore(&mut self, suffixes: &[&str]) {
        for suffix in suffixes {
            self.flag(suffix);
        }
    }

    /// Cache hints, which have no effect on results.
    pub fn ignore_cache_hints(&mut self) {
        for (suffix, used) in &mut self.suffixes {
            *used |= suffix.starts_with("L1::") || suffix.starts_with("L2::");
        }
        self.ignore(&["ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc"]);
    }

    fn finish(&self) -> Result<()> {
        match self.suffixes.iter().find(|(_, used)| !used) {
            Some((suffix, _)) => fail(format!("unknown or unsupported suffix '.{suffix}'")),
            None => Ok(()),
        }
    }
}
