//! The values of tensors, each read when it is asked for: of a checkpoint, one tensor is in memory at a time.

use std::collections::HashMap;

use super::container::Storages;
use super::value::{Place, Storage, Strided};
use crate::files::quoted;

/// A storage is read from its start to the last byte that a tensor needs. This many times the tensors' own size is
/// enough for every view of sense, and no file of a few kilobytes gets more.
const MAX_SPREAD: usize = 64;
/// What is read without asking.
const FREE: usize = 1 << 20;

/// Reads the tensors of one list.
pub(crate) struct Reader<'f> {
    storages: Storages<'f>,
    /// Of each storage, how much of it the tensors need
    reaches: HashMap<String, usize>,
}

fn of(name: &str, reason: String) -> String {
    format!("tensor {} {reason}", quoted(name))
}

impl<'f> Reader<'f> {
    /// # Errors
    /// Naming the tensor that is not one of floats inside its storage, or that is spread too far.
    pub fn new(storages: Storages<'f>, tensors: &[(String, Strided<'_>)]) -> Result<Self, String> {
        let mut reaches: HashMap<String, usize> = HashMap::new();
        let mut sizes: HashMap<&str, usize> = HashMap::new();
        for (name, tensor) in tensors {
            let extent = tensor.extent().map_err(|reason| of(name, reason))?;
            if let Place::Key(key) = tensor.storage.place {
                let reach = reaches.entry(key.to_owned()).or_default();
                *reach = extent.end.max(*reach);
                *sizes.entry(key).or_default() += tensor.count()? * tensor.dtype.size();
            }
        }
        for (name, tensor) in tensors {
            let Place::Key(key) = tensor.storage.place else {
                continue;
            };
            let (reach, size) = (reaches[key], sizes[key]);
            if reach > size.saturating_mul(MAX_SPREAD).saturating_add(FREE) {
                let reason = format!(
                    "and others take {size} bytes, spread over {reach} of their storage; the limit is {MAX_SPREAD} times \
                     their size: save copies of them"
                );
                return Err(of(name, reason));
            }
        }
        Ok(Self { storages, reaches })
    }

    /// The values of a tensor of the list in f32.
    ///
    /// # Errors
    /// Naming the tensor: if its storage is not as the pickle says, or a value is not finite.
    pub fn values(&mut self, name: &str, tensor: &Strided<'_>) -> Result<Vec<f32>, String> {
        let big_endian = self.storages.big_endian();
        let extent = tensor.extent().map_err(|reason| of(name, reason))?;
        let values = match tensor.storage.place {
            Place::Inline(bytes) => tensor.values(&bytes[extent], big_endian),
            Place::Key(key) => self
                .storages
                .read(key, &tensor.storage, self.reaches[key])
                .map_err(|reason| format!("cannot be read: storage {} {reason}", quoted(key)))
                .and_then(|storage| tensor.values(&storage[extent], big_endian)),
        };
        values.map_err(|reason| of(name, reason))
    }
}

impl Storages<'_> {
    /// The first `reach` bytes of a storage, whose length is compared with the pickle's before any is read.
    fn read(&mut self, key: &str, storage: &Storage<'_>, reach: usize) -> Result<&[u8], String> {
        let length = match self {
            Self::Zip(archive) => archive.storage_length(key)?,
            Self::Legacy(ranges) => ranges.get(key).ok_or("is not in the file")?.len() as u64,
            Self::Inline => return Err("is not in the pickle".into()),
        };
        if storage.elements as u128 * storage.dtype.size() as u128 != u128::from(length) {
            let claimed = storage.elements;
            return Err(format!(
                "has {length} bytes, not the {claimed} elements that the pickle says"
            ));
        }
        match self {
            Self::Zip(archive) => archive.storage(key, reach),
            Self::Legacy(ranges) => Ok(&ranges[key][..reach]),
            Self::Inline => Ok(&[]),
        }
    }

    fn big_endian(&self) -> bool {
        // The legacy container is little-endian on every machine.
        matches!(self, Self::Zip(archive) if archive.big_endian)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::super::container::Archive;
    use super::super::value::Dtype;
    use super::*;

    /// An archive with one storage of so many zeros, as f32.
    fn archive(elements: usize) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in [("a/data.pkl", vec![]), ("a/data/0", vec![0; 4 * elements])] {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(&bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    fn tensor(elements: usize, shape: &[usize], strides: &[usize]) -> (String, Strided<'static>) {
        let storage = Storage {
            place: Place::Key("0"),
            dtype: Dtype::F32,
            elements,
            first: 0,
            length: elements,
        };
        let tensor = Strided {
            storage,
            dtype: Dtype::F32,
            offset: 0,
            shape: shape.to_vec(),
            strides: strides.to_vec(),
        };
        ("w".into(), tensor)
    }

    /// One tensor of an archive.
    fn values(bytes: &[u8], tensor: (String, Strided<'static>)) -> Result<Vec<f32>, String> {
        let storages = Storages::Zip(Archive::open(bytes)?);
        Reader::new(storages, std::slice::from_ref(&tensor))?.values(&tensor.0, &tensor.1)
    }

    #[test]
    fn a_storage_is_held_only_as_far_as_its_tensors_reach() {
        let bytes = archive(1 << 20);
        let storages = Storages::Zip(Archive::open(&bytes).unwrap());
        let tensors = [tensor(1 << 20, &[2, 3], &[3, 1]), tensor(1 << 20, &[4], &[5])];
        let mut reader = Reader::new(storages, &tensors).unwrap();
        let lengths = tensors
            .each_ref()
            .map(|(name, tensor)| reader.values(name, tensor).unwrap().len());
        assert_eq!(lengths, [6, 4]);
        let Storages::Zip(archive) = reader.storages else {
            unreachable!()
        };
        // 3·5 + 1 elements of the second tensor.
        assert_eq!(archive.last.unwrap().1.capacity(), 64);
    }

    #[test]
    fn tensors_spread_over_a_huge_storage_are_refused_with_the_limit() {
        let bytes = archive(1 << 20);
        let reason = values(&bytes, tensor(1 << 20, &[2], &[1_000_000])).unwrap_err();
        assert!(reason.contains("`w`") && reason.contains("64 times"), "{reason}");
    }

    #[test]
    fn a_storage_of_another_length_than_the_pickle_says_is_refused_unread() {
        let mut bytes = archive(1 << 20);
        let at = bytes.windows(8).position(|name| name == b"a/data/0").unwrap();
        // Damaged as well: who reads it complains of that.
        bytes[at + 20] ^= 1;
        let reason = values(&bytes, tensor(6, &[6], &[1])).unwrap_err();
        assert!(reason.contains("4194304 bytes, not the 6 elements"), "{reason}");
        let reason = values(&bytes, tensor(1 << 20, &[6], &[1])).unwrap_err();
        assert!(reason.contains("damaged"), "{reason}");
    }
}
