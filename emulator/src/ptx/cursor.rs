//! A position in the token list.

use super::Result;
use super::lexer::{Kind, Token};
use super::literal;
use crate::error::LoadError;

#[derive(Clone)]
pub struct Cursor<'a> {
    tokens: &'a [Token<'a>],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(tokens: &'a [Token<'a>]) -> Cursor<'a> {
        Cursor { tokens, at: 0 }
    }

    pub fn peek(&self) -> Option<Kind<'a>> {
        self.tokens.get(self.at).map(|t| t.kind)
    }

    /// The line of the next token, or of the last one at the end.
    pub fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |t| t.line)
    }

    pub fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(LoadError::new(self.line(), message))
    }

    pub fn is(&self, mark: u8) -> bool {
        self.peek() == Some(Kind::Mark(mark))
    }

    pub fn is_word(&self, word: &str) -> bool {
        self.peek() == Some(Kind::Word(word))
    }

    pub fn eat(&mut self, mark: u8) -> bool {
        let found = self.is(mark);
        self.at += found as usize;
        found
    }

    pub fn expect(&mut self, mark: u8) -> Result<()> {
        if self.eat(mark) {
            return Ok(());
        }
        self.error(format!("expected '{}', found {}", mark as char, self.found()))
    }

    fn found(&self) -> String {
        match self.peek() {
            None => "the end".into(),
            Some(Kind::Word(s) | Kind::Number(s) | Kind::Text(s)) => format!("'{s}'"),
            Some(Kind::Mark(c)) => format!("'{}'", c as char),
        }
    }

    pub fn word(&mut self) -> Result<&'a str> {
        match self.peek() {
            Some(Kind::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.error(format!("expected a name, found {}", self.found())),
        }
    }

    /// A word that starts with a dot, without the dot.
    pub fn directive(&mut self) -> Option<&'a str> {
        match self.peek() {
            Some(Kind::Word(word)) if word.starts_with('.') => {
                self.at += 1;
                Some(&word[1..])
            }
            _ => None,
        }
    }

    pub fn number(&mut self) -> Result<&'a str> {
        match self.peek() {
            Some(Kind::Number(text)) => {
                self.at += 1;
                Ok(text)
            }
            _ => self.error(format!("expected a number, found {}", self.found())),
        }
    }

    pub fn integer(&mut self) -> Result<i128> {
        let negative = self.eat(b'-');
        let line = self.line();
        let text = self.number()?;
        let value = literal::integer(text).ok_or_else(|| LoadError::new(line, format!("bad integer {text}")))?;
        Ok(if negative { -value } else { value })
    }

    pub fn size(&mut self) -> Result<usize> {
        let line = self.line();
        usize::try_from(self.integer()?).map_err(|_| LoadError::new(line, "a size cannot be negative"))
    }

    /// Moves behind the next `mark`.
    pub fn skip_past(&mut self, mark: u8) -> Result<()> {
        while self.peek().is_some() {
            self.at += 1;
            if self.tokens[self.at - 1].kind == Kind::Mark(mark) {
                return Ok(());
            }
        }
        self.error(format!("expected '{}'", mark as char))
    }
}
