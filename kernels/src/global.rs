//! Device memory, as an argument struct names it on both sides of a launch.

use core::marker::PhantomData;

/// The address of an array of `T` in device memory; address 0 is no array.
///
/// The host knows only the address. On the device the accessors are global loads and stores, which a plain pointer out of
/// an argument struct would not become.
#[repr(transparent)]
pub struct Global<T> {
    address: u64,
    element: PhantomData<T>,
}

impl<T> Clone for Global<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Global<T> {}

impl<T> core::fmt::Debug for Global<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}", self.address)
    }
}

impl<T> Global<T> {
    /// No array.
    pub const NONE: Self = Self::new(0);

    /// The array at a device address.
    #[inline(always)]
    pub const fn new(address: u64) -> Self {
        Self {
            address,
            element: PhantomData,
        }
    }

    /// Whether there is an array.
    #[inline(always)]
    pub const fn is_some(self) -> bool {
        self.address != 0
    }

    /// The device address.
    #[inline(always)]
    pub const fn address(self) -> u64 {
        self.address
    }

    /// The part from element `index` on.
    #[inline(always)]
    pub const fn from(self, index: usize) -> Self {
        Self::new(self.address + (index * size_of::<T>()) as u64)
    }
}

#[cfg(target_arch = "nvptx64")]
pub use access::Word;

#[cfg(target_arch = "nvptx64")]
mod access {
    use super::Global;
    use core::arch::asm;

    /// A number that one instruction loads or stores.
    pub trait Word: Copy {
        unsafe fn read(address: u64) -> Self;
        unsafe fn load(address: u64) -> Self;
        unsafe fn store(address: u64, value: Self);
    }

    macro_rules! word {
        ($type:ty, $ptx:literal, $register:ident) => {
            impl Word for $type {
                #[inline(always)]
                unsafe fn read(address: u64) -> Self {
                    let value;
                    // SAFETY: the caller's promise.
                    unsafe {
                        asm!(concat!("ld.global.nc.", $ptx, " {0}, [{1}];"), out($register) value, in(reg64) address,
                            options(readonly, nostack, preserves_flags));
                    }
                    value
                }
                #[inline(always)]
                unsafe fn load(address: u64) -> Self {
                    let value;
                    // SAFETY: the caller's promise.
                    unsafe {
                        asm!(concat!("ld.global.", $ptx, " {0}, [{1}];"), out($register) value, in(reg64) address,
                            options(readonly, nostack, preserves_flags));
                    }
                    value
                }
                #[inline(always)]
                unsafe fn store(address: u64, value: Self) {
                    // SAFETY: the caller's promise.
                    unsafe {
                        asm!(concat!("st.global.", $ptx, " [{0}], {1};"), in(reg64) address, in($register) value,
                            options(nostack, preserves_flags));
                    }
                }
            }
        };
    }
    word!(f32, "f32", reg32);
    word!(u32, "u32", reg32);
    word!(f64, "f64", reg64);

    impl<T: Word> Global<T> {
        /// Element `index` of an array that nothing writes while the kernel runs.
        ///
        /// # Safety
        /// The array has that element; so for every access below.
        #[inline(always)]
        pub unsafe fn read(self, index: usize) -> T {
            // SAFETY: the caller's promise.
            unsafe { T::read(self.from(index).address) }
        }

        /// Element `index`.
        #[inline(always)]
        pub unsafe fn load(self, index: usize) -> T {
            // SAFETY: the caller's promise.
            unsafe { T::load(self.from(index).address) }
        }

        #[inline(always)]
        pub unsafe fn store(self, index: usize, value: T) {
            // SAFETY: the caller's promise.
            unsafe { T::store(self.from(index).address, value) }
        }
    }

    impl Global<f32> {
        /// Elements `index` to `index + 3` of an array that nothing writes while the kernel runs; `index` and the array
        /// are aligned to four elements, here and below.
        #[inline(always)]
        pub unsafe fn read4(self, index: usize) -> [f32; 4] {
            let (a, b, c, d);
            // SAFETY: the caller's promise.
            unsafe {
                asm!("ld.global.nc.v4.f32 {{{0}, {1}, {2}, {3}}}, [{4}];",
                    out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) self.from(index).address,
                    options(readonly, nostack, preserves_flags));
            }
            [a, b, c, d]
        }

        /// The same of an array that this kernel also writes.
        #[inline(always)]
        pub unsafe fn load4(self, index: usize) -> [f32; 4] {
            let (a, b, c, d);
            // SAFETY: the caller's promise.
            unsafe {
                asm!("ld.global.v4.f32 {{{0}, {1}, {2}, {3}}}, [{4}];",
                    out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) self.from(index).address,
                    options(readonly, nostack, preserves_flags));
            }
            [a, b, c, d]
        }

        /// Elements `index` and `index + 1`, aligned to two, of an array that nothing writes while the kernel runs.
        #[inline(always)]
        pub unsafe fn read2(self, index: usize) -> [f32; 2] {
            let (a, b);
            // SAFETY: the caller's promise.
            unsafe {
                asm!("ld.global.nc.v2.f32 {{{0}, {1}}}, [{2}];",
                    out(reg32) a, out(reg32) b, in(reg64) self.from(index).address,
                    options(readonly, nostack, preserves_flags));
            }
            [a, b]
        }

        #[inline(always)]
        pub unsafe fn store2(self, index: usize, value: [f32; 2]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!("st.global.v2.f32 [{0}], {{{1}, {2}}};", in(reg64) self.from(index).address,
                    in(reg32) value[0], in(reg32) value[1], options(nostack, preserves_flags));
            }
        }

        #[inline(always)]
        pub unsafe fn store4(self, index: usize, value: [f32; 4]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!("st.global.v4.f32 [{0}], {{{1}, {2}, {3}, {4}}};", in(reg64) self.from(index).address,
                    in(reg32) value[0], in(reg32) value[1], in(reg32) value[2], in(reg32) value[3],
                    options(nostack, preserves_flags));
            }
        }
    }
}
