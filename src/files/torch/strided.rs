//! A strided view of a storage, as f32 in C order.

use std::ops::Range;

use super::value::{Dtype, Strided};
use crate::files::half::{Bf16, F16};

impl Strided<'_> {
    /// The bytes of its storage that hold the tensor, from its part's first one to its last one; the error is the
    /// reason in words.
    ///
    /// # Errors
    /// If the view reaches beyond its storage, repeats elements or is not of floats.
    pub fn extent(&self) -> Result<Range<usize>, String> {
        if matches!(self.dtype, Dtype::Other(_)) {
            return Err("is not of floating-point numbers".into());
        }
        // Sizes that overflow reach beyond any storage.
        let bytes = |elements: usize| elements.checked_mul(self.storage.dtype.size()).ok_or_else(outside);
        let (start, length) = (bytes(self.storage.first)?, bytes(self.storage.length)?);
        let size = self.dtype.size();
        if !length.is_multiple_of(size) {
            return Err("lies in a storage that is no whole number of elements".into());
        }
        let elements = self.check(length / size)?;
        start
            .checked_add(elements * size)
            .map(|end| start..end)
            .ok_or_else(outside)
    }

    /// Reads the values out of the bytes of its [extent](Self::extent).
    ///
    /// # Errors
    /// As [`Self::extent`], and if a value is not finite in f32.
    pub fn values(&self, extent: &[u8], big_endian: bool) -> Result<Vec<f32>, String> {
        macro_rules! decode {
            ($type:ty, $narrow:expr) => {
                if big_endian {
                    self.gather(extent, |bytes| $narrow(<$type>::from_be_bytes(bytes)))
                } else {
                    self.gather(extent, |bytes| $narrow(<$type>::from_le_bytes(bytes)))
                }
            };
        }
        let values = match self.dtype {
            Dtype::F32 => decode!(f32, std::convert::identity),
            Dtype::F64 => decode!(f64, |value| value as f32),
            Dtype::F16 => decode!(F16, F16::to_f32),
            Dtype::BF16 => decode!(Bf16, Bf16::to_f32),
            Dtype::Other(_) => return Err("is not of floating-point numbers".into()),
        }?;
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(at) => Err(format!("is not finite at element {at}")),
        }
    }

    /// The number of elements.
    pub fn count(&self) -> Result<usize, String> {
        let count = self.shape.iter().try_fold(1, |n: usize, &side| n.checked_mul(side));
        count.ok_or_else(outside)
    }

    /// Visits the elements with the last axis running fastest.
    fn gather<const N: usize>(&self, extent: &[u8], decode: impl Fn([u8; N]) -> f32) -> Result<Vec<f32>, String> {
        let (elements, _) = extent.as_chunks::<N>();
        if self.end()? > elements.len() {
            return Err(outside());
        }
        let count = self.count()?;
        let mut values = Vec::with_capacity(count);
        let mut index = vec![0; self.shape.len()];
        let mut position = self.offset;
        for _ in 0..count {
            values.push(decode(elements[position]));
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                if index[axis] < self.shape[axis] {
                    position += self.strides[axis];
                    break;
                }
                position -= self.strides[axis] * (self.shape[axis] - 1);
                index[axis] = 0;
            }
        }
        Ok(values)
    }

    /// How many of the storage's elements lie before the view's end.
    fn end(&self) -> Result<usize, String> {
        if self.count()? == 0 {
            return Ok(0);
        }
        let mut sides = self.shape.iter().zip(&self.strides);
        let last = sides.try_fold(self.offset, |last, (&side, &stride)| {
            last.checked_add(stride.checked_mul(side - 1)?)
        });
        last.and_then(|last| last.checked_add(1)).ok_or_else(outside)
    }

    /// The same, after checking that it is no more than `length` and that no more elements are made of fewer.
    fn check(&self, length: usize) -> Result<usize, String> {
        let (count, end) = (self.count()?, self.end()?);
        if count > length {
            return Err(format!("has {count} elements in a storage of {length}"));
        }
        if end > length { Err(outside()) } else { Ok(end) }
    }
}

fn outside() -> String {
    "reaches beyond its storage".into()
}

#[cfg(test)]
mod tests {
    use super::super::value::{Place, Storage};
    use super::*;

    impl Strided<'_> {
        /// The values out of the whole storage.
        pub fn values_in(&self, storage: &[u8], big_endian: bool) -> Result<Vec<f32>, String> {
            let extent = storage.get(self.extent()?).ok_or("lies outside the storage")?;
            self.values(extent, big_endian)
        }
    }

    fn tensor(shape: &[usize], strides: &[usize], offset: usize) -> Strided<'static> {
        Strided {
            storage: Storage {
                place: Place::Key("0"),
                dtype: Dtype::F32,
                elements: 6,
                first: 0,
                length: 6,
            },
            dtype: Dtype::F32,
            offset,
            shape: shape.to_vec(),
            strides: strides.to_vec(),
        }
    }

    fn counting() -> Vec<u8> {
        (0..6).flat_map(|i| (i as f32).to_le_bytes()).collect()
    }

    #[test]
    fn a_transposed_tensor_is_read_in_its_own_order() {
        let values = tensor(&[3, 2], &[1, 3], 0).values_in(&counting(), false).unwrap();
        assert_eq!(values, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }

    #[test]
    fn a_view_begins_at_its_offset_inside_its_part() {
        let mut view = tensor(&[2], &[2], 1);
        (view.storage.first, view.storage.length) = (2, 4);
        assert_eq!(view.values_in(&counting(), false).unwrap(), [3.0, 5.0]);
    }

    #[test]
    fn a_scalar_and_an_empty_tensor_are_read() {
        assert_eq!(tensor(&[], &[], 4).values_in(&counting(), false).unwrap(), [4.0]);
        assert!(
            tensor(&[0, 3], &[3, 1], 0)
                .values_in(&counting(), false)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn big_endian_numbers_are_turned_round() {
        let bytes: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_be_bytes()).collect();
        assert_eq!(tensor(&[2], &[1], 4).values_in(&bytes, true).unwrap(), [4.0, 5.0]);
    }

    #[test]
    fn views_that_reach_beyond_the_storage_or_repeat_it_are_refused() {
        let huge = usize::MAX;
        for (shape, strides, offset) in [
            (&[2, 3][..], &[3, 1][..], 1),
            (&[2], &[huge], 0),
            (&[2], &[1], huge),
            (&[huge, huge], &[0, 0], 0),
            (&[7], &[0], 0),
        ] {
            assert!(
                tensor(shape, strides, offset).values_in(&counting(), false).is_err(),
                "{shape:?}"
            );
        }
    }
}
