//! The header of an `.npy` array: a Python dict literal behind a magic string, parsed without trust.

use std::io::Read;

/// Everything before the first value of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub dtype: Dtype,
    pub fortran_order: bool,
    pub shape: Vec<usize>,
    /// Bytes from the start of the file to the first value.
    pub length: usize,
}

/// The letter and size of NumPy's type string (`f4`, `u1`, `b1`, …) and its byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dtype {
    pub kind: char,
    pub size: usize,
    pub big_endian: bool,
}

impl Dtype {
    /// `u1`.
    pub const BYTE: Self = Self {
        kind: 'u',
        size: 1,
        big_endian: false,
    };

    /// Whether these are integers that are no bytes of a picture.
    pub fn is_other_integer(self) -> bool {
        self.kind == 'i' || (self.kind == 'u' && self.size > 1)
    }
}

/// NumPy's name of the type: `int8`, `float32`, `bool`.
impl std::fmt::Display for Dtype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bits = 8 * self.size;
        match self.kind {
            'b' => f.write_str("bool"),
            'u' => write!(f, "uint{bits}"),
            'i' => write!(f, "int{bits}"),
            _ => write!(f, "float{bits}"),
        }
    }
}

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longer headers belong to structured types, which are refused anyway; NumPy itself stops at 10,000.
const MAX_HEADER: usize = 1 << 16;
/// NumPy starts the values at a multiple of this.
const ALIGNMENT: usize = 64;
/// NumPy leaves room for the first dimension to grow to this many digits.
const GROWTH_DIGITS: usize = 21;

impl Header {
    /// Reads up to the first value; the error is the reason in words.
    pub fn read(reader: &mut impl Read) -> Result<Self, String> {
        let mut start = [0; 8];
        fill(reader, &mut start)?;
        if &start[..6] != MAGIC {
            return Err("is not an .npy array (its first bytes are not \\x93NUMPY)".into());
        }
        let (text_length, prefix) = match start[6] {
            1 => {
                let mut bytes = [0; 2];
                fill(reader, &mut bytes)?;
                (u16::from_le_bytes(bytes) as usize, 10)
            }
            2 | 3 => {
                let mut bytes = [0; 4];
                fill(reader, &mut bytes)?;
                (u32::from_le_bytes(bytes) as usize, 12)
            }
            version => return Err(format!("has the unknown .npy version {version}")),
        };
        if text_length > MAX_HEADER {
            return Err(format!(
                "has an .npy header of {text_length} bytes; the limit is {MAX_HEADER}"
            ));
        }
        let mut text = vec![0; text_length];
        fill(reader, &mut text)?;
        let text = String::from_utf8(text).map_err(|_| "has an .npy header that is not text")?;
        let length = prefix + text_length;
        Parser(&text).header(length)
    }

    /// The number of values, if it can be counted at all.
    pub fn count(&self) -> Result<usize, String> {
        self.shape
            .iter()
            .try_fold(1usize, |product, &side| product.checked_mul(side))
            .filter(|count| count.checked_mul(self.dtype.size).is_some())
            .ok_or_else(|| format!("claims the impossible shape {}", shape_text(&self.shape)))
    }

    /// The bytes NumPy writes before a C-ordered array of type `descr`.
    pub fn bytes(descr: &str, shape: &[usize]) -> Vec<u8> {
        let shape_text = shape_text(shape);
        let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape_text}, }}");
        if let Some(first) = shape.first() {
            let digits = first.to_string().len();
            text.extend(std::iter::repeat_n(' ', GROWTH_DIGITS - digits));
        }
        // NumPy pads by a whole block where the header is aligned already.
        let unpadded = MAGIC.len() + 4 + text.len() + 1;
        text.extend(std::iter::repeat_n(' ', ALIGNMENT - unpadded % ALIGNMENT));
        text.push('\n');
        // The length fits version 1's u16 for any array of fewer than about 3,000 dimensions.
        let length = u16::try_from(text.len()).expect("an array has few dimensions");
        [MAGIC.as_slice(), &[1, 0], &length.to_le_bytes(), text.as_bytes()].concat()
    }
}

/// A shape as Python writes a tuple: `()`, `(3,)`, `(3, 4)`.
pub(super) fn shape_text(shape: &[usize]) -> String {
    let sides: Vec<String> = shape.iter().map(usize::to_string).collect();
    match sides.as_slice() {
        [side] => format!("({side},)"),
        sides => format!("({})", sides.join(", ")),
    }
}

fn fill(reader: &mut impl Read, bytes: &mut [u8]) -> Result<(), String> {
    reader.read_exact(bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "is truncated inside the .npy header".into(),
        _ => format!("cannot be read: {error}"),
    })
}

/// What is left to parse of the dict literal.
struct Parser<'a>(&'a str);

impl<'a> Parser<'a> {
    fn header(mut self, length: usize) -> Result<Header, String> {
        let (mut dtype, mut fortran_order, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.take('}') {
            let key = self.string()?;
            self.expect(':')?;
            match key {
                "descr" => dtype = Some(self.dtype()?),
                "fortran_order" => fortran_order = Some(self.boolean()?),
                "shape" => shape = Some(self.tuple()?),
                _ => return Err(format!("has the unknown key {key:?} in its .npy header")),
            }
            if !self.take(',') {
                self.expect('}')?;
                break;
            }
        }
        match (dtype, fortran_order, shape) {
            (Some(dtype), Some(fortran_order), Some(shape)) => Ok(Header {
                dtype,
                fortran_order,
                shape,
                length,
            }),
            _ => Err("lacks descr, fortran_order or shape in its .npy header".into()),
        }
    }

    fn dtype(&mut self) -> Result<Dtype, String> {
        if self.0.trim_start().starts_with(['[', '(']) {
            return Err("holds a structured array; save one plain array of numbers".into());
        }
        let text = self.string()?;
        let (order, code) = match text.chars().next() {
            Some(order @ ('<' | '>' | '=' | '|')) => (order, &text[1..]),
            _ => ('=', text),
        };
        if code.starts_with('O') {
            return Err("holds Python objects; save an array of numbers".into());
        }
        match code {
            "b1" | "u1" | "i1" | "i2" | "u2" | "f2" | "i4" | "u4" | "f4" | "i8" | "f8" => Ok(Dtype {
                kind: code.as_bytes()[0] as char,
                size: usize::from(code.as_bytes()[1] - b'0'),
                big_endian: order == '>' || (order == '=' && cfg!(target_endian = "big")),
            }),
            _ => Err(format!(
                "holds values of type {text:?}; save them as float32, float64 or uint8"
            )),
        }
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.0 = self.0.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest;
                return Ok(value);
            }
        }
        Err(malformed())
    }

    fn tuple(&mut self) -> Result<Vec<usize>, String> {
        let mut sides = Vec::new();
        self.expect('(')?;
        while !self.take(')') {
            sides.push(self.integer()?);
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(sides)
    }

    fn integer(&mut self) -> Result<usize, String> {
        self.0 = self.0.trim_start();
        let end = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(end);
        let value = digits
            .parse()
            .map_err(|_| "has an impossible shape in its .npy header")?;
        // Python 2 wrote long integers as 3L.
        self.0 = rest.strip_prefix('L').unwrap_or(rest);
        Ok(value)
    }

    fn string(&mut self) -> Result<&'a str, String> {
        self.0 = self.0.trim_start();
        let quote = match self.0.chars().next() {
            Some(quote @ ('\'' | '"')) => quote,
            _ => return Err(malformed()),
        };
        let (text, rest) = self.0[1..].split_once(quote).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(text)
    }

    fn take(&mut self, expected: char) -> bool {
        self.0 = self.0.trim_start();
        match self.0.strip_prefix(expected) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, expected: char) -> Result<(), String> {
        self.take(expected).then_some(()).ok_or_else(malformed)
    }
}

fn malformed() -> String {
    "has a malformed .npy header".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Header, String> {
        Parser(text).header(0)
    }

    #[test]
    fn a_header_is_read_back_as_it_was_written() {
        for shape in [&[][..], &[5], &[0, 7], &[10, 3, 32, 32]] {
            let bytes = Header::bytes(">f8", shape);
            let header = Header::read(&mut bytes.as_slice()).unwrap();
            assert_eq!(header.shape, shape);
            assert_eq!(header.length, bytes.len());
            assert_eq!(bytes.len() % ALIGNMENT, 0);
            assert_eq!(
                header.dtype,
                Dtype {
                    kind: 'f',
                    size: 8,
                    big_endian: true
                }
            );
        }
    }

    #[test]
    fn python_spellings_of_the_same_dict_mean_the_same() {
        let plain = parse("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }").unwrap();
        let other = parse(r#"{ "shape":(2L,3L), "fortran_order":True,"descr":"<i4"}  "#).unwrap();
        assert_eq!(plain, other);
        assert!(plain.fortran_order);
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_its_reason() {
        let with = |descr: &str, shape: &str| {
            parse(&format!(
                "{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"
            ))
            .and_then(|header| header.count().map(|_| ()))
            .unwrap_err()
        };
        assert!(with("'|O'", "(1,)").contains("Python objects"));
        assert!(with("[('a', '<f4')]", "(1,)").contains("structured"));
        assert!(with("'<c8'", "(1,)").contains("<c8"));
        assert!(with("'<f4'", "(-1,)").contains("impossible shape"));
        assert!(with("'<f4'", "(99999999999999999999,)").contains("impossible shape"));
        assert!(with("'<f4'", "(4294967296, 4294967296)").contains("impossible shape"));
        assert!(with("'<f8'", "(4611686018427387904,)").contains("impossible shape"));
        assert!(parse("{'descr': '<f4'}").unwrap_err().contains("lacks"));
        assert!(parse("{'descr': '<f4',").unwrap_err().contains("malformed"));
    }
}
