//! `.safetensors`: a JSON header with offsets, then the bytes. The header is checked by the `safetensors` crate: the
//! offsets must cover the data without gaps or overlaps and fit types and shapes.

use super::{ArrayInfo, ArrayProblem, Depth, Found, layout, npy, npz};
use camino::Utf8Path;
use onnx_graph::DataType;
use safetensors::tensor::{Dtype, Metadata};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// As in the format's own libraries.
const HEADER_CAP_BYTES: u64 = 100_000_000;

/// Bytes of the header's length.
const PREFIX_BYTES: u64 = 8;

/// The arrays in the order of the file.
pub(super) fn names(path: &Utf8Path) -> Result<Vec<String>, ArrayProblem> {
    header(&mut File::open(path)?).map(|(_, metadata)| metadata.offset_keys())
}

/// The array `name`, or the only one.
pub(super) fn open(
    path: &Utf8Path,
    name: Option<&str>,
    wanted: Option<DataType>,
    cap: u64,
    depth: Depth,
) -> Result<Found, ArrayProblem> {
    let mut file = File::open(path)?;
    let (start, metadata) = header(&mut file)?;
    let names = metadata.offset_keys();
    let name = npz::choose(name, &names)?;
    let tensor = metadata.info(name).expect("the name is one of the header's own");
    let stored = element_type(tensor.dtype)
        .ok_or_else(|| ArrayProblem::Unsupported { dtype: tensor.dtype.to_string(), advice: "" })?;
    let dtype = match wanted {
        Some(wanted) if wanted != stored => {
            return Err(ArrayProblem::Cast { stored: stored.to_string(), wanted });
        }
        _ => stored,
    };
    let (from, to) = tensor.data_offsets;
    let bytes = (to - from) as u64;
    if bytes > cap {
        return Err(ArrayProblem::TooLarge { bytes: u128::from(bytes), cap });
    }
    let info = ArrayInfo { dtype, shape: tensor.shape.clone() };
    let tensor = match depth {
        // The header's sizes were held against the file's: there is no checksum to learn more from.
        Depth::Header | Depth::Stream => None,
        Depth::Elements => {
            file.seek(SeekFrom::Start(start + from as u64))?;
            let elements = npy::exactly(file.take(bytes), bytes)?;
            Some(layout::plain(dtype, info.shape.clone(), elements.into())?)
        }
    };
    Ok(Found { info, tensor })
}

/// Where the data begin, and the header, held against the file's length.
fn header(file: &mut File) -> Result<(u64, Metadata), ArrayProblem> {
    let bad = |what: String| ArrayProblem::Safetensors(what);
    let length = file.metadata()?.len();
    let mut size = [0; PREFIX_BYTES as usize];
    file.read_exact(&mut size).map_err(|_| bad("it is shorter than 8 bytes".to_owned()))?;
    let size = u64::from_le_bytes(size);
    if size > HEADER_CAP_BYTES || size > length - PREFIX_BYTES {
        return Err(bad(format!("it claims a header of {size} bytes in a file of {length}")));
    }
    let mut text = vec![0; size as usize];
    file.read_exact(&mut text)?;
    let metadata: Metadata = serde_json::from_slice(&text).map_err(|e| bad(format!("header: {e}")))?;
    let start = PREFIX_BYTES + size;
    npy::check_length(metadata.data_len() as u64, length - start)?;
    Ok((start, metadata))
}

fn element_type(dtype: Dtype) -> Option<DataType> {
    Some(match dtype {
        Dtype::BOOL => DataType::Bool,
        Dtype::U8 => DataType::Uint8,
        Dtype::I8 => DataType::Int8,
        Dtype::U16 => DataType::Uint16,
        Dtype::I16 => DataType::Int16,
        Dtype::U32 => DataType::Uint32,
        Dtype::I32 => DataType::Int32,
        Dtype::U64 => DataType::Uint64,
        Dtype::I64 => DataType::Int64,
        Dtype::F16 => DataType::Float16,
        Dtype::BF16 => DataType::Bfloat16,
        Dtype::F32 => DataType::Float32,
        Dtype::F64 => DataType::Float64,
        Dtype::F8_E5M2 => DataType::Float8E5M2,
        Dtype::F8_E4M3 => DataType::Float8E4M3Fn,
        _ => return None,
    })
}
