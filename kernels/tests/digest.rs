//! What of a kernel source the digest counts.

#[path = "../digest.rs"]
#[allow(dead_code)]
mod digest;

use digest::seen;

#[test]
fn comments_white_space_and_tests_do_not_count() {
    let plain = "pub fn f(x: f32) -> f32 { x + 1.0 }";
    for same in [
        "pub fn f(x: f32) -> f32 {\n    x + 1.0\n}",
        "/// Adds one.\npub fn f(x: f32) -> f32 { x /* a /* nested */ one */ + 1.0 } // done",
        "pub fn f(x: f32) -> f32 { x + 1.0 }\n#[cfg(test)]\nmod tests { const BRACE: char = '}'; fn g() { \"}\"; } }\n",
        "pub fn f(x: f32) -> f32 { x + 1.0 }\r\n#[cfg(test)]\r\nuse super::g;\r\n",
    ] {
        assert_eq!(words(same), words(plain), "{same}");
    }
}

#[test]
fn code_and_texts_count() {
    let plain = "fn f() { g(\"// not a comment\", 'x', r#\"/* nor \" this */\"#); }";
    assert!(seen(plain).contains("// not a comment") && seen(plain).contains("/* nor \" this */"));
    for other in [
        plain.replace("not", "now"),
        plain.replace("nor", "or"),
        plain.replace("'x'", "'y'"),
        plain.replace("fn f", "fn h"),
        plain.replace("'x'", "'\"'"),
    ] {
        assert_ne!(words(&other), words(plain), "{other}");
    }
    // A lifetime opens no character.
    let lifetime = "fn f<'a>(x: &'a u8) { /* gone */ }";
    assert!(!seen(lifetime).contains("gone"));
}

fn words(source: &str) -> String {
    let spaced: String = seen(source).chars().filter(|c| !c.is_whitespace()).collect();
    spaced
}
