//! Evidence: one folder per recipe and case with everything that was seen, written whole or not at all.

use crate::atomic;
use crate::case::Case;
use crate::digest;
use crate::observation::Observation;
use crate::verdict::Judged;
use crate::worker::Request;
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::io;

/// Version of the evidence folder's form.
pub const FORMAT: u32 = 1;

/// How the names of folders begin that are being filled; the process id follows.
const DRAFT: &str = ".part-";

/// What a finished case depends on: if none of it changed, the case need not run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// [`FORMAT`].
    pub format: u32,
    /// SHA-256 of the `ort-qualify` binary.
    pub binary_sha256: String,
    /// The recipe's name.
    pub recipe: String,
    /// The key of its resolved form.
    pub recipe_key: String,
    /// SHA-256 of the case as expanded.
    pub case_sha256: String,
    /// SHA-256 by file of the bundle.
    pub files: Vec<(Utf8PathBuf, String)>,
}

impl Inputs {
    /// The inputs of a case.
    pub fn new(
        binary_sha256: &str,
        recipe: &str,
        recipe_key: &str,
        case: &Case,
        files: Vec<(Utf8PathBuf, String)>,
    ) -> Self {
        let text = serde_json::to_vec(case).expect("a case is plain data with string keys");
        Self {
            format: FORMAT,
            binary_sha256: binary_sha256.to_owned(),
            recipe: recipe.to_owned(),
            recipe_key: recipe_key.to_owned(),
            case_sha256: digest::of_bytes(&text),
            files,
        }
    }
}

/// Where evidence is kept.
#[derive(Clone, Debug)]
pub struct Store {
    root: Utf8PathBuf,
}

/// Evidence that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write evidence below {path}: {source}; free space or name another folder with --evidence")]
pub struct EvidenceError {
    path: Utf8PathBuf,
    source: io::Error,
}

/// A folder being filled; it takes its place when it is whole.
#[derive(Debug)]
pub struct Draft {
    folder: tempfile::TempDir,
    path: Utf8PathBuf,
    place: Utf8PathBuf,
}

impl Store {
    /// Evidence below `root`.
    pub fn new(root: Utf8PathBuf) -> Self {
        Self { root }
    }

    /// The folder below which everything lies.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// Where a case's evidence lies: `ROOT/RECIPE/CASE`, with the name's slashes as `__`.
    pub fn place(&self, recipe: &str, case: &str) -> Utf8PathBuf {
        self.root.join(recipe).join(case.replace('/', "__"))
    }

    /// What was seen of a case that finished with exactly these inputs, if its evidence is there and whole.
    ///
    /// A case whose worker died or ran out of time is not finished: the machine may have been at fault.
    pub fn kept(&self, case: &str, inputs: &Inputs) -> Option<Observation> {
        let place = self.place(&inputs.recipe, case);
        let read = |name: &str| std::fs::read(place.join(name)).ok();
        let found: Inputs = serde_json::from_slice(&read("inputs.json")?).ok()?;
        if found != *inputs {
            return None;
        }
        let observation: Observation = serde_json::from_slice(&read("observation.json")?).ok()?;
        let finished =
            matches!(observation.end, crate::observation::End::Finished | crate::observation::End::Refused { .. });
        finished.then_some(observation)
    }

    /// Removes what processes that are gone left half filled. What cannot be removed stays: it is in nobody's way.
    pub fn sweep(&self, recipe: &str) {
        let Ok(entries) = self.root.join(recipe).read_dir_utf8() else { return };
        for entry in entries.flatten() {
            let process = entry.file_name().strip_prefix(DRAFT).and_then(|rest| rest.split('-').next());
            if process.is_some_and(|pid| !Utf8Path::new("/proc").join(pid).exists()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Begins a case's evidence in a folder beside its place.
    pub fn draft(&self, recipe: &str, case: &str) -> Result<Draft, EvidenceError> {
        let place = self.place(recipe, case);
        let parent = self.root.join(recipe);
        let failed = |source| EvidenceError { path: parent.clone(), source };
        std::fs::create_dir_all(&parent).map_err(failed)?;
        let prefix = format!("{DRAFT}{}-", std::process::id());
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(&parent).map_err(failed)?;
        let path = Utf8PathBuf::from_path_buf(folder.path().to_owned())
            .map_err(|_| failed(io::Error::other("the folder's name is not UTF-8")))?;
        Ok(Draft { folder, path, place })
    }
}

impl Draft {
    /// The folder being filled: the worker's logs and profile go here.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Writes what is known at the end and puts the folder into its place, over an older one.
    pub fn finish(
        self,
        inputs: &Inputs,
        request: Option<&Request>,
        observation: &Observation,
        judged: &Judged,
        exit: &str,
    ) -> Result<Utf8PathBuf, EvidenceError> {
        let Self { folder, path, place } = self;
        let write = || -> io::Result<()> {
            if let Some(request) = request {
                // The folder's name while it was being filled is of no use to a reader.
                let request = Request { logs: place.clone(), ..request.clone() };
                atomic::write_json(&path.join("request.json"), &request)?;
            }
            atomic::write_json(&path.join("inputs.json"), inputs)?;
            atomic::write_json(&path.join("observation.json"), observation)?;
            atomic::write_json(&path.join("verdict.json"), judged)?;
            atomic::write(&path.join("exit.txt"), format!("{exit}\n").as_bytes())?;
            // A temporary folder is private to its owner; evidence is for everyone.
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
            replace(&path, &place)
        };
        write().map_err(|source| EvidenceError { path: place.clone(), source })?;
        // The folder is in its place: there is nothing left for the temporary one to remove.
        let _ = folder.keep();
        Ok(place)
    }
}

/// Puts `new` in the place of `old`. A reader sees one or the other, or for a moment none, never a mixture.
fn replace(new: &Utf8Path, old: &Utf8Path) -> io::Result<()> {
    loop {
        match std::fs::rename(new, old) {
            Err(e) if matches!(e.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => {
                let parent = old.parent().unwrap_or(Utf8Path::new("."));
                let prefix = format!("{DRAFT}{}-", std::process::id());
                let aside = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent)?;
                match std::fs::rename(old, aside.path()) {
                    // Another process took it away first: then the place is free, or taken anew.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    other => other?,
                }
            }
            other => return other,
        }
    }
}
