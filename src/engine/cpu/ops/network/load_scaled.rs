//! From states to feature maps scaled for their noise levels: the kernel's twin for each state.

use qcs_kernels::network::load_scaled::load_scaled;
use qcs_kernels::network::padded;
use qcs_kernels::network::precondition::Parametrisation;

use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::plan::TensorId;

impl CpuSession<'_> {
    /// The feature map may have one channel more than the state, which says the level.
    pub(super) fn load_scaled(&mut self, x: TensorId, level: TensorId, kind: Parametrisation, output: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let (wide, pixels) = at.channels_and_pixels(output);
        let (x, level) = (at.read::<f32>(x), at.read::<f64>(level));
        let len = x.len() / self.plan.batch;
        let channels = len / pixels;
        self.threads
            .for_each(at.write(output), padded(wide) * pixels, &|state, output| {
                let x = &x[state * len..][..len];
                load_scaled(kind, x, level[state], channels, wide > channels, output);
            });
    }
}
