//! What stands around a network, whatever is inside: how an image reaches it, and how its output becomes a score.

use qcs_kernels::network::precondition::Parametrisation;

use super::layers::Layers;
use crate::ImageShape;
use crate::plan::{NetworkOp, PlanBuilder, TensorId};

/// A kind of preconditioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The network sees 2x − 1 and is told no level: its output, divided by the level, is the score.
    Ncsnv2,
    /// One of `kernels/src/network/precondition.rs`; one more channel of the input may tell the level.
    Mixed { kind: Parametrisation, tells_level: bool },
}

impl Frame {
    /// EDM's, the level told in one more channel.
    pub const EDM: Self = Self::Mixed {
        kind: Parametrisation::Edm,
        tells_level: true,
    };

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
        let told = matches!(self, Self::Mixed { tells_level: true, .. });
        let output = layers.map(image.channels + usize::from(told), image.height, image.width);
        layers.plan.push(match self {
            Self::Ncsnv2 => NetworkOp::LoadImage { x, output },
            Self::Mixed { kind, .. } => NetworkOp::LoadScaled { x, level, kind, output },
        });
        let input = network(&mut layers, output);
        layers.plan.push(match self {
            Self::Ncsnv2 => NetworkOp::StoreScore { input, level, score },
            Self::Mixed { kind, .. } => NetworkOp::StoreMixed {
                x,
                input,
                level,
                kind,
                score,
            },
        });
    }
}
