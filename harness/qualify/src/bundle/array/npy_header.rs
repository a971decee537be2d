//! The header of the `.npy` format (NEP 1, versions 1.0 to 3.0): a Python dict with the keys `descr`, `fortran_order`
//! and `shape`, parsed by a grammar of exactly that, so that no header can make it recurse or allocate.

use super::{ArrayProblem, layout::Stored};
use std::io::Read;

/// More than numpy ever writes for arrays that are no records.
const HEADER_CAP_BYTES: usize = 1 << 16;

/// What stands before the elements.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NpyHeader {
    /// How the elements are stored.
    pub stored: Stored,
    /// Is the first axis the fastest?
    pub fortran: bool,
    /// Extents.
    pub shape: Vec<usize>,
    /// Bytes of everything before the elements.
    pub bytes: u64,
}

impl NpyHeader {
    /// Reads and parses the header; the reader then stands at the first element.
    pub(super) fn read(reader: &mut impl Read) -> Result<Self, ArrayProblem> {
        let bad = |what: &str| ArrayProblem::Header(what.to_owned());
        let mut magic = [0; 8];
        fill(reader, &mut magic)?;
        if &magic[..6] != b"\x93NUMPY" {
            return Err(bad("it does not begin with the magic of the .npy format"));
        }
        let (length, prefix) = match magic[6] {
            1 => {
                let mut size = [0; 2];
                fill(reader, &mut size)?;
                (usize::from(u16::from_le_bytes(size)), 10)
            }
            2 | 3 => {
                let mut size = [0; 4];
                fill(reader, &mut size)?;
                (u32::from_le_bytes(size) as usize, 12)
            }
            version => return Err(ArrayProblem::Header(format!("the format version {version} is not known"))),
        };
        if length > HEADER_CAP_BYTES {
            return Err(ArrayProblem::Header(format!("it claims {length} bytes, above {HEADER_CAP_BYTES}")));
        }
        let mut text = vec![0; length];
        fill(reader, &mut text)?;
        let text = std::str::from_utf8(&text).map_err(|_| bad("it is not text"))?;
        let (stored, fortran, shape) = parse(text)?;
        Ok(Self { stored, fortran, shape, bytes: (prefix + length) as u64 })
    }
}

/// The header in bytes, padded so that the elements begin at a multiple of 64 as numpy does it.
pub(super) fn write(descr: &str, shape: &[usize]) -> Vec<u8> {
    // numpy's spelling: `()`, `(3,)`, `(3, 4)`.
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let dims = if dims.len() == 1 { format!("{},", dims[0]) } else { dims.join(", ") };
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    let prefix = if u16::try_from(text.len() + 64).is_ok() { 10 } else { 12 };
    let length = (prefix + text.len() + 1).next_multiple_of(64) - prefix;
    let mut bytes = b"\x93NUMPY".to_vec();
    if prefix == 10 {
        bytes.extend([1, 0]);
        bytes.extend((length as u16).to_le_bytes());
    } else {
        bytes.extend([2, 0]);
        bytes.extend((length as u32).to_le_bytes());
    }
    bytes.extend(text.bytes());
    bytes.resize(prefix + length - 1, b' ');
    bytes.push(b'\n');
    bytes
}

fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> Result<(), ArrayProblem> {
    reader.read_exact(buffer).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => ArrayProblem::Header("the file ends within it".to_owned()),
        _ => ArrayProblem::Io(e),
    })
}

fn parse(text: &str) -> Result<(Stored, bool, Vec<usize>), ArrayProblem> {
    let mut rest = Cursor(text);
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    rest.expect('{')?;
    while !rest.take('}') {
        let key = rest.quoted()?;
        rest.expect(':')?;
        let again = match key {
            "descr" if rest.peek() == Some('[') => return Err(ArrayProblem::Structured),
            "descr" => descr.replace(Stored::parse(rest.quoted()?)?).is_some(),
            "fortran_order" => fortran.replace(rest.boolean()?).is_some(),
            "shape" => shape.replace(rest.shape()?).is_some(),
            _ => return Err(ArrayProblem::Header(format!("the key '{key}' is not known"))),
        };
        if again {
            return Err(ArrayProblem::Header(format!("the key '{key}' is there twice")));
        }
        if !rest.take(',') && rest.peek() != Some('}') {
            return Err(rest.fault("`,` or `}`"));
        }
    }
    if rest.peek().is_some() {
        return Err(rest.fault("the end"));
    }
    match (descr, fortran, shape) {
        (Some(stored), Some(fortran), Some(shape)) => Ok((stored, fortran, shape)),
        _ => Err(ArrayProblem::Header("descr, fortran_order or shape is missing".to_owned())),
    }
}

/// What is left of the text. Every step skips white space first.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn peek(&mut self) -> Option<char> {
        self.0 = self.0.trim_start();
        self.0.chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.0 = &self.0[wanted.len_utf8()..];
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), ArrayProblem> {
        if self.take(wanted) { Ok(()) } else { Err(self.fault(&format!("`{wanted}`"))) }
    }

    fn fault(&self, wanted: &str) -> ArrayProblem {
        let seen: String = self.0.chars().take(20).collect();
        ArrayProblem::Header(format!("{wanted} was expected and {seen:?} was found"))
    }

    /// A string without escapes: no name of a plain dtype has any.
    fn quoted(&mut self) -> Result<&'a str, ArrayProblem> {
        let quote = self.peek().filter(|c| matches!(c, '\'' | '"')).ok_or_else(|| self.fault("a quoted string"))?;
        let inner = &self.0[1..];
        let end = inner.find(quote).ok_or_else(|| self.fault("a closed string"))?;
        self.0 = &inner[end + 1..];
        Ok(&inner[..end])
    }

    fn boolean(&mut self) -> Result<bool, ArrayProblem> {
        self.peek();
        for (text, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.0.strip_prefix(text) {
                self.0 = rest;
                return Ok(value);
            }
        }
        Err(self.fault("True or False"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, ArrayProblem> {
        self.expect('(')?;
        let mut shape = Vec::new();
        while !self.take(')') {
            self.peek();
            let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
            let extent = self.0[..digits].parse().map_err(|_| self.fault("an extent"))?;
            shape.push(extent);
            // Python 2 wrote long integers as `3L`.
            self.0 = self.0[digits..].strip_prefix('L').unwrap_or(&self.0[digits..]);
            if !self.take(',') && self.peek() != Some(')') {
                return Err(self.fault("`,` or `)`"));
            }
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Result<NpyHeader, ArrayProblem> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.bytes());
        NpyHeader::read(&mut &bytes[..])
    }

    #[test]
    fn what_numpy_writes_is_read_in_any_order_of_keys() {
        let h = header("{'descr': '>f4', 'fortran_order': True, 'shape': (2, 3), }   \n").unwrap();
        assert_eq!((h.fortran, h.shape), (true, vec![2, 3]));
        let h = header("{\"shape\": (2L,), 'fortran_order':False,'descr':'|b1'}").unwrap();
        assert_eq!((h.fortran, h.shape), (false, vec![2]));
        assert_eq!(header("{'shape': (), 'fortran_order': False, 'descr': '<i8'}").unwrap().shape, Vec::<usize>::new());
    }

    #[test]
    fn what_is_written_is_read_back_at_a_multiple_of_64() {
        for shape in [vec![], vec![7], vec![2, 3], vec![1; 30_000]] {
            let bytes = write("<f4", &shape);
            if shape.len() < 30_000 {
                assert_eq!(NpyHeader::read(&mut &bytes[..]).unwrap().shape, shape);
            }
            assert_eq!(bytes.len() % 64, 0);
        }
        let text = String::from_utf8_lossy(&write("<f4", &[2, 3])).into_owned();
        assert!(text.contains("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  "), "{text}");
        assert!(String::from_utf8_lossy(&write("<f4", &[2])).contains("'shape': (2,), }"));
    }

    #[test]
    fn other_texts_are_refused_with_what_was_expected() {
        for (text, wanted) in [
            ("", "`{` was expected"),
            ("{'descr': '<f4'}", "missing"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "structured"),
            ("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "Python objects"),
            ("{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}", "True or False"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "an extent"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "an extent"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", "`,` or `)`"),
            ("{'descr': '<f4', 'descr': '<f4'}", "twice"),
            ("{'extra': '<f4'}", "not known"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "the end"),
            ("{'descr': '<f4", "a closed string"),
            ("{'descr': '\u{e9}4', 'fortran_order': False, 'shape': (1,)}", "not supported"),
        ] {
            let e = header(text).unwrap_err().to_string();
            assert!(e.contains(wanted), "{text}: {e}");
        }
    }
}
