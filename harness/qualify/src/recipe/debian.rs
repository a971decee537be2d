//! `debian` artifacts: packages of whatever archive this machine's apt is configured with.

use super::fetch::MIRROR;
use super::installer::{run, search};
use super::lock::path_of;
use super::{Artifact, HashSource, Options, Pinned, Wanted};
use crate::digest;
use camino::{Utf8Path, Utf8PathBuf};
use xshell::cmd;

/// The word for the archive.
pub(super) const DEBIAN: &str = "debian";

/// The entry of a package in apt's lists; else why there is none. The hash is apt's word until the file is fetched.
pub(super) fn look_up(options: &Options, wanted: &Wanted) -> Result<Artifact, String> {
    let package = format!("{}={}", wanted.name, wanted.version);
    let output = run(options, |shell| cmd!(shell, "apt-get download --print-uris {package}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    parse(&String::from_utf8_lossy(&output.stdout), wanted)
}

/// Reads `'URI' FILE SIZE SHA256:HASH`.
fn parse(line: &str, wanted: &Wanted) -> Result<Artifact, String> {
    let odd = || format!("apt's answer cannot be read: {line}");
    let mut words = line.split_whitespace();
    let (uri, _, size, hash) = match (words.next(), words.next(), words.next(), words.next()) {
        (Some(uri), Some(file), Some(size), Some(hash)) => (uri.trim_matches('\''), file, size, hash),
        _ => return Err(odd()),
    };
    let sha256 = hash.strip_prefix("SHA256:").filter(|h| digest::is_sha256(h)).ok_or_else(odd)?;
    let path = path_of(uri).ok_or_else(odd)?;
    // Where the archive starts on its host is the mirror's own affair.
    let path = path.strip_prefix("debian").map(Utf8Path::to_owned).unwrap_or(path);
    Ok(Artifact {
        name: wanted.name.clone(),
        version: wanted.version.clone(),
        index: wanted.index.clone(),
        filename: path.file_name().map(str::to_owned),
        path: Some(path),
        size: size.parse().ok(),
        sha256: Some(sha256.to_owned()),
        hash_source: HashSource::ComputedHere,
        reason: None,
    })
}

/// Fetches a package through apt into `folder`; else why not.
pub(super) fn fetch(options: &Options, pinned: &Pinned, folder: &Utf8Path) -> Result<Utf8PathBuf, String> {
    if !search(options, "apt-get") {
        return Err(format!(
            "this machine has no apt-get; {MIRROR} may name a mirror of Debian, by its address or as a folder"
        ));
    }
    let package = format!("{}={}", pinned.name, pinned.version);
    let ran = run(options, |shell| {
        shell.change_dir(folder);
        // As the caller: apt's own user may not write into the store.
        cmd!(shell, "apt-get download -q -o APT::Sandbox::User=root {package}")
    })?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
        return Err(format!(
            "{said}\nAn archive drops a package when the next point release has a newer one: \
             {MIRROR} may name one that keeps them"
        ));
    }
    let mut files = folder.read_dir_utf8().map_err(|e| format!("cannot list {folder}: {e}"))?.flatten();
    files.next().map(camino::Utf8DirEntry::into_path).ok_or_else(|| "apt fetched nothing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apts_answer_is_read_and_anything_else_is_refused() {
        let wanted = Wanted {
            name: "thing".into(),
            version: "1~deb12u1".into(),
            index: DEBIAN.into(),
            python: None,
            platform: None,
        };
        let hash = "fe9713b01e8336384848ca9ff4c073d9a36113c71ebf6e1f1e54e8d294b675ae";
        let line = format!(
            "'http://archive.example/debian/pool/t/thing_1%7edeb12u1_amd64.deb' thing_1~deb12u1_amd64.deb 12 SHA256:{hash}\n"
        );
        let found = parse(&line, &wanted).unwrap();
        assert_eq!(found.path.unwrap(), "pool/t/thing_1~deb12u1_amd64.deb");
        assert_eq!((found.size, found.sha256.as_deref()), (Some(12), Some(hash)));
        for odd in ["", "'x' y", "'http://h/p' f 1 MD5Sum:00", "'nothing' f 1 SHA256:00"] {
            assert!(parse(odd, &wanted).unwrap_err().contains("cannot be read"), "{odd}");
        }
    }
}
