//! Packages that are no wheels: Debian's `.deb` (an `ar` archive with `data.tar.*`; deb(5)) and conda's `.conda` (a zip with
//! `pkg-*.tar.zst`), unpacked below the prefix only. Neither's scripts are run.

use super::owner::Owners;
use super::tree::{self, What};
use super::{Pinned, RealiseError};
use crate::digest;
use camino::{Utf8Path, Utf8PathBuf};
use std::fs::{self, File};
use std::io::{self, Read};

/// Formats by the end of the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A Python wheel, which uv installs.
    Wheel,
    /// A Debian package.
    Deb,
    /// A conda package of the second format.
    Conda,
}

impl Format {
    /// The format of a pinned file, or what is wrong with its name.
    pub fn of(filename: &str) -> Result<Self, String> {
        match Utf8Path::new(filename).extension() {
            Some("whl") => Ok(Self::Wheel),
            Some("deb") => Ok(Self::Deb),
            Some("conda") => Ok(Self::Conda),
            _ => Err(format!("`{filename}` is none of .whl, .deb and .conda, which can be unpacked here")),
        }
    }
}

/// Unpacks the package `file` into `scratch`, which must not be there, and moves what it holds into `tree`.
pub(super) fn install(
    recipe: &str,
    pinned: &Pinned,
    file: &Utf8Path,
    scratch: &Utf8Path,
    tree: &Utf8Path,
    owners: &mut Owners,
) -> Result<(), RealiseError> {
    let disk = |action: &'static str, path: &Utf8Path| {
        let path = path.to_owned();
        move |why| RealiseError::Disk { action, path, why }
    };
    let fail = |problem: String| RealiseError::Package {
        recipe: recipe.to_owned(),
        artifact: format!("{} {}", pinned.name, pinned.version),
        filename: pinned.filename.clone(),
        problem,
    };
    fs::create_dir(scratch).map_err(disk("create", scratch))?;
    fs::create_dir_all(tree).map_err(disk("create", tree))?;
    unpack(file, scratch, &pinned.filename).map_err(|e| fail(e.to_string()))?;
    for found in tree::walk(scratch).map_err(disk("list", scratch))? {
        let (from, to) = (scratch.join(&found.path), tree.join(&found.path));
        if to.symlink_metadata().is_ok() && !same(&from, &to, &found.what).map_err(disk("compare", &to))? {
            return Err(RealiseError::Conflict {
                recipe: recipe.to_owned(),
                first: owners.of(&found.path).unwrap_or("an artifact before it").to_owned(),
                second: pinned.name.clone(),
                path: found.path,
            });
        }
        let folder = to.parent().unwrap_or(tree);
        // A link of another package may stand where a folder was to be.
        let there = folder.ancestors().find(|f| f.exists()).unwrap_or(tree);
        if !tree::is_below(tree, there).map_err(disk("look at", there))? {
            return Err(fail(format!(
                "`{}` would lie outside the prefix, behind a link of another artifact",
                found.path
            )));
        }
        fs::create_dir_all(folder).map_err(disk("create", folder))?;
        fs::rename(&from, &to).map_err(disk("move into", &to))?;
        if owners.of(&found.path).is_none() {
            owners.bring(found.path, &pinned.name);
        }
    }
    fs::remove_dir_all(scratch).map_err(disk("remove", scratch))
}

/// Are both the same link, or files of the same content?
fn same(a: &Utf8Path, b: &Utf8Path, what: &What) -> io::Result<bool> {
    match what {
        What::Link(target) => Ok(b.read_link_utf8().is_ok_and(|other| other == *target)),
        _ => Ok(b.symlink_metadata()?.is_file() && digest::of_file(a)? == digest::of_file(b)?),
    }
}

fn unpack(file: &Utf8Path, folder: &Utf8Path, filename: &str) -> io::Result<()> {
    match Format::of(filename).map_err(io::Error::other)? {
        Format::Wheel => Err(io::Error::other("wheels are installed by uv")),
        Format::Deb => deb(File::open(file)?, folder),
        Format::Conda => conda(File::open(file)?, folder),
    }
}

fn deb(file: File, folder: &Utf8Path) -> io::Result<()> {
    let mut archive = ar::Archive::new(io::BufReader::new(file));
    while let Some(member) = archive.next_entry() {
        let member = member?;
        let name = String::from_utf8_lossy(member.header().identifier()).trim_end_matches('/').to_owned();
        match name.strip_prefix("data.tar") {
            None => {}
            Some("") => return untar(member, folder),
            Some(".xz") => return untar(lzma_rust2::XzReader::new(member, true), folder),
            Some(".zst") => return untar(zstd(member)?, folder),
            Some(_) => {
                return Err(io::Error::other(format!("its files are in {name}; only .xz and .zst are read here")));
            }
        }
    }
    Err(io::Error::other("it holds no data.tar"))
}

fn conda(file: File, folder: &Utf8Path) -> io::Result<()> {
    let mut archive = zip::ZipArchive::new(io::BufReader::new(file)).map_err(io::Error::other)?;
    let mut names = archive.file_names().flatten().map(std::borrow::Cow::into_owned);
    let name = names.find(|name| name.starts_with("pkg-") && name.ends_with(".tar.zst"));
    drop(names);
    let name = name.ok_or_else(|| io::Error::other("it holds no pkg-*.tar.zst"))?;
    let payload = archive.by_name(&name).map_err(io::Error::other)?;
    untar(zstd(payload)?, folder)
}

fn zstd(reader: impl Read) -> io::Result<impl Read> {
    ruzstd::decoding::StreamingDecoder::new(reader).map_err(io::Error::other)
}

/// Files, directories and links, all of them below `folder`, whatever the archive names.
fn untar(reader: impl Read, folder: &Utf8Path) -> io::Result<()> {
    use tar::EntryType::{Directory, GNULongLink, GNULongName, Link, Regular, Symlink, XGlobalHeader, XHeader};
    let mut archive = tar::Archive::new(reader);
    archive.set_preserve_mtime(false);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let outside = || io::Error::other(format!("`{path}` in it leads out of the package"));
        match entry.header().entry_type() {
            Regular | Directory | Link => {}
            Symlink => {
                let target = entry.link_name_bytes().map(|t| String::from_utf8_lossy(&t).into_owned());
                let target: Utf8PathBuf = target.unwrap_or_default().into();
                let path = tree::below_root(Utf8Path::new(&path)).ok_or_else(outside)?;
                if tree::leaves(&path, &target) {
                    return Err(outside());
                }
            }
            XGlobalHeader | XHeader | GNULongName | GNULongLink => continue,
            other => return Err(io::Error::other(format!("`{path}` in it is of the kind {other:?}"))),
        }
        if !entry.unpack_in(folder)? {
            return Err(outside());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// A tar file of links and files, `NAME>TARGET` being a link. Names are written as they are, which no sane tool would.
    fn tarred(members: &[(&str, &str)]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, text) in members {
            let mut header = tar::Header::new_gnu();
            let (name, target) = name.split_once('>').map_or((*name, None), |(n, t)| (n, Some(t)));
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_mode(0o755);
            header.set_size(text.len() as u64);
            if let Some(target) = target {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_link_name_literal(target).unwrap();
            }
            header.set_cksum();
            tar.append(&header, text.as_bytes()).unwrap();
        }
        tar.into_inner().unwrap()
    }

    fn unpacked(members: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let below = Utf8Path::from_path(folder.path()).unwrap().join("a/b");
        fs::create_dir_all(&below).unwrap();
        untar(&*tarred(members), &below).map_err(|e| e.to_string())?;
        Ok(tree::walk(&below).unwrap().into_iter().map(|f| f.path.into_string()).collect())
    }

    #[test]
    fn what_leads_out_of_a_package_is_refused() {
        assert_eq!(unpacked(&[("./x/y", "1"), ("x/z>y", "")]).unwrap(), ["x/y", "x/z"]);
        for members in
            [&[("../y", "1")][..], &[("x/../../../y", "1")], &[("x>../../..", ""), ("x/y", "1")], &[("x>/tmp", "")]]
        {
            let told = unpacked(members).unwrap_err();
            assert!(told.ends_with("leads out of the package"), "{members:?}: {told}");
        }
        assert!(unpacked(&[("/x", "1")]).is_ok_and(|files| files == ["x"]), "the first slash is dropped, as tar does");
    }

    #[test]
    fn a_package_of_another_make_is_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let told = |name: &str, bytes: &[u8]| {
            let file = folder.join(name);
            fs::write(&file, bytes).unwrap();
            unpack(&file, &folder.join("out"), name).unwrap_err().to_string()
        };
        let mut deb = ar::Builder::new(Vec::new());
        deb.append(&ar::Header::new(b"data.tar.gz".to_vec(), 1), &b"x"[..]).unwrap();
        assert!(told("a.deb", &deb.into_inner().unwrap()).contains("data.tar.gz; only .xz and .zst"));
        assert!(told("b.deb", b"!<arch>\n").contains("no data.tar"));
        let mut zip = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        zip.start_file("info.json", zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(b"x").unwrap();
        assert!(told("c.conda", &zip.finish().unwrap().into_inner()).contains("no pkg-*.tar.zst"));
        assert!(told("d.tar.gz", b"").contains("none of .whl, .deb and .conda"));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_readers_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..512), conda in proptest::bool::ANY) {
            let folder = tempfile::tempdir().unwrap();
            let folder = Utf8Path::from_path(folder.path()).unwrap();
            let name = if conda { "x.conda" } else { "x.deb" };
            let head: &[u8] = if conda { b"PK\x03\x04" } else { b"!<arch>\n" };
            fs::write(folder.join(name), [head, &bytes].concat()).unwrap();
            let _ = unpack(&folder.join(name), &folder.join("out"), name);
        }
    }
}
