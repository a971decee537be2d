//! A dense tensor as ONNX knows it: element type, shape and little-endian bytes (or strings).

use bytes::Bytes;
use std::fmt;

/// Element types of the ONNX standard; the discriminants are those of `TensorProto.DataType` in `onnx.proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
#[allow(missing_docs)] // the names are the documentation
pub enum DataType {
    Float32 = 1,
    Uint8 = 2,
    Int8 = 3,
    Uint16 = 4,
    Int16 = 5,
    Int32 = 6,
    Int64 = 7,
    String = 8,
    Bool = 9,
    Float16 = 10,
    Float64 = 11,
    Uint32 = 12,
    Uint64 = 13,
    Complex64 = 14,
    Complex128 = 15,
    Bfloat16 = 16,
    Float8E4M3Fn = 17,
    Float8E4M3Fnuz = 18,
    Float8E5M2 = 19,
    Float8E5M2Fnuz = 20,
    Uint4 = 21,
    Int4 = 22,
    Float4E2M1 = 23,
    Float8E8M0 = 24,
    Uint2 = 25,
    Int2 = 26,
}

/// Every type with its name as this project prints and parses it, and its size in bits (`None` for strings).
const TABLE: &[(DataType, &str, Option<usize>)] = &[
    (DataType::Float32, "float32", Some(32)),
    (DataType::Uint8, "uint8", Some(8)),
    (DataType::Int8, "int8", Some(8)),
    (DataType::Uint16, "uint16", Some(16)),
    (DataType::Int16, "int16", Some(16)),
    (DataType::Int32, "int32", Some(32)),
    (DataType::Int64, "int64", Some(64)),
    (DataType::String, "string", None),
    (DataType::Bool, "bool", Some(8)),
    (DataType::Float16, "float16", Some(16)),
    (DataType::Float64, "float64", Some(64)),
    (DataType::Uint32, "uint32", Some(32)),
    (DataType::Uint64, "uint64", Some(64)),
    (DataType::Complex64, "complex64", Some(64)),
    (DataType::Complex128, "complex128", Some(128)),
    (DataType::Bfloat16, "bfloat16", Some(16)),
    (DataType::Float8E4M3Fn, "float8e4m3fn", Some(8)),
    (DataType::Float8E4M3Fnuz, "float8e4m3fnuz", Some(8)),
    (DataType::Float8E5M2, "float8e5m2", Some(8)),
    (DataType::Float8E5M2Fnuz, "float8e5m2fnuz", Some(8)),
    (DataType::Uint4, "uint4", Some(4)),
    (DataType::Int4, "int4", Some(4)),
    (DataType::Float4E2M1, "float4e2m1", Some(4)),
    (DataType::Float8E8M0, "float8e8m0", Some(8)),
    (DataType::Uint2, "uint2", Some(2)),
    (DataType::Int2, "int2", Some(2)),
];

impl DataType {
    /// The type whose number in `TensorProto.DataType` is `number`; `None` for UNDEFINED and unknown numbers.
    pub fn from_onnx(number: i32) -> Option<Self> {
        TABLE.iter().map(|row| row.0).find(|t| *t as i32 == number)
    }

    /// The type of that name (`float32`, `bfloat16`, ...).
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// The name that this project prints and parses.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bits of one element; `None` for strings.
    pub fn bits(self) -> Option<usize> {
        self.row().2
    }

    /// Bytes of a tensor of `elements` elements, sub-byte types packed; `None` for strings or on overflow.
    pub fn byte_len(self, elements: usize) -> Option<usize> {
        self.bits()?.checked_mul(elements).map(|bits| bits.div_ceil(8))
    }

    /// Is it one of the IEEE-like types that error figures are computed for (f16, bf16, f32, f64)?
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float16 | Self::Bfloat16 | Self::Float32 | Self::Float64)
    }

    fn row(self) -> &'static (DataType, &'static str, Option<usize>) {
        TABLE.iter().find(|row| row.0 == self).expect("TABLE lists every variant: the test below walks them")
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A dense tensor. `shape` is in elements, row-major; an empty shape is a scalar.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type.
    pub dtype: DataType,
    /// Extents in elements, outermost first.
    pub shape: Vec<usize>,
    /// The elements.
    pub data: TensorData,
}

/// The elements of a [`Tensor`].
#[derive(Clone, Debug, PartialEq)]
pub enum TensorData {
    /// Little-endian, row-major, no padding; sub-byte types packed low bits first.
    Bytes(Bytes),
    /// For [`DataType::String`] only.
    Strings(Vec<String>),
}

/// A tensor whose data does not fit its type and shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {dtype} tensor of shape {shape:?} needs {expected} of data and has {found}")]
pub struct SizeMismatch {
    dtype: DataType,
    shape: Vec<usize>,
    expected: String,
    found: String,
}

impl Tensor {
    /// A tensor of little-endian bytes; refuses bytes that do not fit type and shape.
    pub fn from_bytes(dtype: DataType, shape: Vec<usize>, bytes: Bytes) -> Result<Self, SizeMismatch> {
        let expected = element_count(&shape).and_then(|n| dtype.byte_len(n));
        if expected != Some(bytes.len()) {
            let expected = expected.map_or_else(|| "an unrepresentable amount".to_owned(), |n| format!("{n} bytes"));
            return Err(SizeMismatch { dtype, shape, expected, found: format!("{} bytes", bytes.len()) });
        }
        Ok(Self { dtype, shape, data: TensorData::Bytes(bytes) })
    }

    /// A tensor of strings; refuses a count that does not fit the shape.
    pub fn from_strings(shape: Vec<usize>, strings: Vec<String>) -> Result<Self, SizeMismatch> {
        if element_count(&shape) != Some(strings.len()) {
            let expected = format!("{:?} strings", element_count(&shape));
            return Err(SizeMismatch {
                dtype: DataType::String,
                shape,
                expected,
                found: format!("{} strings", strings.len()),
            });
        }
        Ok(Self { dtype: DataType::String, shape, data: TensorData::Strings(strings) })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        element_count(&self.shape).expect("checked at construction")
    }

    /// Has it no elements?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes; `None` for strings.
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.data {
            TensorData::Bytes(bytes) => Some(bytes),
            TensorData::Strings(_) => None,
        }
    }
}

/// Product of the extents; `None` on overflow.
pub fn element_count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_onnx_number_from_1_to_26_has_a_type_and_back() {
        for number in 1..=26 {
            let t = DataType::from_onnx(number).unwrap();
            assert_eq!(t as i32, number);
            assert_eq!(DataType::from_name(t.name()), Some(t));
        }
        assert_eq!(DataType::from_onnx(0), None);
        assert_eq!(DataType::from_onnx(27), None);
    }

    #[test]
    fn sizes_are_checked_and_overflow_is_refused() {
        assert!(Tensor::from_bytes(DataType::Float32, vec![2, 3], Bytes::from(vec![0; 24])).is_ok());
        assert!(Tensor::from_bytes(DataType::Int4, vec![3], Bytes::from(vec![0; 2])).is_ok());
        let e = Tensor::from_bytes(DataType::Float32, vec![usize::MAX, 2], Bytes::new()).unwrap_err();
        assert!(e.to_string().contains("unrepresentable"), "{e}");
    }
}
