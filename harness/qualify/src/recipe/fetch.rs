//! Fetching the file of a pin that uv cannot fetch: by curl from an address, through apt, or from a mirror of Debian.
//!
//! What was fetched is kept beside the store's entries until the entry is in place: if the next file cannot be had, the first
//! need not be fetched again.

use super::debian::{self, DEBIAN};
use super::installer::{run, search};
use super::lock::encoded;
use super::{Options, Pinned, RealiseError};
use crate::digest;
use camino::{Utf8Path, Utf8PathBuf};
use std::fs;
use xshell::cmd;

/// Names a mirror of Debian, by address or folder, for machines whose apt is none of Debian's.
pub(super) const MIRROR: &str = "ORT_QUALIFY_DEBIAN_MIRROR";

/// Fetches one file into `keep`, unless it is there already, and holds it against its hash.
pub(super) fn fetch(
    options: &Options,
    recipe: &str,
    pinned: &Pinned,
    keep: &Utf8Path,
) -> Result<Utf8PathBuf, RealiseError> {
    let disk = |action: &'static str, path: &Utf8Path| {
        let path = path.to_owned();
        move |why| RealiseError::Disk { action, path, why }
    };
    let file = keep.join(&pinned.sha256);
    if file.is_file() && digest::of_file(&file).map_err(disk("read", &file))?.1 == pinned.sha256 {
        return Ok(file);
    }
    fs::create_dir_all(keep).map_err(disk("create", keep))?;
    // Of its own: another process may be fetching the same file.
    let scratch = tempfile::tempdir_in(keep).map_err(disk("create a directory in", keep))?;
    let scratch = Utf8Path::from_path(scratch.path()).ok_or_else(|| RealiseError::NoPlace("not UTF-8".to_owned()))?;
    let source = Source::of(options, pinned);
    let fail = |problem: String| RealiseError::Fetch {
        recipe: recipe.to_owned(),
        artifact: format!("{} {}", pinned.name, pinned.version),
        from: source.to_string(),
        problem,
    };
    let fetched = match &source {
        Source::Folder(folder) => folder.join(&pinned.path),
        _ if options.offline => return Err(fail("--offline forbids it".to_owned())),
        Source::Apt => debian::fetch(options, pinned, scratch).map_err(&fail)?,
        Source::Address(url) => curl(options, url, pinned.size, scratch).map_err(&fail)?,
    };
    let (_, found) = digest::of_file(&fetched).map_err(disk("read", &fetched))?;
    if found != pinned.sha256 {
        return Err(RealiseError::WrongFile {
            recipe: recipe.to_owned(),
            artifact: format!("{} {}", pinned.name, pinned.version),
            from: source.to_string(),
            hashes: format!("the SHA-256 {found}, and lock.json says {}", pinned.sha256),
        });
    }
    // A folder's file stays where it is.
    let placed =
        if fetched.starts_with(scratch) { fs::rename(&fetched, &file) } else { fs::copy(&fetched, &file).map(drop) };
    placed.map_err(disk("write", &file)).map(|()| file)
}

/// Removes what was kept of these files.
pub(super) fn forget(keep: &Utf8Path, artifacts: &[Pinned]) {
    for pinned in artifacts {
        // One that cannot be removed is in nobody's way.
        let _ = fs::remove_file(keep.join(&pinned.sha256));
    }
    let _ = fs::remove_dir(keep);
}

/// Where a file comes from.
enum Source {
    /// A mirror of Debian that is a folder.
    Folder(Utf8PathBuf),
    /// This machine's apt.
    Apt,
    /// This address.
    Address(String),
}

impl Source {
    fn of(options: &Options, pinned: &Pinned) -> Self {
        match (&pinned.url, &options.debian_mirror) {
            (Some(url), _) => Self::Address(url.clone()),
            (None, Some(mirror)) if mirror.contains("://") => {
                Self::Address(format!("{}/{}", mirror.trim_end_matches('/'), encoded(&pinned.path)))
            }
            (None, Some(mirror)) => Self::Folder(mirror.into()),
            (None, None) => Self::Apt,
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "the mirror {folder} of `{DEBIAN}`"),
            Self::Apt => write!(f, "`{DEBIAN}` through apt"),
            Self::Address(url) => f.write_str(url),
        }
    }
}

/// Fetches an address into a file of `folder`; else why not.
pub(super) fn curl(options: &Options, url: &str, size: Option<u64>, folder: &Utf8Path) -> Result<Utf8PathBuf, String> {
    if !search(options, "curl") {
        return Err("there is no `curl` on the PATH, by which it would be fetched; install it".to_owned());
    }
    let file = folder.join("file");
    // No larger than it may be: what serves it is not trusted with the disk.
    let most = size.map(|bytes| ["--max-filesize".to_owned(), bytes.to_string()]);
    let most = most.iter().flatten();
    // No step down to plain HTTP on the way.
    let scheme = if url.starts_with("https://") { "=https" } else { "=http" };
    let ran = run(options, |shell| {
        cmd!(
            shell,
            "curl --fail --silent --show-error --location --proto {scheme} --retry 2 {most...} --output {file} -- {url}"
        )
    })?;
    // Numbers: curl(1), "EXIT CODES".
    let what = match ran.status.code() {
        Some(0) => return Ok(file),
        Some(5 | 6 | 7 | 28 | 35 | 56) => "it could not be reached; check the network",
        Some(22) => "it does not have the file",
        Some(23) => "the file cannot be written; is the disk full?",
        Some(63) => "the file is larger than the lock says",
        _ => "see curl's own words",
    };
    Err(format!("{what} ({})", String::from_utf8_lossy(&ran.stderr).trim()))
}
