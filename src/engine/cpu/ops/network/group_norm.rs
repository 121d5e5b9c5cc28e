//! GroupNorm as one scale and one shift per image and channel: moments of each block of channels as for InstanceNorm++, then the
//! kernel's twin for each image.

use std::ops::Range;

use qcs_kernels::network::group_norm::{GroupNorm, Terms};
use qcs_kernels::network::padded;

use super::norm_coefficients::moments_of_planes;
use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::Isa;
use crate::engine::cpu::threads::Threads;
use crate::plan;

impl CpuSession<'_> {
    pub(super) fn group_norm(&mut self, op: plan::GroupNorm, scratch: Range<usize>) {
        let at = Operands::new(self.plan, &self.arena);
        let (gamma, beta) = (self.param(op.gamma), self.param(op.beta));
        let norm = GroupNorm {
            gamma,
            beta,
            of_group: gamma.len() / op.groups,
            epsilon: op.epsilon,
        };
        let terms = op.terms.map(|terms| LevelTerms {
            kind: terms.kind,
            values: at.read(terms.tensor),
            first: terms.first,
        });
        let (_, pixels) = at.channels_and_pixels(op.input);
        let (input, moments, output) = (at.read(op.input), at.scratch(scratch), at.write(op.output));
        group_norm(self.threads, self.isa, input, pixels, norm, terms, moments, output);
    }
}

/// The level's terms: their kind, those of all states, and where a state's begin.
#[derive(Clone, Copy)]
pub struct LevelTerms<'a> {
    pub kind: Terms,
    pub values: &'a [f32],
    pub first: usize,
}

#[allow(clippy::too_many_arguments)] // the operands of an op
fn group_norm(
    threads: &mut Threads,
    isa: Isa,
    input: &[f32],
    pixels: usize,
    norm: GroupNorm<'_>,
    terms: Option<LevelTerms<'_>>,
    moments: &mut [f32],
    output: &mut [f32],
) {
    let wide = 2 * padded(norm.gamma.len());
    moments_of_planes(threads, isa, input, pixels, wide / 2, moments);
    let images = output.len() / wide;
    let moments = &*moments;
    threads.for_each(output, wide, &|image, output| {
        let terms = terms.map(|terms| {
            let of_state = terms.values.len() / images;
            (terms.kind, &terms.values[image * of_state + terms.first..])
        });
        norm.finish(&moments[image * wide..][..wide], terms, output);
    });
}
