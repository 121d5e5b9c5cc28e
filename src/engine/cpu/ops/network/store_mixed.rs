//! From a feature map and what went into the network to the prior score: the kernel's twin for each state.

use qcs_kernels::network::padded;
use qcs_kernels::network::precondition::Parametrisation;
use qcs_kernels::network::store_mixed::store_mixed;

use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::plan::TensorId;

impl CpuSession<'_> {
    pub(super) fn store_mixed(
        &mut self,
        x: TensorId,
        input: TensorId,
        level: TensorId,
        kind: Parametrisation,
        score: TensorId,
    ) {
        let at = Operands::new(self.plan, &self.arena);
        let (channels, pixels) = at.channels_and_pixels(input);
        let (len, map) = (channels * pixels, padded(channels) * pixels);
        let (x, input, level) = (at.read::<f32>(x), at.read::<f32>(input), at.read::<f64>(level));
        self.threads.for_each(at.write(score), len, &|state, score| {
            let (x, input) = (&x[state * len..][..len], &input[state * map..][..map]);
            store_mixed(kind, x, input, level[state], channels, score);
        });
    }
}
