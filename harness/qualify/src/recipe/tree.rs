//! The files below a directory, hashed: recorded when a prefix is made, held against the record before it is used.

use super::Progress;
use super::owner::Owners;
use crate::digest;
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::PermissionsExt as _;

/// One installed file, or a link to one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeFile {
    /// Path below the root.
    pub path: Utf8PathBuf,
    /// Size in bytes; of a link, that of its target's name.
    pub size: u64,
    /// SHA-256, lower-case hex; of a link, that of its target's name.
    pub sha256: String,
    /// May its owner execute it? No for a link.
    pub executable: bool,
    /// What a link names, as it stands in the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Utf8PathBuf>,
    /// The artifact that brought it, where that is known: installers add files of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
}

/// A directory entry that is no directory, not yet hashed.
pub(super) struct Found {
    /// Path below the root.
    pub(super) path: Utf8PathBuf,
    /// Size in bytes.
    pub(super) size: u64,
    /// May its owner execute it?
    pub(super) executable: bool,
    /// What it is.
    pub(super) what: What,
}

/// What a directory entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A plain file.
    File,
    /// A link to this.
    Link(Utf8PathBuf),
    /// Anything stranger.
    Odd,
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File => f.write_str("a plain file"),
            Self::Link(target) => write!(f, "a link to {target}"),
            Self::Odd => f.write_str("no plain file"),
        }
    }
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
            let what = match metadata.file_type() {
                kind if kind.is_dir() => {
                    folders.push(path);
                    continue;
                }
                kind if kind.is_file() => What::File,
                kind if kind.is_symlink() => What::Link(entry.path().read_link_utf8()?),
                _ => What::Odd,
            };
            let executable = what == What::File && metadata.permissions().mode() & 0o100 != 0;
            found.push(Found { path, size: metadata.len(), executable, what });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Size and hash of every file below `root`, in parallel. Refused is what is neither file, directory nor link, and a link that
/// leads out of `root` unless `may_leave` allows it.
pub(super) fn record(
    root: &Utf8Path,
    owners: &Owners,
    may_leave: impl Fn(&Utf8Path) -> bool,
    progress: &Progress,
) -> io::Result<Vec<TreeFile>> {
    let found = walk(root)?;
    for Found { path, what, .. } in &found {
        match what {
            What::Odd => return Err(io::Error::other(format!("`{path}` is neither a file nor a directory"))),
            What::Link(target) if !may_leave(path) && (leaves(path, target) || !is_below(root, &root.join(path))?) => {
                return Err(io::Error::other(format!("`{path}` is a link to `{target}`, which is not below it")));
            }
            _ => {}
        }
    }
    let bar = progress.bytes("hashing the installed files", found.iter().map(|f| f.size).sum());
    let files = found
        .into_par_iter()
        .map(|Found { path, executable, what, .. }| {
            let (size, sha256) = match &what {
                What::Link(target) => digest::of_reader(target.as_str().as_bytes())?,
                _ => digest::of_file(&root.join(&path))?,
            };
            bar.inc(size);
            let link = if let What::Link(target) = what { Some(target) } else { None };
            let artifact = owners.of(&path).map(str::to_owned);
            Ok(TreeFile { path, size, sha256, executable, link, artifact })
        })
        .collect();
    bar.finish_and_clear();
    files
}

/// Does a path end below `root` when all links are followed? One that ends nowhere leads nowhere.
pub(super) fn is_below(root: &Utf8Path, path: &Utf8Path) -> io::Result<bool> {
    let root = root.canonicalize()?;
    match path.canonicalize() {
        Ok(end) => Ok(end.starts_with(root)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) => Err(e),
    }
}

/// Does a link at `path` with this target name something outside the root? Judged by the names alone.
pub(super) fn leaves(path: &Utf8Path, target: &Utf8Path) -> bool {
    let from = path.parent().unwrap_or(Utf8Path::new(""));
    below_root(&from.join(target)).is_none()
}

/// A path without `.` and `..`, if it stays below the root; by the names alone.
pub(super) fn below_root(path: &Utf8Path) -> Option<Utf8PathBuf> {
    let mut plain = Utf8PathBuf::new();
    for component in path.components() {
        match component {
            Utf8Component::Normal(name) => plain.push(name),
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir if plain.pop() => {}
            _ => return None,
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leaves_by_an_absolute_target_or_by_too_many_parents() {
        for (path, target, out) in [
            ("lib/a.so", "a.so.1", false),
            ("usr/lib/a.so", "../../opt/a.so", false),
            ("lib/a.so", "../../a.so", true),
            ("lib/a.so", "/usr/lib/a.so", true),
            ("a.so", "x/../../a.so", true),
        ] {
            assert_eq!(leaves(path.into(), target.into()), out, "{path} -> {target}");
        }
        assert_eq!(below_root("a/./b/../c".into()).unwrap(), "a/c");
    }

    #[test]
    fn links_are_recorded_by_their_target_and_refused_where_they_lead_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::write(root.join("a.so.1"), "x").unwrap();
        std::os::unix::fs::symlink("a.so.1", root.join("a.so")).unwrap();
        let recorded = || record(root, &Owners::default(), |path| path == "out", &Progress::silent());
        let files = recorded().unwrap();
        let links: Vec<_> = files.iter().map(|f| (f.path.as_str(), f.link.as_ref().map(|l| l.as_str()))).collect();
        assert_eq!(links, [("a.so", Some("a.so.1")), ("a.so.1", None)]);
        assert_eq!(files[0].sha256, digest::of_bytes(b"a.so.1"));
        std::os::unix::fs::symlink("/usr", root.join("out")).unwrap();
        assert_eq!(recorded().unwrap().len(), 3, "this one may");
        std::os::unix::fs::symlink("../b", root.join("b")).unwrap();
        let told = recorded().unwrap_err().to_string();
        assert_eq!(told, "`b` is a link to `../b`, which is not below it");
        // By the names alone this one stays: but `e/f/d` is `top`, and what is above that is not below the root.
        std::fs::remove_file(root.join("b")).unwrap();
        std::fs::create_dir_all(root.join("e/f")).unwrap();
        std::fs::create_dir(root.join("top")).unwrap();
        std::os::unix::fs::symlink("../../top", root.join("e/f/d")).unwrap();
        assert!(recorded().is_ok());
        std::os::unix::fs::symlink("e/f/d/../..", root.join("b")).unwrap();
        assert_eq!(recorded().unwrap_err().to_string(), "`b` is a link to `e/f/d/../..`, which is not below it");
    }
}
