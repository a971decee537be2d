//! `.npz`: a zip archive of `.npy` streams, stored or deflated.

use super::{ArrayProblem, Depth, Found, error::list, npy};
use crate::nearest;
use camino::Utf8Path;
use onnx_graph::DataType;
use std::fs::File;
use std::io::BufReader;
use zip::{CompressionMethod, ZipArchive, result::ZipError};

/// Deflate cannot do better than 1032 to 1; zip headers that promise more lie.
const DEFLATE_BEST: u64 = 1032;

/// What numpy puts behind an array's name.
pub(super) const SUFFIX: &str = ".npy";

impl From<ZipError> for ArrayProblem {
    fn from(error: ZipError) -> Self {
        match error {
            ZipError::Io(e) => Self::Io(e),
            other => Self::Zip(other.to_string()),
        }
    }
}

/// The arrays in the order of the archive.
pub(super) fn names(path: &Utf8Path) -> Result<Vec<String>, ArrayProblem> {
    archive(path).and_then(|a| array_names(&a))
}

/// The array `name`, or the only one.
pub(super) fn open(
    path: &Utf8Path,
    name: Option<&str>,
    wanted: Option<DataType>,
    cap: u64,
    depth: Depth,
) -> Result<Found, ArrayProblem> {
    let mut archive = archive(path)?;
    let names = array_names(&archive)?;
    let name = choose(name, &names)?;
    let entry = archive.by_name(&format!("{name}{SUFFIX}"))?;
    let (packed, declared) = (entry.compressed_size(), entry.size());
    let best = match entry.compression() {
        CompressionMethod::Stored => packed,
        CompressionMethod::Deflated => packed.saturating_mul(DEFLATE_BEST),
        other => return Err(ArrayProblem::Zip(format!("the compression {other} is not supported; use np.savez"))),
    };
    if declared > best {
        return Err(ArrayProblem::Bomb { packed, declared });
    }
    npy::read(entry, declared, wanted, cap, depth)
}

fn archive(path: &Utf8Path) -> Result<ZipArchive<BufReader<File>>, ArrayProblem> {
    let archive = ZipArchive::new(BufReader::new(File::open(path)?))?;
    if archive.has_duplicate_names() {
        return Err(ArrayProblem::Duplicate);
    }
    Ok(archive)
}

fn array_names(archive: &ZipArchive<BufReader<File>>) -> Result<Vec<String>, ArrayProblem> {
    let mut names = Vec::new();
    for name in archive.file_names() {
        names.extend(name?.strip_suffix(SUFFIX).map(str::to_owned));
    }
    Ok(names)
}

/// The name among `names`, or the only one of them.
pub(super) fn choose<'a>(name: Option<&'a str>, names: &'a [String]) -> Result<&'a str, ArrayProblem> {
    match (name, names) {
        (None, [only]) => Ok(only),
        (None, _) => Err(ArrayProblem::Unnamed { known: list(names) }),
        (Some(name), _) if names.iter().any(|n| n == name) => Ok(name),
        (Some(name), _) => {
            let hint = nearest::hint(name, names.iter().map(String::as_str));
            Err(ArrayProblem::Missing { hint, known: list(names) })
        }
    }
}
