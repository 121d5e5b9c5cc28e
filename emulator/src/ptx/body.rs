//! Statements of a function body: declarations, labels, branches, calls and instructions.

use super::Result;
use super::builder::{Builder, Pending, Scope, Storage, Symbol};
use super::cursor::Cursor;
use super::decode;
use super::lexer::Kind;
use super::module;
use super::operand::{self, Args, Operand};
use crate::error::LoadError;
use crate::ir::{Op, Pred, Type};
use std::collections::HashMap;

/// Lowers the statements at `cursor` as one function: a kernel, or a call inlined into one.
pub fn lower<'a>(
    b: &mut Builder<'a>,
    mut cursor: Cursor<'a>,
    symbols: HashMap<&'a str, Symbol>,
    entry: bool,
) -> Result<()> {
    let outer = b.scopes.len();
    b.scopes.push(Scope {
        symbols,
        ..Scope::default()
    });
    let mut returns = Vec::new();
    while cursor.peek().is_some() {
        statement(b, &mut cursor, entry, &mut returns)?;
    }
    let end = b.kernel.code.len() as u32;
    for at in returns {
        b.kernel.code[at].op = Op::Branch { target: end };
    }
    if b.scopes.len() != outer + 1 {
        return cursor.error("unbalanced braces");
    }
    close_scope(b, true)?;
    if entry {
        b.emit(Op::Exit, None, cursor.line(), "exit");
    }
    Ok(())
}

fn statement<'a>(b: &mut Builder<'a>, cursor: &mut Cursor<'a>, entry: bool, returns: &mut Vec<usize>) -> Result<()> {
    if cursor.eat(b';') {
        return Ok(());
    }
    if cursor.eat(b'{') {
        b.scopes.push(Scope::default());
        return Ok(());
    }
    if cursor.eat(b'}') {
        return close_scope(b, false);
    }
    let line = cursor.line();
    let guard = guard(b, cursor)?;
    let word = cursor.word()?;
    if guard.is_none() && cursor.eat(b':') {
        return label(b, cursor, word);
    }
    if let Some(directive) = word.strip_prefix('.') {
        return declaration(b, cursor, directive);
    }
    let (base, _) = word.split_once('.').unwrap_or((word, ""));
    match base {
        "call" => call(b, cursor, guard, line),
        "ret" if !entry => {
            returns.push(b.kernel.code.len());
            b.emit(Op::Nothing, guard, line, "ret");
            cursor.expect(b';')
        }
        "ret" | "exit" => {
            b.emit(Op::Exit, guard, line, base);
            cursor.expect(b';')
        }
        _ => {
            let operands = operand::list(cursor)?;
            instruction(b, word, operands, guard, line).map_err(|e| match e.line {
                0 => LoadError::new(line, format!("{word}: {}", e.message)),
                _ => e,
            })
        }
    }
}

fn guard<'a>(b: &Builder<'a>, cursor: &mut Cursor<'a>) -> Result<Option<Pred>> {
    if !cursor.eat(b'@') {
        return Ok(None);
    }
    let negate = cursor.eat(b'!');
    let name = cursor.word()?;
    match b.find_register(name) {
        Some(Storage::Pred(index)) => Ok(Some(Pred { index, negate })),
        _ => cursor.error(format!("'{name}' is not a predicate")),
    }
}

fn label<'a>(b: &mut Builder<'a>, cursor: &mut Cursor<'a>, name: &'a str) -> Result<()> {
    if cursor.is_word(".branchtargets") {
        cursor.at += 1;
        let mut targets = vec![cursor.word()?];
        while cursor.eat(b',') {
            targets.push(cursor.word()?);
        }
        b.scope().tables.insert(name, targets);
        return cursor.expect(b';');
    }
    if cursor.is_word(".callprototype") || cursor.is_word(".calltargets") {
        return cursor.skip_past(b';');
    }
    let here = b.kernel.code.len() as u32;
    b.scope().labels.insert(name, here);
    Ok(())
}

fn declaration<'a>(b: &mut Builder<'a>, cursor: &mut Cursor<'a>, directive: &str) -> Result<()> {
    match directive {
        "reg" => registers(b, cursor),
        "local" | "param" => {
            for variable in module::variables(cursor)? {
                let symbol = b.local(&variable);
                b.scope().symbols.insert(variable.name, symbol);
            }
            Ok(())
        }
        "shared" => {
            for variable in module::variables(cursor)? {
                let symbol = b.shared_variable(&variable);
                b.scope().symbols.insert(variable.name, symbol);
            }
            Ok(())
        }
        "pragma" => cursor.skip_past(b';'),
        other => cursor.error(format!("unknown directive '.{other}' in a function")),
    }
}

fn registers<'a>(b: &mut Builder<'a>, cursor: &mut Cursor<'a>) -> Result<()> {
    let Some(ty) = cursor.directive().and_then(Type::parse) else {
        return cursor.error("expected a register type");
    };
    loop {
        let name = cursor.word()?;
        if cursor.eat(b'<') {
            let count = cursor.size()? as u32;
            cursor.expect(b'>')?;
            let first = b.registers(ty, count);
            b.scope().families.insert(name, (first, count));
        } else {
            let storage = b.registers(ty, 1);
            b.scope().registers.insert(name, storage);
        }
        if !cursor.eat(b',') {
            return cursor.expect(b';');
        }
    }
}

/// Resolves the branches to labels of the innermost scope; others wait for the enclosing one.
fn close_scope(b: &mut Builder, function_end: bool) -> Result<()> {
    let scope = b.scopes.pop().expect("a function has a scope");
    let mut unresolved = Vec::new();
    for pending in scope.pending {
        let Some(target) = scope.labels.get(pending.label) else {
            unresolved.push(pending);
            continue;
        };
        match &mut b.kernel.code[pending.instruction].op {
            Op::Branch { target: t } => *t = *target,
            Op::BranchTable { targets, .. } => targets[pending.slot] = *target,
            _ => unreachable!("only branches wait for labels"),
        }
    }
    if let (true, Some(first)) = (function_end, unresolved.first()) {
        let line = b.kernel.code[first.instruction].line;
        return Err(LoadError::new(line, format!("unknown label '{}'", first.label)));
    }
    match b.scopes.last_mut() {
        Some(parent) if !function_end => parent.pending.extend(unresolved),
        _ if !function_end => return Err(LoadError::new(0, "unbalanced braces")),
        _ => {}
    }
    Ok(())
}

fn instruction<'a>(
    b: &mut Builder<'a>,
    word: &str,
    operands: Vec<Operand<'a>>,
    guard: Option<Pred>,
    line: u32,
) -> Result<()> {
    let pending = branch_labels(b, word, &operands)?;
    let op = match &pending {
        Some(labels) if word.starts_with("brx") => {
            let index = Args::new(b, operands).source(Type::U32)?;
            Op::BranchTable {
                index,
                targets: vec![0; labels.len()],
            }
        }
        Some(_) => Op::Branch { target: 0 },
        None => decode::instruction(b, word, operands)?,
    };
    let at = b.kernel.code.len();
    let waiting = pending.into_iter().flatten().enumerate();
    let scope = b.scope();
    scope.pending.extend(waiting.map(|(slot, label)| Pending {
        instruction: at,
        slot,
        label,
    }));
    b.emit(op, guard, line, word);
    Ok(())
}

/// The labels a branch names, for `bra` and `brx.idx`.
fn branch_labels<'a>(b: &Builder<'a>, word: &str, operands: &[Operand<'a>]) -> Result<Option<Vec<&'a str>>> {
    match (word, operands) {
        ("bra" | "bra.uni", [target]) => Ok(Some(vec![target.name()?])),
        ("brx.idx" | "brx.idx.uni", [_, table]) => {
            let name = table.name()?;
            let found = b.scopes.iter().rev().find_map(|s| s.tables.get(name).cloned());
            found
                .map(Some)
                .ok_or_else(|| LoadError::new(0, format!("unknown branch table '{name}'")))
        }
        _ => Ok(None),
    }
}

fn call<'a>(b: &mut Builder<'a>, cursor: &mut Cursor<'a>, guard: Option<Pred>, line: u32) -> Result<()> {
    let mut results = Vec::new();
    if cursor.is(b'(') {
        results = names(cursor)?;
        cursor.expect(b',')?;
    }
    let name = cursor.word()?;
    let mut arguments = Vec::new();
    if cursor.eat(b',') && cursor.is(b'(') {
        arguments = names(cursor)?;
    }
    cursor.skip_past(b';')?;
    if name == "__assertfail" {
        b.emit(Op::Trap, guard, line, "call __assertfail");
        return Ok(());
    }
    let Some(function) = b.declared.function(name).filter(|f| !f.body.is_empty()) else {
        return Err(LoadError::new(
            line,
            format!("call of '{name}', which has no body here"),
        ));
    };
    if b.call_stack.contains(&name) {
        return Err(LoadError::new(
            line,
            format!("'{name}' is recursive; calls are inlined"),
        ));
    }
    if results.len() != function.returns.len() || arguments.len() != function.params.len() {
        return Err(LoadError::new(line, format!("wrong number of arguments for '{name}'")));
    }
    let mut symbols = HashMap::new();
    let formals = function.returns.iter().chain(&function.params);
    for (formal, actual) in formals.zip(results.into_iter().chain(arguments)) {
        let symbol = b.find_symbol(actual).filter(|s| matches!(s, Symbol::Local(_)));
        let Some(symbol) = symbol else {
            return Err(LoadError::new(
                line,
                format!("argument '{actual}' is not a .param variable"),
            ));
        };
        symbols.insert(formal.name, symbol);
    }
    let skip = b.kernel.code.len();
    if let Some(Pred { index, negate }) = guard {
        b.emit(Op::Nothing, Some(Pred { index, negate: !negate }), line, "call");
    }
    b.call_stack.push(name);
    // The callee sees its own scopes only.
    let outer = std::mem::take(&mut b.scopes);
    let body = Cursor::new(&b.tokens[function.body.clone()]);
    let lowered = lower(b, body, symbols, false);
    b.scopes = outer;
    b.call_stack.pop();
    if guard.is_some() {
        b.kernel.code[skip].op = Op::Branch {
            target: b.kernel.code.len() as u32,
        };
    }
    lowered
}

fn names<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<&'a str>> {
    let mut list = Vec::new();
    cursor.expect(b'(')?;
    while !cursor.eat(b')') {
        match cursor.peek() {
            Some(Kind::Word(_)) => list.push(cursor.word()?),
            _ => return cursor.error("call arguments must be .param variables"),
        }
        cursor.eat(b',');
    }
    Ok(list)
}
