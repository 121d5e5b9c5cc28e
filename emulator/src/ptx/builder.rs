//! State while a kernel is lowered: scopes, registers, constants and symbols.

use super::Result;
use super::body;
use super::cursor::Cursor;
use super::lexer::Token;
use super::module::{Declarations, Function, Variable};
use crate::error::LoadError;
use crate::ir::{Instruction, Kernel, Op, Param, Pred, Reg, Special, Type};
use std::collections::HashMap;

/// A declared register.
#[derive(Clone, Copy)]
pub enum Storage {
    Pred(u32),
    Reg(Reg),
}

/// What a name that is not a register stands for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Symbol {
    Global(u32),
    Shared(u64),
    DynamicShared,
    Local(u64),
    Param(u64),
}

#[derive(Default)]
pub struct Scope<'a> {
    pub registers: HashMap<&'a str, Storage>,
    /// `%r<9>` declares `%r0` to `%r8`: the first of them and their number.
    pub families: HashMap<&'a str, (Storage, u32)>,
    pub symbols: HashMap<&'a str, Symbol>,
    pub labels: HashMap<&'a str, u32>,
    pub tables: HashMap<&'a str, Vec<&'a str>>,
    /// Branches whose label is not known yet.
    pub pending: Vec<Pending<'a>>,
}

pub struct Pending<'a> {
    pub instruction: usize,
    pub slot: usize,
    pub label: &'a str,
}

pub struct Builder<'a> {
    pub declared: &'a Declarations<'a>,
    pub tokens: &'a [Token<'a>],
    pub kernel: Kernel,
    pub scopes: Vec<Scope<'a>>,
    pub call_stack: Vec<&'a str>,
    constants: HashMap<(u64, bool), Reg>,
    specials: HashMap<(Special, bool), Reg>,
    shared: HashMap<&'a str, u64>,
    mnemonics: HashMap<String, u16>,
}

/// Predicate 0 takes results nobody wants; predicate 1 is always true.
const SINK_PREDICATE: u32 = 0;
pub const TRUE_PREDICATE: u32 = 1;

pub fn build<'a>(
    declared: &'a Declarations<'a>,
    tokens: &'a [Token<'a>],
    function: &'a Function<'a>,
) -> Result<Kernel> {
    let mut builder = Builder {
        declared,
        tokens,
        kernel: empty_kernel(function),
        scopes: Vec::new(),
        call_stack: vec![function.name],
        constants: HashMap::new(),
        specials: HashMap::new(),
        shared: HashMap::new(),
        mnemonics: HashMap::new(),
    };
    let mut symbols = HashMap::new();
    for param in &function.params {
        let offset = builder.kernel.param_bytes.next_multiple_of(param.align.max(1));
        builder.kernel.params.push(Param {
            offset,
            bytes: param.bytes,
        });
        builder.kernel.param_bytes = offset + param.bytes;
        symbols.insert(param.name, Symbol::Param(offset as u64));
    }
    for result in &function.returns {
        let symbol = builder.local(result);
        symbols.insert(result.name, symbol);
    }
    let cursor = Cursor::new(&tokens[function.body.clone()]);
    body::lower(&mut builder, cursor, symbols, true)
        .map_err(|e| LoadError::new(e.line, format!("{} (in {})", e.message, function.name)))?;
    let mut kernel = builder.kernel;
    kernel.local_bytes = kernel.local_bytes.next_multiple_of(16);
    kernel.live_registers = kernel.count_live_registers();
    kernel.order = kernel.flow_order();
    Ok(kernel)
}

fn empty_kernel(function: &Function) -> Kernel {
    Kernel {
        name: function.name.into(),
        code: vec![],
        mnemonics: vec![],
        planes: 2, // planes 0 and 1 take results nobody wants
        predicates: 2,
        constants: vec![],
        specials: vec![],
        static_shared_bytes: 0,
        local_bytes: 0,
        params: vec![],
        param_bytes: 0,
        max_threads: function.max_threads,
        live_registers: 0,
        order: vec![],
    }
}

impl<'a> Builder<'a> {
    /// The innermost scope.
    pub fn scope(&mut self) -> &mut Scope<'a> {
        self.scopes.last_mut().expect("a function has a scope")
    }

    pub fn sink(&self) -> Reg {
        Reg { plane: 0, wide: true }
    }

    pub fn sink_predicate(&self) -> u32 {
        SINK_PREDICATE
    }

    pub fn always(&self, value: bool) -> Pred {
        Pred {
            index: TRUE_PREDICATE,
            negate: !value,
        }
    }

    /// Allocates `count` consecutive registers of a type and returns the first.
    pub fn registers(&mut self, ty: Type, count: u32) -> Storage {
        if ty == Type::Pred {
            let index = self.kernel.predicates as u32;
            self.kernel.predicates += count as usize;
            return Storage::Pred(index);
        }
        let reg = Reg {
            plane: self.kernel.planes as u32,
            wide: ty.is_wide(),
        };
        self.kernel.planes += count as usize * (1 + ty.is_wide() as usize);
        Storage::Reg(reg)
    }

    fn register(&mut self, wide: bool) -> Reg {
        let reg = Reg {
            plane: self.kernel.planes as u32,
            wide,
        };
        self.kernel.planes += 1 + wide as usize;
        reg
    }

    /// A register that always holds `value`.
    pub fn constant(&mut self, value: u64, wide: bool) -> Reg {
        let value = if wide { value } else { value & 0xffff_ffff };
        if let Some(reg) = self.constants.get(&(value, wide)) {
            return *reg;
        }
        let reg = self.register(wide);
        self.constants.insert((value, wide), reg);
        self.kernel.constants.push((reg, value));
        reg
    }

    pub fn special(&mut self, special: Special, wide: bool) -> Reg {
        if let Some(reg) = self.specials.get(&(special, wide)) {
            return *reg;
        }
        let reg = self.register(wide);
        self.specials.insert((special, wide), reg);
        self.kernel.specials.push((reg, special));
        reg
    }

    /// A register that holds a symbol's address plus an offset, or the base of one that is only
    /// known at launch together with what remains to be added.
    pub fn symbol_address(&mut self, symbol: Symbol, wide: bool) -> (Option<Reg>, u64) {
        match symbol {
            Symbol::Shared(at) | Symbol::Local(at) | Symbol::Param(at) => (None, at),
            Symbol::DynamicShared => (Some(self.special(Special::DynamicShared, wide)), 0),
            Symbol::Global(index) => (Some(self.special(Special::GlobalAddress(index), true)), 0),
        }
    }

    pub fn find_register(&self, name: &str) -> Option<Storage> {
        self.scopes.iter().rev().find_map(|scope| {
            if let Some(storage) = scope.registers.get(name) {
                return Some(*storage);
            }
            let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let (first, count) = *scope.families.get(prefix)?;
            let number: u32 = name[prefix.len()..].parse().ok().filter(|n| *n < count)?;
            Some(match first {
                Storage::Pred(index) => Storage::Pred(index + number),
                Storage::Reg(Reg { plane, wide }) => Storage::Reg(Reg {
                    plane: plane + number * (1 + wide as u32),
                    wide,
                }),
            })
        })
    }

    pub fn find_symbol(&mut self, name: &str) -> Option<Symbol> {
        if let Some(symbol) = self.scopes.iter().rev().find_map(|s| s.symbols.get(name)) {
            return Some(*symbol);
        }
        if let Some(index) = self.declared.global_index.get(name) {
            return Some(Symbol::Global(*index));
        }
        let declared = self.declared;
        declared.shared.get(name).map(|variable| self.module_shared(variable))
    }

    /// Shared variables of the module take space only in kernels that name them.
    fn module_shared(&mut self, variable: &'a Variable<'a>) -> Symbol {
        if variable.unsized_array {
            return Symbol::DynamicShared;
        }
        if let Some(offset) = self.shared.get(variable.name) {
            return Symbol::Shared(*offset);
        }
        let symbol = self.shared_variable(variable);
        if let Symbol::Shared(offset) = symbol {
            self.shared.insert(variable.name, offset);
        }
        symbol
    }

    pub fn shared_variable(&mut self, variable: &Variable) -> Symbol {
        if variable.unsized_array {
            return Symbol::DynamicShared;
        }
        let offset = self.kernel.static_shared_bytes.next_multiple_of(variable.align.max(1));
        self.kernel.static_shared_bytes = offset + variable.bytes;
        Symbol::Shared(offset as u64)
    }

    /// `.local` variables and the `.param` variables of calls.
    pub fn local(&mut self, variable: &Variable) -> Symbol {
        let offset = self.kernel.local_bytes.next_multiple_of(variable.align.max(8));
        self.kernel.local_bytes = offset + variable.bytes;
        Symbol::Local(offset as u64)
    }

    pub fn emit(&mut self, op: Op, guard: Option<Pred>, line: u32, mnemonic: &str) {
        let next = self.kernel.mnemonics.len() as u16;
        let mnemonic = *self.mnemonics.entry(mnemonic.to_string()).or_insert_with(|| {
            self.kernel.mnemonics.push(mnemonic.to_string());
            next
        });
        self.kernel.code.push(Instruction {
            op,
            guard,
            line,
            mnemonic,
        });
    }
}
