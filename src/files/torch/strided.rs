//! A strided view of a storage, as f32 in C order.

use half::{bf16, f16};

use super::value::{Dtype, Strided};

impl Strided<'_> {
    /// Reads the values out of the whole storage's bytes; the error is the reason in words.
    ///
    /// # Errors
    /// If the view reaches beyond its storage, repeats elements, is not of floats or not finite in f32.
    pub fn values(&self, storage: &[u8], big_endian: bool) -> Result<Vec<f32>, String> {
        macro_rules! decode {
            ($type:ty, $narrow:expr) => {
                if big_endian {
                    self.gather(storage, |bytes| $narrow(<$type>::from_be_bytes(bytes)))
                } else {
                    self.gather(storage, |bytes| $narrow(<$type>::from_le_bytes(bytes)))
                }
            };
        }
        let values = match self.dtype {
            Dtype::F32 => decode!(f32, std::convert::identity),
            Dtype::F64 => decode!(f64, |value| value as f32),
            Dtype::F16 => decode!(f16, f16::to_f32),
            Dtype::BF16 => decode!(bf16, bf16::to_f32),
            Dtype::Other(_) => return Err("is not of floating-point numbers".into()),
        }?;
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(at) => Err(format!("is not finite at element {at}")),
        }
    }

    /// Visits the elements with the last axis running fastest.
    fn gather<const N: usize>(&self, storage: &[u8], decode: impl Fn([u8; N]) -> f32) -> Result<Vec<f32>, String> {
        let (elements, []) = self.part(storage)?.as_chunks::<N>() else {
            return Err("lies in a storage that is no whole number of elements".into());
        };
        let count = self.check(elements.len())?;
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

    /// The part of the storage that the tensor may use.
    fn part<'s>(&self, storage: &'s [u8]) -> Result<&'s [u8], String> {
        let size = self.storage.dtype.size();
        let range = self.storage.first * size..(self.storage.first + self.storage.length) * size;
        storage.get(range).ok_or_else(|| "lies outside its storage".into())
    }

    /// The number of elements, after checking that each of them lies among the first `length` of the storage.
    fn check(&self, length: usize) -> Result<usize, String> {
        let outside = || "reaches beyond its storage".to_owned();
        let count = self
            .shape
            .iter()
            .try_fold(1, |n: usize, &side| n.checked_mul(side))
            .ok_or_else(outside)?;
        if count == 0 {
            return Ok(0);
        }
        if count > length {
            return Err(format!("has {count} elements in a storage of {length}"));
        }
        let last = self
            .shape
            .iter()
            .zip(&self.strides)
            .try_fold(self.offset, |last, (&side, &stride)| {
                stride
                    .checked_mul(side - 1)
                    .and_then(|distance| last.checked_add(distance))
            });
        last.filter(|&last| last < length).map(|_| count).ok_or_else(outside)
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::Storage;
    use super::*;

    fn tensor(shape: &[usize], strides: &[usize], offset: usize) -> Strided<'static> {
        Strided {
            storage: Storage {
                key: "0",
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
        let values = tensor(&[3, 2], &[1, 3], 0).values(&counting(), false).unwrap();
        assert_eq!(values, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }

    #[test]
    fn a_view_begins_at_its_offset_inside_its_part() {
        let mut view = tensor(&[2], &[2], 1);
        (view.storage.first, view.storage.length) = (2, 4);
        assert_eq!(view.values(&counting(), false).unwrap(), [3.0, 5.0]);
    }

    #[test]
    fn a_scalar_and_an_empty_tensor_are_read() {
        assert_eq!(tensor(&[], &[], 4).values(&counting(), false).unwrap(), [4.0]);
        assert!(
            tensor(&[0, 3], &[3, 1], 0)
                .values(&counting(), false)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn big_endian_numbers_are_turned_round() {
        let bytes: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_be_bytes()).collect();
        assert_eq!(tensor(&[2], &[1], 4).values(&bytes, true).unwrap(), [4.0, 5.0]);
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
                tensor(shape, strides, offset).values(&counting(), false).is_err(),
                "{shape:?}"
            );
        }
    }
}
