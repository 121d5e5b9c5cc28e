//! Two maps as one: the kernel's twin for each image.

use qcs_kernels::network::concat::concat;

use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::plan::TensorId;

impl CpuSession<'_> {
    pub(super) fn concat(&mut self, first: TensorId, second: TensorId, output: TensorId) {
        let (at, batch) = (Operands::new(self.plan, &self.arena), self.plan.batch);
        let (first, second): (&[f32], &[f32]) = (at.read(first), at.read(second));
        let (one, two) = (first.len() / batch, second.len() / batch);
        self.threads.for_each(at.write(output), one + two, &|image, output| {
            concat(&first[image * one..][..one], &second[image * two..][..two], output);
        });
    }
}
