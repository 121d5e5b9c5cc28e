//! GroupNorm as one scale and one shift per image and channel, such that norm(x) = scale·x + shift, with what the noise level
//! adds to or makes of the channels.
//!
//! From the mean mu_c and the biased variance v_c of each channel, which the kernels of
//! [`norm_coefficients`](super::norm_coefficients) give: a group's mean is that of its mu_c, its variance the mean of
//! v_c + (mu_c − mean)², both exact. A term that the level adds to a channel in front of the norm moves mu_c and no more; so no pass over
//! the map is spent on it.

use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};
use crate::network::padded;

/// What the level's terms of a norm are, `[channels]` or `[2, channels]` per state; a kernel gets the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Terms {
    /// Added to each channel in front of the norm
    Added = 0,
    /// Scales, then shifts: norm(x)·(1 + scale) + shift
    ScaleShift = 1,
}

/// Scales and shifts from means and variances. A thread takes a channel of an image.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GroupFinishArgs {
    /// `[images, 2, channels padded]`: means and biased variances
    pub moments: Global<f32>,
    /// `[channels]`
    pub gamma: Global<f32>,
    /// `[channels]`
    pub beta: Global<f32>,
    /// The first of an image's terms, or none
    pub terms: Global<f32>,
    /// `[images, 2, channels padded]`
    pub output: Global<f32>,
    /// Variance floor.
    pub epsilon: f64,
    /// Images of the batch.
    pub images: u32,
    /// Channels without padding.
    pub channels: u32,
    /// Channels of a group.
    pub of_group: u32,
    /// From the terms of an image to those of the next.
    pub stride: u32,
    /// The code of the [`Terms`].
    pub kind: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and six of four.
unsafe impl Arguments for GroupFinishArgs {
    fn kernel(&self) -> &'static str {
        "group_finish"
    }
    fn launch(&self) -> Launch {
        Launch::over(self.images * padded(self.channels as usize) as u32)
    }
}

/// A group of channels.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    mean: f64,
    variance: f64,
}

impl Group {
    /// Of so many channels, `moments` giving the mean and the biased variance of each.
    #[inline(always)]
    pub fn new(count: u32, moments: impl Fn(u32) -> (f64, f64)) -> Self {
        let (mut sum, mut c) = (0.0, 0);
        while c < count {
            sum += moments(c).0;
            c += 1;
        }
        let mean = sum / f64::from(count);
        let (mut squares, mut c) = (0.0, 0);
        while c < count {
            let (mu, variance) = moments(c);
            squares += (mu - mean).fma(mu - mean, variance);
            c += 1;
        }
        Self {
            mean,
            variance: squares / f64::from(count),
        }
    }

    /// Scale and shift of a channel to which `added` was added in front of the norm, and whose norm is scaled and shifted by the level.
    #[inline(always)]
    pub fn coefficients(
        self,
        epsilon: f64,
        [gamma, beta]: [f32; 2],
        added: f32,
        [level_scale, level_shift]: [f32; 2],
    ) -> (f64, f64) {
        let scale = f64::from(gamma) / (self.variance + epsilon).root();
        let shift = (f64::from(added) - self.mean).fma(scale, f64::from(beta));
        let by = 1.0 + f64::from(level_scale);
        (scale * by, shift.fma(by, f64::from(level_shift)))
    }
}

/// What is learned of a norm, and how it is applied.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct GroupNorm<'a> {
    /// `[channels]`
    pub gamma: &'a [f32],
    /// `[channels]`
    pub beta: &'a [f32],
    /// Channels of a group
    pub of_group: usize,
    /// Variance floor
    pub epsilon: f64,
}

#[cfg(not(target_arch = "nvptx64"))]
impl GroupNorm<'_> {
    /// From means and variances, `[2, channels padded]`, to scales and shifts of the same shape: one image.
    pub fn finish(&self, moments: &[f32], terms: Option<(Terms, &[f32])>, output: &mut [f32]) {
        let (channels, wide) = (self.gamma.len(), padded(self.gamma.len()));
        let of = |terms: Option<&[f32]>, c: usize| terms.map_or(0.0, |all| all[c]);
        let (added, scales, shifts) = match terms {
            None => (None, None, None),
            Some((Terms::Added, all)) => (Some(all), None, None),
            Some((Terms::ScaleShift, all)) => (None, Some(all), Some(&all[channels..])),
        };
        output.fill(0.0);
        for first in (0..channels).step_by(self.of_group) {
            let group = Group::new(self.of_group as u32, |c| {
                let c = first + c as usize;
                (
                    f64::from(moments[c]) + f64::from(of(added, c)),
                    f64::from(moments[wide + c]),
                )
            });
            for c in first..first + self.of_group {
                let learned = [self.gamma[c], self.beta[c]];
                let level = [of(scales, c), of(shifts, c)];
                let (scale, shift) = group.coefficients(self.epsilon, learned, of(added, c), level);
                output[c] = scale as f32;
                output[wide + c] = shift as f32;
            }
        }
    }

    /// The twin of all kernels: one image, from its feature map to `[2, channels padded]`.
    pub fn coefficients(&self, input: &[f32], terms: Option<(Terms, &[f32])>, output: &mut [f32]) {
        let (channels, wide) = (self.gamma.len(), padded(self.gamma.len()));
        let pixels = input.len() / wide;
        let mut moments = std::vec![0.0; 2 * wide];
        for c in 0..channels {
            let values = || (0..pixels).map(|p| f64::from(input[(c / BLOCK * pixels + p) * BLOCK + c % BLOCK]));
            let mean = values().sum::<f64>() / pixels as f64;
            moments[c] = mean as f32;
            let squares = values().map(|v| (v - mean) * (v - mean)).sum::<f64>();
            moments[wide + c] = (squares / pixels as f64) as f32;
        }
        self.finish(&moments, terms, output);
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{divide, global_thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn group_finish(args: GroupFinishArgs) {
        let (index, wide) = (global_thread(), args.channels.next_multiple_of(BLOCK as u32));
        if index >= args.images * wide {
            return;
        }
        // SAFETY: there are channels, whole groups of them; each thread has its own.
        unsafe {
            let (image, c) = divide(index, wide);
            let of_image = args.moments.from(image as usize * 2 * wide as usize);
            let terms = args.terms.from(image as usize * args.stride as usize);
            let (has_terms, scales) = (args.terms.is_some(), args.kind == Terms::ScaleShift as u32);
            let added = |c: u32| {
                if has_terms && !scales {
                    terms.read(c as usize)
                } else {
                    0.0
                }
            };
            let (mut scale, mut shift) = (0.0, 0.0);
            if c < args.channels {
                let (group, _) = divide(c, args.of_group);
                let first = group * args.of_group;
                let group = Group::new(args.of_group, |at| {
                    let at = first + at;
                    (
                        f64::from(of_image.read(at as usize)) + f64::from(added(at)),
                        f64::from(of_image.read((wide + at) as usize)),
                    )
                });
                let mut level = [0.0; 2];
                if has_terms && scales {
                    level = [terms.read(c as usize), terms.read((args.channels + c) as usize)];
                }
                let learned = [args.gamma.read(c as usize), args.beta.read(c as usize)];
                (scale, shift) = group.coefficients(args.epsilon, learned, added(c), level);
            }
            let output = args.output.from(image as usize * 2 * wide as usize);
            output.store(c as usize, scale as f32);
            output.store((wide + c) as usize, shift as f32);
        }
    }
}
