//! The ops of the network. Feature maps are `[batch][channels / 8][height][width][8]` in f32; a *plane* is one block of
//! eight channels of one image.

pub mod activation;
pub mod attention;
pub mod concat;
pub mod conv;
pub mod dense;
pub mod elu;
pub mod embed;
#[cfg(target_arch = "nvptx64")]
mod feature_map;
pub mod group_norm;
pub mod load_image;
pub mod load_scaled;
pub mod max_pool;
pub mod mean_pool;
pub mod norm_coefficients;
pub mod precondition;
pub mod reflect;
pub mod resample;
pub mod resize_add;
pub mod store_mixed;
pub mod store_score;

/// Channels rounded up to whole blocks.
pub const fn padded(channels: usize) -> usize {
    channels.next_multiple_of(crate::launch::BLOCK)
}
