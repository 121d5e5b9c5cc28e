//! The two files `torch.save` writes: a zip archive (PyTorch 1.6 and later) and a row of pickles (before).

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{Cursor, Read};

use zip::ZipArchive;

use super::pickle::{self, Pickle};
use super::value::{Dtype, Heap, Storage, Strided, Value};
use crate::files::{MAX_INFLATED, MAX_INFLATION, quoted, reserve};

/// The longest pickle that is read out of an archive; NCSNv2's take some 100 KB.
const MAX_PICKLE: u64 = 64 << 20;

/// Which of the two a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// An archive with a pickle and one entry per storage.
    Zip,
    /// Pickles one after the other, then the storages.
    Legacy,
}

/// The pickle of what was saved.
pub(crate) struct SavedObject<'f> {
    pub container: Container,
    /// Begins with the pickle.
    bytes: Cow<'f, [u8]>,
    name: String,
}

/// What is left of the file: the numbers, somewhere.
pub(crate) enum Rest<'f> {
    Zip(Archive<'f>),
    /// The legacy file from the object's pickle on.
    Legacy(&'f [u8]),
}

/// Where the numbers are.
pub(crate) enum Storages<'f> {
    Zip(Archive<'f>),
    /// The bytes of each storage by key.
    Legacy(HashMap<String, &'f [u8]>),
}

/// Recognises the container and takes the file apart as far as is possible before its object is unpickled.
pub(crate) fn open(bytes: &[u8]) -> Result<(SavedObject<'_>, Rest<'_>), String> {
    if bytes.starts_with(b"PK\x03\x04") {
        let mut archive = Archive::open(bytes)?;
        let name = archive.name("data.pkl");
        let object = SavedObject {
            container: Container::Zip,
            bytes: Cow::Owned(archive.read(&name, MAX_PICKLE)?),
            name,
        };
        return Ok((object, Rest::Zip(archive)));
    }
    let rest = skip_legacy_preamble(bytes)?;
    let object = SavedObject {
        container: Container::Legacy,
        bytes: Cow::Borrowed(rest),
        name: "the saved object".into(),
    };
    Ok((object, Rest::Legacy(rest)))
}

impl SavedObject<'_> {
    pub fn unpickle(&self) -> Result<Pickle<'_>, String> {
        pickle::read(&self.bytes).map_err(|reason| format!("{}: {reason}", self.name))
    }
}

impl<'f> Rest<'f> {
    /// Finds the storages that `object` refers to.
    pub fn locate(self, object: &Pickle<'_>) -> Result<Storages<'f>, String> {
        let known = consistent(&object.heap)?;
        match self {
            Self::Zip(archive) => Ok(Storages::Zip(archive)),
            Self::Legacy(rest) => locate_legacy(&rest[object.length..], &known).map(Storages::Legacy),
        }
    }
}

/// Type and number of elements of each storage the object refers to.
fn consistent<'a>(heap: &Heap<'a>) -> Result<HashMap<&'a str, (Dtype, usize)>, String> {
    let mut known = HashMap::new();
    for &Storage {
        key, dtype, elements, ..
    } in heap.storages()
    {
        if *known.entry(key).or_insert((dtype, elements)) != (dtype, elements) {
            return Err(format!("storage {} is described in two ways", quoted(key)));
        }
    }
    Ok(known)
}

/// A storage is read from its start to the last byte that a tensor needs. This many times the tensors' own size is
/// enough for every view of sense, and no file of a few kilobytes gets more.
const MAX_SPREAD: usize = 64;
/// What is read without asking.
const FREE: usize = 1 << 20;

impl Storages<'_> {
    /// The values of each tensor in f32. Of a storage, only what its tensors need is held in memory.
    ///
    /// # Errors
    /// Naming the tensor: if its storage is not as the pickle says, or it is not one of finite floats inside it.
    pub fn values(&mut self, tensors: &[(String, Strided<'_>)]) -> Result<Vec<Vec<f32>>, String> {
        let of = |name: &str, reason: String| format!("tensor {} {reason}", quoted(name));
        let mut reaches: HashMap<&str, usize> = HashMap::new();
        let mut sizes: HashMap<&str, usize> = HashMap::new();
        for (name, tensor) in tensors {
            let extent = tensor.extent().map_err(|reason| of(name, reason))?;
            let reach = reaches.entry(tensor.storage.key).or_default();
            *reach = extent.end.max(*reach);
            *sizes.entry(tensor.storage.key).or_default() += tensor.count()? * tensor.dtype.size();
        }
        let big_endian = self.big_endian();
        let mut all = Vec::with_capacity(tensors.len());
        for (name, tensor) in tensors {
            let key = tensor.storage.key;
            let (reach, size) = (reaches[key], sizes[key]);
            if reach > size.saturating_mul(MAX_SPREAD).saturating_add(FREE) {
                return Err(of(
                    name,
                    format!(
                        "and others take {size} bytes, spread over {reach} of their storage; the limit is                          {MAX_SPREAD} times their size: save copies of them"
                    ),
                ));
            }
            let values = self
                .read(&tensor.storage, reach)
                .map_err(|reason| format!("cannot be read: storage {} {reason}", quoted(key)))
                .and_then(|storage| tensor.values(&storage[tensor.extent()?], big_endian));
            all.push(values.map_err(|reason| of(name, reason))?);
        }
        Ok(all)
    }

    /// The first `reach` bytes of a storage, whose length is compared with the pickle's before any is read.
    fn read(&mut self, storage: &Storage<'_>, reach: usize) -> Result<&[u8], String> {
        let length = match self {
            Self::Zip(archive) => archive.storage_length(storage.key)?,
            Self::Legacy(ranges) => ranges.get(storage.key).ok_or("is not in the file")?.len() as u64,
        };
        if storage.elements as u128 * storage.dtype.size() as u128 != u128::from(length) {
            let claimed = storage.elements;
            return Err(format!(
                "has {length} bytes, not the {claimed} elements that the pickle says"
            ));
        }
        match self {
            Self::Zip(archive) => archive.storage(storage.key, reach),
            Self::Legacy(ranges) => Ok(&ranges[storage.key][..reach]),
        }
    }

    fn big_endian(&self) -> bool {
        // The legacy container is little-endian on every machine.
        matches!(self, Self::Zip(archive) if archive.big_endian)
    }
}

/// The zip archive, with the folder that all of its entries share.
pub(crate) struct Archive<'f> {
    zip: ZipArchive<Cursor<&'f [u8]>>,
    /// Of the whole file.
    length: u64,
    folder: String,
    big_endian: bool,
    inflated: u64,
    /// What is needed of the storage read last: the tensors of a flattened network all lie in one.
    last: Option<(String, Vec<u8>)>,
}

impl<'f> Archive<'f> {
    fn open(bytes: &'f [u8]) -> Result<Self, String> {
        let zip = ZipArchive::new(Cursor::new(bytes))
            .map_err(|e| format!("is a damaged zip archive ({e}): copy or download it again"))?;
        let names = || (0..zip.len()).filter_map(|index| zip.name_for_index(index)?.ok());
        if names().any(|name| name.ends_with("/constants.pkl")) {
            return Err("is a TorchScript program, not a checkpoint: save the network's state_dict()".into());
        }
        let folder = names().find_map(|name| match name.strip_suffix("data.pkl")? {
            "" => Some(String::new()),
            folder => folder.ends_with('/').then(|| folder.to_owned()),
        });
        let Some(folder) = folder else {
            let first: Vec<String> = names().take(3).map(|name| quoted(&name)).collect();
            return Err(format!(
                "is a zip archive without `data.pkl`, so not one torch.save wrote (it holds {}, …): if the checkpoint \
                 is inside, unpack it first",
                first.join(", ")
            ));
        };
        let mut archive = Self {
            zip,
            length: bytes.len() as u64,
            folder,
            big_endian: false,
            inflated: 0,
            last: None,
        };
        archive.big_endian = archive.is_big_endian()?;
        Ok(archive)
    }

    /// The name of an entry in the archive's folder.
    fn name(&self, entry: &str) -> String {
        format!("{}{entry}", self.folder)
    }

    fn is_big_endian(&mut self) -> Result<bool, String> {
        let name = self.name("byteorder");
        if self.zip.index_for_name(&name).is_none() {
            return Ok(false);
        }
        match self.read(&name, 16)?.as_slice() {
            b"little" => Ok(false),
            b"big" => Ok(true),
            other => Err(format!(
                "entry {} is neither little nor big: {}",
                quoted(&name),
                other.escape_ascii()
            )),
        }
    }

    /// A whole entry, if it is not longer than `longest`.
    fn read(&mut self, name: &str, longest: u64) -> Result<Vec<u8>, String> {
        let length = self.length_of(name)?;
        if length > longest {
            return Err(format!(
                "entry {} claims {length} bytes; the limit is {longest}",
                quoted(name)
            ));
        }
        self.read_start(name, length as usize)
    }

    fn length_of(&mut self, name: &str) -> Result<u64, String> {
        let member = self
            .zip
            .by_name(name)
            .map_err(|e| format!("entry {} cannot be read: {e}", quoted(name)))?;
        Ok(member.size())
    }

    /// The first `keep` bytes of an entry; the others are read as well, for the checksum, but not kept.
    fn read_start(&mut self, name: &str, keep: usize) -> Result<Vec<u8>, String> {
        let entry = quoted(name);
        let mut member = self
            .zip
            .by_name(name)
            .map_err(|e| format!("entry {entry} cannot be read: {e}"))?;
        let claimed = member.size();
        if claimed > member.compressed_size().min(self.length) * MAX_INFLATION {
            return Err(format!(
                "entry {entry} claims {claimed} bytes, more than the archive can hold"
            ));
        }
        self.inflated = self.inflated.saturating_add(claimed);
        if self.inflated > MAX_INFLATED {
            let limit = MAX_INFLATED >> 20;
            return Err(format!(
                "unpacks to more than {limit} MiB, the limit, with entry {entry}"
            ));
        }
        let mut bytes = Vec::new();
        reserve(&mut bytes, keep)?;
        // One byte more than claimed: the checksum is compared at the end of the stream only.
        let read = (&mut member)
            .take(keep as u64)
            .read_to_end(&mut bytes)
            .and_then(|kept| {
                let rest = std::io::copy(&mut member.take(claimed - kept as u64 + 1), &mut std::io::sink())?;
                Ok(kept as u64 + rest)
            });
        match read {
            Ok(length) if length == claimed && bytes.len() == keep => Ok(bytes),
            Ok(_) => Err(format!("entry {entry} is not as long as the archive says")),
            Err(e) => Err(format!("entry {entry} is damaged: {e}")),
        }
    }

    fn storage_length(&mut self, key: &str) -> Result<u64, String> {
        let name = self.name(&format!("data/{key}"));
        self.length_of(&name)
    }

    /// The first `reach` bytes of a storage, which must not be more than it has.
    fn storage(&mut self, key: &str, reach: usize) -> Result<&[u8], String> {
        if self.last.as_ref().is_none_or(|(last, _)| last != key) {
            let name = self.name(&format!("data/{key}"));
            self.last = None;
            self.last = Some((key.to_owned(), self.read_start(&name, reach)?));
        }
        Ok(self.last.as_ref().map_or(&[], |(_, bytes)| bytes))
    }
}

/// 0x1950a86a20f9469cfc6c, little-endian.
const LEGACY_MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
const LEGACY_PROTOCOL: i64 = 1001;

/// What follows the magic number, the protocol's version and the machine's properties, a pickle each.
fn skip_legacy_preamble(bytes: &[u8]) -> Result<&[u8], String> {
    const NEITHER: &str = "is no PyTorch checkpoint: neither a zip archive nor the older row of pickles";
    if bytes.get(257..262) == Some(b"ustar") {
        return Err("is a tar archive: unpack it first, or load and save it again with a newer PyTorch".into());
    }
    let magic = pickle::read(bytes).map_err(|_| NEITHER)?;
    if !matches!(magic.root, Value::Long(number) if number == LEGACY_MAGIC) {
        return Err(NEITHER.into());
    }
    let rest = &bytes[magic.length..];
    let protocol = pickle::read(rest).map_err(|reason| format!("the version of the file: {reason}"))?;
    if !matches!(protocol.root, Value::Int(LEGACY_PROTOCOL)) {
        return Err("has an unknown version of PyTorch's old format".into());
    }
    let rest = &rest[protocol.length..];
    let machine = pickle::read(rest).map_err(|reason| format!("the description of the machine: {reason}"))?;
    Ok(&rest[machine.length..])
}

/// The list of keys, then for each storage its number of elements and the elements.
fn locate_legacy<'f>(
    bytes: &'f [u8],
    known: &HashMap<&str, (Dtype, usize)>,
) -> Result<HashMap<String, &'f [u8]>, String> {
    let keys = pickle::read(bytes).map_err(|reason| format!("the list of storages: {reason}"))?;
    let list = keys.heap.items(keys.root).ok_or("the list of storages is no list")?;
    let mut rest = &bytes[keys.length..];
    let mut located = HashMap::new();
    for &key in list {
        let Value::Str(key) = key else {
            return Err(format!("the list of storages holds {}", keys.heap.describe(key)));
        };
        let entry = quoted(key);
        let &(dtype, elements) = known
            .get(key)
            .ok_or_else(|| format!("storage {entry} belongs to no tensor"))?;
        let (count, values) = rest
            .split_first_chunk()
            .ok_or_else(|| format!("is truncated before storage {entry}"))?;
        if u64::from_le_bytes(*count) != elements as u64 {
            let count = u64::from_le_bytes(*count);
            return Err(format!(
                "storage {entry} has {count} elements, not the {elements} that the pickle says"
            ));
        }
        let length = elements
            .checked_mul(dtype.size())
            .filter(|&length| length <= values.len());
        let length = length.ok_or_else(|| format!("is truncated inside storage {entry} of {elements} elements"))?;
        let (data, after) = values.split_at(length);
        located.insert(key.to_owned(), data);
        rest = after;
    }
    Ok(located)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

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
            key: "0",
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

    #[test]
    fn a_storage_is_held_only_as_far_as_its_tensors_reach() {
        let bytes = archive(1 << 20);
        let mut storages = Storages::Zip(Archive::open(&bytes).unwrap());
        let tensors = [tensor(1 << 20, &[2, 3], &[3, 1]), tensor(1 << 20, &[4], &[5])];
        let values = storages.values(&tensors).unwrap();
        assert_eq!((values[0].len(), values[1].len()), (6, 4));
        let Storages::Zip(archive) = storages else {
            unreachable!()
        };
        // 3·5 + 1 elements of the second tensor.
        assert_eq!(archive.last.unwrap().1.capacity(), 64);
    }

    #[test]
    fn tensors_spread_over_a_huge_storage_are_refused_with_the_limit() {
        let bytes = archive(1 << 20);
        let mut storages = Storages::Zip(Archive::open(&bytes).unwrap());
        let reason = storages.values(&[tensor(1 << 20, &[2], &[1_000_000])]).unwrap_err();
        assert!(reason.contains("`w`") && reason.contains("64 times"), "{reason}");
    }

    #[test]
    fn a_storage_of_another_length_than_the_pickle_says_is_refused_unread() {
        let mut bytes = archive(1 << 20);
        let at = bytes.windows(8).position(|name| name == b"a/data/0").unwrap();
        // Damaged as well: who reads it complains of that.
        bytes[at + 20] ^= 1;
        let mut storages = Storages::Zip(Archive::open(&bytes).unwrap());
        let reason = storages.values(&[tensor(6, &[6], &[1])]).unwrap_err();
        assert!(reason.contains("4194304 bytes, not the 6 elements"), "{reason}");
        let reason = storages.values(&[tensor(1 << 20, &[6], &[1])]).unwrap_err();
        assert!(reason.contains("damaged"), "{reason}");
    }
}
