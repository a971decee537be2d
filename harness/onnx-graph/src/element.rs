//! Rust's number types as tensor elements: tensors from values and values from tensors.

use crate::tensor::{DataType, SizeMismatch, Tensor};
use bytes::Bytes;
use half::{bf16, f16};

/// A Rust type that is one element of a tensor.
pub trait Element: Copy + Sized {
    /// The element type it stands for.
    const DTYPE: DataType;

    /// Appends its little-endian bytes.
    fn put(self, bytes: &mut Vec<u8>);

    /// The element in `bytes`, which are as many as the type has.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! number {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl Element for $rust {
            const DTYPE: DataType = DataType::$dtype;

            fn put(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn get(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("`values` cuts chunks of exactly this size"))
            }
        }
    )*};
}

number! {
    f16 => Float16, bf16 => Bfloat16, f32 => Float32, f64 => Float64,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64,
}

impl Element for bool {
    const DTYPE: DataType = DataType::Bool;

    fn put(self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self));
    }

    fn get(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
}

impl Tensor {
    /// A tensor of these values in row-major order; refuses a count that does not fit the shape.
    pub fn from_values<T: Element>(shape: &[usize], values: &[T]) -> Result<Self, SizeMismatch> {
        let mut bytes = Vec::with_capacity(size_of_val(values));
        for value in values {
            value.put(&mut bytes);
        }
        Self::from_bytes(T::DTYPE, shape.to_vec(), Bytes::from(bytes))
    }

    /// The values in row-major order; `None` if the element type is another.
    pub fn values<T: Element>(&self) -> Option<Vec<T>> {
        let bytes = self.bytes().filter(|_| self.dtype == T::DTYPE)?;
        Some(bytes.chunks_exact(size_of::<T>()).map(T::get).collect())
    }
}
