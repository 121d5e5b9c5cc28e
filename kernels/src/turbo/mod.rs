//! Turbo: EP and the denoiser exchange extrinsic messages. Everything is per state; a block takes a state.
//!
//! A state holds the message (mu, nu) to the measurements, the message (r, s) to the prior, the denoised d, the residual f
//! and the velocity of r, and a few numbers ([`Scalars`]). `steps` counts its iterations, 0 for one that begins; `done` is
//! other than 0 once it is finished.

pub mod turbo_denoise;
pub mod turbo_draw;
pub mod turbo_filter;
pub mod turbo_scale;
pub mod turbo_start;
pub mod turbo_step;

/// The numbers of a state, in the order in which they lie in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalars {
    /// How far a step is trusted
    pub trust: f64,
    /// The share of the way to its target that r, and with it s, has gone
    pub gain: f64,
    /// Size of the residual, in units of s
    pub size: f64,
    /// How far d moved last, in units of its predicted error
    pub change: f64,
    /// The predicted squared error of d per pixel
    pub eta: f64,
    /// The variance of ln of d's scale, where the measurements are signs; 0 where they tell the scale
    pub scale: f64,
}

impl Scalars {
    /// Numbers of a state.
    pub const LEN: usize = 6;

    /// Of a state that begins.
    pub const START: Self = Self {
        trust: 1.0,
        gain: 0.0,
        size: 0.0,
        change: f64::INFINITY,
        eta: 0.0,
        scale: 0.0,
    };

    /// From memory.
    pub fn of(values: [f64; Self::LEN]) -> Self {
        let [trust, gain, size, change, eta, scale] = values;
        Self {
            trust,
            gain,
            size,
            change,
            eta,
            scale,
        }
    }

    /// To memory.
    pub fn values(self) -> [f64; Self::LEN] {
        [self.trust, self.gain, self.size, self.change, self.eta, self.scale]
    }
}

#[cfg(target_arch = "nvptx64")]
impl Scalars {
    /// # Safety
    /// The array has the state's numbers; so below.
    #[inline(always)]
    unsafe fn load(from: crate::global::Global<f64>, state: usize) -> Self {
        let at = state * Self::LEN;
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                trust: from.load(at),
                gain: from.load(at + 1),
                size: from.load(at + 2),
                change: from.load(at + 3),
                eta: from.load(at + 4),
                scale: from.load(at + 5),
            }
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: crate::global::Global<f64>, state: usize) {
        let at = state * Self::LEN;
        // SAFETY: the caller's promise.
        unsafe {
            to.store(at, self.trust);
            to.store(at + 1, self.gain);
            to.store(at + 2, self.size);
            to.store(at + 3, self.change);
            to.store(at + 4, self.eta);
            to.store(at + 5, self.scale);
        }
    }
}
