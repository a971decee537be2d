//! Outputs that are compared for equality: integers, bools, strings, and types below 16 bits by their bits.

use super::comparison::{Difference, Exact, ExactFigures};
use super::rows::{Rows, walk};
use super::{CompareError, Elements, TensorView, coordinates};
use crate::observation::figure::Figure;
use onnx_graph::DataType;
use std::ops::Range;

/// Elements whose bytes are held against each other before they are looked at one by one.
const STEP: usize = 4096;

/// Longest text of a value that is kept, in characters.
const LONGEST: usize = 80;

/// Compares arrays of equal shape: of the same type, or integers of any.
pub(super) fn compare(
    got: &TensorView<'_>,
    reference: &TensorView<'_>,
    rows: Option<&Rows>,
) -> Result<Exact, CompareError> {
    let mut valid = Sums::default();
    let mut masked = rows.map(|_| Sums::default());
    for run in walk(rows, got.shape(), 1)? {
        let sums = match &mut masked {
            Some(masked) if !run.valid => masked,
            _ => &mut valid,
        };
        for start in run.elements.clone().step_by(STEP) {
            sums.add(got, reference, start..run.elements.end.min(start + STEP));
        }
    }
    let finish = |sums: Sums| {
        let numeric = is_integer(got.dtype());
        ExactFigures {
            elements: sums.elements,
            differing: sums.differing,
            first: sums.first.map(|at| Difference {
                at: coordinates(at, got.shape()),
                got: text(got, at),
                reference: text(reference, at),
            }),
            max_abs: numeric.then_some(Figure(sums.max_abs as f64)),
        }
    };
    Ok(Exact { valid: finish(valid), masked: masked.map(finish) })
}

#[derive(Default)]
struct Sums {
    elements: u64,
    differing: u64,
    first: Option<usize>,
    max_abs: u128,
}

impl Sums {
    fn add(&mut self, got: &TensorView<'_>, reference: &TensorView<'_>, range: Range<usize>) {
        self.elements += range.len() as u64;
        match (got.elements(), reference.elements()) {
            (Elements::Strings(g), Elements::Strings(r)) => {
                for i in range {
                    if g[i] != r[i] {
                        self.differs(i);
                    }
                }
            }
            (Elements::Bytes(g), Elements::Bytes(r)) => {
                let (g_type, r_type) = (got.dtype(), reference.dtype());
                if let Some(size) = g_type.bits().filter(|bits| g_type == r_type && bits % 8 == 0).map(|bits| bits / 8)
                    && g[range.start * size..range.end * size] == r[range.start * size..range.end * size]
                {
                    return;
                }
                for i in range {
                    let distance = integer(g_type, g, i).abs_diff(integer(r_type, r, i));
                    if distance != 0 {
                        self.differs(i);
                        self.max_abs = self.max_abs.max(distance);
                    }
                }
            }
            // Strings are comparable with strings only.
            (Elements::Strings(_), Elements::Bytes(_)) | (Elements::Bytes(_), Elements::Strings(_)) => {}
        }
    }

    fn differs(&mut self, at: usize) {
        self.differing += 1;
        self.first.get_or_insert(at);
    }
}

/// Whole numbers, bools not among them.
pub(super) fn is_integer(dtype: DataType) -> bool {
    use DataType as T;
    matches!(
        dtype,
        T::Uint2
            | T::Int2
            | T::Uint4
            | T::Int4
            | T::Uint8
            | T::Int8
            | T::Uint16
            | T::Int16
            | T::Uint32
            | T::Int32
            | T::Uint64
            | T::Int64
    )
}

/// The element at `i`: an integer's value, a bool as 0 or 1, the bits of any other type of up to 8 bits.
pub(super) fn integer(dtype: DataType, bytes: &[u8], i: usize) -> i128 {
    fn at<const N: usize>(bytes: &[u8], i: usize) -> [u8; N] {
        bytes.as_chunks().0[i]
    }
    match dtype {
        DataType::Bool => i128::from(bytes[i] != 0),
        DataType::Int8 => i128::from(i8::from_le_bytes(at(bytes, i))),
        DataType::Uint16 => i128::from(u16::from_le_bytes(at(bytes, i))),
        DataType::Int16 => i128::from(i16::from_le_bytes(at(bytes, i))),
        DataType::Uint32 => i128::from(u32::from_le_bytes(at(bytes, i))),
        DataType::Int32 => i128::from(i32::from_le_bytes(at(bytes, i))),
        DataType::Uint64 => i128::from(u64::from_le_bytes(at(bytes, i))),
        DataType::Int64 => i128::from(i64::from_le_bytes(at(bytes, i))),
        DataType::Int4 => i128::from((packed(bytes, i, 4) << 4).cast_signed() >> 4),
        DataType::Int2 => i128::from((packed(bytes, i, 2) << 6).cast_signed() >> 6),
        DataType::Uint4 | DataType::Float4E2M1 => i128::from(packed(bytes, i, 4)),
        DataType::Uint2 => i128::from(packed(bytes, i, 2)),
        _ => i128::from(bytes[i]),
    }
}

/// The bits of the element at `i` of several in a byte, low bits first.
fn packed(bytes: &[u8], i: usize, bits: usize) -> u8 {
    let per_byte = 8 / bits;
    (bytes[i / per_byte] >> (i % per_byte * bits)) & ((1 << bits) - 1)
}

fn text(view: &TensorView<'_>, i: usize) -> String {
    match view.elements() {
        Elements::Strings(strings) if strings[i].chars().count() > LONGEST => {
            strings[i].chars().take(LONGEST).chain(std::iter::once('…')).collect()
        }
        Elements::Strings(strings) => strings[i].clone(),
        Elements::Bytes(bytes) => match (view.dtype(), integer(view.dtype(), bytes, i)) {
            (DataType::Bool, value) => (value != 0).to_string(),
            (dtype, value) if is_integer(dtype) => value.to_string(),
            (_, bits) => format!("{bits:#04x}"),
        },
    }
}
