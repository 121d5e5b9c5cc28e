//! Bᵀ·d·B of every tile of a map, activated on the way: norm and ELU or SiLU, then zeros around it.

use super::{THREADS, Tiling};
use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};

/// From a feature map to 36 maps of tiles. A thread takes one channel of a tile.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WinogradInputArgs {
    /// `[images, in_blocks, height, width, 8]`
    pub input: Global<f32>,
    /// Scales and shifts of the input, `[images, 2, 8·in_blocks]`, or none
    pub coefficients: Global<f32>,
    /// `[36, in_blocks, tiles of all images, 8]`
    pub output: Global<f32>,
    /// Images of this part of the batch.
    pub images: u32,
    /// Blocks of eight channels.
    pub in_blocks: u32,
    /// The code of the [`Function`](crate::network::activation::Function) that the input passes: none, ELU, with its norm if it has
    /// coefficients, or SiLU behind a norm.
    pub activation: u32,
    /// Of the map.
    pub tiling: Tiling,
}

// SAFETY: repr(C), words of eight bytes and eight of four.
unsafe impl Arguments for WinogradInputArgs {
    fn kernel(&self) -> &'static str {
        match (self.activation, self.coefficients.is_some()) {
            (0, _) => "winograd_input_none",
            (1, false) => "winograd_input_elu",
            (1, true) => "winograd_input_norm_elu",
            _ => "winograd_input_norm_silu",
        }
    }
    fn launch(&self) -> Launch {
        let threads = self.images * self.tiling.per_image() * self.in_blocks * BLOCK as u32;
        Launch {
            grid: [threads.div_ceil(THREADS), 1],
            threads: THREADS,
        }
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernels {
    use super::super::kernel::{fma, six};
    use super::super::transform_inputs;
    use super::*;
    use crate::device::launch_bounds;
    use crate::float::Float;
    use crate::network::activation::silu;
    use crate::network::elu::elu;

    const NONE: u32 = 0;
    const ELU: u32 = 1;
    const NORM_ELU: u32 = 2;
    const NORM_SILU: u32 = 3;

    #[inline(always)]
    unsafe fn run<const ACTIVATION: u32>(args: &WinogradInputArgs) {
        let Tiling {
            height,
            width,
            dilation,
            ..
        } = args.tiling;
        // SAFETY: pixels outside the map are not read but their nearest ones, and are then 0.
        unsafe {
            let Some((place, threads)) = args.tiling.place(args.images, args.in_blocks) else {
                return;
            };
            // A row or column of the tile, the nearest one in the map, and whether that is it.
            let inside = |first: u32, k: usize, size: u32| {
                let at = (first + k as u32 * dilation) as i32 - dilation as i32;
                let nearest = at.max(0).min(size as i32 - 1);
                (nearest as u32, at == nearest)
            };
            let rows = six(|i| inside(place.row, i, height));
            let columns = six(|j| inside(place.column, j, width));
            let wide = BLOCK as u32;
            let plane = (place.image * args.in_blocks + place.block) * height * width * wide + place.channel;
            let raw = six(|i| {
                let row = plane + rows[i].0 * width * wide;
                six(|j| args.input.read((row + columns[j].0 * wide) as usize))
            });
            let (mut scale, mut shift) = (1.0, 0.0);
            if ACTIVATION == NORM_ELU || ACTIVATION == NORM_SILU {
                let channels = args.in_blocks * wide;
                let at = (place.image * 2 * channels + place.block * wide + place.channel) as usize;
                scale = args.coefficients.read(at);
                shift = args.coefficients.read(at + channels as usize);
            }
            let activated = |value: f32| match ACTIVATION {
                NORM_ELU => elu(value.fma(scale, shift)),
                NORM_SILU => silu(value.fma(scale, shift)),
                ELU => elu(value),
                _ => value,
            };
            let half = six(|i| {
                let row = six(|j| {
                    if rows[i].1 && columns[j].1 {
                        activated(raw[i][j])
                    } else {
                        0.0
                    }
                });
                transform_inputs(row, fma)
            });
            six(|j| {
                let values = transform_inputs(six(|i| half[i][j]), fma);
                six(|i| {
                    let frequency = (i * 6 + j) as u32;
                    args.output
                        .store((frequency * threads + place.index) as usize, values[i]);
                })
            });
        }
    }

    macro_rules! kernels {
        ($($name:ident: $activation:ident;)*) => { $(
            #[unsafe(no_mangle)]
            pub unsafe extern "ptx-kernel" fn $name(args: WinogradInputArgs) {
                launch_bounds::<{ THREADS }, 5>();
                // SAFETY: the launch has a thread for each channel of each tile.
                unsafe { run::<$activation>(&args) }
            }
        )* };
    }

    kernels! {
        winograd_input_none: NONE;
        winograd_input_elu: ELU;
        winograd_input_norm_elu: NORM_ELU;
        winograd_input_norm_silu: NORM_SILU;
    }
}
