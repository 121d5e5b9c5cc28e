//! Which algorithm computes a layer: a matter of its shape, never of batch, threads or timing, or bits would depend on them.
//!
//! The time of direct convolution over that of Winograd's algorithm, for a 3×3 layer on eight maps of 14×14, 2 threads, AVX2;
//! rows are blocks of eight channels in, columns blocks out. Medians of three runs on a busy machine of
//! `cargo test --release --lib -- --ignored --nocapture direct_against_winograd`, with filters transformed beforehand:
//!
//! | | 1 | 2 | 3 | 6 | 16 | 32 |
//! |---|---|---|---|---|---|---|
//! | 1 | 0.78 | 1.26 | 1.31 | 0.96 | 0.72 | 0.88 |
//! | 2 | 0.93 | 0.87 | 1.23 | 1.35 | 1.50 | 1.06 |
//! | 3 | 1.01 | 1.05 | 1.55 | 1.65 | 1.76 | 1.32 |
//! | 6 | 1.28 | 1.70 | 2.17 | 2.25 | 2.33 | 2.25 |
//! | 16 | 1.03 | 1.37 | 1.67 | 2.25 | 2.05 | 2.86 |
//! | 32 | 1.01 | 1.38 | 1.53 | 2.37 | 2.36 | 2.36 |
//!
//! With a single block on one side the two are close, and direct sums are the more accurate ones. A larger tile, F(6×6, 3×3),
//! would take 21 % fewer products, but its tiles fit no map of the presets: 14, 16, 28 and 32 pixels round up to 18, 18, 30
//! and 36, and only 64 to 66.

/// How a convolution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Direct,
    /// F(4×4, 3×3)
    Winograd,
}

impl Algorithm {
    /// The faster one, channels counted in blocks.
    pub fn of(kernel: usize, in_blocks: usize, out_blocks: usize) -> Self {
        if kernel == 3 && in_blocks >= 2 && out_blocks >= 2 && in_blocks * out_blocks > 4 {
            Self::Winograd
        } else {
            Self::Direct
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Winograd => "Winograd 4×4",
        }
    }
}
