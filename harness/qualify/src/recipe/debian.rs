//! `debian` artifacts: packages of whatever archive this machine's apt is configured with, unpacked under the prefix only.

use super::installer::{run, search};
use super::{Artifact, Cause, HashSource, Options, Pinned, RealiseError, Wanted};
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
    let (_, path) = uri.split_once("://").and_then(|(_, rest)| rest.split_once('/')).ok_or_else(odd)?;
    let path = Utf8PathBuf::from(path);
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

/// Fetches a package through apt, holds it against its hash and unpacks it into `tree`.
pub(super) fn install(
    options: &Options,
    recipe: &str,
    pinned: &Pinned,
    tree: &Utf8Path,
    scratch: &Utf8Path,
) -> Result<(), RealiseError> {
    let fail = |cause: Cause, said: String| RealiseError::Installer {
        recipe: recipe.to_owned(),
        tool: "apt".to_owned(),
        artifacts: format!("{} {}", pinned.name, pinned.version),
        cause,
        said,
    };
    let disk = |action: &'static str, path: &Utf8Path| {
        let path = path.to_owned();
        move |why| RealiseError::Disk { action, path, why }
    };
    if !search(options, "apt-get") || !search(options, "dpkg-deb") {
        let said = "this machine has no apt-get and dpkg-deb, by which packages of `debian` are fetched and unpacked";
        return Err(fail(Cause::Other, said.to_owned()));
    }
    let folder = scratch.join("debian");
    std::fs::create_dir_all(&folder).map_err(disk("create", &folder))?;
    let package = format!("{}={}", pinned.name, pinned.version);
    let ran = run(options, |shell| {
        shell.change_dir(&folder);
        // As the caller: apt's own user may not write into the store.
        cmd!(shell, "apt-get download -q -o APT::Sandbox::User=root {package}")
    });
    match ran {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(fail(Cause::of_message(&said), said));
        }
        Err(e) => return Err(fail(Cause::Other, e)),
    }
    let mut files = folder.read_dir_utf8().map_err(disk("list", &folder))?.flatten();
    let file = files.next().ok_or_else(|| fail(Cause::Other, "apt fetched nothing".to_owned()))?.into_path();
    let (_, found) = digest::of_file(&file).map_err(disk("read", &file))?;
    if found != pinned.sha256 {
        let said = format!("the package has the SHA-256 {found}, and the lock says {}", pinned.sha256);
        return Err(fail(Cause::Hash, said));
    }
    std::fs::create_dir_all(tree).map_err(disk("create", tree))?;
    let ran = run(options, |shell| cmd!(shell, "dpkg-deb --extract {file} {tree}"));
    match ran {
        Ok(output) if output.status.success() => {}
        Ok(output) => return Err(fail(Cause::Other, String::from_utf8_lossy(&output.stderr).into_owned())),
        Err(e) => return Err(fail(Cause::Other, e)),
    }
    std::fs::remove_dir_all(&folder).map_err(disk("remove", &folder))
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
            python: "3.12".into(),
            platform: "x86_64-manylinux_2_28".into(),
        };
        let hash = "fe9713b01e8336384848ca9ff4c073d9a36113c71ebf6e1f1e54e8d294b675ae";
        let line = format!(
            "'http://archive.example/debian/pool/t/thing_1%7edeb12u1_amd64.deb' thing_1~deb12u1_amd64.deb 12 SHA256:{hash}\n"
        );
        let found = parse(&line, &wanted).unwrap();
        assert_eq!(found.path.unwrap(), "debian/pool/t/thing_1%7edeb12u1_amd64.deb");
        assert_eq!((found.size, found.sha256.as_deref()), (Some(12), Some(hash)));
        for odd in ["", "'x' y", "'http://h/p' f 1 MD5Sum:00", "'nothing' f 1 SHA256:00"] {
            assert!(parse(odd, &wanted).unwrap_err().contains("cannot be read"), "{odd}");
        }
    }
}
