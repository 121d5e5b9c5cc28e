//! A restricted unpickler: Python's pickle language, protocols 2 to 5, without the part that calls Python.
//!
//! A pickle is a program for a stack machine. This one builds lists, dicts and tuples as usual; the instructions that
//! would import, call or build a Python object leave inert data behind ([`Value`]) or are refused by name (see
//! [`globals`]). Strings are borrowed from the pickle, so nothing is allocated on a length's word alone.

use std::collections::HashMap;

use super::globals;
use super::value::{Global, Heap, Node, Value};

/// Instructions in one pickle. A checkpoint of NCSNv2 has some 40,000; the limit keeps hostile ones below 200 MB.
const MAX_STEPS: usize = 1 << 20;

/// What a pickle describes.
pub(crate) struct Pickle<'a> {
    pub root: Value<'a>,
    pub heap: Heap<'a>,
    /// Bytes of the input that the pickle took.
    pub length: usize,
}

/// Runs the pickle at the beginning of `input`; the error is the reason in words.
pub(crate) fn read(input: &[u8]) -> Result<Pickle<'_>, String> {
    run(input, MAX_STEPS, Heap::default())
}

/// Instructions in each pickle of a storage alone: PyTorch writes some 40. The same bytes can be named again and again.
pub(super) const MAX_STORAGE_STEPS: usize = 128;

/// The same for one of the pickles of a storage alone, inside of which there is no other.
pub(super) fn read_of_storage(input: &[u8]) -> Result<Pickle<'_>, String> {
    run(input, MAX_STORAGE_STEPS, Heap::of_storage())
}

fn run<'a>(input: &'a [u8], steps: usize, heap: Heap<'a>) -> Result<Pickle<'a>, String> {
    let mut machine = Machine {
        input,
        at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        heap,
    };
    let mut start = 0;
    for _ in 0..steps {
        start = machine.at;
        match machine.step() {
            Ok(None) => {}
            Ok(Some(root)) => {
                return Ok(Pickle {
                    root,
                    heap: machine.heap,
                    length: machine.at,
                });
            }
            Err(reason) => return Err(format!("{reason} (byte {start} of the pickle)")),
        }
    }
    Err(format!(
        "the pickle has more than {steps} instructions (byte {start}): no checkpoint of weights"
    ))
}

struct Machine<'a> {
    input: &'a [u8],
    at: usize,
    stack: Vec<Value<'a>>,
    /// Lengths of the stack at which an open container began.
    marks: Vec<usize>,
    memo: HashMap<u32, Value<'a>>,
    heap: Heap<'a>,
}

impl<'a> Machine<'a> {
    /// Executes one instruction; the pickle's value if it was the last.
    fn step(&mut self) -> Result<Option<Value<'a>>, String> {
        let [opcode] = self.array()?;
        match opcode {
            b'.' => return self.pop().map(Some),
            0x80 => match self.array()? {
                [2..=5] => {}
                [version] => {
                    return Err(format!(
                        "pickle protocol {version} is not one torch.save writes (2 to 5)"
                    ));
                }
            },
            0x95 => {
                let length = self.length::<8>()?;
                if length > self.input.len() - self.at {
                    return Err(format!("a frame claims {length} bytes, more than there are"));
                }
            }

            b'N' => self.stack.push(Value::None),
            0x88 | 0x89 => self.stack.push(Value::Bool),
            b'J' => self.int(|m| m.array().map(|b| i64::from(i32::from_le_bytes(b))))?,
            b'K' => self.int(|m| m.array().map(|[b]| i64::from(b)))?,
            b'M' => self.int(|m| m.array().map(|b| i64::from(u16::from_le_bytes(b))))?,
            0x8a => self.long::<1>()?,
            0x8b => self.long::<4>()?,
            b'G' => {
                let value = f64::from_be_bytes(self.array()?);
                self.stack.push(Value::Float(value));
            }

            0x8c => self.text::<1>()?,
            b'X' => self.text::<4>()?,
            0x8d => self.text::<8>()?,
            // Python 2's strings; names are text in every checkpoint known.
            b'U' => self.string::<1>()?,
            b'T' => self.string::<4>()?,
            b'C' => self.bytes::<1>()?,
            b'B' => self.bytes::<4>()?,
            0x8e | 0x96 => self.bytes::<8>()?,

            b'(' => self.marks.push(self.stack.len()),
            b'0' => self.discard()?,
            b'1' => drop(self.pop_mark()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }

            b')' => self.make(Node::Tuple(Vec::new())),
            0x85 => self.tuple(1)?,
            0x86 => self.tuple(2)?,
            0x87 => self.tuple(3)?,
            b't' => {
                let items = self.pop_mark()?;
                self.make(Node::Tuple(items));
            }
            b']' | 0x8f => self.make(Node::List(Vec::new())),
            b'l' | 0x91 => {
                let items = self.pop_mark()?;
                self.make(Node::List(items));
            }
            b'a' => {
                let item = self.pop()?;
                self.append(vec![item])?;
            }
            b'e' | 0x90 => {
                let items = self.pop_mark()?;
                self.append(items)?;
            }
            b'}' => self.make(Node::Dict(Vec::new())),
            b'd' => {
                let items = self.pop_mark()?;
                self.make(Node::Dict(Vec::new()));
                self.set(items)?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(vec![key, value])?;
            }
            b'u' => {
                let items = self.pop_mark()?;
                self.set(items)?;
            }

            b'q' => {
                let [index] = self.array()?;
                self.put(u32::from(index))?;
            }
            b'r' => {
                let index = u32::from_le_bytes(self.array()?);
                self.put(index)?;
            }
            0x94 => self.put(self.memo.len() as u32)?,
            b'h' => {
                let [index] = self.array()?;
                self.get(u32::from(index))?;
            }
            b'j' => {
                let index = u32::from_le_bytes(self.array()?);
                self.get(index)?;
            }

            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.stack.push(Value::Global(Global { module, name }));
            }
            0x93 => match (self.pop()?, self.pop()?) {
                (Value::Str(name), Value::Str(module)) => self.stack.push(Value::Global(Global { module, name })),
                _ => return Err("a class is named by something that is no string".into()),
            },
            b'Q' => {
                let id = self.pop()?;
                let value = globals::load_persistent(&mut self.heap, id)?;
                self.stack.push(value);
            }
            b'R' => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                let value = globals::call(&mut self.heap, function, arguments)?;
                self.stack.push(value);
            }
            0x81 => {
                let (_arguments, class) = (self.pop()?, self.pop()?);
                let value = globals::instance(&mut self.heap, class)?;
                self.stack.push(value);
            }
            0x92 => {
                let (_keywords, _arguments, class) = (self.pop()?, self.pop()?, self.pop()?);
                let value = globals::instance(&mut self.heap, class)?;
                self.stack.push(value);
            }
            b'b' => {
                let state = self.pop()?;
                let object = self.top()?;
                globals::set_state(&mut self.heap, object, state)?;
            }
            other => {
                let shown = char::from(other).escape_default();
                return Err(format!(
                    "instruction 0x{other:02x} ('{shown}') is none that torch.save writes"
                ));
            }
        }
        Ok(None)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let rest = &self.input[self.at..];
        let taken = rest.get(..length).ok_or_else(|| {
            format!(
                "the pickle is truncated: {length} bytes are announced, {} are left",
                rest.len()
            )
        })?;
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("as many bytes as were taken"))
    }

    /// An unsigned length of `N` bytes.
    fn length<const N: usize>(&mut self) -> Result<usize, String> {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(&self.array::<N>()?);
        usize::try_from(u64::from_le_bytes(bytes)).map_err(|_| "a length exceeds the address space".into())
    }

    fn counted<const N: usize>(&mut self) -> Result<&'a [u8], String> {
        let length = self.length::<N>()?;
        self.take(length)
    }

    fn line(&mut self) -> Result<&'a str, String> {
        let rest = &self.input[self.at..];
        let end = rest
            .iter()
            .position(|&byte| byte == b'\n')
            .ok_or("the pickle is truncated inside a name")?;
        self.at += end + 1;
        std::str::from_utf8(&rest[..end]).map_err(|_| "a name is not UTF-8".into())
    }

    fn int(&mut self, read: impl FnOnce(&mut Self) -> Result<i64, String>) -> Result<(), String> {
        let value = Value::Int(read(self)?);
        self.stack.push(value);
        Ok(())
    }

    fn long<const N: usize>(&mut self) -> Result<(), String> {
        let bytes = self.counted::<N>()?;
        self.stack.push(if bytes.len() <= 8 {
            let negative = bytes.last().is_some_and(|&byte| byte >= 0x80);
            let mut wide = [if negative { 0xff } else { 0 }; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            Value::Int(i64::from_le_bytes(wide))
        } else {
            Value::Long(bytes)
        });
        Ok(())
    }

    fn text<const N: usize>(&mut self) -> Result<(), String> {
        let text = std::str::from_utf8(self.counted::<N>()?).map_err(|_| "a string is not UTF-8")?;
        self.stack.push(Value::Str(text));
        Ok(())
    }

    fn string<const N: usize>(&mut self) -> Result<(), String> {
        let bytes = self.counted::<N>()?;
        self.stack
            .push(std::str::from_utf8(bytes).map_or(Value::Bytes(bytes), Value::Str));
        Ok(())
    }

    fn bytes<const N: usize>(&mut self) -> Result<(), String> {
        let bytes = self.counted::<N>()?;
        self.stack.push(Value::Bytes(bytes));
        Ok(())
    }

    /// How much of the stack lies below the innermost open container.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Value<'a>, String> {
        match self.stack.last() {
            Some(&value) if self.stack.len() > self.floor() => Ok(value),
            _ => Err("an instruction finds the stack empty".into()),
        }
    }

    fn pop(&mut self) -> Result<Value<'a>, String> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Drops the top of the stack, which may be a mark.
    fn discard(&mut self) -> Result<(), String> {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop().map(drop)
    }

    fn pop_mark(&mut self) -> Result<Vec<Value<'a>>, String> {
        let mark = self.marks.pop().ok_or("a container is closed that was never opened")?;
        Ok(self.stack.split_off(mark))
    }

    fn make(&mut self, node: Node<'a>) {
        let value = self.heap.push(node);
        self.stack.push(value);
    }

    fn tuple(&mut self, length: usize) -> Result<(), String> {
        let mut items = Vec::with_capacity(length);
        for _ in 0..length {
            items.push(self.pop()?);
        }
        items.reverse();
        self.make(Node::Tuple(items));
        Ok(())
    }

    fn append(&mut self, new: Vec<Value<'a>>) -> Result<(), String> {
        let list = self.top()?;
        match self.heap.node_mut(list) {
            Some(Node::List(items)) => items.extend(new),
            // Some classes are pickled as lists of their items; what they hold is of no interest.
            Some(Node::Object { .. } | Node::Opaque(_)) => {}
            _ => return Err(format!("items are appended to {}", self.heap.describe(list))),
        }
        Ok(())
    }

    /// Enters keys and values, which alternate.
    fn set(&mut self, new: Vec<Value<'a>>) -> Result<(), String> {
        let (pairs, []) = new.as_chunks::<2>() else {
            return Err("a dict's last key has no value".into());
        };
        let dict = self.top()?;
        match self.heap.node_mut(dict) {
            Some(Node::Dict(entries)) => entries.extend(pairs.iter().map(|&[key, value]| (key, value))),
            Some(Node::Object { .. } | Node::Opaque(_)) => {}
            _ => return Err(format!("entries are set in {}", self.heap.describe(dict))),
        }
        Ok(())
    }

    fn put(&mut self, index: u32) -> Result<(), String> {
        let top = self.top()?;
        self.memo.insert(index, top);
        Ok(())
    }

    fn get(&mut self, index: u32) -> Result<(), String> {
        let value = *self
            .memo
            .get(&index)
            .ok_or_else(|| format!("value {index} is used before it is made"))?;
        self.stack.push(value);
        Ok(())
    }
}
