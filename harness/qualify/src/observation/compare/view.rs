//! An array that lies in someone else's memory: element type, shape and bytes or strings.

use super::CompareError;
use onnx_graph::tensor::element_count;
use onnx_graph::{DataType, Tensor, TensorData};

/// A borrowed array whose data fits its type and shape.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    dtype: DataType,
    shape: &'a [usize],
    elements: Elements<'a>,
}

/// The elements of a [`TensorView`].
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// Little-endian, row-major, no padding, any alignment; sub-byte types packed low bits first.
    Bytes(&'a [u8]),
    /// For [`DataType::String`] only.
    Strings(&'a [String]),
}

impl<'a> TensorView<'a> {
    /// A view of `elements` as `dtype` and `shape` (in elements, outermost first; empty for a scalar).
    ///
    /// # Errors
    /// Data that is not as long as type and shape ask for, or strings where bytes belong.
    pub fn new(dtype: DataType, shape: &'a [usize], elements: Elements<'a>) -> Result<Self, CompareError> {
        let count = element_count(shape);
        let (expected, found, unit) = match elements {
            Elements::Bytes(bytes) => (count.and_then(|n| dtype.byte_len(n)), bytes.len(), "bytes"),
            Elements::Strings(strings) => (count.filter(|_| dtype.bits().is_none()), strings.len(), "strings"),
        };
        if expected != Some(found) {
            let expected = match (count, dtype.bits()) {
                (None, _) => "more elements than can be addressed".to_owned(),
                (Some(n), None) => format!("{n} strings"),
                (Some(n), Some(_)) => {
                    dtype.byte_len(n).map_or("more bytes than can be addressed".to_owned(), |n| format!("{n} bytes"))
                }
            };
            return Err(CompareError::Size {
                dtype,
                shape: shape.to_vec(),
                expected,
                found: format!("{found} {unit}"),
            });
        }
        Ok(Self { dtype, shape, elements })
    }

    /// Element type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Extents in elements, outermost first.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The elements.
    pub fn elements(&self) -> Elements<'a> {
        self.elements
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        element_count(self.shape).expect("checked at construction")
    }

    /// Has it no elements?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `float32 of shape [2, 3]`.
    pub fn describe(&self) -> String {
        format!("{} of shape {:?}", self.dtype, self.shape)
    }

    /// The bytes; empty for strings.
    pub(super) fn bytes(&self) -> &'a [u8] {
        match self.elements {
            Elements::Bytes(bytes) => bytes,
            Elements::Strings(_) => &[],
        }
    }
}

impl<'a> From<&'a Tensor> for TensorView<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        let elements = match &tensor.data {
            TensorData::Bytes(bytes) => Elements::Bytes(bytes),
            TensorData::Strings(strings) => Elements::Strings(strings),
        };
        Self { dtype: tensor.dtype, shape: &tensor.shape, elements }
    }
}
