//! What the host must know to start a kernel.

/// Threads of a block, where a kernel has no reason for another number.
pub const THREADS: u32 = 256;

/// Channels that lie next to each other in a feature map, `[batch][channels / 8][height][width][8]`: 32 bytes, which is
/// the sector that a GPU's memory moves as one piece. The last block is padded with zeros.
pub const BLOCK: usize = 8;

/// The grid of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks in x and y.
    pub grid: [u32; 2],
    /// Threads of a block.
    pub threads: u32,
}

impl Launch {
    /// As many blocks of [`THREADS`] as give each of `items` a thread.
    pub const fn over(items: u32) -> Self {
        Self::blocks(items.div_ceil(THREADS), 1)
    }

    /// A grid of blocks of [`THREADS`].
    pub const fn blocks(x: u32, y: u32) -> Self {
        Self {
            grid: [x, y],
            threads: THREADS,
        }
    }
}

/// The one argument of a kernel, passed by value.
///
/// # Safety
/// The struct is `#[repr(C)]`, without padding, and the kernel of that name takes it.
pub unsafe trait Arguments: Copy {
    /// The kernel's name in the PTX.
    fn kernel(&self) -> &'static str;
    /// The grid that covers the arguments' work.
    fn launch(&self) -> Launch;

    /// The struct as the launch copies it.
    fn bytes(&self) -> &[u8] {
        // SAFETY: without padding, every byte is initialised.
        unsafe { core::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }
}
