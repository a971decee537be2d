//! The files below a directory, hashed: recorded when a prefix is made, held against the record before it is used.

use super::Progress;
use crate::digest;
use camino::{Utf8Path, Utf8PathBuf};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::PermissionsExt as _;

/// One installed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeFile {
    /// Path below the root.
    pub path: Utf8PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256, lower-case hex.
    pub sha256: String,
    /// May its owner execute it?
    pub executable: bool,
}

/// A directory entry that is no directory, not yet hashed.
pub(super) struct Found {
    /// Path below the root.
    pub(super) path: Utf8PathBuf,
    /// Size in bytes.
    pub(super) size: u64,
    /// May its owner execute it?
    pub(super) executable: bool,
    /// A plain file, neither a link nor anything stranger.
    pub(super) plain: bool,
}

/// Everything below `root` that is no directory, sorted by path. Links are not followed.
pub(super) fn walk(root: &Utf8Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut folders = vec![Utf8PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in root.join(&folder).read_dir_utf8()? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let metadata = entry.path().symlink_metadata()?;
            if metadata.is_dir() {
                folders.push(path);
            } else {
                found.push(Found {
                    path,
                    size: metadata.len(),
                    executable: metadata.permissions().mode() & 0o100 != 0,
                    plain: metadata.is_file(),
                });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Size and hash of every file below `root`, in parallel. Anything that is neither file nor directory is refused.
pub(super) fn record(root: &Utf8Path, progress: &Progress) -> io::Result<Vec<TreeFile>> {
    let found = walk(root)?;
    if let Some(odd) = found.iter().find(|f| !f.plain) {
        return Err(io::Error::other(format!("`{}` is neither a file nor a directory", odd.path)));
    }
    let bar = progress.bytes("hashing the installed files", found.iter().map(|f| f.size).sum());
    let files = found
        .into_par_iter()
        .map(|Found { path, executable, .. }| {
            let (size, sha256) = digest::of_file(&root.join(&path))?;
            bar.inc(size);
            Ok(TreeFile { path, size, sha256, executable })
        })
        .collect();
    bar.finish_and_clear();
    files
}
