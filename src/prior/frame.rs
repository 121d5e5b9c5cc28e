//! What stands around a network, whatever is inside: how an image reaches it, and how its output becomes a score.

use qcs_kernels::network::precondition::Parametrisation;

use super::layers::Layers;
use crate::ImageShape;
use crate::plan::{Contents, NetworkOp, PlanBuilder, TensorId};

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
    /// around it: the score of `x` at the levels of the states. The network halves its maps `halvings` times: an image whose
    /// sides do not allow that is continued by reflection, and its score cut.
    pub fn push(
        self,
        plan: &mut PlanBuilder,
        image: ImageShape,
        halvings: usize,
        [x, level, score]: [TensorId; 3],
        network: impl FnOnce(&mut Layers<'_>, TensorId) -> TensorId,
    ) {
        let whole = continued(image, halvings);
        if whole == image {
            return self.push_whole(plan, image, [x, level, score], network);
        }
        let [large, large_score] = [(); 2].map(|()| plan.temporary(Contents::F32(whole.len())));
        let (small, to) = ((image.height, image.width), (whole.height, whole.width));
        plan.push(NetworkOp::Reflect {
            input: x,
            from: small,
            to,
            output: large,
        });
        self.push_whole(plan, whole, [large, level, large_score], network);
        plan.push(NetworkOp::Reflect {
            input: large_score,
            from: to,
            to: small,
            output: score,
        });
    }

    /// The same for images that the network can halve.
    fn push_whole(
        self,
        plan: &mut PlanBuilder,
        image: ImageShape,
        [x, level, score]: [TensorId; 3],
        network: impl FnOnce(&mut Layers<'_>, TensorId) -> TensorId,
    ) {
        let mut layers = Layers::new(plan);
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

/// The image with sides that can be halved so many times.
pub fn continued(image: ImageShape, halvings: usize) -> ImageShape {
    let side = |side: usize| side.next_multiple_of(1 << halvings);
    ImageShape::new(image.channels, side(image.height), side(image.width))
}
