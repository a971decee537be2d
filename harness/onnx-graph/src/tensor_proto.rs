//! [`Tensor`] from and to `TensorProto`, whichever of its many fields holds the data.

use crate::error::ModelError;
use crate::external::{self, ExternalFile};
use crate::mapped;
use crate::proto::TensorProto;
use crate::tensor::{DataType, Tensor, TensorData};
use bytes::Bytes;
use prost::Message;
use std::path::Path;

/// The tensor in a message. `base_dir` is where external data lie; without it they are refused.
///
/// Nothing is allocated beyond what the message holds, whatever shape it claims.
pub fn tensor_from_proto(message: &TensorProto, base_dir: Option<&Path>) -> Result<Tensor, ModelError> {
    let (dtype, shape) = external::type_and_shape(message)?;
    let fault = |problem: String| ModelError::tensor(message.name(), problem);
    if message.segment.is_some() {
        return Err(fault("is a segment of a larger one, which nothing writes any more".to_owned()));
    }
    if dtype == DataType::String {
        let strings: Result<Vec<_>, _> = message.string_data.iter().map(|s| String::from_utf8(s.to_vec())).collect();
        let strings = strings.map_err(|e| fault(format!("holds a string that is not UTF-8: {e}")))?;
        return Tensor::from_strings(shape, strings).map_err(|e| fault(format!("cannot be read: {e}")));
    }
    let bytes = if external::is_external(message) {
        let file = ExternalFile::from_proto(message)?;
        let dir = base_dir.ok_or_else(|| {
            fault(format!("has its data in `{}`, and no folder to find that file in is known here", file.location))
        })?;
        file.bytes(dir)?
    } else {
        match &message.raw_data {
            Some(raw) if !raw.is_empty() => raw.clone(),
            _ => Bytes::from(typed_data(message, dtype).map_err(fault)?),
        }
    };
    Tensor::from_bytes(dtype, shape, bytes).map_err(|e| fault(format!("cannot be read: {e}")))
}

/// The little-endian bytes of the typed field that belongs to `dtype`.
fn typed_data(message: &TensorProto, dtype: DataType) -> Result<Vec<u8>, String> {
    use DataType as T;
    Ok(match dtype {
        T::Float32 | T::Complex64 => message.float_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        T::Float64 | T::Complex128 => message.double_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        T::Int64 => message.int64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        T::Uint64 => message.uint64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        T::Uint32 => narrow(message.uint64_data.iter().map(|&v| i128::from(v)), 4, dtype)?,
        T::Int32 => narrow(message.int32_data.iter().map(|&v| i128::from(v)), 4, dtype)?,
        T::Int16 | T::Uint16 | T::Float16 | T::Bfloat16 => {
            narrow(message.int32_data.iter().map(|&v| i128::from(v)), 2, dtype)?
        }
        // Sub-byte types come packed: one byte of two or four elements in each number.
        _ => narrow(message.int32_data.iter().map(|&v| i128::from(v)), 1, dtype)?,
    })
}

/// The low `width` bytes of each number; one that does not fit, signed or as a bit pattern, is refused.
fn narrow(values: impl Iterator<Item = i128>, width: usize, dtype: DataType) -> Result<Vec<u8>, String> {
    let end = 1i128 << (8 * width);
    let mut bytes = Vec::with_capacity(values.size_hint().0.saturating_mul(width));
    for value in values {
        if value < -end / 2 || value >= end {
            return Err(format!("holds the number {value}, which is no {dtype}"));
        }
        bytes.extend_from_slice(&value.to_le_bytes()[..width]);
    }
    Ok(bytes)
}

/// The message for a tensor: `raw_data` (not copied), or `string_data` for strings.
pub fn tensor_to_proto(name: &str, tensor: &Tensor) -> TensorProto {
    let mut message = TensorProto {
        name: (!name.is_empty()).then(|| name.to_owned()),
        data_type: Some(tensor.dtype as i32),
        dims: tensor.shape.iter().map(|&d| d as i64).collect(),
        ..TensorProto::default()
    };
    match &tensor.data {
        TensorData::Bytes(bytes) => message.raw_data = Some(bytes.clone()),
        TensorData::Strings(strings) => {
            message.string_data = strings.iter().map(|s| Bytes::copy_from_slice(s.as_bytes())).collect();
        }
    }
    message
}

/// Reads one tensor file (`input_0.pb` of ONNX's test directories), with the name it carries, if any.
pub fn read_tensor_pb(path: &Path) -> Result<(String, Tensor), ModelError> {
    let not_a_tensor = |problem: String| ModelError::NotATensor { path: path.to_owned(), problem };
    let message = TensorProto::decode(mapped::map(path)?).map_err(|e| not_a_tensor(e.to_string()))?;
    // The list in a sequence and the value in an optional have the field number of a tensor's segment.
    if message.segment.is_some() {
        return Err(not_a_tensor("it looks like a sequence or an optional".to_owned()));
    }
    let tensor = tensor_from_proto(&message, path.parent()).map_err(|e| not_a_tensor(e.to_string()))?;
    Ok((message.name.unwrap_or_default(), tensor))
}
