//! States of another size, continued by reflection or cut: the kernel's twin for each plane.

use qcs_kernels::network::reflect::reflect;

use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::plan::TensorId;

impl CpuSession<'_> {
    pub(super) fn reflect(
        &mut self,
        input: TensorId,
        from: (usize, usize),
        (height, width): (usize, usize),
        output: TensorId,
    ) {
        let at = Operands::new(self.plan, &self.arena);
        let (input, plane) = (at.read::<f32>(input), from.0 * from.1);
        self.threads
            .for_each(at.write(output), height * width, &|index, output| {
                reflect(&input[index * plane..][..plane], from, width, output);
            });
    }
}
