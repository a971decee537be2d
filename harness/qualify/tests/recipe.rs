//! Recipes realised for real: real wheels, real uv and pip, real failures. uv's cache makes all but the first run quick.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use camino::{Utf8Path, Utf8PathBuf};
use ort_qualify::recipe::{
    Altered, Cause, Disagreement, Lock, Options, Prefix, Progress, RealiseError, Recipe, RecipeError,
};
use ort_qualify::recipe::{Resolved, Store};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::OnceLock;

/// A store of its own, gone at the end of the test.
struct Scratch {
    _folder: tempfile::TempDir,
    dir: Utf8PathBuf,
    store: Store,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(folder.path()).unwrap().to_owned();
        let store = Store::locate(Some(&dir.join("store"))).unwrap();
        Self { _folder: folder, dir, store }
    }

    fn realise(&self, resolved: &Resolved, options: &Options) -> Result<Prefix, RealiseError> {
        self.store.realise(resolved, options, &Progress::silent())
    }

    /// What lies in the store, the lock files aside.
    fn left(&self) -> Vec<String> {
        let entries = self.store.dir().read_dir_utf8().into_iter().flatten().map(|e| e.unwrap().file_name().to_owned());
        entries.filter(|name| !name.starts_with(".lock-")).collect()
    }

    /// A directory that may serve as the whole `PATH`, with one script of this name and body in it.
    fn path_with(&self, name: &str, body: &str) -> OsString {
        let folder = self.dir.join("bin");
        fs::create_dir_all(&folder).unwrap();
        let script = folder.join(name);
        fs::write(&script, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        folder.into_std_path_buf().into()
    }
}

fn root() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn resolved(name: &str) -> Resolved {
    Recipe::load(&root(), name).unwrap().resolve(&Lock::load(&root()).unwrap()).unwrap()
}

/// With the pinned uv, a plain binary, whatever the machine's own may be and whether it has one.
fn options() -> Options {
    Options { uv: Some(pinned_uv()), ..Options::new(&root()) }
}

/// The pinned uv of the user's own store: fetched once for all tests.
fn pinned_uv() -> Utf8PathBuf {
    static UV: OnceLock<Utf8PathBuf> = OnceLock::new();
    let fetch = || {
        let store = Store::locate(None).unwrap();
        store.realise(&resolved("tool-uv"), &Options::new(&root()), &Progress::silent()).unwrap().tool().unwrap()
    };
    UV.get_or_init(fetch).clone()
}

fn env<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// An address that nothing listens on.
fn closed_index() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/simple", listener.local_addr().unwrap())
}

/// The interpreter behind `python3` (which may be a version manager's shim), if it has pip.
fn python_with_pip() -> Option<String> {
    let code = "import pip, sys; print(sys.executable)";
    let output = Command::new("python3").args(["-c", code]).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

fn altered(prefix: &Prefix) -> Altered {
    match prefix.verify(&Progress::silent()) {
        Err(RealiseError::Altered(altered)) => *altered,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_lock_has_what_the_recipes_want_and_nothing_else() {
    let (recipes, lock) = (Recipe::list(&root()).unwrap(), Lock::load(&root()).unwrap());
    assert!(recipes.iter().any(|r| r.name == "cpu"));
    assert_eq!(Disagreement::of(&lock, &recipes), Disagreement::default());
    let refused: Vec<(&str, RecipeError)> =
        recipes.iter().filter_map(|r| Some((r.name.as_str(), r.resolve(&lock).err()?))).collect();
    let names: Vec<&str> = refused.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["cuda-container", "cuda-container-cpu", "migraphx"], "{refused:?}");
    assert!(refused[..2].iter().all(|(_, e)| matches!(e, RecipeError::NoImage { .. })), "the image is the user's");
    assert!(matches!(refused[2].1, RecipeError::Unrecorded { .. }), "nobody recorded all of its hashes");
}

#[test]
fn cpu_is_realised_once_guarded_against_change_and_repaired() {
    let scratch = Scratch::new();
    let cpu = resolved("cpu");
    let prefix = scratch.realise(&cpu, &options()).unwrap();
    assert_eq!(scratch.left(), [cpu.entry_name()], "a build was left behind");
    assert!(prefix.library().unwrap().is_file());
    assert_eq!((prefix.provider().unwrap().name.as_str(), prefix.env(|_| None).len()), ("cpu", 0));
    assert!(prefix.tool().unwrap_err().to_string().contains("recipe `cpu` is of kind `stack`, and a `tool` is needed"));
    assert!(!prefix.files.iter().any(|f| f.path.as_str().contains("__pycache__")));
    prefix.verify(&Progress::silent()).unwrap();

    // The second time nothing is run and nothing written, so a read-only store and a bare machine will do.
    fs::remove_file(scratch.store.dir().join(format!(".lock-{}", cpu.entry_name()))).unwrap();
    let bare = Options { offline: true, search_path: Some(OsString::new()), uv: None, ..options() };
    let again = scratch.realise(&cpu, &bare).unwrap();
    assert_eq!((again.files, again.installer), (prefix.files.clone(), prefix.installer.clone()));
    assert_eq!(scratch.store.dir().read_dir().unwrap().count(), 1, "something was written");

    // Changed content of the same size, a truncated library, a missing file, an extra one, a lost executable bit.
    let tree = prefix.tree();
    let flipped = tree.join("onnxruntime/__init__.py");
    let mut bytes = fs::read(&flipped).unwrap();
    bytes[100] ^= 1;
    fs::write(&flipped, bytes).unwrap();
    fs::File::options().write(true).open(prefix.library().unwrap()).unwrap().set_len(4096).unwrap();
    fs::remove_file(tree.join("onnxruntime/LICENSE")).unwrap();
    fs::write(tree.join("onnxruntime/sitecustomize.py"), "").unwrap();
    let found = altered(&prefix);
    assert_eq!(found.missing, ["onnxruntime/LICENSE"]);
    assert_eq!(found.extra, ["onnxruntime/sitecustomize.py"]);
    assert_eq!(found.changed.len(), 2, "{found}");
    assert_eq!(found.changed[0], "onnxruntime/__init__.py (content)");
    assert!(
        found.changed[1].starts_with("onnxruntime/capi/libonnxruntime.so.1.32.0 (4096 bytes instead of "),
        "{found}"
    );
    assert!(found.to_string().contains("`ort-qualify recipe realise cpu --repair`"), "{found}");

    // A build that was killed is swept by the next one; a repair leaves an entry like the first.
    fs::create_dir(scratch.store.dir().join(format!(".build-{}.AbCdEf", cpu.entry_name()))).unwrap();
    let repaired = scratch.realise(&cpu, &Options { repair: true, ..options() }).unwrap();
    repaired.verify(&Progress::silent()).unwrap();
    assert_eq!(repaired.files, prefix.files);
    assert_eq!(scratch.left(), [cpu.entry_name()]);

    // The record itself.
    fs::write(repaired.dir.join("prefix.json"), "{").unwrap();
    let e = scratch.realise(&cpu, &options()).unwrap_err();
    assert!(e.is_environment() && e.to_string().contains("prefix.json") && e.to_string().contains("--repair"), "{e}");
}

#[test]
fn a_prefix_that_is_gone_from_under_its_record_is_noticed() {
    let scratch = Scratch::new();
    let prefix = scratch.realise(&resolved("cpu"), &options()).unwrap();
    fs::remove_dir_all(prefix.tree()).unwrap();
    assert_eq!(altered(&prefix).missing.len(), prefix.files.len());
}

#[test]
fn two_that_want_the_same_at_once_both_get_it() {
    let scratch = Scratch::new();
    let cpu = resolved("cpu-1.23.2");
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(|| scratch.realise(&cpu, &options()).unwrap());
        (scratch.realise(&cpu, &options()).unwrap(), other.join().unwrap())
    });
    assert_eq!((one.dir, one.files), (two.dir, two.files));
    assert_eq!(scratch.left(), [cpu.entry_name()]);
}

#[test]
fn the_node_tests_are_data() {
    let scratch = Scratch::new();
    let prefix = scratch.realise(&resolved("onnx-node-tests"), &options()).unwrap();
    assert!(prefix.data().unwrap().join("test_attention_4d/model.onnx").is_file());
    assert!(prefix.library().is_err());
}

#[test]
fn a_file_that_is_not_the_pinned_one_is_refused_and_nothing_is_left() {
    let scratch = Scratch::new();
    let mut cpu = resolved("cpu");
    cpu.artifacts[0].sha256 = "0".repeat(64);
    let e = scratch.realise(&cpu, &options()).unwrap_err();
    assert!(matches!(e, RealiseError::Installer { cause: Cause::Hash, .. }) && !e.is_environment(), "{e}");
    assert!(e.to_string().contains("onnxruntime 1.32.0") && e.to_string().contains("lock.json"), "{e}");
    assert_eq!(scratch.left(), [""; 0]);
}

#[test]
fn a_recipe_that_points_at_what_is_not_installed_is_refused_with_the_nearest() {
    let scratch = Scratch::new();
    let mut cpu = resolved("cpu");
    cpu.recipe.library.as_mut().unwrap().path = "onnxruntime/capi/libonnxruntime.so.1.31.0".into();
    let e = scratch.realise(&cpu, &options()).unwrap_err();
    assert!(
        !e.is_environment() && e.to_string().contains("(did you mean `onnxruntime/capi/libonnxruntime.so.1.32.0`?)"),
        "{e}"
    );
    assert_eq!(scratch.left(), [""; 0]);
}

#[test]
fn offline_and_without_a_network_the_error_says_which() {
    let scratch = Scratch::new();
    let cache = scratch.dir.join("cache");
    let index = closed_index();
    let tool_env = env([("UV_CACHE_DIR", cache.as_str()), ("UV_DEFAULT_INDEX", &index), ("UV_HTTP_RETRIES", "0")]);
    let cut = Options { tool_env, ..options() };
    for (offline, words) in [(true, "--offline forbids fetching it"), (false, "package index could not be reached")] {
        let e = scratch.realise(&resolved("cpu"), &Options { offline, ..cut.clone() }).unwrap_err();
        assert!(e.is_environment() && e.to_string().contains(words), "{e}");
    }
    assert_eq!(scratch.left(), [""; 0]);
}

#[test]
fn without_uv_and_pip_the_error_says_what_to_install() {
    let scratch = Scratch::new();
    let bare = Options { search_path: Some(OsString::from("/nonexistent")), uv: None, ..options() };
    let e = scratch.realise(&resolved("cpu"), &bare).unwrap_err();
    let told = e.to_string();
    assert!(
        e.is_environment() && told.contains("no `uv` on the PATH") && told.contains("no `python3` on the PATH"),
        "{e}"
    );
    let e = scratch.realise(&resolved("cpu"), &Options { offline: true, ..bare.clone() }).unwrap_err();
    assert!(e.is_environment() && e.to_string().contains("cannot be fetched offline"), "{e}");
    // A uv that was named is used or refused, never passed over; an old one is told so.
    let folder = Utf8PathBuf::from_path_buf(scratch.path_with("uv", "echo uv 0.4.30").into()).unwrap();
    let e = scratch.realise(&resolved("cpu"), &Options { uv: Some(folder.join("uv")), ..bare }).unwrap_err();
    assert!(e.to_string().contains("which is uv 0.4.30, and 0.5.31 or newer is needed"), "{e}");
}

#[test]
fn uv_without_any_python_is_told_apart_from_uv_without_a_network() {
    let scratch = Scratch::new();
    let search_path = Some(OsString::from("/nonexistent"));
    let pythons = scratch.dir.join("pythons");
    let tool_env = env([
        ("UV_PYTHON_DOWNLOADS", "never"),
        ("UV_PYTHON_INSTALL_DIR", pythons.as_str()),
        ("VIRTUAL_ENV", ""),
        ("CONDA_PREFIX", ""),
    ]);
    let options = Options { search_path, tool_env, ..options() };
    let e = scratch.realise(&resolved("cpu"), &options).unwrap_err();
    assert!(e.is_environment() && e.to_string().contains("Any Python 3 will do"), "{e}");
}

#[test]
fn where_uv_is_absent_pip_fetches_it() {
    let Some(python) = python_with_pip() else { return eprintln!("skipped: no python3 with pip on this machine") };
    let scratch = Scratch::new();
    let search_path = Some(scratch.path_with("python3", &format!("exec {python} \"$@\"")));
    let pip_only = Options { search_path, uv: None, ..options() };
    let index = closed_index();
    let cut = env([
        ("PIP_INDEX_URL", index.as_str()),
        ("PIP_FIND_LINKS", ""),
        ("PIP_NO_CACHE_DIR", "1"),
        ("PIP_RETRIES", "1"),
    ]);
    let e = scratch.realise(&resolved("cpu"), &Options { tool_env: cut, ..pip_only.clone() }).unwrap_err();
    assert!(matches!(e, RealiseError::Installer { cause: Cause::Network, .. }) && e.is_environment(), "{e}");
    assert!(e.to_string().contains("recipe `tool-uv`: pip "), "{e}");

    let prefix = scratch.realise(&resolved("cpu"), &pip_only).unwrap();
    assert_eq!(prefix.installer, "uv 0.11.8");
    prefix.verify(&Progress::silent()).unwrap();
    let uv = scratch.store.find(&resolved("tool-uv")).unwrap().unwrap();
    assert!(uv.tool().unwrap().is_file() && uv.installer.starts_with("pip "), "{}", uv.installer);
}

#[test]
fn a_place_that_cannot_be_written_and_a_disk_that_is_full_are_said_in_words() {
    // Not even root makes directories there, nor below a file.
    for place in ["/sys/ort-qualify-store", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml/store")] {
        let store = Store::locate(Some(place.into())).unwrap();
        let e = store.realise(&resolved("cpu"), &options(), &Progress::silent()).unwrap_err();
        assert!(e.is_environment() && e.to_string().starts_with(&format!("cannot create {place}: ")), "{e}");
    }
    // The real uv under a real limit on file sizes.
    let scratch = Scratch::new();
    let uv = pinned_uv();
    let folder = scratch.path_with("uv", &format!("ulimit -f 2000\nexec {uv} \"$@\""));
    let uv = Utf8PathBuf::from_path_buf(folder.into()).unwrap().join("uv");
    let e = scratch.realise(&resolved("cpu"), &Options { uv: Some(uv), ..options() }).unwrap_err();
    assert!(e.is_environment() && e.to_string().contains("`ulimit -f`"), "{e}");
    assert_eq!(scratch.left(), [""; 0]);
}

#[test]
fn unknown_names_and_fields_are_refused_with_the_nearest() {
    let e = Recipe::load(&root(), "cpu-1.23").unwrap_err().to_string();
    assert!(e.contains("did you mean `cpu-1.23.2`?") && e.contains("onnx-node-tests"), "{e}");
    let e = Recipe::load(&root(), "../env-recipes/cpu").unwrap_err().to_string();
    assert!(e.starts_with("there is no recipe `../env-recipes/cpu`"), "{e}");

    let scratch = Scratch::new();
    let folder = scratch.dir.join("env-recipes");
    fs::create_dir(&folder).unwrap();
    let text = fs::read_to_string(root().join("env-recipes/cpu.toml")).unwrap();
    fs::write(folder.join("cpu.toml"), text.replace("[provider]", "[provder]")).unwrap();
    let e = Recipe::load(&scratch.dir, "cpu").unwrap_err().to_string();
    assert!(e.contains("env-recipes/cpu.toml") && e.contains("did you mean `provider`?"), "{e}");
    let e = Recipe::list(&scratch.dir.join("nowhere")).unwrap_err().to_string();
    assert!(e.contains("nowhere/env-recipes"), "{e}");
}
