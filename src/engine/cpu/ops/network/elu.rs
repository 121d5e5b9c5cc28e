//! ELU of a whole feature map, where no convolution can apply it on the way.

use super::BLOCK;
use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F64x4, Isa, dispatch, elu};
use crate::engine::cpu::threads::Threads;
use crate::plan::TensorId;

impl CpuSession<'_> {
    pub(super) fn elu(&mut self, input: TensorId, output: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let (_, pixels) = at.channels_and_pixels(input);
        elu_map(self.threads, self.isa, at.read(input), pixels * BLOCK, at.write(output));
    }
}

fn elu_map(threads: &mut Threads, isa: Isa, input: &[f32], plane: usize, output: &mut [f32]) {
    #[inline(always)]
    fn body<F: F32x8, D: F64x4>(input: &[f32], output: &mut [f32]) {
        for (from, to) in input.chunks_exact(BLOCK).zip(output.chunks_exact_mut(BLOCK)) {
            elu(F::load(from)).store(to);
        }
    }
    threads.for_each(output, plane, &|index, output| {
        let input = &input[index * plane..(index + 1) * plane];
        dispatch!(isa, body(input: &[f32], output: &mut [f32]));
    });
}
