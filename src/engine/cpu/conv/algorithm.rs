//! Which layers Winograd's algorithm computes: a matter of the layer's shape, never of batch, threads or timing.

use super::ConvShape;

/// How a convolution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Direct,
    /// F(4×4, 3×3)
    Winograd,
}

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Winograd => "Winograd 4×4",
        }
    }
}

impl ConvShape {
    /// The faster algorithm.
    pub fn algorithm(&self) -> Algorithm {
        // The transforms of one side are spread over the channels of the other.
        if self.kernel == 3 && self.in_blocks >= 2 && self.out_blocks >= 2 {
            Algorithm::Winograd
        } else {
            Algorithm::Direct
        }
    }
}
