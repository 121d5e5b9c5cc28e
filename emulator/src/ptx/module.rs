//! Module-level declarations: variables, kernels and functions. Bodies stay tokens until lowered.

use super::Result;
use super::cursor::Cursor;
use super::lexer::{Kind, Token};
use super::literal;
use crate::error::LoadError;
use crate::ir::{Global, Type};
use std::collections::HashMap;
use std::ops::Range;

/// A variable declaration: parameters, locals, shared and global variables alike.
pub struct Variable<'a> {
    pub name: &'a str,
    pub ty: Type,
    pub align: usize,
    pub bytes: usize,
    /// Declared with `[]`: dynamic shared memory, or an array sized by its initialiser.
    pub unsized_array: bool,
}

pub struct Function<'a> {
    pub name: &'a str,
    pub entry: bool,
    pub returns: Vec<Variable<'a>>,
    pub params: Vec<Variable<'a>>,
    /// Token range between the braces; empty for a mere declaration.
    pub body: Range<usize>,
    pub max_threads: u32,
}

#[derive(Default)]
pub struct Declarations<'a> {
    pub functions: Vec<Function<'a>>,
    pub globals: Vec<Global>,
    pub global_index: HashMap<&'a str, u32>,
    pub shared: HashMap<&'a str, Variable<'a>>,
    pub target: u32,
    pub version: (u32, u32),
}

impl<'a> Declarations<'a> {
    /// The function of this name, the one with a body if it was declared before.
    pub fn function(&self, name: &str) -> Option<&Function<'a>> {
        let named = || self.functions.iter().filter(|f| f.name == name);
        named().find(|f| !f.body.is_empty()).or(named().next())
    }
}

pub fn declarations<'a>(tokens: &'a [Token<'a>]) -> Result<Declarations<'a>> {
    let mut declared = Declarations::default();
    let mut cursor = Cursor::new(tokens);
    let mut initialisers = Vec::new();
    while cursor.peek().is_some() {
        let line = cursor.line();
        match cursor.word()? {
            ".version" => declared.version = version(&mut cursor)?,
            ".address_size" => cursor.at += 1,
            ".target" => declared.target = target(&mut cursor)?,
            ".visible" | ".extern" | ".weak" | ".common" => {}
            ".pragma" | ".alias" => cursor.skip_past(b';')?,
            ".entry" => declared.functions.push(function(&mut cursor, true)?),
            ".func" => declared.functions.push(function(&mut cursor, false)?),
            ".global" | ".const" => globals(&mut cursor, tokens, &mut declared, &mut initialisers)?,
            ".shared" => {
                for variable in variables(&mut cursor)? {
                    declared.shared.insert(variable.name, variable);
                }
            }
            other => return Err(LoadError::new(line, format!("unknown module directive '{other}'"))),
        }
    }
    for (index, ty, range) in initialisers {
        initialise(&mut declared, index, ty, Cursor::new(&tokens[range]))?;
    }
    Ok(declared)
}

fn version(cursor: &mut Cursor) -> Result<(u32, u32)> {
    let text = cursor.number()?;
    let parts = text
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts.map_or_else(|| cursor.error(format!("bad version '{text}'")), Ok)
}

fn target(cursor: &mut Cursor) -> Result<u32> {
    let name = cursor.word()?;
    while cursor.eat(b',') {
        cursor.at += 1;
    }
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    digits
        .parse()
        .or_else(|_| cursor.error(format!("unknown target '{name}'")))
}

/// `.align 4 .b8 name[16]`, behind the state space.
pub fn variable<'a>(cursor: &mut Cursor<'a>) -> Result<Variable<'a>> {
    let (mut ty, mut align, mut lanes, mut pointer) = (None, None, 1, false);
    while let Some(word) = cursor.directive() {
        match word {
            "align" => {
                let n = cursor.size()?;
                // Behind `.ptr` it speaks of what the parameter points to.
                if !pointer {
                    align = Some(n);
                }
            }
            "v2" => lanes = 2,
            "v4" => lanes = 4,
            "ptr" => pointer = true,
            "global" | "shared" | "const" | "local" | "generic" => {}
            "attribute" => cursor.skip_past(b')')?,
            _ => match Type::parse(word) {
                Some(t) => ty = Some(t),
                None => return cursor.error(format!("unknown variable directive '.{word}'")),
            },
        }
    }
    let name = cursor.word()?;
    let Some(ty) = ty else {
        return cursor.error(format!("'{name}' has no type"));
    };
    let (mut count, mut unsized_array) = (1, false);
    while cursor.eat(b'[') {
        if cursor.eat(b']') {
            unsized_array = true;
            count = 0;
            continue;
        }
        count *= cursor.size()?;
        cursor.expect(b']')?;
    }
    let bytes = ty.bytes() * lanes * count;
    Ok(Variable {
        name,
        ty,
        align: align.unwrap_or(ty.bytes() * lanes),
        bytes,
        unsized_array,
    })
}

/// A comma-separated list of variables without initialisers, to the semicolon.
pub fn variables<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Variable<'a>>> {
    let mut list = vec![variable(cursor)?];
    while cursor.eat(b',') {
        list.push(variable(cursor)?);
    }
    cursor.expect(b';')?;
    Ok(list)
}

fn formals<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Variable<'a>>> {
    let mut list = Vec::new();
    if !cursor.eat(b'(') {
        return Ok(list);
    }
    while !cursor.eat(b')') {
        match cursor.directive() {
            Some("param" | "reg") => list.push(variable(cursor)?),
            _ => return cursor.error("expected a .param declaration"),
        }
        cursor.eat(b',');
    }
    Ok(list)
}

fn function<'a>(cursor: &mut Cursor<'a>, entry: bool) -> Result<Function<'a>> {
    if cursor.is_word(".attribute") {
        cursor.skip_past(b')')?;
    }
    let returns = formals(cursor)?;
    let name = cursor.word()?;
    let params = formals(cursor)?;
    let mut max_threads = 0;
    let body = loop {
        match cursor.directive() {
            Some("maxntid" | "reqntid") => {
                max_threads = cursor.size()? as u32;
                while cursor.eat(b',') {
                    max_threads *= cursor.size()? as u32;
                }
            }
            Some("minnctapersm" | "maxnreg" | "maxnctapersm") => {
                cursor.size()?;
            }
            Some("noreturn" | "unified") => {}
            Some("pragma") => cursor.skip_past(b';')?,
            Some(other) => return cursor.error(format!("unknown function directive '.{other}'")),
            None if cursor.eat(b';') => break 0..0,
            None => break braces(cursor)?,
        }
    };
    Ok(Function {
        name,
        entry,
        returns,
        params,
        body,
        max_threads,
    })
}

/// The token range inside a balanced pair of braces, and moves behind it.
fn braces(cursor: &mut Cursor) -> Result<Range<usize>> {
    cursor.expect(b'{')?;
    let start = cursor.at;
    let mut depth = 1;
    while depth > 0 {
        match cursor.peek() {
            Some(Kind::Mark(b'{')) => depth += 1,
            Some(Kind::Mark(b'}')) => depth -= 1,
            None => return cursor.error("'}' is missing"),
            _ => {}
        }
        cursor.at += 1;
    }
    Ok(start..cursor.at - 1)
}

fn globals<'a>(
    cursor: &mut Cursor<'a>,
    tokens: &'a [Token<'a>],
    declared: &mut Declarations<'a>,
    initialisers: &mut Vec<(u32, Type, Range<usize>)>,
) -> Result<()> {
    loop {
        let variable = variable(cursor)?;
        let index = declared.globals.len() as u32;
        let mut bytes = variable.bytes;
        if cursor.eat(b'=') {
            let range = if cursor.is(b'{') {
                braces(cursor)?
            } else {
                scalar(cursor)
            };
            if variable.unsized_array {
                let elements = tokens[range.clone()]
                    .iter()
                    .filter(|t| matches!(t.kind, Kind::Number(_)));
                bytes = variable.ty.bytes() * elements.count();
            }
            initialisers.push((index, variable.ty, range));
        }
        let name = variable.name.to_string();
        declared.globals.push(Global {
            name,
            align: variable.align,
            bytes: vec![0; bytes],
            relocations: vec![],
        });
        declared.global_index.insert(variable.name, index);
        if !cursor.eat(b',') {
            return cursor.expect(b';');
        }
    }
}

fn scalar(cursor: &mut Cursor) -> Range<usize> {
    let start = cursor.at;
    while !cursor.is(b',') && !cursor.is(b';') && cursor.peek().is_some() {
        cursor.at += 1;
    }
    start..cursor.at
}

/// Numbers, addresses of variables (`name`, `generic(name)+8`), nested braces ignored.
fn initialise(declared: &mut Declarations, index: u32, ty: Type, mut cursor: Cursor) -> Result<()> {
    let mut offset = 0;
    let size = ty.bytes();
    while let Some(kind) = cursor.peek() {
        let mut value = 0u64;
        match kind {
            Kind::Mark(b'-') | Kind::Number(_) => {
                let negative = cursor.eat(b'-');
                let text = cursor.number()?;
                let Some(bits) = literal::bits(text, negative, ty) else {
                    return cursor.error(format!("bad number '{text}'"));
                };
                value = bits;
            }
            Kind::Word("generic") => {
                cursor.at += 1;
                continue;
            }
            Kind::Word(name) => {
                cursor.at += 1;
                cursor.eat(b')');
                if cursor.eat(b'+') {
                    value = cursor.integer()? as u64;
                }
                match declared.global_index.get(name) {
                    Some(target) => {
                        let relocation = (offset, *target);
                        declared.globals[index as usize].relocations.push(relocation);
                    }
                    // Functions have no address: indirect calls are refused, so nobody can use it.
                    None if declared.function(name).is_some() => {}
                    None => return cursor.error(format!("initialiser names unknown variable '{name}'")),
                }
            }
            _ => {
                cursor.at += 1;
                continue;
            }
        }
        let Some(place) = declared.globals[index as usize].bytes.get_mut(offset..offset + size) else {
            return cursor.error("more initial values than elements");
        };
        place.copy_from_slice(&value.to_le_bytes()[..size]);
        offset += size;
    }
    Ok(())
}
