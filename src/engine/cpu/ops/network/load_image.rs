//! 2x − 1, from states to feature maps: the kernel's twin for each state.

use qcs_kernels::network::load_image::load_image;
use qcs_kernels::network::padded;

use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::plan::TensorId;

impl CpuSession<'_> {
    pub(super) fn load_image(&mut self, x: TensorId, output: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let (channels, pixels) = at.channels_and_pixels(output);
        let (x, len) = (at.read::<f32>(x), channels * pixels);
        self.threads
            .for_each(at.write(output), padded(channels) * pixels, &|state, output| {
                load_image(&x[state * len..][..len], channels, output);
            });
    }
}
