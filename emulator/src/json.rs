//! Writes JSON. Reports are small and flat, so a string builder is all it takes.

use std::fmt::Write;

/// An object under construction.
#[derive(Default)]
pub struct Object(String);

impl Object {
    pub fn new() -> Object {
        Object::default()
    }

    /// A member whose value is already JSON.
    pub fn raw(mut self, key: &str, value: &str) -> Object {
        let comma = if self.0.is_empty() { "" } else { ", " };
        write!(self.0, "{comma}{}: {value}", quoted(key)).expect("writing to a string cannot fail");
        self
    }

    pub fn integer(self, key: &str, value: u64) -> Object {
        self.raw(key, &value.to_string())
    }

    pub fn number(self, key: &str, value: f64) -> Object {
        let text = if value.is_finite() {
            format!("{value:.6}")
        } else {
            "null".into()
        };
        self.raw(key, &text)
    }

    pub fn text(self, key: &str, value: &str) -> Object {
        self.raw(key, &quoted(value))
    }

    pub fn finish(self) -> String {
        format!("{{{}}}", self.0)
    }
}

pub fn array(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if (c as u32) < 0x20 => write!(out, "\\u{:04x}", c as u32).expect("writing to a string cannot fail"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_nest_and_escape() {
        let inner = Object::new().text("a\"b", "line\nend").finish();
        let outer = Object::new()
            .integer("n", 3)
            .raw("o", &inner)
            .raw("l", &array(["1".into(), "2".into()]));
        assert_eq!(
            outer.finish(),
            r#"{"n": 3, "o": {"a\"b": "line\u000aend"}, "l": [1, 2]}"#
        );
    }
}
