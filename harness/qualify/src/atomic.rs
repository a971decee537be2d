//! Files that are either whole or not there: written beside their place and renamed into it.

use camino::Utf8Path;
use std::io::{self, Write};

/// Writes `bytes` to `path` atomically: a reader sees the old file or the new one, never half of it.
pub fn write(path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".part-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    // A temporary file is private to its owner; the finished one is for everyone, as a plain `write` would make it.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(mode)?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// Writes a value as pretty JSON with a last newline, atomically.
pub fn write_json(path: &Utf8Path, value: &impl serde::Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    write(path, &text)
}
