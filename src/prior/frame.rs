//! What stands around a network, whatever is inside: how an image reaches it, and how its output becomes a score.

use super::layers::Layers;
use crate::ImageShape;
use crate::plan::{NetworkOp, PlanBuilder, TensorId};

/// A kind of preconditioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The network sees 2x − 1 and is told no level: its output, divided by the level, is the score.
    Ncsnv2,
    /// EDM's (`kernels/src/network/precondition.rs`), the level told in one more channel of the input.
    Edm,
}

impl Frame {
    /// Appends `network`, which makes a feature map of as many channels as an image has of its input, and what stands
    /// around it: the score of `x` at the levels of the states.
    pub fn push(
        self,
        plan: &mut PlanBuilder,
        image: ImageShape,
        [x, level, score]: [TensorId; 3],
        network: impl FnOnce(&mut Layers<'_>, TensorId) -> TensorId,
    ) {
        let mut layers = Layers { plan };
        let channels = image.channels + usize::from(self == Self::Edm);
        let output = layers.map(channels, image.height, image.width);
        layers.plan.push(match self {
            Self::Ncsnv2 => NetworkOp::LoadImage { x, output },
            Self::Edm => NetworkOp::LoadScaled { x, level, output },
        });
        let input = network(&mut layers, output);
        layers.plan.push(match self {
            Self::Ncsnv2 => NetworkOp::StoreScore { input, level, score },
            Self::Edm => NetworkOp::StoreMixed { x, input, level, score },
        });
    }
}
