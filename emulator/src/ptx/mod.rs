//! PTX text to IR: lexer, declarations, statements, instructions.

mod body;
mod builder;
mod cursor;
mod decode;
mod lexer;
mod literal;
mod module;
mod operand;

use crate::error::LoadError;
use crate::ir::Module;

type Result<T> = std::result::Result<T, LoadError>;

/// Parses and lowers a whole module, unused functions included.
pub fn parse(source: &str) -> Result<Module> {
    let tokens = lexer::tokens(source)?;
    let declared = module::declarations(&tokens)?;
    let mut kernels = Vec::new();
    for function in &declared.functions {
        if function.body.is_empty() {
            continue;
        }
        let kernel = builder::build(&declared, &tokens, function)?;
        // A device function is built only to find instructions that cannot run.
        if function.entry {
            kernels.push(kernel);
        }
    }
    Ok(Module {
        kernels,
        globals: declared.globals,
        target: declared.target,
        version: declared.version,
    })
}
