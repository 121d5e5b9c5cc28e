//! Where a thread's share of a state stands in a feature map.

use crate::device::divide;
use crate::launch::BLOCK;

/// Of element `at` of states `[states, channels, pixels]`: its state, and where it stands in a feature map of as many channels.
///
/// # Safety
/// There are channels and pixels.
#[inline(always)]
pub unsafe fn in_feature_map(at: u32, channels: u32, pixels: u32) -> (u32, u32) {
    // SAFETY: the caller's promise.
    let (state, channel, pixel) = unsafe {
        let (plane, pixel) = divide(at, pixels);
        let (state, channel) = divide(plane, channels);
        (state, channel, pixel)
    };
    let plane = state * channels.div_ceil(BLOCK as u32) + channel / BLOCK as u32;
    (state, (plane * pixels + pixel) * BLOCK as u32 + channel % BLOCK as u32)
}

/// Of half a block of a feature map: its state, the first of its four channels, and its pixel.
///
/// # Safety
/// There are channels and pixels.
#[inline(always)]
pub unsafe fn of_half_block(half: u32, channels: u32, pixels: u32) -> (u32, u32, u32) {
    // SAFETY: the caller's promise.
    let (state, block, pixel) = unsafe {
        let (plane, pixel) = divide(half / 2, pixels);
        let (state, block) = divide(plane, channels.div_ceil(BLOCK as u32));
        (state, block, pixel)
    };
    (state, block * BLOCK as u32 + half % 2 * 4, pixel)
}
