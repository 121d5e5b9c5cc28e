//! Where the device is in its run.
//!
//! The records of all steps are uploaded once. Kernels read the one that the cursor points at, and the last kernel of a
//! step moves the cursor on, so that a captured graph can be launched again and again without a word from the host.

use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// What the ops of one Langevin step read beside their tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct StepRecord {
    /// The noise level beta_t.
    pub beta: f64,
    /// The step size alpha_t.
    pub alpha: f64,
    /// Standard deviation of the noise that the step adds.
    pub noise: f64,
    /// The share of the previous step's movement that this one repeats; where it is 0, none is read.
    pub momentum: f64,
    /// Number of the step since the start of the run; it keys the noise.
    pub index: u64,
}

impl StepRecord {
    /// Words of a record.
    pub const WORDS: usize = 5;

    /// The record as it lies in memory.
    pub fn words(self) -> [u64; Self::WORDS] {
        let numbers = [self.beta, self.alpha, self.noise, self.momentum].map(f64::to_bits);
        [numbers[0], numbers[1], numbers[2], numbers[3], self.index]
    }
}

/// The steps on the device and the place among them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StepTable {
    /// One record per step.
    pub records: Global<StepRecord>,
    /// One word: the index of the current record.
    pub cursor: Global<u32>,
}

#[cfg(target_arch = "nvptx64")]
impl StepTable {
    /// The current record.
    ///
    /// # Safety
    /// The cursor points at a record.
    #[inline(always)]
    pub unsafe fn now(self) -> StepRecord {
        // SAFETY: the words of the record at the cursor, in the order of `StepRecord::words`.
        unsafe {
            let at = StepRecord::WORDS * self.cursor.read(0) as usize;
            let numbers = Global::<f64>::new(self.records.address()).from(at);
            StepRecord {
                beta: numbers.read(0),
                alpha: numbers.read(1),
                noise: numbers.read(2),
                momentum: numbers.read(3),
                index: numbers.read(4).to_bits(),
            }
        }
    }
}

/// Moves the cursor to the next record.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AdvanceStepArgs {
    /// One word.
    pub cursor: Global<u32>,
}

// SAFETY: repr(C), one field.
unsafe impl Arguments for AdvanceStepArgs {
    fn kernel(&self) -> &'static str {
        "advance_step"
    }
    fn launch(&self) -> Launch {
        Launch {
            grid: [1, 1],
            threads: 1,
        }
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn advance_step(args: AdvanceStepArgs) {
        // SAFETY: one thread, one word.
        unsafe { args.cursor.store(0, args.cursor.load(0) + 1) }
    }
}
