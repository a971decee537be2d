//! One `.npy` stream: a file of its own or an entry of an `.npz` archive.

use super::{ArrayInfo, ArrayProblem, Depth, Found, npy_header::NpyHeader};
use camino::Utf8Path;
use onnx_graph::DataType;
use std::fs::File;
use std::io::{self, BufReader, Read};

/// A `.npy` file.
pub(super) fn open(path: &Utf8Path, wanted: Option<DataType>, cap: u64, depth: Depth) -> Result<Found, ArrayProblem> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    read(BufReader::new(file), length, wanted, cap, depth)
}

/// Reads a stream that is said to be `length` bytes long.
pub(super) fn read(
    mut reader: impl Read,
    length: u64,
    wanted: Option<DataType>,
    cap: u64,
    depth: Depth,
) -> Result<Found, ArrayProblem> {
    let header = NpyHeader::read(&mut reader)?;
    let dtype = header.stored.dtype(wanted)?;
    let declared = header.stored.byte_len(&header.shape, cap)?;
    let found = length.saturating_sub(header.bytes);
    check_length(declared, found)?;
    let info = ArrayInfo { dtype, shape: header.shape };
    let tensor = match depth {
        Depth::Header => None,
        Depth::Stream => {
            let read = io::copy(&mut reader.take(declared + 1), &mut io::sink())?;
            check_length(declared, read)?;
            None
        }
        Depth::Elements => {
            let bytes = exactly(reader, declared)?;
            Some(header.stored.into_tensor(dtype, info.shape.clone(), header.fortran, bytes)?)
        }
    };
    Ok(Found { info, tensor })
}

/// Holds the bytes that are there against those that are declared.
pub(super) fn check_length(declared: u64, found: u64) -> Result<(), ArrayProblem> {
    match found.cmp(&declared) {
        std::cmp::Ordering::Less => Err(ArrayProblem::Truncated { declared, found }),
        std::cmp::Ordering::Greater => Err(ArrayProblem::TooLong { declared, found }),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

/// Reads `declared` bytes and sees that the stream ends there. Reading to the end also checks an archive's CRC.
pub(super) fn exactly(reader: impl Read, declared: u64) -> Result<Vec<u8>, ArrayProblem> {
    let mut bytes = Vec::new();
    // An error instead of an abort, should the machine not have the memory.
    bytes.try_reserve_exact(declared as usize).map_err(io::Error::from)?;
    // One byte more than declared, so that a stream that goes on is noticed without following it.
    let mut limited = reader.take(declared + 1);
    limited.by_ref().take(declared).read_to_end(&mut bytes)?;
    let rest = if bytes.len() as u64 == declared { limited.read_to_end(&mut Vec::new())? } else { 0 };
    check_length(declared, bytes.len() as u64 + rest as u64)?;
    Ok(bytes)
}
