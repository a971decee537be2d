//! Which artifact brought which installed file, and that no two bring different ones to the same place.
//!
//! Wheels say it themselves: `NAME-VERSION.dist-info/RECORD` lists every file with its hash (`PyPA`, "Recording installed
//! projects"). Of packages it is known because they are unpacked here.

use super::tree::below_root;
use camino::{Utf8Path, Utf8PathBuf};
use serde::Deserialize;
use std::collections::HashMap;
use std::io;

/// Files and the artifacts that brought them.
#[derive(Debug, Default)]
pub(super) struct Owners(HashMap<Utf8PathBuf, Owner>);

#[derive(Debug)]
struct Owner {
    artifact: String,
    /// The hash as the wheel's list has it, `sha256=BASE64`; none for a package's file.
    listed: Option<String>,
}

/// A place to which two artifacts bring different files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub path: Utf8PathBuf,
    pub first: String,
    pub second: String,
}

/// One line of a `RECORD`: path, hash, size.
#[derive(Deserialize)]
struct Line(String, String, #[allow(dead_code, reason = "a line has three fields")] String);

impl Owners {
    /// The artifact that brought this file.
    pub fn of(&self, path: &Utf8Path) -> Option<&str> {
        self.0.get(path).map(|owner| owner.artifact.as_str())
    }

    /// A package brought this file.
    pub fn bring(&mut self, path: Utf8PathBuf, artifact: &str) {
        self.0.insert(path, Owner { artifact: artifact.to_owned(), listed: None });
    }

    /// Reads the lists of all wheels that are installed in the folder `base` of the tree at `root`. Files that two wheels
    /// have alike are the first one's.
    pub fn of_wheels(root: &Utf8Path, base: &Utf8Path) -> io::Result<Result<Self, Conflict>> {
        let mut folders: Vec<Utf8PathBuf> = match root.join(base).read_dir_utf8() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            entries => entries?.map(|entry| entry.map(camino::Utf8DirEntry::into_path)).collect::<io::Result<_>>()?,
        };
        folders.retain(|folder| folder.extension() == Some("dist-info") && folder.join("RECORD").is_file());
        folders.sort();
        let mut owners = Self::default();
        for folder in folders {
            let artifact = normal(folder.file_stem().and_then(|s| s.split('-').next()).unwrap_or_default());
            let list = folder.join("RECORD");
            let reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_path(&list);
            let mut reader = reader.map_err(|e| io::Error::other(format!("{list}: {e}")))?;
            for line in reader.deserialize() {
                let Line(path, hash, _) = line.map_err(|e| io::Error::other(format!("{list}: {e}")))?;
                let Some(path) = below_root(&base.join(path)) else { continue };
                let listed = Some(hash).filter(|h| !h.is_empty());
                if let Some(conflict) = owners.add(path, Owner { artifact: artifact.clone(), listed }) {
                    return Ok(Err(conflict));
                }
            }
        }
        Ok(Ok(owners))
    }

    fn add(&mut self, path: Utf8PathBuf, owner: Owner) -> Option<Conflict> {
        let Some(first) = self.0.get(&path) else {
            self.0.insert(path, owner);
            return None;
        };
        // Files without a hash are those that the installer writes.
        let differ = first.listed.is_some() && owner.listed.is_some() && first.listed != owner.listed;
        differ.then(|| Conflict { path, first: first.artifact.clone(), second: owner.artifact })
    }
}

/// A distribution's name as indexes compare it (PEP 503).
pub(super) fn normal(name: &str) -> String {
    name.to_lowercase().split(['-', '_', '.']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn wheel(root: &Utf8Path, name: &str, record: &str) {
        let folder = root.join(format!("{name}.dist-info"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("RECORD"), record).unwrap();
    }

    #[test]
    fn files_are_their_wheels_and_two_that_differ_at_one_place_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        wheel(
            root,
            "One_Two-1.0",
            "a/lib.so,sha256=x,1\n\"a/b,c\",sha256=y,1\n../../bin/run,,\nn/__init__.py,sha256=e,0\n",
        );
        wheel(root, "other-1.0", "n/__init__.py,sha256=e,0\nother.py,sha256=z,\n");
        let owners = Owners::of_wheels(root, "".into()).unwrap().unwrap();
        let of = |path: &str| owners.of(path.into());
        assert_eq!((of("a/lib.so"), of("a/b,c"), of("other.py")), (Some("one-two"), Some("one-two"), Some("other")));
        assert_eq!((of("n/__init__.py"), of("bin/run")), (Some("one-two"), None));
        wheel(root, "third-1.0", "a/lib.so,sha256=other,1\n");
        let (path, first, second) = ("a/lib.so".into(), "one-two".into(), "third".into());
        assert_eq!(Owners::of_wheels(root, "".into()).unwrap().unwrap_err(), Conflict { path, first, second });
        assert!(Owners::of_wheels(root, "absent".into()).unwrap().unwrap().0.is_empty());
    }
}
