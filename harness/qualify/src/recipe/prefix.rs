//! A recipe realised on disk: where its files are, what environment they want, and whether they are still the same.

use super::description::PREFIX_VARIABLE;
use super::owner::{Owners, normal};
use super::python::{Environment, is_interpreter};
use super::tree::{self, TreeFile, What};
use super::{Append, Kind, Options, Pinned, Progress, Provider, RealiseError, RecipeError, Resolved, cache};
use crate::{atomic, digest, nearest};
use camino::{Utf8Path, Utf8PathBuf};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, io};

/// Format of `prefix.json` and of the entry around it.
pub(super) const FORMAT: u32 = 1;

const RECORD: &str = "prefix.json";
const TREE: &str = "tree";

/// A store entry: `DIR/tree` holds the installed files, `DIR/prefix.json` their record.
#[derive(Clone, Debug)]
pub struct Prefix {
    /// The recipe and its pins.
    pub resolved: Resolved,
    /// The entry's directory.
    pub dir: Utf8PathBuf,
    /// Program and version that installed it.
    pub installer: String,
    /// The Python environment, if it is one.
    pub python: Option<Environment>,
    /// Every installed file, sorted by path.
    pub files: Vec<TreeFile>,
}

/// How a prefix was made.
pub(super) struct Made {
    /// Program and version that installed it.
    pub installer: String,
    /// Which artifact brought which file.
    pub owners: Owners,
    /// The Python environment, if it is one.
    pub python: Option<Environment>,
}

/// `prefix.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    recipe: String,
    key: String,
    installer: String,
    artifacts: Vec<Pinned>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    python: Option<Environment>,
    files: Vec<TreeFile>,
}

impl Prefix {
    /// Reads the entry at `dir`, which must be of this very recipe. `None` if there is none.
    pub(super) fn read(dir: Utf8PathBuf, resolved: &Resolved) -> Result<Option<Self>, RealiseError> {
        use io::ErrorKind::{NotADirectory, NotFound};
        let path = dir.join(RECORD);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            // No entry, or not even a store: the latter is told by whoever wants to make it.
            Err(e) if matches!(e.kind(), NotFound | NotADirectory) && !dir.exists() => return Ok(None),
            Err(e) if e.kind() == NotFound => return Err(broken(path, resolved, "the record is missing".to_owned())),
            Err(why) => return Err(RealiseError::Disk { action: "read", path, why }),
        };
        match serde_json::from_slice::<Record>(&text) {
            Err(e) => Err(broken(path, resolved, e.to_string())),
            Ok(record) if record.format != FORMAT || record.key != resolved.key => Err(broken(
                path,
                resolved,
                format!("format {} and key {} are of another entry", record.format, record.key),
            )),
            Ok(Record { installer, python, files, .. }) => {
                Ok(Some(Self { resolved: resolved.clone(), dir, installer, python, files }))
            }
        }
    }

    /// Records what was installed into `dir/tree`, and checks that what the recipe points at is among it.
    pub(super) fn write(
        dir: &Utf8Path,
        resolved: &Resolved,
        Made { installer, owners, python }: Made,
        progress: &Progress,
    ) -> Result<(), RealiseError> {
        let root = dir.join(TREE);
        let may_leave = |path: &Utf8Path| python.is_some() && is_interpreter(path);
        let files = tree::record(&root, &owners, may_leave, progress).map_err(|why| RealiseError::Disk {
            action: "hash the installed files in",
            path: root,
            why,
        })?;
        pointed_at(resolved, &files)?;
        let record = Record {
            format: FORMAT,
            recipe: resolved.recipe.name.clone(),
            key: resolved.key.clone(),
            installer,
            artifacts: resolved.artifacts.clone(),
            python,
            files,
        };
        let path = dir.join(RECORD);
        atomic::write_json(&path, &record)
            .and_then(|()| std::fs::File::open(&path)?.sync_all())
            .map_err(|why| RealiseError::Disk { action: "write", path, why })
    }

    /// Directory of the installed files of the entry at `dir`.
    pub(super) fn tree_of(dir: &Utf8Path) -> Utf8PathBuf {
        dir.join(TREE)
    }

    /// The recipe's name.
    pub fn recipe(&self) -> &str {
        &self.resolved.recipe.name
    }

    /// SHA-256 over the recipe and its pins.
    pub fn key(&self) -> &str {
        &self.resolved.key
    }

    /// The root of the installed files; the recipe's paths start here.
    pub fn tree(&self) -> Utf8PathBuf {
        Self::tree_of(&self.dir)
    }

    /// The ONNX Runtime library to load (stacks only).
    pub fn library(&self) -> Result<Utf8PathBuf, RecipeError> {
        self.of_kind(Kind::Stack, self.resolved.recipe.library.as_ref()).map(|library| self.tree().join(&library.path))
    }

    /// The version that the loaded library must name (stacks only).
    pub fn library_version(&self) -> Result<&str, RecipeError> {
        self.of_kind(Kind::Stack, self.resolved.recipe.library.as_ref()).map(|library| library.version.as_str())
    }

    /// The execution provider and its options (stacks only).
    pub fn provider(&self) -> Result<&Provider, RecipeError> {
        self.of_kind(Kind::Stack, self.resolved.recipe.provider.as_ref())
    }

    /// Session configuration entries.
    pub fn session(&self) -> &BTreeMap<String, String> {
        &self.resolved.recipe.session
    }

    /// Memory limit of a worker in MiB, if the recipe has one.
    pub fn memory_limit_mib(&self) -> Option<u64> {
        self.resolved.recipe.worker.as_ref()?.memory_limit_mib
    }

    /// Directories of shared libraries, in search order.
    pub fn library_dirs(&self) -> Vec<Utf8PathBuf> {
        self.resolved.recipe.library_dirs.iter().map(|dir| self.tree().join(dir)).collect()
    }

    /// The library of the plugin provider, if it is one (stacks only).
    pub fn plugin(&self) -> Option<Utf8PathBuf> {
        let plugin = self.resolved.recipe.provider.as_ref()?.plugin.as_ref()?;
        Some(self.tree().join(plugin))
    }

    /// The variables that a worker's environment must have: the recipe's own, and `LD_LIBRARY_PATH` where it names
    /// library directories. `inherited` gives what the caller's environment holds, to which some are added.
    pub fn env(&self, inherited: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
        let tree = self.tree();
        let recipe = &self.resolved.recipe;
        let filled = |value: &str| value.replace(PREFIX_VARIABLE, tree.as_str());
        let own = recipe.env.iter().map(|(name, value)| (name.clone(), filled(value)));
        let added = recipe.append.iter().map(|(name, Append { value, separator })| {
            let before = inherited(name).filter(|text| !text.is_empty());
            (name.clone(), before.map_or_else(|| filled(value), |text| text + separator + &filled(value)))
        });
        let mut env: BTreeMap<String, String> = own.chain(added).collect();
        let mut dirs = self.library_dirs();
        dirs.extend(recipe.container.iter().flat_map(|c| c.library_dirs.iter().cloned()));
        if !dirs.is_empty() {
            let dirs: Vec<&str> = dirs.iter().map(|dir| dir.as_str()).collect();
            env.insert("LD_LIBRARY_PATH".to_owned(), dirs.join(":"));
        }
        if recipe.kind == Kind::Python {
            let bin = tree.join("bin").into_string();
            let path = inherited("PATH").map_or_else(|| bin.clone(), |path| [&*bin, &path].join(":"));
            // What Python writes beside its files would be found by the next verification.
            let own =
                [("PATH", path), ("VIRTUAL_ENV", tree.into_string()), ("PYTHONDONTWRITEBYTECODE", "1".to_owned())];
            env.extend(own.map(|(name, value)| (name.to_owned(), value)));
        }
        match &recipe.container {
            Some(container) => container.env(env),
            None => env,
        }
    }

    /// The words before a command that is to run as a worker does, with these folders to be seen: those of a container.
    pub fn command_words(&self, folders: &[&Utf8Path]) -> Vec<String> {
        let store = self.dir.parent().unwrap_or(&self.dir);
        let container = self.resolved.recipe.container.as_ref();
        container.map_or_else(Vec::new, |container| container.words(&[folders, &[store]].concat()))
    }

    /// Those of the caller's variables that a worker must not inherit: the recipe's, those by which compiled models would be
    /// reused, and those by which a Python environment would be left.
    pub fn unset(&self, inherited: impl Iterator<Item = String>) -> Vec<String> {
        let python: &[&str] = if self.python.is_some() { &["PYTHONHOME", "PYTHONPATH"] } else { &[] };
        let own = self.resolved.recipe.unset.iter().map(String::as_str);
        let patterns: Vec<&str> = own.chain(cache::VARIABLES).chain(python.iter().copied()).collect();
        inherited.filter(|name| patterns.iter().any(|pattern| cache::fits(pattern, name))).collect()
    }

    /// Libraries that the host may have, as globs of file names.
    pub fn host_allowed(&self) -> &[String] {
        self.resolved.recipe.host.as_ref().map_or(&[], |host| &host.allowed)
    }

    /// The program (tools only).
    pub fn tool(&self) -> Result<Utf8PathBuf, RecipeError> {
        self.of_kind(Kind::Tool, self.resolved.recipe.tool.as_ref()).map(|tool| self.tree().join(&tool.path))
    }

    /// The directory of files to read (data only).
    pub fn data(&self) -> Result<Utf8PathBuf, RecipeError> {
        self.of_kind(Kind::Data, self.resolved.recipe.data.as_ref()).map(|data| self.tree().join(&data.path))
    }

    /// The pin of this name, however it is written.
    pub fn artifact(&self, name: &str) -> Option<&Pinned> {
        self.resolved.artifacts.iter().find(|pinned| normal(&pinned.name) == normal(name))
    }

    /// Size of all installed files in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }

    fn of_kind<'a, T>(&self, kind: Kind, table: Option<&'a T>) -> Result<&'a T, RecipeError> {
        table.ok_or_else(|| RecipeError::WrongKind {
            recipe: self.recipe().to_owned(),
            kind: self.resolved.recipe.kind.word(),
            wanted: kind.word(),
        })
    }

    /// Holds every file against the record, in parallel, and a container's image against its hash; to be called before
    /// anything of it is loaded (a truncated library does not fail to load, it kills the process).
    pub fn verify(&self, progress: &Progress) -> Result<(), RealiseError> {
        if let Some(container) = &self.resolved.recipe.container {
            container.verify(self.recipe(), &Options::new(&self.dir))?;
        }
        let root = self.tree();
        let found = match tree::walk(&root) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(|why| RealiseError::Disk { action: "list", path: root.clone(), why })?,
        };
        let found: BTreeMap<&Utf8Path, &tree::Found> = found.iter().map(|f| (f.path.as_path(), f)).collect();
        let bar = progress.bytes("checking the installed files", self.total_bytes());
        let differences: Vec<Difference> = self
            .files
            .par_iter()
            .filter_map(|recorded| {
                let difference = difference(&root, recorded, found.get(recorded.path.as_path()).copied());
                bar.inc(recorded.size);
                difference
            })
            .collect();
        bar.finish_and_clear();
        let recorded: BTreeSet<&Utf8Path> = self.files.iter().map(|f| f.path.as_path()).collect();
        let extra = found.keys().filter(|path| !recorded.contains(*path)).map(|path| (*path).to_owned()).collect();
        let (missing, changed): (Vec<_>, Vec<_>) = differences.into_iter().partition(|d| d.how.is_none());
        let altered = Altered {
            recipe: self.recipe().to_owned(),
            dir: self.dir.clone(),
            missing: missing.into_iter().map(|d| d.path).collect(),
            changed: changed.into_iter().map(|d| format!("{} ({})", d.path, d.how.unwrap_or_default())).collect(),
            extra,
        };
        if altered.count() == 0 { Ok(()) } else { Err(RealiseError::Altered(Box::new(altered))) }
    }
}

/// A recorded file that is not as recorded: gone (`how` is none), or other in the way that `how` says.
struct Difference {
    path: Utf8PathBuf,
    how: Option<String>,
}

fn difference(root: &Utf8Path, recorded: &TreeFile, found: Option<&tree::Found>) -> Option<Difference> {
    let other = |how: String| Some(Difference { path: recorded.path.clone(), how: Some(how) });
    match found {
        None => Some(Difference { path: recorded.path.clone(), how: None }),
        Some(f) if f.what != recorded.link.clone().map_or(What::File, What::Link) => other(f.what.to_string()),
        Some(f) if f.size != recorded.size => other(format!("{} bytes instead of {}", f.size, recorded.size)),
        Some(f) if f.executable != recorded.executable => other("executable bit".to_owned()),
        // Its target is the same: seen above.
        Some(_) if recorded.link.is_some() => None,
        Some(_) => match digest::of_file(&root.join(&recorded.path)) {
            Err(e) => other(format!("cannot be read: {e}")),
            Ok((_, sha256)) if sha256 != recorded.sha256 => other("content".to_owned()),
            Ok(_) => None,
        },
    }
}

/// A prefix whose files are not those that were installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Altered {
    /// Which recipe.
    pub recipe: String,
    /// The entry.
    pub dir: Utf8PathBuf,
    /// Files that are gone.
    pub missing: Vec<Utf8PathBuf>,
    /// Files that differ, each with how.
    pub changed: Vec<String>,
    /// Files that were not installed.
    pub extra: Vec<Utf8PathBuf>,
}

impl Altered {
    /// How many files are not as they were.
    pub fn count(&self) -> usize {
        self.missing.len() + self.changed.len() + self.extra.len()
    }
}

impl fmt::Display for Altered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the prefix of recipe `{}` in {} is not as it was installed: ", self.recipe, self.dir)?;
        let parts: Vec<String> =
            [named("missing", &self.missing), named("changed", &self.changed), named("extra", &self.extra)]
                .into_iter()
                .flatten()
                .collect();
        write!(f, "{}. Nothing of it was loaded; ", parts.join("; "))?;
        write!(f, "`ort-qualify recipe realise {} --repair` installs it anew", self.recipe)
    }
}

/// `WORD: a, b, c and N more`, or nothing.
fn named(word: &str, names: &[impl fmt::Display]) -> Option<String> {
    const SHOWN: usize = 5;
    let shown: Vec<String> = names.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    (!names.is_empty()).then(|| format!("{word}: {}{more}", shown.join(", ")))
}

fn broken(path: Utf8PathBuf, resolved: &Resolved, problem: String) -> RealiseError {
    RealiseError::Entry { path, recipe: resolved.recipe.name.clone(), problem }
}

/// What the recipe points at must be there: found out when it is installed, not when it is loaded.
fn pointed_at(resolved: &Resolved, files: &[TreeFile]) -> Result<(), RealiseError> {
    let recipe = &resolved.recipe;
    let targets = [
        ("library.path", recipe.library.as_ref().map(|t| &t.path)),
        ("tool.path", recipe.tool.as_ref().map(|t| &t.path)),
        ("data.path", recipe.data.as_ref().map(|t| &t.path)),
        ("provider.plugin", recipe.provider.as_ref().and_then(|p| p.plugin.as_ref())),
    ];
    let targets = targets.into_iter().filter_map(|(field, path)| Some((field, path?)));
    for (field, path) in targets.chain(recipe.library_dirs.iter().map(|dir| ("library_dirs", dir))) {
        let is_there = match field {
            "library.path" | "tool.path" | "provider.plugin" => files.iter().any(|f| f.path == *path),
            _ => files.iter().any(|f| f.path.starts_with(path)),
        };
        if !is_there {
            let hint = nearest::hint(path.as_str(), files.iter().map(|f| f.path.as_str()));
            return Err(RealiseError::NotInstalled { recipe: recipe.name.clone(), field, path: path.clone(), hint });
        }
    }
    Ok(())
}
