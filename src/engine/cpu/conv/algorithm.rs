//! Which algorithm computes a layer: a matter of its shape, never of batch, threads or timing, or bits would depend on them.
//!
//! The time of direct convolution over that of Winograd's algorithm, for a 3×3 layer on eight maps of 14×14, 2 threads, AVX2
//! (`cargo test --release -p qcs --lib -- --ignored --nocapture direct_against_winograd`); rows are blocks of eight
//! channels in, columns blocks out:
//!
//! TABLE

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
        if kernel == 3 && in_blocks >= 2 && out_blocks >= 2 {
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
