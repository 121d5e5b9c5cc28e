//! The older container: a magic number, a version and the machine's properties, a pickle each; the object; the list of its storages,
//! and their bytes. A storage that is pickled alone is such a file, too.

use std::collections::HashMap;

use super::container::consistent;
use super::pickle::{self, Pickle};
use super::value::{Dtype, Node, Place, Storage, Value};
use crate::files::quoted;

/// 0x1950a86a20f9469cfc6c, little-endian.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
const PROTOCOL: i64 = 1001;

pub(super) const NEITHER: &str = "is no PyTorch checkpoint: neither a zip archive nor the older row of pickles";

/// How its pickles are read: with which limits.
type Read = for<'a> fn(&'a [u8]) -> Result<Pickle<'a>, String>;

/// What follows the magic number, the protocol's version and the machine's properties.
pub(super) fn skip_preamble(bytes: &[u8], read: Read) -> Result<&[u8], String> {
    let magic = read(bytes).map_err(|_| NEITHER)?;
    if !matches!(magic.root, Value::Long(number) if number == MAGIC) {
        return Err(NEITHER.into());
    }
    let rest = &bytes[magic.length..];
    let protocol = read(rest).map_err(|reason| format!("the version of the file: {reason}"))?;
    if !matches!(protocol.root, Value::Int(PROTOCOL)) {
        return Err("has an unknown version of PyTorch's old format".into());
    }
    let rest = &rest[protocol.length..];
    let machine = read(rest).map_err(|reason| format!("the description of the machine: {reason}"))?;
    Ok(&rest[machine.length..])
}

/// The list of keys, then for each storage its number of elements and the elements.
pub(super) fn locate<'f>(
    bytes: &'f [u8],
    known: &HashMap<&str, (Dtype, usize)>,
    read: Read,
) -> Result<HashMap<String, &'f [u8]>, String> {
    let keys = read(bytes).map_err(|reason| format!("the list of storages: {reason}"))?;
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

/// The storage that a file of its own holds: what `torch.storage._load_from_bytes` is given. None inside another is read.
pub(super) fn storage(blob: &[u8]) -> Result<Storage<'_>, String> {
    let rest = skip_preamble(blob, pickle::read_of_storage)?;
    let object = pickle::read_of_storage(rest)?;
    let (Some(&Node::Storage(storage)), known) = (object.heap.node(object.root), consistent(&object.heap)?) else {
        return Err(format!("is {}", object.heap.describe(object.root)));
    };
    let Place::Key(key) = storage.place else {
        unreachable!("a pickle of a storage makes no other")
    };
    let located = locate(&rest[object.length..], &known, pickle::read_of_storage)?;
    let bytes = located.get(key).ok_or("has no bytes")?;
    Ok(Storage {
        place: Place::Inline(bytes),
        ..storage
    })
}
