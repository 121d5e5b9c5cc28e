//! The Langevin sampler: noise, gamma, the update.

pub mod denoise;
pub mod gamma;
pub mod langevin;
pub mod set_level;
pub mod start_state;
pub mod step;

use crate::philox::{Domain, Stream};

/// One state of a batch: which noise is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct StateKey {
    /// Index of the image in the problem.
    pub image: u32,
    /// Index of the chain of that image, below 2²⁴.
    pub chain: u32,
}

impl StateKey {
    /// The random numbers of this state for one use and step.
    #[inline(always)]
    pub fn stream(self, seed: u64, domain: Domain, step: u32) -> Stream {
        Stream {
            seed,
            domain,
            image: self.image,
            chain: self.chain,
            step,
        }
    }
}

#[cfg(target_arch = "nvptx64")]
impl crate::global::Global<StateKey> {
    /// # Safety
    /// The array has that element.
    #[inline(always)]
    pub(crate) unsafe fn key(self, state: usize) -> StateKey {
        let words = crate::global::Global::<u32>::new(self.address());
        // SAFETY: a key is two words.
        unsafe {
            StateKey {
                image: words.read(2 * state),
                chain: words.read(2 * state + 1),
            }
        }
    }
}
