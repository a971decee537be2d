//! Paths that stay inside a folder: relative, without `..`, and no symbolic link leads out.

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use std::io;

/// A path that leads out of the bundle, or that cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// The path itself is not allowed.
    #[error("the path `{path}` {problem}; it must name a file inside the bundle, relative and with `/`")]
    Lexical {
        /// As it was given.
        path: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A link on the way leads out.
    #[error("`{path}` is a link that leads out of the bundle; put the file itself there")]
    Link {
        /// As it was given.
        path: Utf8PathBuf,
    },
    /// Not a file.
    #[error("`{path}` is not a regular file")]
    NotAFile {
        /// As it was given.
        path: Utf8PathBuf,
    },
    /// Not there, or not readable.
    #[error("`{path}` cannot be opened: {source}")]
    Io {
        /// As it was given.
        path: Utf8PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Checks the text of a path, without the disk.
pub fn check(path: &Utf8Path) -> Result<(), OutsideError> {
    let text = path.as_str();
    let problem = if text.is_empty() {
        "is empty"
    } else if text.contains('\0') {
        "has a NUL character"
    } else if text.contains('\\') {
        "has a backslash"
    } else if path.is_absolute() {
        "is absolute"
    } else if path.components().any(|c| matches!(c, Utf8Component::ParentDir)) {
        "climbs out with `..`"
    } else if path.components().map(|c| c.as_str()).collect::<Vec<_>>().join("/") != text || text.starts_with("./") {
        // One spelling a file: `./a`, `a//b` and `a/` would be second names of it.
        "has needless parts"
    } else {
        return Ok(());
    };
    Err(OutsideError::Lexical { path: text.to_owned(), problem })
}

/// The file behind `path` in `dir`, links resolved, checked to lie in `dir`.
pub fn resolve(dir: &Utf8Path, path: &Utf8Path) -> Result<Utf8PathBuf, OutsideError> {
    check(path)?;
    let fail = |source| OutsideError::Io { path: path.to_owned(), source };
    let root = dir.canonicalize_utf8().map_err(fail)?;
    let file = root.join(path).canonicalize_utf8().map_err(fail)?;
    if !file.starts_with(&root) {
        return Err(OutsideError::Link { path: path.to_owned() });
    }
    if !file.metadata().map_err(fail)?.is_file() {
        return Err(OutsideError::NotAFile { path: path.to_owned() });
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_pass() {
        for good in ["a", "a/b.npz", "..a/b", ".hidden"] {
            check(good.into()).unwrap();
        }
        for (bad, why) in [
            ("", "empty"),
            ("/a", "absolute"),
            ("../a", "climbs"),
            ("a/../b", "climbs"),
            ("..", "climbs"),
            ("a\\b", "backslash"),
            ("a\0b", "NUL"),
            ("./a", "needless"),
            ("a//b", "needless"),
            ("a/", "needless"),
            ("a/./b", "needless"),
        ] {
            let text = check(bad.into()).unwrap_err().to_string();
            assert!(text.contains(why), "{bad:?}: {text}");
        }
    }

    #[test]
    fn links_may_stay_inside_and_may_not_lead_out() {
        let outer = tempfile::tempdir().unwrap();
        let outer = Utf8Path::from_path(outer.path()).unwrap();
        let dir = outer.join("bundle");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("real"), "x").unwrap();
        std::fs::write(outer.join("secret"), "x").unwrap();
        std::os::unix::fs::symlink("real", dir.join("in")).unwrap();
        std::os::unix::fs::symlink("../secret", dir.join("out")).unwrap();
        std::os::unix::fs::symlink("..", dir.join("up")).unwrap();
        assert!(resolve(&dir, "in".into()).is_ok());
        assert!(matches!(resolve(&dir, "out".into()), Err(OutsideError::Link { .. })));
        assert!(matches!(resolve(&dir, "up/secret".into()), Err(OutsideError::Link { .. })));
        assert!(matches!(resolve(&dir, "up/bundle".into()), Err(OutsideError::NotAFile { .. })));
        assert!(matches!(resolve(&dir, "absent".into()), Err(OutsideError::Io { .. })));
    }
}
