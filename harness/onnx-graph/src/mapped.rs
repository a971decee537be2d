//! Files mapped into memory as [`Bytes`]: the pages are read when touched and shared with every process that maps them.

use crate::error::ModelError;
use bytes::Bytes;
use memmap2::Mmap;
use std::fs::{self, File};
use std::path::Path;

/// The whole file, mapped. Slices of the result keep the mapping alive.
pub(crate) fn map(path: &Path) -> Result<Bytes, ModelError> {
    let failed = |source| ModelError::Read { path: path.to_owned(), source };
    // Asked before opening: opening a pipe would wait for its writer.
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(ModelError::NotAFile { path: path.to_owned() });
    }
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    let file = File::open(path).map_err(failed)?;
    map_file(&file).map(Bytes::from_owner).map_err(failed)
}

/// The crate's one unsafe call.
#[allow(unsafe_code)]
fn map_file(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read-only and private. What memory mapping cannot rule out is that another process writes
    // to the file or truncates it meanwhile; the invariant asked of callers is that models and their external data are
    // finished files that nobody edits in place (this project replaces files by rename, which leaves the mapped inode be).
    unsafe { Mmap::map(file) }
}
