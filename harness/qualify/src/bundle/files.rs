//! The files of a bundle: which there are, and that they are what the manifest says.

use super::{Bundle, BundleError, inside};
use crate::digest;
use camino::{Utf8Path, Utf8PathBuf};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Size and hash of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileDigest {
    /// In bytes.
    pub size: u64,
    /// 64 lower-case hex digits.
    pub sha256: String,
}

impl FileDigest {
    /// Reads the file once, as a stream.
    pub(super) fn of(path: &Utf8Path) -> Result<Self, BundleError> {
        let (size, sha256) = digest::of_file(path).map_err(BundleError::io("read", path))?;
        Ok(Self { size, sha256 })
    }
}

impl Bundle {
    /// Size and SHA-256 of every file, in the order of `files`: computed now, as streams, several files at a time.
    pub fn hash_files(&self) -> Result<Vec<FileDigest>, BundleError> {
        self.files.par_iter().map(|file| FileDigest::of(&self.inside(&file.path)?)).collect()
    }

    /// Hashes every file and holds it against the manifest. Layouts that record no hashes have nothing to be held against:
    /// their files need only be readable.
    pub fn check_files(&self) -> Result<Vec<FileDigest>, BundleError> {
        // Sizes first: they cost nothing and tell of a truncated copy at once.
        for file in &self.files {
            let path = self.inside(&file.path)?;
            let size = path.metadata().map_err(BundleError::io("read", &path))?.len();
            if let Some(recorded) = file.recorded.as_ref().filter(|r| r.size != size) {
                let problem = format!("has {size} bytes and the manifest says {}", recorded.size);
                return Err(BundleError::Changed { path: self.dir.join(&file.path), problem });
            }
        }
        let found = self.hash_files()?;
        for (file, found) in self.files.iter().zip(&found) {
            if let Some(recorded) = file.recorded.as_ref().filter(|r| *r != found) {
                let problem = format!("has the SHA-256 {} and the manifest says {}", found.sha256, recorded.sha256);
                return Err(BundleError::Changed { path: self.dir.join(&file.path), problem });
            }
        }
        Ok(found)
    }

    /// One hash for the whole bundle: of every file's path, size and SHA-256. The same files give the same fingerprint in
    /// every folder and layout. Hashes that the manifest records are believed; the others are computed.
    pub fn fingerprint(&self) -> Result<String, BundleError> {
        let lines: Result<BTreeSet<String>, BundleError> = self
            .files
            .par_iter()
            .map(|file| {
                let digest = match &file.recorded {
                    Some(recorded) => recorded.clone(),
                    None => FileDigest::of(&self.inside(&file.path)?)?,
                };
                Ok(format!("{}  {}  {}\n", digest.sha256, digest.size, file.path))
            })
            .collect();
        Ok(digest::of_bytes(lines?.into_iter().collect::<String>().as_bytes()))
    }

    /// The file behind a relative path, which may not lead out of the bundle.
    pub(super) fn inside(&self, path: &Utf8Path) -> Result<Utf8PathBuf, BundleError> {
        inside::resolve(&self.dir, path).map_err(|e| BundleError::Field {
            file: self.dir.clone(),
            field: "file".to_owned(),
            problem: e.to_string(),
        })
    }
}

/// Every file below `dir`, relative to it. Links are listed and not followed.
pub(super) fn walk(dir: &Utf8Path) -> Result<BTreeSet<Utf8PathBuf>, BundleError> {
    let mut found = BTreeSet::new();
    let mut folders = vec![Utf8PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let here = dir.join(&folder);
        let entries = here.read_dir_utf8().map_err(BundleError::io("list", &here))?;
        for entry in entries {
            let entry = entry.map_err(BundleError::io("list", &here))?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(BundleError::io("read", entry.path()))?;
            if kind.is_dir() {
                folders.push(path);
            } else {
                found.insert(path);
            }
        }
    }
    Ok(found)
}
