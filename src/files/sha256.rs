//! SHA-256 (FIPS 180-4): what tells a published file apart from another of its name.

use std::fmt::Write;
use std::path::Path;

use crate::Result;

/// The digest of a file, in hexadecimal.
///
/// # Errors
/// As [`super::map`].
pub fn sha256_of(path: &Path) -> Result<String> {
    Ok(hex(sha256(&super::map(path)?)))
}

fn hex(digest: [u32; 8]) -> String {
    digest.iter().fold(String::new(), |mut text, word| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{word:08x}");
        text
    })
}

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
fn constants() -> [u32; 64] {
    fractions(|x| x.cbrt())
}

/// The first 32 bits of the fractional parts of a root of the first primes. f64 has 53 bits, of which the whole part takes at most 5.
fn fractions<const N: usize>(root: impl Fn(f64) -> f64) -> [u32; N] {
    let is_prime = |n: &u32| (2..*n).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    let mut primes = (2u32..).filter(is_prime);
    std::array::from_fn(|_| {
        let root = root(f64::from(primes.next().expect("there is always another prime")));
        (root.fract() * 4_294_967_296.0) as u32
    })
}

fn sha256(bytes: &[u8]) -> [u32; 8] {
    let constants = constants();
    let mut state = fractions(f64::sqrt);
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks.iter().for_each(|block| compress(&constants, &mut state, block));
    // A one, zeros, and the length in bits, which may take a block more.
    let mut last = rest.to_vec();
    last.push(0x80);
    last.resize((rest.len() + 9).next_multiple_of(64) - 8, 0);
    last.extend((8 * bytes.len() as u64).to_be_bytes());
    let (blocks, _) = last.as_chunks::<64>();
    blocks.iter().for_each(|block| compress(&constants, &mut state, block));
    state
}

fn compress(constants: &[u32; 64], state: &mut [u32; 8], block: &[u8; 64]) {
    let mut words = [0u32; 64];
    let (given, _) = block.as_chunks::<4>();
    for (word, bytes) in words.iter_mut().zip(given) {
        *word = u32::from_be_bytes(*bytes);
    }
    for t in 16..64 {
        let (near, far) = (words[t - 2], words[t - 15]);
        let small = far.rotate_right(7) ^ far.rotate_right(18) ^ (far >> 3);
        let large = near.rotate_right(17) ^ near.rotate_right(19) ^ (near >> 10);
        words[t] = words[t - 16]
            .wrapping_add(small)
            .wrapping_add(words[t - 7])
            .wrapping_add(large);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (constant, word) in constants.iter().zip(words) {
        let mixed = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let chosen = (e & f) ^ (!e & g);
        let one = h
            .wrapping_add(mixed)
            .wrapping_add(chosen)
            .wrapping_add(*constant)
            .wrapping_add(word);
        let mixed = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let two = mixed.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(one), c, b, a, one.wrapping_add(two));
    }
    for (sum, part) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *sum = sum.wrapping_add(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard's own examples, and lengths around that of a block, by Python's hashlib.
    #[test]
    fn digests_are_the_standards() {
        let long = vec![b'a'; 1_000_000];
        for (bytes, expected) in [
            (
                &b""[..],
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (
                b"abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                &long[..55],
                "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318",
            ),
            (
                &long[..56],
                "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a",
            ),
            (
                &long[..64],
                "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb",
            ),
            (
                &long,
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
            ),
        ] {
            assert_eq!(hex(sha256(bytes)), expected);
        }
    }
}
