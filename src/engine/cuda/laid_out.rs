//! A plan as a device executes it: bytes at offsets of one allocation, and kernels with their arguments. Tests put it on the
//! emulator without a driver between, where they can see every launch and break a kernel on purpose.

use qcs_kernels::network::conv::tensor::Generation;

use super::CudaTarget;
use super::layout::{Layout, Write};
use super::ops::{Call, Caller};
use crate::Result;
use crate::engine::{Constants, Precision, State};
use crate::plan::{Plan, Program, Target};

/// Of a V100
const MULTIPROCESSORS: u32 = 80;

/// What the planner must know of a GPU that computes in this precision.
pub fn target(precision: Precision) -> Box<dyn Target> {
    Box::new(CudaTarget::new(precision))
}

/// The same with so many bytes for Winograd's transforms of a layer: with few, a batch is computed in parts.
pub fn target_with_transforms(precision: Precision, transforms: usize) -> Box<dyn Target> {
    Box::new(CudaTarget { precision, transforms })
}

/// A plan for a GPU whose products are all by our kernels.
pub struct LaidOut<'a> {
    plan: &'a Plan,
    constants: Constants<'a>,
    precision: Precision,
    layout: Layout,
}

impl<'a> LaidOut<'a> {
    pub fn new(plan: &'a Plan, constants: Constants<'a>, precision: Precision) -> Self {
        Self {
            plan,
            constants,
            precision,
            layout: Layout::new(plan, constants, precision, false),
        }
    }

    /// Of the allocation.
    pub fn bytes(&self) -> usize {
        self.layout.bytes
    }

    /// Where the number of the step lies that runs next, a u32.
    pub fn cursor(&self) -> usize {
        self.layout.cursor
    }

    /// Writes what does not change from batch to batch, for kernels of this generation.
    ///
    /// # Errors
    /// Those of `write`, and of factorising A.
    pub fn upload(&self, generation: Generation, write: &mut Write<'_>) -> Result<()> {
        let spectrum = match self.constants.problem {
            Some(problem) if self.plan.needs_spectrum() => Some(problem.spectrum()?),
            _ => None,
        };
        self.layout
            .upload(write, self.plan, self.constants, self.precision, generation, spectrum)
    }

    /// Writes what belongs to the states.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn bind(&self, states: &[State], write: &mut Write<'_>) -> Result<()> {
        self.layout.bind(write, self.plan.batch, self.constants, states)
    }

    /// The kernels of a program, for an allocation at this address; those of a step end with the one that moves on to the next.
    pub fn calls(&self, program: Program, base: u64) -> Vec<Call> {
        let caller = Caller {
            plan: self.plan,
            constants: self.constants,
            layout: &self.layout,
            precision: self.precision,
            generation: Generation::Volta,
            multiprocessors: MULTIPROCESSORS,
            base,
        };
        let ops = self.plan.program(program).iter();
        let mut calls: Vec<Call> = ops.flat_map(|instruction| caller.calls(instruction)).collect();
        if program == Program::Step {
            calls.push(caller.advance());
        }
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Activation, Contents, Conv, NetworkOp, PlanBuilder};

    /// The n-th word of eight bytes of an argument: an address.
    fn address(call: &Call, n: usize) -> u64 {
        u64::from_le_bytes(call.argument[8 * n..][..8].try_into().unwrap())
    }

    #[test]
    fn a_batch_that_is_computed_in_parts_takes_each_image_from_its_place() {
        const CHANNELS: usize = 128;
        const SIDE: usize = 32;
        let target = target(Precision::Fp32);
        let mut plan = PlanBuilder::new(100, &*target);
        plan.begin(Program::Step);
        let map = Contents::Feature {
            channels: CHANNELS,
            height: SIDE,
            width: SIDE,
        };
        let [input, residual, output] = [map; 3].map(|contents| plan.persistent(contents));
        let activation = Activation::NormElu(plan.persistent(Contents::F32(2 * CHANNELS)));
        let statistics = Some(plan.persistent(Contents::F32(CHANNELS * SIDE * SIDE / 8)));
        let weight = plan.param("weight".into(), &[CHANNELS, CHANNELS, 3, 3]);
        plan.push(NetworkOp::Conv(Conv {
            input,
            activation,
            weight,
            bias: None,
            residual: Some(residual),
            output,
            kernel: 3,
            dilation: 1,
            statistics,
            activated: None,
            leaves: None,
        }));
        let plan = plan.finish(&*target);
        let scratch = plan.program(Program::Step)[0].scratch.clone();
        assert!(scratch.len() <= 128 << 20, "{}", scratch.len());
        let calls = LaidOut::new(&plan, Constants::default(), Precision::Fp32).calls(Program::Step, 1 << 40);
        let [first, second] = [&calls[..3], &calls[3..6]];
        let kernels: Vec<&str> = calls.iter().map(|call| call.kernel).collect();
        let of_part = ["winograd_input_norm_elu", "conv_f32_128x128_none", "winograd_output"];
        assert_eq!(kernels, [&of_part[..], &of_part[..], &["advance_step"]].concat());
        // Fifty images at a time: how far the second part's arrays are behind those of the first.
        let map = (4 * 50 * CHANNELS * SIDE * SIDE) as u64;
        let coefficients = (4 * 50 * 2 * CHANNELS) as u64;
        let behind = |call: usize, n: usize| address(&second[call], n) - address(&first[call], n);
        assert_eq!([0, 1, 2].map(|n| behind(0, n)), [map, coefficients, 0]);
        assert_eq!([0, 1, 2, 3, 4].map(|n| behind(2, n)), [0, 0, map, map, map / 8]);
        // The scratch memory holds the transformed inputs, then the sums.
        let (transformed, sums) = (address(&first[0], 2), address(&first[2], 0));
        assert_eq!(transformed, (1 << 40) + scratch.start as u64);
        assert_eq!(sums - transformed, scratch.len() as u64 / 2);
    }

    #[test]
    fn an_arena_of_many_gigabytes_is_addressed_and_what_32_bits_cannot_number_is_refused() {
        use crate::engine::cuda::layout::can_index;
        // Maps of 16 MiB an image, a photograph's: prepared, half of that.
        let map = Contents::Feature {
            channels: 64,
            height: 256,
            width: 256,
        };
        let plan = |batch: usize, precision: Precision| {
            let target = target(precision);
            let mut plan = PlanBuilder::new(batch, &*target);
            plan.begin(Program::Step);
            let [input, output] = [map; 2].map(|contents| plan.persistent(contents));
            let weight = plan.param("weight".into(), &[64, 64, 3, 3]);
            plan.push(NetworkOp::Conv(Conv {
                input,
                activation: Activation::None,
                weight,
                bias: None,
                residual: None,
                output,
                kernel: 3,
                dilation: 1,
                statistics: None,
                activated: None,
                leaves: None,
            }));
            plan.finish(&*target)
        };
        let indexed = |batch, precision| can_index(&plan(batch, precision), precision);
        assert_eq!([511, 512].map(|batch| indexed(batch, Precision::Fp16)), [true, false]);
        assert_eq!([1023, 1024].map(|batch| indexed(batch, Precision::Fp32)), [true, false]);

        let plan = plan(511, Precision::Fp16);
        assert!(plan.arena_bytes > 15 << 30);
        let calls = LaidOut::new(&plan, Constants::default(), Precision::Fp16).calls(Program::Step, 1 << 40);
        let (prepare, product) = (&calls[0], &calls[1]);
        assert_eq!((prepare.kernel, product.kernel), ("conv_prepare_f16", "conv_f16_64x64"));
        // Output and input lie 8 GiB apart, and the product reads what the launch before has written.
        assert!(address(product, 4).abs_diff(address(prepare, 0)) >= 511 << 24);
        assert_eq!(address(product, 0), address(prepare, 2));
    }
}
