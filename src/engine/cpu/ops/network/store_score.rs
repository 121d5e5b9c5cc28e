//! From a feature map to the prior score: the kernel's twin for each state.

use qcs_kernels::network::padded;
use qcs_kernels::network::store_score::store_score;

use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::plan::TensorId;

impl CpuSession<'_> {
    pub(super) fn store_score(&mut self, input: TensorId, level: TensorId, score: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let (channels, pixels) = at.channels_and_pixels(input);
        let map = padded(channels) * pixels;
        let (input, level) = (at.read::<f32>(input), at.read::<f64>(level));
        self.threads
            .for_each(at.write(score), channels * pixels, &|state, score| {
                store_score(&input[state * map..][..map], level[state], channels, score);
            });
    }
}
