//! Operand syntax, and its resolution into registers, constants and addresses.

use super::Result;
use super::builder::{Builder, Storage, Symbol};
use super::cursor::Cursor;
use super::lexer::Kind;
use super::literal;
use crate::error::LoadError;
use crate::ir::{Address, Pred, Reg, Space, Special, Type};

#[derive(Clone, Debug)]
pub struct Operand<'a> {
    pub syntax: Syntax<'a>,
}

#[derive(Clone, Debug)]
pub enum Syntax<'a> {
    Name {
        name: &'a str,
        offset: i64,
        negated: bool,
    },
    Number {
        text: &'a str,
        negative: bool,
    },
    Address {
        base: Option<&'a str>,
        offset: i64,
    },
    Vector(Vec<Operand<'a>>),
    /// `d|p`
    Pair(Box<Operand<'a>>, Box<Operand<'a>>),
}

/// Line 0: the statement adds its own line.
pub fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(LoadError::new(0, message))
}

impl<'a> Operand<'a> {
    pub fn name(&self) -> Result<&'a str> {
        match self.syntax {
            Syntax::Name { name, .. } => Ok(name),
            _ => fail("expected a name"),
        }
    }
}

/// All operands up to and with the semicolon.
pub fn list<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Operand<'a>>> {
    let mut operands = Vec::new();
    while !cursor.eat(b';') {
        let first = operand(cursor)?;
        operands.push(if cursor.eat(b'|') {
            let second = operand(cursor)?;
            Operand {
                syntax: Syntax::Pair(Box::new(first), Box::new(second)),
            }
        } else {
            first
        });
        if !cursor.eat(b',') {
            cursor.expect(b';')?;
            break;
        }
    }
    Ok(operands)
}

fn operand<'a>(cursor: &mut Cursor<'a>) -> Result<Operand<'a>> {
    let syntax = if cursor.eat(b'{') {
        let mut elements = Vec::new();
        while !cursor.eat(b'}') {
            elements.push(operand(cursor)?);
            cursor.eat(b',');
        }
        Syntax::Vector(elements)
    } else if cursor.eat(b'[') {
        address(cursor)?
    } else {
        scalar(cursor)?
    };
    Ok(Operand { syntax })
}

fn scalar<'a>(cursor: &mut Cursor<'a>) -> Result<Syntax<'a>> {
    let negative = cursor.eat(b'-');
    let negated = cursor.eat(b'!');
    if let Some(Kind::Number(text)) = cursor.peek() {
        cursor.at += 1;
        return Ok(Syntax::Number { text, negative });
    }
    let name = cursor.word()?;
    let offset = if cursor.eat(b'+') { cursor.integer()? as i64 } else { 0 };
    Ok(Syntax::Name { name, offset, negated })
}

fn address<'a>(cursor: &mut Cursor<'a>) -> Result<Syntax<'a>> {
    let (mut base, mut offset) = (None, 0i64);
    while !cursor.eat(b']') {
        match cursor.peek() {
            Some(Kind::Mark(b'+')) => cursor.at += 1,
            Some(Kind::Mark(b'-') | Kind::Number(_)) => offset = offset.wrapping_add(cursor.integer()? as i64),
            Some(Kind::Word(name)) if base.is_none() => {
                base = Some(name);
                cursor.at += 1;
            }
            _ => return cursor.error("bad address"),
        }
    }
    Ok(Syntax::Address { base, offset })
}

/// Hands an instruction's operands out one by one, each checked against what is expected there.
pub struct Args<'b, 'a> {
    pub builder: &'b mut Builder<'a>,
    operands: std::vec::IntoIter<Operand<'a>>,
}

impl<'b, 'a> Args<'b, 'a> {
    pub fn new(builder: &'b mut Builder<'a>, operands: Vec<Operand<'a>>) -> Args<'b, 'a> {
        Args {
            builder,
            operands: operands.into_iter(),
        }
    }

    pub fn left(&self) -> usize {
        self.operands.len()
    }

    pub fn next(&mut self) -> Result<Operand<'a>> {
        self.operands.next().map_or_else(|| fail("too few operands"), Ok)
    }

    pub fn finish(&self) -> Result<()> {
        if self.left() == 0 {
            Ok(())
        } else {
            fail("too many operands")
        }
    }

    /// A destination register of exactly the width of `ty`.
    pub fn target(&mut self, ty: Type) -> Result<Reg> {
        let operand = self.next()?;
        self.exact_target_of(&operand, ty)
    }

    pub fn exact_target_of(&mut self, operand: &Operand<'a>, ty: Type) -> Result<Reg> {
        let reg = self.target_of(operand)?;
        if reg != self.builder.sink() && reg.wide != ty.is_wide() {
            return fail(format!("destination register does not fit .{}", ty.name()));
        }
        Ok(reg)
    }

    /// A destination register at least as wide as `ty`, as loads and conversions allow.
    pub fn wider_target(&mut self, ty: Type) -> Result<Reg> {
        let operand = self.next()?;
        self.wider_target_of(&operand, ty)
    }

    pub fn wider_target_of(&mut self, operand: &Operand<'a>, ty: Type) -> Result<Reg> {
        let reg = self.target_of(operand)?;
        if ty.is_wide() && !reg.wide {
            return fail(format!("destination register is too narrow for .{}", ty.name()));
        }
        Ok(reg)
    }

    fn target_of(&self, operand: &Operand<'a>) -> Result<Reg> {
        match self.storage(operand)? {
            Some(Storage::Reg(reg)) => Ok(reg),
            Some(Storage::Pred(_)) => fail("a predicate cannot be the destination here"),
            None => Ok(self.builder.sink()),
        }
    }

    /// The register an operand names; `None` for `_`.
    fn storage(&self, operand: &Operand<'a>) -> Result<Option<Storage>> {
        match operand.name()? {
            "_" => Ok(None),
            name => match self.builder.find_register(name) {
                Some(storage) => Ok(Some(storage)),
                None => fail(format!("unknown register '{name}'")),
            },
        }
    }

    pub fn predicate_target(&mut self) -> Result<u32> {
        let operand = self.next()?;
        self.predicate_target_of(&operand)
    }

    pub fn predicate_target_of(&self, operand: &Operand<'a>) -> Result<u32> {
        match self.storage(operand)? {
            Some(Storage::Pred(index)) => Ok(index),
            None => Ok(self.builder.sink_predicate()),
            Some(Storage::Reg(_)) => fail("expected a predicate"),
        }
    }

    /// `d` or `d|p`.
    pub fn pair(&mut self) -> Result<(Operand<'a>, Option<Operand<'a>>)> {
        let operand = self.next()?;
        Ok(match operand.syntax {
            Syntax::Pair(a, b) => (*a, Some(*b)),
            _ => (operand, None),
        })
    }

    pub fn source(&mut self, ty: Type) -> Result<Reg> {
        let operand = self.next()?;
        self.source_of(&operand, ty)
    }

    /// A source of exactly the width of `ty`.
    pub fn source_of(&mut self, operand: &Operand<'a>, ty: Type) -> Result<Reg> {
        let reg = self.wider_source_of(operand, ty)?;
        if reg.wide != ty.is_wide() {
            return fail(format!("source register does not fit .{}", ty.name()));
        }
        Ok(reg)
    }

    /// A register, an immediate, a special register or an address constant, as a register. It may
    /// be wider than `ty`, as stores and conversions allow.
    pub fn wider_source_of(&mut self, operand: &Operand<'a>, ty: Type) -> Result<Reg> {
        match operand.syntax {
            Syntax::Number { text, negative } => match literal::bits(text, negative, ty) {
                Some(bits) => Ok(self.builder.constant(bits, ty.is_wide())),
                None => fail(format!("bad number '{text}'")),
            },
            Syntax::Name { name, offset, .. } => self.named_source(name, offset, ty),
            _ => fail("expected a register or a number"),
        }
    }

    fn named_source(&mut self, name: &str, offset: i64, ty: Type) -> Result<Reg> {
        match self.builder.find_register(name) {
            Some(Storage::Reg(reg)) if ty.is_wide() && !reg.wide => {
                return fail(format!("register '{name}' is too narrow for .{}", ty.name()));
            }
            Some(Storage::Reg(reg)) => return Ok(reg),
            Some(Storage::Pred(_)) => return fail(format!("'{name}' is a predicate")),
            None => {}
        }
        if name == "WARP_SZ" {
            return Ok(self.builder.constant(32, ty.is_wide()));
        }
        if let Some(special) = special(name) {
            return Ok(self.builder.special(special, ty.is_wide()));
        }
        let Some(symbol) = self.builder.find_symbol(name) else {
            return fail(format!("unknown operand '{name}'"));
        };
        match self.builder.symbol_address(symbol, ty.is_wide()) {
            (None, at) => Ok(self.builder.constant(at.wrapping_add(offset as u64), ty.is_wide())),
            (Some(base), _) if offset == 0 && base.wide == ty.is_wide() => Ok(base),
            (Some(_), _) => fail(format!("address of '{name}' in this form is not supported")),
        }
    }

    pub fn predicate(&mut self) -> Result<Pred> {
        let operand = self.next()?;
        self.predicate_of(&operand)
    }

    pub fn predicate_of(&self, operand: &Operand<'a>) -> Result<Pred> {
        match operand.syntax {
            Syntax::Number { text, .. } => match literal::integer(text) {
                Some(value) => Ok(self.builder.always(value != 0)),
                None => fail("expected a predicate"),
            },
            Syntax::Name { name, negated, .. } => match self.builder.find_register(name) {
                Some(Storage::Pred(index)) => Ok(Pred { index, negate: negated }),
                _ => fail(format!("'{name}' is not a predicate")),
            },
            _ => fail("expected a predicate"),
        }
    }

    pub fn is_predicate(&self, operand: &Operand<'a>) -> bool {
        let Syntax::Name { name, .. } = operand.syntax else {
            return false;
        };
        matches!(self.builder.find_register(name), Some(Storage::Pred(_)))
    }

    /// The elements of `{a, b}`, or the operand itself.
    pub fn vector(&mut self) -> Result<Vec<Operand<'a>>> {
        let operand = self.next()?;
        Ok(match operand.syntax {
            Syntax::Vector(elements) => elements,
            _ => vec![operand],
        })
    }

    /// An address, and the space it turns out to lie in: `.param` of a call is local memory.
    pub fn address(&mut self, space: Space) -> Result<(Address, Space)> {
        let Syntax::Address { base, offset } = self.next()?.syntax else {
            return fail("expected an address in brackets");
        };
        let offset = offset as u64;
        let Some(name) = base else {
            return Ok((Address { base: None, offset }, space));
        };
        match self.builder.find_register(name) {
            Some(Storage::Reg(reg)) => {
                return Ok((
                    Address {
                        base: Some(reg),
                        offset,
                    },
                    space,
                ));
            }
            Some(Storage::Pred(_)) => return fail("a predicate is no address"),
            None => {}
        }
        let Some(symbol) = self.builder.find_symbol(name) else {
            return fail(format!("unknown variable '{name}'"));
        };
        let space = match (symbol, space) {
            (Symbol::Local(_), Space::Param) => Space::Local,
            _ => space,
        };
        let (base, at) = self.builder.symbol_address(symbol, true);
        Ok((
            Address {
                base,
                offset: at.wrapping_add(offset),
            },
            space,
        ))
    }

    /// An integer that must be known at load.
    pub fn immediate(&mut self) -> Result<u64> {
        match self.next()?.syntax {
            Syntax::Number { text, negative } => match literal::bits(text, negative, Type::B64) {
                Some(bits) => Ok(bits),
                None => fail(format!("bad number '{text}'")),
            },
            _ => fail("expected a number"),
        }
    }
}

fn special(name: &str) -> Option<Special> {
    if let Some((family, axis)) = name.split_once('.') {
        let axis = ["x", "y", "z"].iter().position(|a| *a == axis)? as u8;
        return Some(match family {
            "%tid" => Special::Tid(axis),
            "%ntid" => Special::Ntid(axis),
            "%ctaid" => Special::Ctaid(axis),
            "%nctaid" => Special::Nctaid(axis),
            _ => return None,
        });
    }
    Some(match name {
        "%laneid" => Special::LaneId,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::WarpCount,
        "%lanemask_eq" => Special::LaneMaskEq,
        "%lanemask_lt" => Special::LaneMaskLt,
        "%lanemask_le" => Special::LaneMaskLe,
        "%lanemask_gt" => Special::LaneMaskGt,
        "%lanemask_ge" => Special::LaneMaskGe,
        "%smid" => Special::SmId,
        "%nsmid" => Special::SmCount,
        "%gridid" => Special::GridId,
        "%dynamic_smem_size" => Special::DynamicSharedBytes,
        "%total_smem_size" => Special::TotalSharedBytes,
        _ => return None,
    })
}
