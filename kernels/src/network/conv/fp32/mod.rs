//! The convolution in fp32 on the ordinary cores.
//!
//! A block of threads computes a tile of pixels × output channels. Each step brings eight input channels of the tile's
//! pixels and their weights into shared memory, where every thread reads what its own small tile needs: `4·P × 4·O`
//! sums stay in registers. The loads of the next step are on their way while this one is computed (two buffers, one
//! barrier per step).
//!
//! In shared memory the input lies as `[channel][pixel]` with four words between the rows: a warp that stores
//! sixteen pixels × two halves of a block, and a quarter warp that reads sixteen bytes per lane, touch every bank once.

mod steps;

use self::steps::{Operands, Pixel, Places, Slot, Step, add, offset};
use super::statistics::{STRIP, Strip};
use super::{ConvArgs, LARGE, NARROW, SMALL};
use crate::device::{Shared, WARP, barrier, block, block_y, divide, launch_bounds, pin, shared_memory, thread};
use crate::float::Float;
use crate::launch::BLOCK;
use crate::network::elu::elu;

/// Channels of a step.
const DEPTH: u32 = BLOCK as u32;

/// Words between the rows of the input tile.
const SKEW: u32 = 4;

const NONE: u32 = 0;
const ELU: u32 = 1;
const NORM_ELU: u32 = 2;

/// One tile: `PIXELS × OUTPUTS`, `4·P × 4·O` per thread, `LOADS` slots per thread.
struct Tile<'a, const PIXELS: u32, const OUTPUTS: u32, const P: usize, const O: usize, const LOADS: usize> {
    args: &'a ConvArgs,
    shared: Shared,
    slots: [Slot; LOADS],
}

impl<'a, const PIXELS: u32, const OUTPUTS: u32, const P: usize, const O: usize, const LOADS: usize>
    Tile<'a, PIXELS, OUTPUTS, P, O, LOADS>
{
    const PIXEL_GROUPS: u32 = PIXELS / (4 * P as u32);
    const OUTPUT_GROUPS: u32 = OUTPUTS / (4 * O as u32);
    const THREADS: u32 = Self::PIXEL_GROUPS * Self::OUTPUT_GROUPS;
    /// Output groups of a warp: 8 where there are as many, so that its reads of weights are 128 bytes.
    const ACROSS: u32 = if Self::OUTPUT_GROUPS < 8 {
        Self::OUTPUT_GROUPS
    } else {
        8
    };
    /// Bytes of a row of the shared input and weights, and of both tiles.
    const INPUT_ROW: u32 = (PIXELS + SKEW) * 4;
    const WEIGHT_ROW: u32 = OUTPUTS * 4;
    const BUFFER: u32 = DEPTH * (Self::INPUT_ROW + Self::WEIGHT_ROW);

    #[inline(always)]
    unsafe fn new(args: &'a ConvArgs, shared: Shared) -> Self {
        // SAFETY: so is the launch; it spares the tests that follow from it.
        unsafe { core::hint::assert_unchecked(thread() < Self::THREADS) };
        Self {
            args,
            shared,
            // SAFETY: the image has pixels.
            slots: core::array::from_fn(|n| unsafe { Self::slot(args, n as u32) }),
        }
    }

    /// The first group of four pixels and of four outputs that are this thread's.
    #[inline(always)]
    fn groups() -> (u32, u32) {
        let (lane, warp, across) = (thread() % WARP, thread() / WARP, Self::ACROSS);
        let warps_across = Self::OUTPUT_GROUPS / across;
        (
            warp / warps_across * (WARP / across) + lane / across,
            warp % warps_across * across + lane % across,
        )
    }

    /// Whether this thread loads weights.
    #[inline(always)]
    fn has_weights() -> bool {
        thread() < DEPTH * OUTPUTS / 4
    }

    #[inline(always)]
    fn first_step(&self) -> Step {
        let (quads, wide) = (OUTPUTS / 4, self.args.out_blocks * DEPTH);
        let (channel, column) = (thread() / quads, block_y() * OUTPUTS + thread() % quads * 4);
        // Columns past the end get weights that are there; their sums are not stored.
        let column = if column < wide { column } else { column % DEPTH };
        // SAFETY: an image has pixels. Where it has weights of its own, its tiles are its own as well.
        let (image, _) = unsafe { divide(block() * PIXELS, self.args.rows_per_image(PIXELS)) };
        Step {
            entry: self.shared.at(2 * Self::BUFFER),
            weights: image * self.args.weights_per_image + channel * wide + column,
            what: 0,
        }
    }

    /// Fills the table of steps behind the two buffers: how far the input of a step is from the centre tap of the first
    /// block, in elements, and what it is. Behind the last step stands one that is none, then the place of the tile,
    /// then how many rows of the product and how many pixels an image has.
    #[inline(always)]
    unsafe fn fill_steps(&self, table: Shared) {
        let args = self.args;
        let steps = args.in_blocks * args.taps;
        let mut step = thread();
        while step <= steps {
            // SAFETY: a kernel has taps, and the table an entry for each step and one more.
            unsafe {
                let (in_block, tap) = divide(step, args.taps);
                let (dy, dx) = offset(tap, args.taps);
                let shift = (dy * args.width as i32 + dx) * (args.dilation * DEPTH) as i32;
                let shift = (shift as u32).wrapping_add(in_block * args.height * args.width * DEPTH);
                let what = if step < steps {
                    1 << tap | in_block * DEPTH << 16
                } else {
                    0
                };
                table.at(step * 8).store2_u32([shift, what]);
            }
            step += Self::THREADS;
        }
        if thread() == 0 {
            // SAFETY: the entries after the one that is none.
            unsafe {
                let place = table.at((steps + 1) * 8);
                place.store2_u32([block() * PIXELS, block_y() * OUTPUTS]);
                place
                    .at(8)
                    .store2_u32([args.rows_per_image(PIXELS), args.height * args.width]);
            }
        }
    }

    #[inline(always)]
    fn first_places(&self) -> Places {
        let (half, in_tile) = (thread() % 2, thread() / 2);
        let (pixel_group, output_group) = Self::groups();
        let weights = self.shared.at(DEPTH * Self::INPUT_ROW);
        Places {
            input: self.shared.at(pixel_group * 16),
            weights: weights.at(output_group * 16),
            input_slots: self.shared.at(half * 4 * Self::INPUT_ROW + in_tile * 4),
            weights_slot: weights.at(thread() * 16),
        }
    }

    #[inline(always)]
    unsafe fn slot(args: &ConvArgs, n: u32) -> Slot {
        let index = thread() + n * Self::THREADS;
        let (half, in_tile) = (index % 2, index / 2);
        let pixel = block() * PIXELS + in_tile;
        // SAFETY: an image has pixels, and columns.
        let (image, of_image, y, x) = unsafe {
            let (image, of_image) = divide(pixel, args.rows_per_image(PIXELS));
            let (y, x) = divide(of_image, args.width);
            (image, of_image, y as i32, x as i32)
        };
        let (height, width, dilation) = (args.height as i32, args.width as i32, args.dilation as i32);
        let mut inside = 0;
        let mut tap = 0;
        while tap < args.taps {
            let (dy, dx) = offset(tap, args.taps);
            let (y, x) = (y + dy * dilation, x + dx * dilation);
            if y >= 0 && y < height && x >= 0 && x < width {
                inside |= 1 << tap;
            }
            tap += 1;
        }
        Slot {
            centre: (image * args.in_blocks * args.height * args.width + of_image) * DEPTH + half * 4,
            inside: if image < args.images && of_image < args.height * args.width {
                inside
            } else {
                0
            },
            coefficients: image.min(args.images - 1) * 2 * args.in_blocks * DEPTH + half * 4,
        }
    }

    /// Starts the loads of a step, and names the one after it.
    #[inline(always)]
    unsafe fn load(&self, step: &mut Step) -> Operands<LOADS> {
        let args = self.args;
        // SAFETY: taps outside the image are not loaded.
        unsafe {
            let [shift, what] = step.entry.load2_u32();
            let weights = step.weights as usize;
            step.what = what;
            step.entry = step.entry.at(8);
            step.weights += DEPTH * DEPTH * args.out_blocks;
            Operands {
                input: core::array::from_fn(|n| {
                    let slot = self.slots[n];
                    if slot.inside & what != 0 {
                        args.input.read4(slot.centre.wrapping_add(shift) as usize)
                    } else {
                        [0.0; 4]
                    }
                }),
                weights: if Self::has_weights() {
                    args.weights.read4(weights)
                } else {
                    [0.0; 4]
                },
            }
        }
    }

    /// Puts the operands of a step into a buffer, the input activated. Zeros stay zeros: padding comes after.
    #[inline(always)]
    unsafe fn store<const ACTIVATION: u32>(&self, what: u32, operands: Operands<LOADS>, places: Places) {
        // SAFETY: every place lies in the buffer.
        unsafe {
            for n in 0..LOADS {
                let slot = self.slots[n];
                let mut values = operands.input[n];
                if ACTIVATION == NORM_ELU {
                    let at = slot.coefficients + (what >> 16);
                    let scale = self.args.coefficients.read4(at as usize);
                    let mut shift = [0.0; 4];
                    if slot.inside & what != 0 {
                        shift = self
                            .args
                            .coefficients
                            .read4(at.wrapping_add(self.args.in_blocks * DEPTH) as usize);
                    }
                    values = core::array::from_fn(|c| values[c].fma(scale[c], shift[c]));
                }
                if ACTIVATION != NONE {
                    values = values.map(elu);
                }
                // A slot is as many pixels further as there are pairs of threads.
                let place = places.input_slots.at(n as u32 * Self::THREADS / 2 * 4);
                place.store(values[0]);
                place.at(Self::INPUT_ROW).store(values[1]);
                place.at(2 * Self::INPUT_ROW).store(values[2]);
                place.at(3 * Self::INPUT_ROW).store(values[3]);
            }
            if Self::has_weights() {
                places.weights_slot.store4(operands.weights);
            }
        }
    }

    /// Adds the products of the step in a buffer.
    #[inline(always)]
    unsafe fn multiply(&self, places: Places, sums: &mut [[[[f32; 4]; 4]; O]; P]) {
        let Places { input, weights, .. } = places;
        macro_rules! channels {
            ($($k:literal)*) => { $(
                // SAFETY: every group lies in the buffer.
                let (a, b): ([[f32; 4]; P], [[f32; 4]; O]) = unsafe {
                    (
                        core::array::from_fn(|p| {
                            input.at($k * Self::INPUT_ROW + p as u32 * Self::PIXEL_GROUPS * 16).load4()
                        }),
                        core::array::from_fn(|o| {
                            weights.at($k * Self::WEIGHT_ROW + o as u32 * Self::OUTPUT_GROUPS * 16).load4()
                        }),
                    )
                };
                for p in 0..P {
                    for o in 0..O {
                        for i in 0..4 {
                            for j in 0..4 {
                                sums[p][o][i][j] = a[p][i].fma(b[o][j], sums[p][o][i][j]);
                            }
                        }
                    }
                }
            )* };
        }
        channels!(0 1 2 3 4 5 6 7);
        sums.iter_mut().flatten().flatten().for_each(pin);
    }

    /// Adds bias and residual and stores the sums: a thread writes half a block of a pixel at a time.
    ///
    /// Where the tile and the thread's part of it are is read from memory and from the places the loop ended with.
    /// Computed again from the thread's number, it would be computed before the loop, which needs all registers.
    #[inline(always)]
    unsafe fn finish(&self, place_of_tile: Shared, places: Places, sums: &[[[[f32; 4]; 4]; O]; P]) {
        // SAFETY: the last two entries of the table.
        let [[first_pixel, first_output], [rows_per_image, pixels]] =
            unsafe { [place_of_tile.load2_u32(), place_of_tile.at(8).load2_u32()] };
        let in_first_buffer = |bytes: u32| {
            if bytes < Self::BUFFER {
                bytes
            } else {
                bytes - Self::BUFFER
            }
        };
        let group_pixel = first_pixel + in_first_buffer(places.input.0 - self.shared.0) / 4;
        let weights = in_first_buffer(places.weights.0 - self.shared.0) - DEPTH * Self::INPUT_ROW;
        let column = first_output + weights / 4;
        // Unrolled by hand: a loop would keep the sums in memory.
        macro_rules! groups {
            ($($p:literal $o:literal)*) => { $(
                if let Some(&sums) = sums.get($p).and_then(|sums| sums.get($o)) {
                    let column = column + $o * Self::OUTPUT_GROUPS * 4;
                    // SAFETY: an image has pixels; the sums are those of the group's four pixels.
                    unsafe {
                        let (image, of_image) = divide(group_pixel + $p * Self::PIXEL_GROUPS * 4, rows_per_image);
                        let a = Pixel { image, of_image };
                        let b = a.next(rows_per_image);
                        let c = b.next(rows_per_image);
                        let d = c.next(rows_per_image);
                        let values = [
                            self.finish_pixel(a, pixels, column, sums[0]),
                            self.finish_pixel(b, pixels, column, sums[1]),
                            self.finish_pixel(c, pixels, column, sums[2]),
                            self.finish_pixel(d, pixels, column, sums[3]),
                        ];
                        if self.args.statistics.is_some() {
                            self.sum_up(a, pixels, column, values);
                        }
                    }
                }
            )* };
        }
        groups!(0 0  0 1  1 0  1 1);
    }

    /// One pixel of an image and four outputs, from `column` on; gives what it stored.
    #[inline(always)]
    unsafe fn finish_pixel(&self, pixel: Pixel, pixels: u32, column: u32, mut sums: [f32; 4]) -> [f32; 4] {
        let (args, Pixel { image, of_image }) = (self.args, pixel);
        if image < args.images && of_image < pixels && column < args.out_blocks * DEPTH {
            let plane = image * args.out_blocks + column / DEPTH;
            let at = ((plane * pixels + of_image) * DEPTH + column % DEPTH) as usize;
            // SAFETY: image, pixel and column are there.
            unsafe {
                if args.bias.is_some() {
                    sums = add(sums, args.bias.read4(column as usize));
                }
                if args.residual.is_some() {
                    sums = add(sums, args.residual.read4(at));
                }
                args.output.store4(at, sums);
            }
        }
        sums
    }

    /// The statistics of the strip in which four pixels of an image lie, in four channels: lanes that are one or two
    /// pixel groups apart hold the others.
    #[inline(always)]
    unsafe fn sum_up(&self, pixel: Pixel, pixels: u32, column: u32, values: [[f32; 4]; 4]) {
        let (args, Pixel { image, of_image }) = (self.args, pixel);
        let bits = [Self::ACROSS, 2 * Self::ACROSS];
        let strip = Strip {
            image,
            first: of_image / STRIP * STRIP,
            pixels,
            blocks: args.out_blocks,
        };
        let of_strip = of_image % STRIP;
        // SAFETY: all lanes come here; image and column are checked.
        unsafe {
            let [sums, squares] = strip.sums(values, [of_strip, of_strip + 1, of_strip + 2, of_strip + 3], bits);
            if of_strip == 0 && image < args.images && column < args.out_blocks * DEPTH {
                args.statistics.store4(strip.place(column), sums);
                args.statistics.store4(strip.place(column) + BLOCK, squares);
            }
        }
    }

    #[inline(always)]
    unsafe fn run<const ACTIVATION: u32>(&self) {
        let mut sums = [[[[0.0; 4]; 4]; O]; P];
        let mut step = self.first_step();
        let mut places = self.first_places();
        // SAFETY: all threads take every barrier; a buffer is filled while the other one is read.
        unsafe {
            self.fill_steps(step.entry);
            barrier();
            let operands = self.load(&mut step);
            self.store::<ACTIVATION>(step.what, operands, places);
            barrier();
            // What is loaded in the last round is stored and not used: with a way out in the middle the assembler would
            // move the loads behind it, next to their use.
            while step.what != 0 {
                let operands = self.load(&mut step);
                self.multiply(places, &mut sums);
                places = places.moved(step.way_to_buffer(Self::BUFFER));
                self.store::<ACTIVATION>(step.what, operands, places);
                barrier();
            }
            self.finish(step.entry, places, &sums);
        }
    }
}

type Large<'a> = Tile<'a, 128, 128, 2, 2, 1>;
type Small<'a> = Tile<'a, 64, 64, 2, 1, 1>;
type Narrow<'a> = Tile<'a, 128, 8, 1, 1, 4>;

// The host launches what the kernels expect.
const _: () = assert!(Large::THREADS == LARGE.threads && LARGE.pixels == 128 && LARGE.outputs == 128);
const _: () = assert!(Small::THREADS == SMALL.threads && SMALL.pixels == 64 && SMALL.outputs == 64);
const _: () = assert!(Narrow::THREADS == NARROW.threads && NARROW.pixels == 128 && NARROW.outputs == 8);

// Two buffers of eight channels, input with its skew and weights, and the table of steps: 9·64 of them and three more.
shared_memory!(large, "QCS_CONV_128X128", 21272);
shared_memory!(small, "QCS_CONV_64X64", 13080);
shared_memory!(narrow, "QCS_CONV_128X8", 13592);

macro_rules! kernels {
    ($($name:ident: $tile:ident, $shared:ident, $activation:ident, $blocks:literal;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name(args: ConvArgs) {
            launch_bounds::<{ $tile::THREADS }, $blocks>();
            // SAFETY: the launch covers pixels and outputs with tiles of this shape.
            unsafe { $tile::new(&args, $shared()).run::<$activation>() }
        }
    )* };
}

kernels! {
    conv_f32_128x128_none: Large, large, NONE, 2;
    conv_f32_128x128_elu: Large, large, ELU, 2;
    conv_f32_128x128_norm_elu: Large, large, NORM_ELU, 2;
    conv_f32_64x64_none: Small, small, NONE, 5;
    conv_f32_64x64_elu: Small, small, ELU, 5;
    conv_f32_64x64_norm_elu: Small, small, NORM_ELU, 5;
    conv_f32_128x8_none: Narrow, narrow, NONE, 8;
    conv_f32_128x8_elu: Narrow, narrow, ELU, 8;
    conv_f32_128x8_norm_elu: Narrow, narrow, NORM_ELU, 8;
}
