//! What a pickle describes, as inert data: none of it was ever a Python object.

use crate::files::quoted;

/// One value; of those that cannot matter to weights, only the kind is kept.
///
/// Containers live in the [`Heap`] and are referred to by index: a value is `Copy`, a cycle costs nothing, and a nest
/// a million deep is dropped without recursion.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    None,
    Bool,
    Int(i64),
    /// An integer beyond 64 bits, as little-endian two's complement.
    Long(&'a [u8]),
    Float(f64),
    Str(&'a str),
    Bytes(&'a [u8]),
    Global(Global<'a>),
    Node(Id),
}

/// A place in the [`Heap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(u32);

/// The name of a Python class or function; a name only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Global<'a> {
    pub module: &'a str,
    pub name: &'a str,
}

/// A value with parts.
#[derive(Debug)]
pub(crate) enum Node<'a> {
    Tuple(Vec<Value<'a>>),
    /// A list or a set.
    List(Vec<Value<'a>>),
    Dict(Vec<(Value<'a>, Value<'a>)>),
    /// An instance of some class and what its attributes were set from.
    Object {
        class: Global<'a>,
        state: Option<Value<'a>>,
    },
    /// What a function of no interest here would have returned.
    Opaque(Global<'a>),
    Storage(Storage<'a>),
    /// Boxed: a hostile pickle makes a million nodes, and all would be as large as the largest.
    Tensor(Box<Strided<'a>>),
}

/// A block of numbers, or a part of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Storage<'a> {
    pub place: Place<'a>,
    pub dtype: Dtype,
    /// Elements of the whole block.
    pub elements: usize,
    /// Where the part begins, in elements; 0 for the whole block.
    pub first: usize,
    /// Elements of the part.
    pub length: usize,
}

/// Where the bytes of a storage are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// Outside the pickle, under this key
    Key(&'a str),
    /// In the pickle
    Inline(&'a [u8]),
}

/// A strided view of a storage.
#[derive(Clone, Debug)]
pub(crate) struct Strided<'a> {
    pub storage: Storage<'a>,
    pub dtype: Dtype,
    /// In elements of `dtype` from the storage's first one.
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

/// A type of number, as far as weights need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dtype {
    F16,
    BF16,
    F32,
    F64,
    /// Integers, booleans, complex numbers and the rest: of this many bytes, to be skipped.
    Other(u8),
}

impl Dtype {
    pub fn size(self) -> usize {
        match self {
            Self::F16 | Self::BF16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
            Self::Other(size) => usize::from(size),
        }
    }
}

/// Every value with parts that a pickle made.
#[derive(Debug, Default)]
pub(crate) struct Heap<'a> {
    nodes: Vec<Node<'a>>,
    copied: usize,
    /// Whether the pickle is that of a storage alone
    pub is_storage: bool,
}

/// Items that may be copied from container to container in all. A pickle of a few bytes can name the same long list
/// again and again, so that copies, unlike everything else, are not bounded by the number of its instructions.
const MAX_COPIED: usize = 1 << 20;

impl<'a> Heap<'a> {
    pub fn of_storage() -> Self {
        Self {
            is_storage: true,
            ..Self::default()
        }
    }

    pub fn push(&mut self, node: Node<'a>) -> Value<'a> {
        // The unpickler stops long before 2³² steps, and a step makes one node at most.
        self.nodes.push(node);
        Value::Node(Id(self.nodes.len() as u32 - 1))
    }

    /// Accounts for a copy of `items` items, before it is made.
    pub fn charge(&mut self, items: usize) -> Result<(), String> {
        self.copied = self.copied.saturating_add(items);
        if self.copied > MAX_COPIED {
            return Err("the pickle repeats a long list over and over: no checkpoint of weights".into());
        }
        Ok(())
    }

    pub fn node(&self, value: Value<'a>) -> Option<&Node<'a>> {
        match value {
            Value::Node(Id(id)) => Some(&self.nodes[id as usize]),
            _ => None,
        }
    }

    pub fn node_mut(&mut self, value: Value<'a>) -> Option<&mut Node<'a>> {
        match value {
            Value::Node(Id(id)) => Some(&mut self.nodes[id as usize]),
            _ => None,
        }
    }

    /// The items of a tuple or a list.
    pub fn items(&self, value: Value<'a>) -> Option<&[Value<'a>]> {
        match self.node(value)? {
            Node::Tuple(items) | Node::List(items) => Some(items),
            _ => None,
        }
    }

    /// The entries of a dict, or the attributes of an object.
    pub fn entries(&self, value: Value<'a>) -> Option<&[(Value<'a>, Value<'a>)]> {
        match self.node(value)? {
            Node::Dict(entries) => Some(entries),
            Node::Object { state: Some(state), .. } => match self.node(*state)? {
                Node::Dict(entries) => Some(entries),
                _ => None,
            },
            _ => None,
        }
    }

    /// The entry of a dict, or the attribute of an object, called `name`.
    pub fn get(&self, value: Value<'a>, name: &str) -> Option<Value<'a>> {
        let named = |entry: &&(Value<'a>, Value<'a>)| matches!(entry.0, Value::Str(key) if key == name);
        self.entries(value)?.iter().rfind(named).map(|entry| entry.1)
    }

    pub fn tensor(&self, value: Value<'a>) -> Option<&Strided<'a>> {
        match self.node(value)? {
            Node::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    pub fn storages(&self) -> impl Iterator<Item = &Storage<'a>> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Storage(storage) => Some(storage),
            _ => None,
        })
    }

    /// What a value is, in words, for messages.
    pub fn describe(&self, value: Value<'a>) -> String {
        match value {
            Value::None => "None".into(),
            Value::Bool => "a bool".into(),
            Value::Int(_) | Value::Long(_) => "an int".into(),
            Value::Float(_) => "a float".into(),
            Value::Str(_) => "a string".into(),
            Value::Bytes(_) => "bytes".into(),
            Value::Global(global) => format!("the name {global}"),
            Value::Node(Id(id)) => match &self.nodes[id as usize] {
                Node::Tuple(items) => format!("a tuple of {}", items.len()),
                Node::List(items) => format!("a list of {}", items.len()),
                Node::Dict(entries) => format!("a dict of {}", entries.len()),
                Node::Object { class, .. } => format!("an object of class {class}"),
                Node::Opaque(global) => format!("a value made by {global}"),
                Node::Storage(_) => "a storage".into(),
                Node::Tensor(_) => "a tensor".into(),
            },
        }
    }
}

impl std::fmt::Display for Global<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&quoted(&format!("{}.{}", self.module, self.name)))
    }
}
