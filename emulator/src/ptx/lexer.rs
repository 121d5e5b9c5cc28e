//! Splits PTX into words, numbers and punctuation, each with its line.

use super::Result;
use crate::error::LoadError;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind<'a> {
    /// Identifiers, registers, directives and opcodes with all their suffixes.
    Word(&'a str),
    Number(&'a str),
    Text(&'a str),
    Mark(u8),
}

#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub kind: Kind<'a>,
    pub line: u32,
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: u32,
    tokens: Vec<Token<'a>>,
}

pub fn tokens(source: &str) -> Result<Vec<Token<'_>>> {
    let mut lexer = Lexer {
        source,
        at: 0,
        line: 1,
        tokens: Vec::new(),
    };
    while lexer.at < source.len() {
        lexer.step()?;
    }
    Ok(lexer.tokens)
}

fn in_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'%' | b'.')
}

impl<'a> Lexer<'a> {
    fn peek(&self, ahead: usize) -> u8 {
        self.source.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn push(&mut self, kind: Kind<'a>) {
        self.tokens.push(Token { kind, line: self.line });
    }

    fn step(&mut self) -> Result<()> {
        match self.peek(0) {
            b'\n' => {
                self.line += 1;
                self.at += 1;
            }
            c if c.is_ascii_whitespace() || c == 0 => self.at += 1,
            b'/' if self.peek(1) == b'/' => self.skip_until(|c| c == b'\n'),
            b'/' if self.peek(1) == b'*' => self.block_comment(),
            b'"' => self.text(),
            c if c.is_ascii_digit() => self.number(),
            c if in_word(c) => self.word(),
            c if c.is_ascii() => {
                self.push(Kind::Mark(c));
                self.at += 1;
            }
            _ => return Err(LoadError::new(self.line, "character outside ASCII")),
        }
        Ok(())
    }

    /// Stops at the character, or at the end.
    fn skip_until(&mut self, stop: impl Fn(u8) -> bool) {
        while self.at < self.source.len() && !stop(self.peek(0)) {
            self.line += (self.peek(0) == b'\n') as u32;
            self.at += 1;
        }
    }

    fn block_comment(&mut self) {
        self.at += 2;
        while self.at < self.source.len() && !(self.peek(0) == b'*' && self.peek(1) == b'/') {
            self.line += (self.peek(0) == b'\n') as u32;
            self.at += 1;
        }
        self.at = (self.at + 2).min(self.source.len());
    }

    fn text(&mut self) {
        let start = self.at + 1;
        self.at += 1;
        self.skip_until(|c| c == b'"');
        self.push(Kind::Text(&self.source[start..self.at]));
        self.at = (self.at + 1).min(self.source.len());
    }

    fn number(&mut self) {
        let start = self.at;
        let decimal = self.peek(0) != b'0' || !self.peek(1).is_ascii_alphabetic();
        loop {
            let c = self.peek(0);
            let exponent_sign = decimal
                && matches!(c, b'+' | b'-')
                && self.at > start
                && matches!(self.source.as_bytes()[self.at - 1], b'e' | b'E');
            if !(c.is_ascii_alphanumeric() || c == b'.' || exponent_sign) {
                break;
            }
            self.at += 1;
        }
        self.push(Kind::Number(&self.source[start..self.at]));
    }

    fn word(&mut self) {
        let start = self.at;
        loop {
            if in_word(self.peek(0)) {
                self.at += 1;
            } else if self.peek(0) == b':' && self.peek(1) == b':' {
                self.at += 2; // qualifiers such as .shared::cta
            } else {
                break;
            }
        }
        match &self.source[start..self.at] {
            // Debug information: the rest of the line, or a braced section.
            ".loc" | ".file" => self.skip_until(|c| c == b'\n'),
            ".section" => {
                self.skip_until(|c| c == b'}');
                self.at = (self.at + 1).min(self.source.len());
            }
            word => self.push(Kind::Word(word)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<Kind<'_>> {
        tokens(source).unwrap().iter().map(|t| t.kind).collect()
    }

    #[test]
    fn an_instruction_is_words_numbers_and_marks() {
        use Kind::*;
        assert_eq!(
            kinds("@!%p1 ld.global.v2.f32 {%f1,_}, [%rd2+-16];"),
            [
                Mark(b'@'),
                Mark(b'!'),
                Word("%p1"),
                Word("ld.global.v2.f32"),
                Mark(b'{'),
                Word("%f1"),
                Mark(b','),
                Word("_"),
                Mark(b'}'),
                Mark(b','),
                Mark(b'['),
                Word("%rd2"),
                Mark(b'+'),
                Mark(b'-'),
                Number("16"),
                Mark(b']'),
                Mark(b';')
            ]
        );
    }

    #[test]
    fn numbers_keep_their_spelling() {
        use Kind::Number;
        assert_eq!(
            kinds("0f3F800000 0x1FU 1e-5 2.5"),
            ["0f3F800000", "0x1FU", "1e-5", "2.5"].map(Number)
        );
        assert_eq!(
            kinds("0d3FF0000000000000-1").len(),
            3,
            "a hexadecimal float has no exponent sign"
        );
    }

    #[test]
    fn comments_and_debug_lines_count_but_vanish() {
        let source = "// one\n/* two\n three */ .loc 1 2 3\nadd.s32";
        let tokens = tokens(source).unwrap();
        assert_eq!(tokens.len(), 1);
        assert_eq!((tokens[0].kind, tokens[0].line), (Kind::Word("add.s32"), 4));
    }
}
