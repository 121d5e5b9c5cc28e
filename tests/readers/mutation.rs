//! Small damages to a file, as they happen and as they are made on purpose.

use crate::corpus::Seed;

/// A generator of its own, so that a failure can be repeated.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// Sizes that overflow, and the ones next to them.
const NUMBERS: [u64; 9] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    u64::MAX >> 1,
    u64::MAX,
];
/// Characters of Python's literals and pickles, of JSON, and digits that make a number larger.
const CHARACTERS: &[u8] = b"9-.,:(){}[]'\"RQbcjhutTFe \n\x1b";

pub struct Mutator<'s> {
    random: Xorshift,
    seeds: &'s [Seed],
}

impl<'s> Mutator<'s> {
    pub fn new(seeds: &'s [Seed]) -> Self {
        Self {
            random: Xorshift(0x9e37_79b9_7f4a_7c15),
            seeds,
        }
    }

    /// The seed with one to six damages, its checksums made good again in half of the cases.
    pub fn mutated(&mut self, seed: &Seed) -> Vec<u8> {
        let mut bytes = seed.bytes.clone();
        for _ in 0..=self.random.below(6) {
            self.damage(&mut bytes);
        }
        if self.random.below(2) == 0 {
            (seed.repair)(&mut bytes);
        }
        bytes
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let random = &mut self.random;
        // Headers decide what is done with the rest: half of the damages fall on the first bytes.
        let reach = if random.below(2) == 0 {
            bytes.len().min(256)
        } else {
            bytes.len()
        };
        let at = random.below(reach);
        let length = random.below(64).min(bytes.len() - at);
        match random.below(10) {
            0 => drop(bytes.drain(at..at + length)),
            1 => {
                let doubled = bytes[at..at + length].to_vec();
                drop(bytes.splice(at..at, doubled));
            }
            2 => bytes[at..at + length].reverse(),
            3 => bytes.truncate(at),
            4 => {
                let other = &self.seeds[random.below(self.seeds.len())].bytes;
                let from = random.below(other.len());
                let part = &other[from..(from + length).min(other.len())];
                drop(bytes.splice(at..at + length, part.iter().copied()));
            }
            5 | 6 => {
                let number = random.of(&NUMBERS);
                let width = random.of(&[2, 4, 8]).min(bytes.len() - at);
                let number = if random.below(2) == 0 {
                    number.to_le_bytes()
                } else {
                    number.rotate_right(8 * width as u32).to_be_bytes()
                };
                bytes[at..at + width].copy_from_slice(&number[..width]);
            }
            7 => bytes[at] = random.of(CHARACTERS),
            _ => bytes[at] ^= 1 << random.below(8),
        }
    }
}
