//! A hash that notices damage and tells contents apart: against accidents, not against forgers.

/// A running hash of 64-bit words: fast enough for a matrix of 400 MB.
pub struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self::new()
    }
}

impl Hash {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn word(&mut self, word: u64) {
        // A product carries bits up only; the shift brings them down again, and the second product spreads them.
        let product = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = (product ^ (product >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        bytes.iter().for_each(|&byte| self.word(u64::from(byte)));
    }

    /// Many bytes, eight at a time.
    pub fn blob(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        rest.iter().for_each(|&byte| self.word(u64::from(byte)));
    }

    pub fn hex(&self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The hash of a text.
pub fn of_text(text: &str) -> String {
    let mut hash = Hash::new();
    hash.bytes(text.as_bytes());
    hash.hex()
}
