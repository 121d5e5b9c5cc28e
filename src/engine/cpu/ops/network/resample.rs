//! A feature map through its activation to another resolution, or to another cut of the same numbers. A task is one block of eight
//! channels of one image.

use qcs_kernels::network::activation::Function;
use qcs_kernels::network::resample::{Resampling, source};

use super::BLOCK;
use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F64x4, Isa, activate, dispatch};
use crate::engine::cpu::threads::Threads;
use crate::plan::{Activation, TensorId};

impl CpuSession<'_> {
    pub(super) fn resample(
        &mut self,
        input: TensorId,
        activation: Activation,
        (how, factor): (Resampling, f32),
        output: TensorId,
    ) {
        let at = Operands::new(self.plan, &self.arena);
        let op = Resample {
            how,
            function: activation.function(),
            factor,
            coefficients: activation.coefficients().map(|tensor| at.read(tensor)),
            blocks: at.channels_and_pixels(input).0.div_ceil(BLOCK),
            size: at.size(input),
        };
        resample(self.threads, self.isa, op, at.read(input), at.write(output));
    }
}

/// What is done to every map.
#[derive(Clone, Copy)]
pub struct Resample<'a> {
    pub how: Resampling,
    pub function: Function,
    pub factor: f32,
    /// Per image `[2, in_blocks · 8]`: scale and shift
    pub coefficients: Option<&'a [f32]>,
    /// Of the input
    pub blocks: usize,
    pub size: (usize, usize),
}

fn resample(threads: &mut Threads, isa: Isa, op: Resample<'_>, input: &[f32], output: &mut [f32]) {
    let (wide, height, width) = op.how.output((op.blocks * BLOCK, op.size.0, op.size.1));
    let out_blocks = wide / BLOCK;
    threads.for_each(output, height * width * BLOCK, &|index, output| {
        let (image, block) = (index / out_blocks, index % out_blocks);
        let work = Work {
            op,
            out_blocks,
            width,
            image,
            block,
        };
        let work = &work;
        dispatch!(isa, plane(work: &Work<'_>, input: &[f32], output: &mut [f32]));
    });
}

struct Work<'a> {
    op: Resample<'a>,
    out_blocks: usize,
    /// Of the output
    width: usize,
    image: usize,
    block: usize,
}

#[inline(always)]
fn plane<F: F32x8, D: F64x4>(work: &Work<'_>, input: &[f32], output: &mut [f32]) {
    match work.op.function {
        Function::Identity => rows(work, input, output, |x: F| x),
        Function::Silu => rows(work, input, output, |x: F| activate(Function::Silu, x)),
        other => rows(work, input, output, |x: F| activate(other, x)),
    }
}

#[inline(always)]
fn rows<F: F32x8>(work: &Work<'_>, input: &[f32], output: &mut [f32], function: impl Fn(F) -> F) {
    let Resample {
        how,
        factor,
        coefficients,
        blocks,
        size: (height, width),
        ..
    } = work.op;
    let channels = blocks * BLOCK;
    let from_block = |y: usize, x: usize| {
        source(
            how,
            (blocks as u32, work.out_blocks as u32),
            work.block as u32,
            y as u32,
            x as u32,
        )
    };
    let factor = F::splat(factor);
    for (y, row) in output.chunks_exact_mut(work.width * BLOCK).enumerate() {
        for (x, pixel) in row.chunks_exact_mut(BLOCK).enumerate() {
            let (block, top, left, is_mean) = from_block(y, x);
            let (block, top, left) = (block as usize, top as usize, left as usize);
            let (scale, shift) = coefficients.map_or((F::splat(1.0), F::splat(0.0)), |all| {
                let of_image = &all[work.image * 2 * channels..][..2 * channels];
                (
                    F::load(&of_image[block * BLOCK..]),
                    F::load(&of_image[channels + block * BLOCK..]),
                )
            });
            let plane = (work.image * blocks + block) * height;
            let read = |dy: usize, dx: usize| {
                let at = ((plane + top + dy) * width + left + dx) * BLOCK;
                function(F::load(&input[at..]).mul_add(scale, shift))
            };
            let value = if is_mean {
                let sum = read(0, 0).add(read(0, 1)).add(read(1, 0).add(read(1, 1)));
                sum.mul(F::splat(0.25))
            } else {
                read(0, 0)
            };
            value.mul(factor).store(pixel);
        }
    }
}
