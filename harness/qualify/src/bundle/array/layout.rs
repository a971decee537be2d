//! How elements lie in a file, and what it takes to make them little-endian and row-major.

use super::{ArrayProblem, strings};
use bytes::Bytes;
use onnx_graph::{DataType, Tensor, tensor::element_count};

/// Stored elements: numpy's dtype string, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// As the file names it, for messages.
    pub name: String,
    /// What the bytes of one element are.
    pub kind: Kind,
    /// Bytes of one element.
    pub width: usize,
    /// Are the bytes of each number the other way round?
    pub swapped: bool,
}

/// What the bytes of one element are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number or bool.
    Plain(DataType),
    /// Bits without a meaning (`V2`): what numpy makes of types that it does not know.
    Raw,
    /// UTF-32, padded with NUL.
    Utf32,
    /// UTF-8, padded with NUL.
    Utf8,
}

impl Stored {
    /// Understands numpy's dtype string (`<f4`, `|b1`, `>U7`, `|V2`).
    pub(super) fn parse(descr: &str) -> Result<Self, ArrayProblem> {
        use DataType as T;
        let unsupported = |advice| ArrayProblem::Unsupported { dtype: descr.chars().take(40).collect(), advice };
        let mut chars = descr.chars();
        let order = chars.next().filter(|c| matches!(c, '<' | '>' | '|')).ok_or_else(|| unsupported(""))?;
        let letter = chars.next().ok_or_else(|| unsupported(""))?;
        if letter == 'O' {
            return Err(ArrayProblem::Object);
        }
        let size: usize = chars.as_str().parse().map_err(|_| unsupported(""))?;
        let plain = match (letter, size) {
            ('b', 1) => Some(T::Bool),
            ('i', 1) => Some(T::Int8),
            ('i', 2) => Some(T::Int16),
            ('i', 4) => Some(T::Int32),
            ('i', 8) => Some(T::Int64),
            ('u', 1) => Some(T::Uint8),
            ('u', 2) => Some(T::Uint16),
            ('u', 4) => Some(T::Uint32),
            ('u', 8) => Some(T::Uint64),
            ('f', 2) => Some(T::Float16),
            ('f', 4) => Some(T::Float32),
            ('f', 8) => Some(T::Float64),
            _ => None,
        };
        let (kind, width) = match (plain, letter) {
            (Some(dtype), _) => (Kind::Plain(dtype), size),
            (None, 'V') => (Kind::Raw, size),
            (None, 'S') => (Kind::Utf8, size),
            (None, 'U') => (Kind::Utf32, size.checked_mul(4).ok_or_else(|| unsupported(""))?),
            (None, 'M' | 'm') => return Err(unsupported("; save dates as integers")),
            (None, 'c') => return Err(unsupported("; save real and imaginary part apart")),
            _ => return Err(unsupported("")),
        };
        Ok(Self { name: descr.to_owned(), kind, width, swapped: order == '>' && width > 1 && kind != Kind::Utf8 })
    }

    /// The element type, `wanted` being what the reference says of the bits.
    pub(super) fn dtype(&self, wanted: Option<DataType>) -> Result<DataType, ArrayProblem> {
        let own = match self.kind {
            Kind::Plain(dtype) => Some(dtype),
            Kind::Utf8 | Kind::Utf32 => Some(DataType::String),
            Kind::Raw => None,
        };
        let bits_only = matches!(
            self.kind,
            Kind::Raw | Kind::Plain(DataType::Uint8 | DataType::Uint16 | DataType::Uint32 | DataType::Uint64)
        );
        match (own, wanted) {
            (Some(own), None) => Ok(own),
            (Some(own), Some(wanted)) if own == wanted => Ok(own),
            (_, Some(wanted)) if bits_only && wanted.bits() == self.width.checked_mul(8) => Ok(wanted),
            (_, Some(wanted)) => Err(ArrayProblem::Cast { stored: self.name.clone(), wanted }),
            (None, None) => Err(ArrayProblem::Unsupported {
                dtype: self.name.clone(),
                advice: "; if the bits are a type that numpy has no name for, say so with `dtype = \"bfloat16\"`",
            }),
        }
    }

    /// Bytes of an array of `shape`, held against `cap`.
    pub(super) fn byte_len(&self, shape: &[usize], cap: u64) -> Result<u64, ArrayProblem> {
        let count = element_count(shape).map_or(u128::MAX, |n| n as u128);
        // A string costs memory of its own even if it is empty: `<U0` arrays of any shape take no bytes in the file.
        let in_memory = match self.kind {
            Kind::Utf8 | Kind::Utf32 => self.width.max(size_of::<String>()),
            Kind::Plain(_) | Kind::Raw => self.width,
        };
        let bytes = count.saturating_mul(in_memory as u128);
        if bytes > u128::from(cap) {
            return Err(ArrayProblem::TooLarge { bytes, cap });
        }
        Ok((count as u64) * self.width as u64)
    }

    /// The tensor of elements as they lie in the file. `dtype` is [`Stored::dtype`]'s answer.
    pub(super) fn into_tensor(
        self,
        dtype: DataType,
        shape: Vec<usize>,
        fortran: bool,
        mut bytes: Vec<u8>,
    ) -> Result<Tensor, ArrayProblem> {
        // Without elements there is nothing to move, and with one long axis both orders are the same.
        if fortran && !bytes.is_empty() && shape.iter().filter(|&&d| d != 1).count() > 1 {
            bytes = row_major(&bytes, &shape, self.width);
        }
        match self.kind {
            Kind::Utf32 => text(strings::utf32(&bytes, self.width, self.swapped, &shape)?, shape),
            Kind::Utf8 => text(strings::utf8(&bytes, self.width, &shape)?, shape),
            Kind::Plain(_) | Kind::Raw => {
                if self.swapped {
                    bytes.chunks_exact_mut(self.width).for_each(<[u8]>::reverse);
                }
                plain(dtype, shape, bytes.into())
            }
        }
    }
}

fn text(strings: Vec<String>, shape: Vec<usize>) -> Result<Tensor, ArrayProblem> {
    Ok(Tensor::from_strings(shape, strings).map_err(Box::new)?)
}

/// A tensor of little-endian, row-major bytes.
pub(super) fn plain(dtype: DataType, shape: Vec<usize>, bytes: Bytes) -> Result<Tensor, ArrayProblem> {
    match bytes.iter().find(|&&b| b > 1) {
        Some(&other) if dtype == DataType::Bool => Err(ArrayProblem::Bool(other)),
        _ => Ok(Tensor::from_bytes(dtype, shape, bytes).map_err(Box::new)?),
    }
}

/// The elements of a column-major array in row-major order. `bytes` holds exactly the elements of `shape`.
fn row_major(bytes: &[u8], shape: &[usize], width: usize) -> Vec<u8> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = width;
    for &extent in shape {
        strides.push(stride);
        stride *= extent;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    while out.len() < bytes.len() {
        out.extend_from_slice(&bytes[at..at + width]);
        // The next index in row-major order: the last axis first, with a carry.
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    out
}
