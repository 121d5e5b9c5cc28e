//! How a convolution is computed: a matter of the precision and of the layer's shape, never of the batch or the GPU, or bits
//! would depend on them.

use qcs_kernels::global::Global;
use qcs_kernels::launch::BLOCK;
use qcs_kernels::network::activation::Function;
use qcs_kernels::network::conv::prepare::prepared_words;
use qcs_kernels::network::conv::rounding::Rounding;
use qcs_kernels::network::conv::statistics::{statistics_len, statistics_pay};
use qcs_kernels::network::conv::tensor::{Generation, pack_tensor_weights, packed_tensor_words, tensor_effort};
use qcs_kernels::network::conv::winograd::{Product, Tiling, pack_winograd_weights, packed_winograd_len};
use qcs_kernels::network::conv::{ConvArgs, MOST_STEPS, pack_weights, packed_len};
use qcs_kernels::network::padded;

use crate::engine::Precision;
use crate::plan::{ALIGNMENT, Contents, Conv, TensorId};

/// The kernels of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// One kernel in fp32
    Direct,
    /// Winograd's F(4×4, 3×3) in fp32
    Winograd(Tiling),
    /// The tensor cores
    Tensor(Rounding),
}

/// What a layer's algorithm depends on, and all that its memory does.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    pub inputs: usize,
    pub outputs: usize,
    height: usize,
    width: usize,
    kernel: usize,
    dilation: usize,
    /// What the input passes, behind a norm if there is one
    function: Function,
    is_normed: bool,
}

impl Layer {
    pub fn of(conv: &Conv, contents: impl Fn(TensorId) -> Contents) -> Self {
        let (inputs, height, width) = contents(conv.input).feature();
        let (outputs, ..) = contents(conv.output).feature();
        Self {
            inputs,
            outputs,
            height,
            width,
            kernel: conv.kernel,
            dilation: conv.dilation,
            function: conv.activation.function(),
            is_normed: conv.activation.coefficients().is_some(),
        }
    }

    /// Blocks of channels in and out.
    fn blocks(&self) -> (u32, u32) {
        let blocks = |channels: usize| channels.div_ceil(BLOCK) as u32;
        (blocks(self.inputs), blocks(self.outputs))
    }

    fn taps(&self) -> usize {
        self.kernel * self.kernel
    }

    pub fn algorithm(&self, precision: Precision) -> Algorithm {
        if let Some(rounding) = precision.of_conv(self.inputs, self.outputs) {
            return Algorithm::Tensor(rounding);
        }
        let tiling = Tiling::new(self.height as u32, self.width as u32, self.dilation as u32);
        let (in_blocks, out_blocks) = self.blocks();
        // A layer too deep for the direct kernels' table has channels enough for Winograd's products.
        let is_deep = in_blocks * self.taps() as u32 > MOST_STEPS;
        if self.kernel == 3 && (is_deep || tiling.pays(in_blocks, out_blocks)) {
            Algorithm::Winograd(tiling)
        } else {
            Algorithm::Direct
        }
    }

    /// Whether the input must be activated by a pass of its own: where the kernels of its algorithm do not know how.
    pub fn activates_first(&self, precision: Precision) -> bool {
        let known = match (self.function, self.is_normed) {
            (Function::Identity, false) | (Function::Elu, _) => true,
            (Function::Silu, true) => matches!(self.algorithm(precision), Algorithm::Winograd(_)),
            _ => false,
        };
        !known && !matches!(self.algorithm(precision), Algorithm::Tensor(_))
    }

    /// Bytes of the activated input.
    pub fn activated_bytes(&self, batch: usize) -> usize {
        let floats = batch * padded(self.inputs) * self.height * self.width;
        (4 * floats).next_multiple_of(ALIGNMENT)
    }

    /// Bytes of what the layer's input becomes on its way into the products; of Winograd's transforms at most so many, or those
    /// of one image.
    pub fn scratch_bytes(&self, precision: Precision, batch: usize, transforms: usize) -> usize {
        let (in_blocks, out_blocks) = self.blocks();
        let activated = if self.activates_first(precision) {
            self.activated_bytes(batch)
        } else {
            0
        };
        activated
            + match self.algorithm(precision) {
                Algorithm::Direct => 0,
                Algorithm::Winograd(tiling) => tiling.scratch_bytes(transforms, batch as u32, in_blocks, out_blocks),
                Algorithm::Tensor(rounding) => {
                    4 * prepared_words(rounding, batch, self.inputs, self.height * self.width)
                }
            }
    }

    /// Cycles, roughly, that the layer's products take the busiest multiprocessor.
    pub fn effort(&self, precision: Precision, images: u32, generation: Generation, multiprocessors: u32) -> u64 {
        let (in_blocks, out_blocks) = self.blocks();
        let direct = ConvArgs {
            input: Global::NONE,
            coefficients: Global::NONE,
            weights: Global::NONE,
            bias: Global::NONE,
            residual: Global::NONE,
            output: Global::NONE,
            statistics: Global::NONE,
            images,
            in_blocks,
            out_blocks,
            height: self.height as u32,
            width: self.width as u32,
            taps: self.taps() as u32,
            dilation: self.dilation as u32,
            elu: 0,
            multiprocessors,
            weights_per_image: 0,
        };
        match self.algorithm(precision) {
            Algorithm::Direct => direct.effort(),
            Algorithm::Winograd(tiling) => {
                let product = Product {
                    transformed: Global::NONE,
                    weights: Global::NONE,
                    sums: Global::NONE,
                    tiles: images * tiling.per_image(),
                    in_blocks,
                    out_blocks,
                    multiprocessors,
                };
                product.args().effort()
            }
            Algorithm::Tensor(rounding) => tensor_effort(
                images * direct.height * direct.width,
                rounding.units(self.inputs) as u32 * direct.taps,
                out_blocks,
                generation,
                multiprocessors,
            ),
        }
    }

    /// What the layer should leave behind for the norm that follows, if it can.
    pub fn statistics(&self, precision: Precision) -> Option<Contents> {
        let ((_, blocks), pixels) = (self.blocks(), (self.height * self.width) as u32);
        let can = match self.algorithm(precision) {
            Algorithm::Winograd(tiling) => tiling.fills_strips(),
            _ => true,
        };
        (can && statistics_pay(pixels)).then(|| Contents::F32(statistics_len(1, blocks, pixels)))
    }

    /// What the layer should leave for `next`, which multiplies it without a norm: whole units, since nobody else would clear what fills
    /// up the last one.
    pub fn prepared(&self, next: &Self, precision: Precision) -> Option<Contents> {
        match (self.algorithm(precision), next.algorithm(precision)) {
            (Algorithm::Tensor(_), Algorithm::Tensor(rounding)) if self.outputs.is_multiple_of(rounding.unit()) => {
                let words = prepared_words(rounding, 1, self.outputs, self.height * self.width);
                Some(Contents::F32(words))
            }
            _ => None,
        }
    }

    /// Words of four bytes of the packed weight.
    pub fn packed_words(&self, precision: Precision) -> usize {
        match self.algorithm(precision) {
            Algorithm::Direct => packed_len(self.outputs, self.inputs, self.taps()),
            Algorithm::Winograd(_) => packed_winograd_len(self.outputs, self.inputs),
            Algorithm::Tensor(rounding) => packed_tensor_words(rounding, self.outputs, self.inputs, self.taps()),
        }
    }

    /// A weight as the kernel of this generation reads it, in words of four bytes.
    pub fn pack(&self, precision: Precision, generation: Generation, weight: &[f32]) -> Vec<u32> {
        let mut packed = vec![0_u32; self.packed_words(precision)];
        let floats = bytemuck::cast_slice_mut(&mut packed);
        match self.algorithm(precision) {
            Algorithm::Direct => pack_weights(weight, self.outputs, self.inputs, self.taps(), floats),
            Algorithm::Winograd(_) => pack_winograd_weights(weight, self.outputs, self.inputs, floats),
            Algorithm::Tensor(rounding) => {
                let (outputs, inputs) = (self.outputs, self.inputs);
                pack_tensor_weights(generation, rounding, weight, outputs, inputs, self.taps(), &mut packed);
            }
        }
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_fills_whole_rounds_takes_less_per_image() {
        let layer = Layer {
            inputs: 256,
            outputs: 256,
            height: 16,
            width: 16,
            kernel: 3,
            dilation: 1,
            function: Function::Identity,
            is_normed: false,
        };
        let per_image =
            |images: u32| layer.effort(Precision::Fp16, images, Generation::Volta, 80) as f64 / f64::from(images);
        assert!(
            per_image(60) < per_image(64),
            "960 tiles are twelve rounds, 1024 thirteen"
        );
        assert!(per_image(64) < per_image(1));
    }
}
