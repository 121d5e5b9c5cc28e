//! What a thread keeps in mind from step to step.

use crate::device::Shared;

/// Half a block of one pixel, which a thread loads at every step.
#[derive(Clone, Copy)]
pub struct Slot {
    /// Its centre tap in the first block, in elements.
    pub centre: u32,
    /// Bit t is set if tap t of this pixel lies in the image.
    pub inside: u32,
    /// Its place in the coefficients of the first block.
    pub coefficients: u32,
}

/// The step whose operands are loaded.
#[derive(Clone, Copy)]
pub struct Step {
    /// Its entry in the table of steps.
    pub entry: Shared,
    /// This thread's four weights, in elements.
    pub weights: u32,
    /// The bit of its tap, to be compared with a slot's, and eight times its block of channels from bit 16 on.
    ///
    /// 0 after the last step: then no input is loaded, and the weights are padding. That is cheaper than a branch.
    pub what: u32,
}

impl Step {
    /// How far the buffer of this step is from that of the step before: forth or back. Entries have eight bytes and the
    /// table is aligned to sixteen; the entry that this step points at is already the next one.
    #[inline(always)]
    pub fn way_to_buffer(self, buffer: u32) -> u32 {
        if self.entry.0 & 8 == 0 {
            buffer
        } else {
            buffer.wrapping_neg()
        }
    }
}

/// Where a thread reads and writes in one of the two buffers.
#[derive(Clone, Copy)]
pub struct Places {
    pub input: Shared,
    pub weights: Shared,
    pub input_slots: Shared,
    pub weights_slot: Shared,
}

impl Places {
    #[inline(always)]
    pub fn moved(self, bytes: u32) -> Self {
        Self {
            input: self.input.at(bytes),
            weights: self.weights.at(bytes),
            input_slots: self.input_slots.at(bytes),
            weights_slot: self.weights_slot.at(bytes),
        }
    }
}

/// A pixel of the batch, if it is less than the image has; else a row of the product that is none.
#[derive(Clone, Copy)]
pub struct Pixel {
    pub image: u32,
    pub of_image: u32,
}

impl Pixel {
    #[inline(always)]
    pub fn next(self, rows_per_image: u32) -> Self {
        let last = self.of_image + 1 == rows_per_image;
        Self {
            image: self.image + last as u32,
            of_image: if last { 0 } else { self.of_image + 1 },
        }
    }
}

/// Loaded, not yet in shared memory.
#[derive(Clone, Copy)]
pub struct Operands<const LOADS: usize> {
    pub input: [[f32; 4]; LOADS],
    pub weights: [f32; 4],
}

#[inline(always)]
pub fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
}

/// The row and column of a tap, seen from the centre.
#[inline(always)]
pub fn offset(tap: u32, taps: u32) -> (i32, i32) {
    if taps == 1 {
        return (0, 0);
    }
    let row = tap / 3;
    (row as i32 - 1, (tap - 3 * row) as i32 - 1)
}
