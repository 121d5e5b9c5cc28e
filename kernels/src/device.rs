//! What a kernel needs of the hardware: thread indices, barriers, shuffles, shared memory and the few instructions that
//! Rust has no name for. Every intrinsic and every `asm!` of the crate stands here and in `global.rs`.
//!
//! Instructions that all lanes of a warp must execute together are LLVM intrinsics, which the compiler knows not to move
//! into a branch; `asm!` is used for loads and stores, which may move.

use core::arch::{asm, nvptx};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: stops the kernel; there is nothing to unwind.
    unsafe { nvptx::trap() }
}

/// Threads of a warp.
pub const WARP: u32 = 32;

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    fn shuffle_xor_i32(mask: u32, value: u32, lanes: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    fn shuffle_i32(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.ex2.approx.ftz.f"]
    fn ex2_approx(x: f32) -> f32;
}

#[inline(always)]
pub fn thread() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_thread_idx_x() as u32 }
}

#[inline(always)]
pub fn block() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_block_idx_x() as u32 }
}

#[inline(always)]
pub fn block_y() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_block_idx_y() as u32 }
}

#[inline(always)]
pub fn block_threads() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_block_dim_x() as u32 }
}

/// The number of this thread in a one-dimensional grid.
#[inline(always)]
pub fn global_thread() -> u32 {
    block() * block_threads() + thread()
}

/// Quotient and remainder.
///
/// # Safety
/// `by` is not 0: `/` would test for that, and keep a call to the panic handler in the kernel.
#[inline(always)]
pub unsafe fn divide(n: u32, by: u32) -> (u32, u32) {
    // SAFETY: the caller's promise.
    unsafe { core::hint::assert_unchecked(by != 0) };
    (n / by, n % by)
}

/// Waits for all threads of the block; what they wrote to shared memory is then visible.
///
/// # Safety
/// Every thread of the block must come here.
#[inline(always)]
pub unsafe fn barrier() {
    // SAFETY: the caller's promise.
    unsafe { nvptx::_syncthreads() }
}

/// 2ˣ with a relative error below 2⁻²².
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    // SAFETY: arithmetic.
    unsafe { ex2_approx(x) }
}

/// The value that `lane` holds.
///
/// # Safety
/// Every lane of the warp must come here.
#[inline(always)]
pub unsafe fn shuffle(value: f32, lane: u32) -> f32 {
    // SAFETY: the caller's promise.
    f32::from_bits(unsafe { shuffle_i32(!0, value.to_bits(), lane, WARP - 1) })
}

/// The value that lane `lane ^ lanes` holds.
///
/// # Safety
/// Every lane of the warp must come here.
#[inline(always)]
pub unsafe fn shuffle_xor(value: f32, lanes: u32) -> f32 {
    // SAFETY: the caller's promise.
    f32::from_bits(unsafe { shuffle_xor_i32(!0, value.to_bits(), lanes, WARP - 1) })
}

/// The same for f64.
///
/// # Safety
/// Every lane of the warp must come here.
#[inline(always)]
pub unsafe fn shuffle_xor_f64(value: f64, lanes: u32) -> f64 {
    let bits = value.to_bits();
    // SAFETY: the caller's promise.
    let (low, high) = unsafe {
        (
            shuffle_xor_i32(!0, bits as u32, lanes, WARP - 1),
            shuffle_xor_i32(!0, (bits >> 32) as u32, lanes, WARP - 1),
        )
    };
    f64::from_bits(u64::from(low) | u64::from(high) << 32)
}

/// The sum over the warp, the same in every lane: a butterfly, whose order of additions never changes.
///
/// # Safety
/// Every lane of the warp must come here.
#[inline(always)]
pub unsafe fn warp_sum(value: f64) -> f64 {
    // SAFETY: the caller's promise.
    unsafe {
        let sum = value + shuffle_xor_f64(value, 16);
        let sum = sum + shuffle_xor_f64(sum, 8);
        let sum = sum + shuffle_xor_f64(sum, 4);
        let sum = sum + shuffle_xor_f64(sum, 2);
        sum + shuffle_xor_f64(sum, 1)
    }
}

/// The sum over a block of whole warps, the same in every thread: butterflies, then the warps in order.
///
/// # Safety
/// Every thread of the block must come here; `scratch` holds a word of eight bytes per warp and is this call's alone.
#[inline(always)]
pub unsafe fn block_sum(value: f64, scratch: Shared) -> f64 {
    // SAFETY: the caller's promises; the last barrier lets the scratch be used again.
    unsafe {
        let sum = warp_sum(value);
        if thread() % WARP == 0 {
            scratch.at(thread() / WARP * 8).store_f64(sum);
        }
        barrier();
        let mut total = 0.0;
        let mut warp = 0;
        while warp < block_threads() / WARP {
            total += scratch.at(warp * 8).load_f64();
            warp += 1;
        }
        barrier();
        total
    }
}

/// The largest of the block's values, none below 0, the same in every thread.
///
/// # Safety
/// As [`block_sum`].
#[inline(always)]
pub unsafe fn block_max(value: f64, scratch: Shared) -> f64 {
    // SAFETY: the caller's promises; the last barrier lets the scratch be used again.
    unsafe {
        let mut most = value;
        let mut lanes = 16;
        while lanes > 0 {
            let other = shuffle_xor_f64(most, lanes);
            most = if other > most { other } else { most };
            lanes /= 2;
        }
        if thread() % WARP == 0 {
            scratch.at(thread() / WARP * 8).store_f64(most);
        }
        barrier();
        let mut total = 0.0;
        let mut warp = 0;
        while warp < block_threads() / WARP {
            let other = scratch.at(warp * 8).load_f64();
            total = if other > total { other } else { total };
            warp += 1;
        }
        barrier();
        total
    }
}

/// Keeps the compiler from computing these values later than here. It would move the arithmetic of an inner loop behind
/// the branches that follow, next to its uses, and hold all operands in registers until then.
#[inline(always)]
pub fn pin(values: &mut [f32; 4]) {
    // SAFETY: the assembly is a comment and executes nothing; the operands only say that the values are there.
    unsafe {
        asm!("// {0} {1} {2} {3}", inout(reg32) values[0], inout(reg32) values[1], inout(reg32) values[2],
            inout(reg32) values[3], options(nomem, nostack, preserves_flags));
    }
}

/// Two numbers rounded to half precision, the first one low.
#[inline(always)]
pub fn half_pair(low: f32, high: f32) -> u32 {
    let (a, b): (u16, u16);
    // SAFETY: arithmetic.
    unsafe {
        asm!("cvt.rn.f16.f32 {0}, {1};", out(reg16) a, in(reg32) low, options(pure, nomem, nostack, preserves_flags));
        asm!("cvt.rn.f16.f32 {0}, {1};", out(reg16) b, in(reg32) high, options(pure, nomem, nostack, preserves_flags));
    }
    u32::from(a) | u32::from(b) << 16
}

/// Adds the product of 8×4 and 4×8 halves, four of them side by side, to the sums: Volta's matrix instruction.
///
/// # Safety
/// Every lane of the warp must come here, here and for the instructions below: they stand in no branch.
#[cfg(not(target_feature = "sm_80"))]
#[inline(always)]
pub unsafe fn multiply_8x8x4(sums: &mut [f32; 8], a: [u32; 2], b: [u32; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}}, {{{8}, {9}}}, \
            {{{10}, {11}}}, {{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}};",
            inout(reg32) sums[0], inout(reg32) sums[1], inout(reg32) sums[2], inout(reg32) sums[3],
            inout(reg32) sums[4], inout(reg32) sums[5], inout(reg32) sums[6], inout(reg32) sums[7],
            in(reg32) a[0], in(reg32) a[1], in(reg32) b[0], in(reg32) b[1], options(nomem, nostack, preserves_flags));
    }
}

/// Adds the product of 16×16 and 16×8 halves to the sums.
#[cfg(target_feature = "sm_80")]
#[inline(always)]
pub unsafe fn multiply_f16(sums: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, \
            {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};",
            inout(reg32) sums[0], inout(reg32) sums[1], inout(reg32) sums[2], inout(reg32) sums[3],
            in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3], in(reg32) b[0], in(reg32) b[1],
            options(nomem, nostack, preserves_flags));
    }
}

/// Adds the product of 16×8 and 8×8 TF32 numbers to the sums.
#[cfg(target_feature = "sm_80")]
#[inline(always)]
pub unsafe fn multiply_tf32(sums: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, \
            {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};",
            inout(reg32) sums[0], inout(reg32) sums[1], inout(reg32) sums[2], inout(reg32) sums[3],
            in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3], in(reg32) b[0], in(reg32) b[1],
            options(nomem, nostack, preserves_flags));
    }
}

/// Says how many threads a block of this kernel has, and how many blocks a multiprocessor shall hold: the assembler then
/// keeps to the registers that allows.
///
/// Rust has no attribute for it. The comment lands in the body of the kernel, and `build-ptx.sh` turns it into the
/// directives before the body.
#[inline(always)]
pub fn launch_bounds<const THREADS: u32, const BLOCKS: u32>() {
    // SAFETY: the assembly is a comment and executes nothing.
    unsafe {
        asm!("// launch bounds: .maxntid {}, 1, 1 .minnctapersm {}", const THREADS, const BLOCKS,
            options(nomem, nostack, preserves_flags));
    }
}

/// An address in the block's shared memory, in bytes.
#[derive(Clone, Copy)]
pub struct Shared(pub u32);

impl Shared {
    #[inline(always)]
    pub fn at(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// # Safety
    /// The address lies in the block's shared memory; so for every access below, aligned to its width.
    #[inline(always)]
    pub unsafe fn load4(self) -> [f32; 4] {
        let (a, b, c, d);
        // SAFETY: the caller's promise.
        unsafe {
            asm!("ld.shared.v4.f32 {{{0}, {1}, {2}, {3}}}, [{4}];",
                out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) self.0,
                options(readonly, nostack, preserves_flags));
        }
        [a, b, c, d]
    }

    #[inline(always)]
    pub unsafe fn store4(self, value: [f32; 4]) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("st.shared.v4.f32 [{0}], {{{1}, {2}, {3}, {4}}};", in(reg32) self.0,
                in(reg32) value[0], in(reg32) value[1], in(reg32) value[2], in(reg32) value[3],
                options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    pub unsafe fn store(self, value: f32) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("st.shared.f32 [{0}], {1};", in(reg32) self.0, in(reg32) value, options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    pub unsafe fn load_f64(self) -> f64 {
        let value;
        // SAFETY: the caller's promise.
        unsafe {
            asm!("ld.shared.f64 {0}, [{1}];", out(reg64) value, in(reg32) self.0,
                options(readonly, nostack, preserves_flags));
        }
        value
    }

    #[inline(always)]
    pub unsafe fn load2_f64(self) -> [f64; 2] {
        let (a, b);
        // SAFETY: the caller's promise.
        unsafe {
            asm!("ld.shared.v2.f64 {{{0}, {1}}}, [{2}];", out(reg64) a, out(reg64) b, in(reg32) self.0,
                options(readonly, nostack, preserves_flags));
        }
        [a, b]
    }

    #[inline(always)]
    pub unsafe fn load2_u32(self) -> [u32; 2] {
        let (a, b);
        // SAFETY: the caller's promise.
        unsafe {
            asm!("ld.shared.v2.u32 {{{0}, {1}}}, [{2}];", out(reg32) a, out(reg32) b, in(reg32) self.0,
                options(readonly, nostack, preserves_flags));
        }
        [a, b]
    }

    #[inline(always)]
    pub unsafe fn store2_u32(self, value: [u32; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("st.shared.v2.u32 [{0}], {{{1}, {2}}};", in(reg32) self.0, in(reg32) value[0], in(reg32) value[1],
                options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    pub unsafe fn store_f64(self, value: f64) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("st.shared.f64 [{0}], {1};", in(reg32) self.0, in(reg64) value, options(nostack, preserves_flags));
        }
    }
}

/// Reserves shared memory: `shared_memory!(tiles, "QCS_TILES", 1024)` makes `tiles()` the address of 1024 bytes.
///
/// A kernel pays for it only if it asks for the address.
macro_rules! shared_memory {
    ($(#[$doc:meta])* $name:ident, $symbol:literal, $bytes:literal) => {
        core::arch::global_asm!(concat!(".shared .align 16 .b8 ", $symbol, "[", $bytes, "];"));
        $(#[$doc])*
        #[inline(always)]
        fn $name() -> $crate::device::Shared {
            let address: u32;
            // SAFETY: an address, not an access.
            unsafe {
                core::arch::asm!(concat!("mov.u32 {0}, ", $symbol, ";"), out(reg32) address,
                    options(pure, nomem, nostack, preserves_flags));
            }
            $crate::device::Shared(address)
        }
    };
}
pub(crate) use shared_memory;
