//! Writes `.npz` files that are the same bytes every time: stored, with the time stamp of 1980-01-01.

use super::{ArrayProblem, npy_header, npz::SUFFIX, strings};
use onnx_graph::{DataType, Tensor, TensorData};
use std::borrow::Cow;
use std::io::{Seek, Write};
use zip::{CompressionMethod, DateTime, ZipWriter, write::SimpleFileOptions};

/// Writes the tensors under their names, in the given order. bfloat16 and float8 become numpy's raw bits (`V2`, `V1`)
/// and are read back with `dtype` in their [`super::ArrayRef`].
pub fn write_npz<'a>(
    out: impl Write + Seek,
    arrays: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
) -> Result<(), ArrayProblem> {
    // DateTime::default() is 1980-01-01, the beginning of zip's time.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644);
    let mut zip = ZipWriter::new(out);
    for (name, tensor) in arrays {
        let (descr, bytes) = stored(tensor)?;
        let header = npy_header::write(&descr, &tensor.shape);
        // Entries near 4 GiB need the 64-bit fields; small ones do without, for readers that do not know them.
        let large = (header.len() + bytes.len()) as u64 >= u64::from(u32::MAX) - (1 << 16);
        zip.start_file(format!("{name}{SUFFIX}"), options.large_file(large))?;
        zip.write_all(&header)?;
        zip.write_all(&bytes)?;
    }
    zip.finish()?.flush()?;
    Ok(())
}

/// numpy's dtype string and the bytes for it.
fn stored(tensor: &Tensor) -> Result<(String, Cow<'_, [u8]>), ArrayProblem> {
    use DataType as T;
    let bytes = match &tensor.data {
        TensorData::Bytes(bytes) => bytes,
        TensorData::Strings(texts) => {
            return strings::to_utf32(texts).map(|(descr, bytes)| (descr, Cow::Owned(bytes)));
        }
    };
    let descr = match tensor.dtype {
        T::Bool => "|b1",
        T::Int8 => "|i1",
        T::Int16 => "<i2",
        T::Int32 => "<i4",
        T::Int64 => "<i8",
        T::Uint8 => "|u1",
        T::Uint16 => "<u2",
        T::Uint32 => "<u4",
        T::Uint64 => "<u8",
        T::Float16 => "<f2",
        T::Float32 => "<f4",
        T::Float64 => "<f8",
        T::Bfloat16 => "<V2",
        T::Float8E4M3Fn | T::Float8E4M3Fnuz | T::Float8E5M2 | T::Float8E5M2Fnuz | T::Float8E8M0 => "|V1",
        T::String | T::Complex64 | T::Complex128 | T::Uint4 | T::Int4 | T::Float4E2M1 | T::Uint2 | T::Int2 => {
            return Err(ArrayProblem::Unwritable(format!("numpy has no place for {}", tensor.dtype)));
        }
    };
    Ok((descr.to_owned(), Cow::Borrowed(bytes)))
}

/// Must the reference to a tensor of this type say its type, because numpy has no name for it?
pub fn needs_dtype(dtype: DataType) -> bool {
    use DataType as T;
    matches!(
        dtype,
        T::Bfloat16 | T::Float8E4M3Fn | T::Float8E4M3Fnuz | T::Float8E5M2 | T::Float8E5M2Fnuz | T::Float8E8M0
    )
}
