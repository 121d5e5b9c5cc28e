//! The files that hold weights of PyTorch: the two that `torch.save` writes, a zip archive (PyTorch 1.6 and later) and a row of pickles
//! (before), and a bare pickle.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{Cursor, Read};

use zip::ZipArchive;

use super::legacy;
use super::pickle::{self, Pickle};
use super::value::{Dtype, Heap, Place, Storage, Value};
use crate::files::{MAX_INFLATED, MAX_INFLATION, quoted, reserve};

/// The longest pickle that is read out of an archive; NCSNv2's take some 100 KB.
const MAX_PICKLE: u64 = 64 << 20;

/// Which of them a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// An archive with a pickle and one entry per storage.
    Zip,
    /// Pickles one after the other, then the storages.
    Legacy,
    /// One pickle that holds its storages, as EDM's.
    Pickle,
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
    Nothing,
}

/// Where the numbers are.
pub(crate) enum Storages<'f> {
    Zip(Archive<'f>),
    /// The bytes of each storage by key.
    Legacy(HashMap<String, &'f [u8]>),
    /// All of them in the pickle
    Inline,
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
    if bytes.get(257..262) == Some(b"ustar") {
        return Err("is a tar archive: unpack it first, or load and save it again with a newer PyTorch".into());
    }
    let (container, object, rest) = if is_bare(bytes)? {
        (Container::Pickle, bytes, Rest::Nothing)
    } else {
        let rest = legacy::skip_preamble(bytes, pickle::read)?;
        (Container::Legacy, rest, Rest::Legacy(rest))
    };
    let object = SavedObject {
        container,
        bytes: Cow::Borrowed(object),
        name: "the saved object".into(),
    };
    Ok((object, rest))
}

/// Whether a file is one pickle of something with parts: not the number that the older container begins with.
fn is_bare(bytes: &[u8]) -> Result<bool, String> {
    let is_pickle = matches!(bytes, [0x80, 2..=5, ..]);
    match pickle::read(bytes) {
        Ok(first) => Ok(matches!(first.root, Value::Node(_))),
        Err(reason) if is_pickle => Err(format!("is a pickle that cannot be read: {reason}")),
        Err(_) => Err(legacy::NEITHER.into()),
    }
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
            Self::Legacy(rest) => legacy::locate(&rest[object.length..], &known, pickle::read).map(Storages::Legacy),
            Self::Nothing => Ok(Storages::Inline),
        }
    }
}

/// Type and number of elements of each storage outside the pickle that the object refers to.
pub(super) fn consistent<'a>(heap: &Heap<'a>) -> Result<HashMap<&'a str, (Dtype, usize)>, String> {
    let mut known = HashMap::new();
    for &Storage {
        place, dtype, elements, ..
    } in heap.storages()
    {
        let Place::Key(key) = place else { continue };
        if *known.entry(key).or_insert((dtype, elements)) != (dtype, elements) {
            return Err(format!("storage {} is described in two ways", quoted(key)));
        }
    }
    Ok(known)
}

/// The zip archive, with the folder that all of its entries share.
pub(crate) struct Archive<'f> {
    zip: ZipArchive<Cursor<&'f [u8]>>,
    /// Of the whole file.
    length: u64,
    folder: String,
    pub(super) big_endian: bool,
    inflated: u64,
    /// Entries that count in it: one may be read again
    counted: HashSet<String>,
    /// What is needed of the storage read last: the tensors of a flattened network all lie in one.
    pub(super) last: Option<(String, Vec<u8>)>,
}

impl<'f> Archive<'f> {
    pub(super) fn open(bytes: &'f [u8]) -> Result<Self, String> {
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
            counted: HashSet::new(),
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
        if self.counted.insert(name.to_owned()) {
            self.inflated = self.inflated.saturating_add(claimed);
        }
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

    pub(super) fn storage_length(&mut self, key: &str) -> Result<u64, String> {
        let name = self.name(&format!("data/{key}"));
        self.length_of(&name)
    }

    /// The first `reach` bytes of a storage, which must not be more than it has.
    pub(super) fn storage(&mut self, key: &str, reach: usize) -> Result<&[u8], String> {
        if self.last.as_ref().is_none_or(|(last, _)| last != key) {
            let name = self.name(&format!("data/{key}"));
            self.last = None;
            self.last = Some((key.to_owned(), self.read_start(&name, reach)?));
        }
        Ok(self.last.as_ref().map_or(&[], |(_, bytes)| bytes))
    }
}
