//! What the names in a checkpoint's pickle stand for.
//!
//! A handful of functions have a meaning here, all of them PyTorch's ways to describe tensors. A few more are known
//! not to matter and leave an [`Node::Opaque`] behind. Any other call is refused by name: no checkpoint of weights
//! needs it, and a file that would run commands under `torch.load` should not pass for a good one.

use super::value::{Dtype, Global, Heap, Node, Place, Storage, Strided, Value};
use super::{legacy, pickle};

/// Modules whose functions may be called in a checkpoint without mattering to the weights.
const IGNORED_MODULES: &[&str] = &[
    "torch._utils",
    "torch._tensor",
    "torch.serialization",
    "numpy.core.multiarray",
    "numpy._core.multiarray",
    "collections",
    "datetime",
    "pathlib",
];

/// Further functions of that kind.
const IGNORED_FUNCTIONS: &[(&str, &[&str])] = &[
    ("torch", &["device", "Generator", "Tensor"]),
    ("numpy", &["dtype", "ndarray"]),
    ("_codecs", &["encode"]),
    ("builtins", BUILTIN_TYPES),
    ("__builtin__", BUILTIN_TYPES),
];

const BUILTIN_TYPES: &[&str] = &[
    "bool",
    "bytearray",
    "bytes",
    "complex",
    "float",
    "frozenset",
    "int",
    "list",
    "long",
    "object",
    "range",
    "set",
    "slice",
    "str",
    "tuple",
    "unicode",
];

/// The result of calling `function` with the tuple `arguments`.
pub(super) fn call<'a>(heap: &mut Heap<'a>, function: Value<'a>, arguments: Value<'a>) -> Result<Value<'a>, String> {
    let Value::Global(function) = function else {
        return Err(format!("the pickle calls {}", heap.describe(function)));
    };
    let items = copy_items(heap, arguments)?
        .ok_or_else(|| format!("{function} is called with {}", heap.describe(arguments)))?;
    match (function.module, function.name) {
        // The plain tensor is built as usual; its Python attributes are left out.
        ("torch._tensor", "_rebuild_from_type_v2") => match items[..] {
            [Value::Global(inner), _, arguments, _] if inner != function => call(heap, Value::Global(inner), arguments),
            _ => Err(format!("{function} is called with unknown arguments")),
        },
        _ => call_simple(heap, function, &items),
    }
}

fn call_simple<'a>(heap: &mut Heap<'a>, function: Global<'a>, items: &[Value<'a>]) -> Result<Value<'a>, String> {
    match (function.module, function.name) {
        ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => rebuild_tensor(heap, function, items, None),
        ("torch._utils", "_rebuild_tensor_v3") => {
            let Some(&Value::Global(dtype)) = items.get(6) else {
                return Err(format!("{function} is called without a type of number"));
            };
            rebuild_tensor(heap, function, items, Some(dtype))
        }
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") | ("torch", "Size") => items
            .first()
            .copied()
            .ok_or_else(|| format!("{function} is called without arguments")),
        ("collections", "OrderedDict") | ("builtins" | "__builtin__", "dict") => {
            let entries = match items {
                [] => Vec::new(),
                [list, ..] => pairs(heap, *list)?.ok_or_else(|| format!("{function} is not given pairs"))?,
            };
            Ok(heap.push(Node::Dict(entries)))
        }
        ("collections", "defaultdict") => Ok(heap.push(Node::Dict(Vec::new()))),
        // A storage as a file of its own: how it is pickled without torch.save.
        ("torch.storage", "_load_from_bytes") => match items {
            _ if heap.is_storage => Err("a storage holds another".into()),
            &[Value::Bytes(blob)] => {
                heap.charge(pickle::MAX_STORAGE_STEPS)?;
                let storage = legacy::storage(blob).map_err(|reason| format!("a storage: {reason}"))?;
                Ok(heap.push(Node::Storage(storage)))
            }
            _ => Err(format!("{function} is not given bytes")),
        },
        // An object of EDM and its kin that carries the source of its class, which is not looked at.
        ("torch_utils.persistence", "_reconstruct_persistent_obj") => persistent_object(heap, function, items),
        ("copyreg" | "copy_reg", "_reconstructor") => {
            let class = items
                .first()
                .ok_or_else(|| format!("{function} is called without a class"))?;
            instance(heap, *class)
        }
        _ if is_ignored(function) => Ok(heap.push(Node::Opaque(function))),
        _ => Err(format!(
            "the pickle calls {function}, which no checkpoint of weights needs; nothing was executed, and such a file \
             should not be opened with torch.load either"
        )),
    }
}

fn copy_items<'a>(heap: &mut Heap<'a>, list: Value<'a>) -> Result<Option<Vec<Value<'a>>>, String> {
    let length = heap.items(list).map_or(0, <[_]>::len);
    heap.charge(length)?;
    Ok(heap.items(list).map(<[_]>::to_vec))
}

fn is_ignored(function: Global<'_>) -> bool {
    let named = |(module, names): &(&str, &[&str])| *module == function.module && names.contains(&function.name);
    IGNORED_MODULES.contains(&function.module) || IGNORED_FUNCTIONS.iter().any(named)
}

/// The entries of a dict given as a sequence of pairs, as Python 2 pickles an OrderedDict.
fn pairs<'a>(heap: &mut Heap<'a>, list: Value<'a>) -> Result<Option<Vec<(Value<'a>, Value<'a>)>>, String> {
    let items = copy_items(heap, list)?;
    let pair = |item: Value<'a>| match heap.items(item)? {
        &[key, value] => Some((key, value)),
        _ => None,
    };
    Ok(items.and_then(|items| items.into_iter().map(pair).collect()))
}

/// {type: 'class', class_name, state, …}
fn persistent_object<'a>(heap: &mut Heap<'a>, function: Global<'a>, items: &[Value<'a>]) -> Result<Value<'a>, String> {
    let part = |name: &str| items.first().and_then(|&meta| heap.get(meta, name));
    match (part("type"), part("class_name"), part("state")) {
        (Some(Value::Str("class")), Some(Value::Str(name)), Some(state)) => {
            let class = Global {
                module: function.module,
                name,
            };
            let state = Some(state);
            Ok(heap.push(Node::Object { class, state }))
        }
        _ => Err(format!("{function} is given no class with its name and state")),
    }
}

/// An object of `class`, as yet without attributes.
pub(super) fn instance<'a>(heap: &mut Heap<'a>, class: Value<'a>) -> Result<Value<'a>, String> {
    let Value::Global(class) = class else {
        return Err(format!("the pickle makes an instance of {}", heap.describe(class)));
    };
    Ok(heap.push(match (class.module, class.name) {
        ("collections", "OrderedDict") => Node::Dict(Vec::new()),
        _ => Node::Object { class, state: None },
    }))
}

/// Sets an object's attributes; those of a dict (a state dict's `_metadata`) do not matter.
pub(super) fn set_state<'a>(heap: &mut Heap<'a>, object: Value<'a>, new: Value<'a>) -> Result<(), String> {
    match heap.node_mut(object) {
        Some(Node::Object { state, .. }) => *state = Some(new),
        Some(Node::Dict(_) | Node::Opaque(_)) => {}
        _ => return Err(format!("the pickle sets attributes of {}", heap.describe(object))),
    }
    Ok(())
}

/// What PyTorch keeps outside the pickle: a storage, or, in old files, the source of a class.
///
/// ('storage', type, key, location, elements[, None or (view key, first element, elements)]) or ('module', class, …).
pub(super) fn load_persistent<'a>(heap: &mut Heap<'a>, id: Value<'a>) -> Result<Value<'a>, String> {
    let storage = match heap.items(id) {
        Some(&[Value::Str("module"), class @ Value::Global(_), ..]) => return Ok(class),
        Some(
            &[
                Value::Str("storage"),
                Value::Global(class),
                Value::Str(key),
                _,
                Value::Int(elements),
                ref view @ ..,
            ],
        ) => {
            let dtype = storage_dtype(class).ok_or_else(|| format!("{class} is no known type of storage"))?;
            let elements = size(elements)?;
            let (first, length) = match *view {
                [] | [Value::None] => (0, elements),
                [view] => match heap.items(view) {
                    Some(&[_, Value::Int(first), Value::Int(length)]) => (size(first)?, size(length)?),
                    _ => return Err(format!("the view of storage `{key}` is {}", heap.describe(view))),
                },
                _ => return Err("a storage is described by too many values".into()),
            };
            if first.checked_add(length).is_none_or(|end| end > elements) {
                return Err("a view of a storage exceeds it".into());
            }
            Storage {
                place: Place::Key(key),
                dtype,
                elements,
                first,
                length,
            }
        }
        _ => return Err("a persistent id is neither a storage nor a module".into()),
    };
    Ok(heap.push(Node::Storage(storage)))
}

fn storage_dtype(class: Global<'_>) -> Option<Dtype> {
    if !matches!(class.module, "torch" | "torch.cuda" | "torch.storage") {
        return None;
    }
    Some(match class.name {
        "FloatStorage" => Dtype::F32,
        "DoubleStorage" => Dtype::F64,
        "HalfStorage" => Dtype::F16,
        "BFloat16Storage" => Dtype::BF16,
        "LongStorage" | "ComplexFloatStorage" => Dtype::Other(8),
        "IntStorage" | "QInt32Storage" => Dtype::Other(4),
        "ShortStorage" => Dtype::Other(2),
        "ComplexDoubleStorage" => Dtype::Other(16),
        "CharStorage" | "ByteStorage" | "BoolStorage" | "QInt8Storage" | "QUInt8Storage" | "QUInt4x2Storage"
        | "QUInt2x4Storage" | "UntypedStorage" | "_UntypedStorage" => Dtype::Other(1),
        _ => return None,
    })
}

/// (storage, offset, shape, strides, …); a storage of bytes gets its type from `dtype`.
fn rebuild_tensor<'a>(
    heap: &mut Heap<'a>,
    function: Global<'a>,
    items: &[Value<'a>],
    dtype: Option<Global<'a>>,
) -> Result<Value<'a>, String> {
    let &[storage, Value::Int(offset), shape, strides, ..] = items else {
        return Err(format!("{function} is called with unknown arguments"));
    };
    let Some(&Node::Storage(storage)) = heap.node(storage) else {
        return Err(format!("{function} is given {}, not a storage", heap.describe(storage)));
    };
    let (shape, strides) = (sizes(heap, shape)?, sizes(heap, strides)?);
    if shape.len() != strides.len() {
        return Err(format!(
            "a tensor has {} sides, but {} strides",
            shape.len(),
            strides.len()
        ));
    }
    let dtype = match dtype.map(|global| global.name) {
        None => storage.dtype,
        Some("float32") => Dtype::F32,
        Some("float64") => Dtype::F64,
        Some("float16") => Dtype::F16,
        Some("bfloat16") => Dtype::BF16,
        Some(_) => Dtype::Other(1),
    };
    Ok(heap.push(Node::Tensor(Box::new(Strided {
        storage,
        dtype,
        offset: size(offset)?,
        shape,
        strides,
    }))))
}

fn sizes<'a>(heap: &mut Heap<'a>, value: Value<'a>) -> Result<Vec<usize>, String> {
    let items = copy_items(heap, value)?.ok_or_else(|| format!("a shape is {}", heap.describe(value)))?;
    let side = |item: Value<'a>| match item {
        Value::Int(side) => size(side),
        other => Err(format!("a side of a shape is {}", heap.describe(other))),
    };
    items.into_iter().map(side).collect()
}

fn size(value: i64) -> Result<usize, String> {
    usize::try_from(value).map_err(|_| format!("{value} is no size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordered_dict_of_python_2_and_a_default_dict_are_dicts() {
        let python_2 = b"\x80\x02ccollections\nOrderedDict\n](]q\x01(U\x01aK\x07ee\x85R.";
        let pickle = pickle::read(python_2).unwrap();
        assert!(matches!(pickle.heap.get(pickle.root, "a"), Some(Value::Int(7))));
        let default = b"\x80\x02ccollections\ndefaultdict\nc__builtin__\ndict\n\x85R(X\x01\0\0\0aK\x07u.";
        let pickle = pickle::read(default).unwrap();
        assert!(matches!(pickle.heap.get(pickle.root, "a"), Some(Value::Int(7))));
    }

    #[test]
    fn a_view_of_a_storage_keeps_its_place_and_must_lie_inside() {
        let id = |view: &[u8]| {
            let start = b"\x80\x02(U\x07storagectorch\nDoubleStorage\nU\x01kU\x03cpuK\x0a";
            [&start[..], view, b"tQ."].concat()
        };
        for (view, expected) in [(&b"N"[..], (0, 10)), (b"U\x01vK\x02K\x03\x87", (2, 3))] {
            let bytes = id(view);
            let pickle = pickle::read(&bytes).unwrap();
            let storage = pickle.heap.storages().next().unwrap();
            assert!(matches!(storage.place, Place::Key("k")));
            assert_eq!((storage.dtype, storage.elements), (Dtype::F64, 10));
            assert_eq!((storage.first, storage.length), expected);
        }
        assert!(pickle::read(&id(b"U\x01vK\x02K\x09\x87")).is_err());
        assert!(pickle::read(&id(b"K\x01")).is_err());
    }

    #[test]
    fn an_object_keeps_its_attributes_and_a_dict_does_not_take_any() {
        let object = b"\x80\x02ccopyreg\n_reconstructor\ncm\nC\nc__builtin__\nobject\nN\x87R}U\x01aK\x07sb.";
        let pickle = pickle::read(object).unwrap();
        assert!(matches!(pickle.heap.get(pickle.root, "a"), Some(Value::Int(7))));
        let dict = pickle::read(b"\x80\x02}}U\x01aK\x07sb.").unwrap();
        assert!(dict.heap.get(dict.root, "a").is_none());
        assert!(pickle::read(b"\x80\x02]}b.").is_err());
    }

    #[test]
    fn a_tensor_of_an_untyped_storage_gets_the_named_type() {
        let bytes = b"\x80\x02ctorch._utils\n_rebuild_tensor_v3\n((U\x07storagectorch.storage\nUntypedStorage\nU\x01k\
            U\x03cpuK\x08tQK\x01K\x03\x85K\x01\x85\x89Nctorch\nbfloat16\ntR.";
        let pickle = pickle::read(bytes).unwrap();
        let tensor = pickle.heap.tensor(pickle.root).unwrap();
        assert_eq!((tensor.dtype, tensor.offset), (Dtype::BF16, 1));
        let storage: Vec<u8> = [9.0, 1.0, 2.0, 3.0]
            .into_iter()
            .flat_map(|v| half::bf16::from_f32(v).to_le_bytes())
            .collect();
        assert_eq!(tensor.values_in(&storage, false).unwrap(), [1.0, 2.0, 3.0]);
    }
}
