//! Bundles as their users meet them: written, opened, verified, imported, damaged and refused.

#![allow(clippy::unwrap_used)] // the setup functions are tests too

mod committed;
mod own;
mod sources;

use camino::{Utf8Path, Utf8PathBuf};
use ort_qualify::bundle::Bundle;
use std::fs;
use tempfile::TempDir;

fn folder() -> (TempDir, Utf8PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(dir.path().canonicalize().unwrap()).unwrap();
    (dir, path)
}

/// Every file below a folder with its bytes.
fn content(dir: &Utf8Path) -> Vec<(Utf8PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = dir
        .read_dir_utf8()
        .unwrap()
        .map(|e| e.unwrap().path().to_owned())
        .flat_map(|p| if p.is_dir() { content(&p) } else { vec![(p.clone(), fs::read(&p).unwrap())] })
        .collect();
    files.sort();
    files
}

/// What opening and verifying says of a bundle that must be refused.
fn refusal(dir: &Utf8Path) -> String {
    Bundle::open(dir).and_then(|b| b.verify()).expect_err("the bundle must be refused").to_string()
}

/// Changes the manifest's text and signs it anew, as someone would who means it.
fn edit(bundle: &Bundle, change: impl FnOnce(String) -> String) {
    let path = bundle.dir.join("bundle.toml");
    let before = fs::read_to_string(&path).unwrap();
    let after = change(before.clone());
    assert_ne!(before, after, "the edit must change something");
    let hash = ort_qualify::digest::of_bytes(after.as_bytes());
    fs::write(&path, after).unwrap();
    fs::write(bundle.dir.join("bundle.sha256"), format!("{hash}  bundle.toml\n")).unwrap();
}
