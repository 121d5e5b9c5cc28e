//! States of one size from states of another: what is beyond an image's last row and column is its reflection, what is too
//! much is cut off. So a network that halves its maps serves images whose sides it cannot halve.

use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// Brings states to another size. A thread writes an element.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ReflectArgs {
    /// `[planes, height, width]`
    pub input: Global<f32>,
    /// `[planes, to_height, to_width]`
    pub output: Global<f32>,
    /// States times channels.
    pub planes: u32,
    /// Of the input.
    pub height: u32,
    pub width: u32,
    /// Of the output.
    pub to_height: u32,
    pub to_width: u32,
    /// Nothing.
    pub unused: u32,
}

impl ReflectArgs {
    #[inline(always)]
    fn elements(&self) -> u32 {
        self.planes * self.to_height * self.to_width
    }
}

// SAFETY: repr(C), words of eight bytes and six of four.
unsafe impl Arguments for ReflectArgs {
    fn kernel(&self) -> &'static str {
        "reflect"
    }
    fn launch(&self) -> Launch {
        Launch::over(self.elements())
    }
}

/// Where index `at` of a line that goes on for ever lies in one of `len` elements: the line runs to its end, turns, and does not
/// repeat the element that it turns at.
#[inline(always)]
pub fn reflected(at: u32, len: u32) -> u32 {
    if at < len {
        return at;
    }
    let last = len - 1;
    if last == 0 {
        return 0;
    }
    let beyond = at % (2 * last);
    if beyond > last { 2 * last - beyond } else { beyond }
}

/// The twin: one plane, `(height, width)` each.
pub fn reflect(input: &[f32], (height, width): (usize, usize), to_width: usize, output: &mut [f32]) {
    for (y, row) in output.chunks_exact_mut(to_width).enumerate() {
        let from = &input[reflected(y as u32, height as u32) as usize * width..][..width];
        for (x, value) in row.iter_mut().enumerate() {
            *value = from[reflected(x as u32, width as u32) as usize];
        }
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{divide, global_thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn reflect(args: ReflectArgs) {
        let at = global_thread();
        if at >= args.elements() {
            return;
        }
        // SAFETY: an image has rows and columns, and each thread its own element of the output.
        unsafe {
            let (row, x) = divide(at, args.to_width);
            let (plane, y) = divide(row, args.to_height);
            let from = (plane * args.height + reflected(y, args.height)) * args.width + reflected(x, args.width);
            args.output.store(at as usize, args.input.read(from as usize));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_turns_at_its_ends() {
        let line = |len| core::array::from_fn::<u32, 9, _>(|at| reflected(at as u32, len));
        assert_eq!(line(4), [0, 1, 2, 3, 2, 1, 0, 1, 2]);
        assert_eq!(line(2), [0, 1, 0, 1, 0, 1, 0, 1, 0]);
        assert_eq!(line(1), [0; 9]);
        assert_eq!(line(9), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn an_image_grows_by_its_reflection_and_shrinks_by_cutting() {
        let image = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let mut large = [0.0; 16];
        reflect(&image, (2, 3), 4, &mut large);
        assert_eq!(large[..4], [1.0, 2.0, 3.0, 2.0]);
        assert_eq!(large[4..8], [4.0, 5.0, 6.0, 5.0]);
        assert_eq!(large[8..12], [1.0, 2.0, 3.0, 2.0]);
        let mut back = [0.0; 6];
        reflect(&large, (4, 4), 3, &mut back);
        assert_eq!(back, image);
    }
}
