//! Making the lock agree with the recipes: what they want and the lock has not is looked up, fetched once and hashed.

use super::check::PYPI;
use super::debian::{self, DEBIAN};
use super::lock::{Artifact, HashSource, Lock, path_of};
use super::{Cause, Options, Progress, RealiseError, Recipe, RecipeError, Resolved, Store, Wanted};
use super::{fetch, host, installer, make, wheel};
use crate::digest;
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use xshell::cmd;

/// How a lock and the recipes disagree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    /// Wanted by a recipe and not in the lock, with the recipe's name.
    pub missing: Vec<(String, Wanted)>,
    /// In the lock and wanted by no recipe, as `NAME VERSION`.
    pub unused: Vec<String>,
}

impl Disagreement {
    /// What is missing from the lock, and what is too much in it.
    pub fn of(lock: &Lock, recipes: &[Recipe]) -> Self {
        let mut missing: Vec<(String, Wanted)> = Vec::new();
        for (recipe, wanted) in recipes.iter().flat_map(|r| r.wants().map(move |w| (r, w))) {
            if lock.find(wanted).is_none() && !missing.iter().any(|(_, w)| w == wanted) {
                missing.push((recipe.name.clone(), wanted.clone()));
            }
        }
        Self { missing, unused: lock.unused(recipes).map(Artifact::label).collect() }
    }

    /// Do they agree?
    pub fn is_none(&self) -> bool {
        self.missing.is_empty() && self.unused.is_empty()
    }
}

/// Looks up what is missing, drops what is unused and writes the lock. Entries that stay are not touched. A file whose index
/// cannot be reached is locked without a hash, which says so.
pub fn lock(store: &Store, options: &Options, progress: &Progress) -> Result<Disagreement, RealiseError> {
    let recipes = Recipe::list(&options.root)?;
    let mut lock = Lock::load(&options.root)?;
    let disagreement = Disagreement::of(&lock, &recipes);
    for (recipe, wanted) in &disagreement.missing {
        let asked = Question { recipe, wanted, store, options, progress };
        let found = match asked.look_up() {
            Err(RealiseError::Unreachable { .. }) => asked.unrecorded(),
            other => other?,
        };
        lock.artifacts.push(found);
    }
    lock.artifacts.retain(|a| recipes.iter().flat_map(Recipe::wants).any(|w| a.is(w)));
    lock.write()?;
    Ok(disagreement)
}

/// Fetches what a recipe wants and nobody has recorded the hash of, and writes the hash that the file has into the lock, with
/// who did so and when. Gives the entries.
pub fn record_on_first_use(
    recipe: &str,
    store: &Store,
    options: &Options,
    progress: &Progress,
) -> Result<Vec<Artifact>, RealiseError> {
    let mut lock = Lock::load(&options.root)?;
    let here = Recipe::load(&options.root, recipe)?.overlaid(host::glibc())?;
    let mut recorded = Vec::new();
    for wanted in &here.artifact {
        let Some(entry) = lock.artifacts.iter_mut().find(|a| a.is(wanted) && a.sha256.is_none()) else { continue };
        let found = Question { recipe, wanted, store, options, progress }.look_up()?;
        let date = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
        let date = date.split('T').next().unwrap_or_default().to_owned();
        *entry = Artifact { hash_source: HashSource::FirstUse { date, by: who(options) }, ..found };
        recorded.push(entry.clone());
        // At once: what was fetched and looked at need not be again where the next one fails.
        lock.write()?;
    }
    Ok(recorded)
}

/// The name in git's settings, or else the user's on this machine.
fn who(options: &Options) -> String {
    let root = &options.root;
    let git = installer::say(options, |shell| cmd!(shell, "git -C {root} config user.name")).ok();
    let user = || std::env::var("USER").ok();
    git.filter(|name| !name.is_empty()).or_else(user).unwrap_or_else(|| "unknown".to_owned())
}

/// The part of a `pylock.toml` (PEP 751) that is needed.
#[derive(Deserialize)]
struct PyLock {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    #[serde(default)]
    wheels: Vec<Wheel>,
}

#[derive(Deserialize)]
struct Wheel {
    url: String,
    size: Option<u64>,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
}

/// Which file is it that a recipe wants?
struct Question<'a> {
    recipe: &'a str,
    wanted: &'a Wanted,
    store: &'a Store,
    options: &'a Options,
    progress: &'a Progress,
}

impl Question<'_> {
    fn refuse(&self, problem: String) -> RealiseError {
        RealiseError::Recipe(RecipeError::LookUp {
            recipe: self.recipe.to_owned(),
            artifact: format!("{} {}", self.wanted.name, self.wanted.version),
            index: self.wanted.index.clone(),
            problem,
        })
    }

    /// Asks the index for the file, and fetches it once so that its hash is one that was computed from the file.
    fn look_up(&self) -> Result<Artifact, RealiseError> {
        let Self { recipe, wanted, options, .. } = *self;
        let bar = self.progress.spinner(format!("looking up {} {}", wanted.name, wanted.version));
        let scratch = tempfile::tempdir().map_err(|e| self.refuse(e.to_string()))?;
        let scratch = Utf8Path::from_path(scratch.path())
            .ok_or_else(|| self.refuse("the temporary folder is not UTF-8".to_owned()))?;
        let found = if wanted.index == DEBIAN {
            debian::look_up(options, wanted).map_err(|problem| self.refuse(problem)).and_then(|artifact| {
                for pinned in &self.alone(&artifact)?.artifacts {
                    fetch::fetch(options, recipe, pinned, scratch)?;
                }
                Ok(artifact)
            })
        } else {
            self.wheel(scratch)
        };
        bar.finish_and_clear();
        found
    }

    /// The wheel that an installer would take.
    fn wheel(&self, scratch: &Utf8Path) -> Result<Artifact, RealiseError> {
        let Self { recipe, wanted, options, .. } = *self;
        let vendor = (wanted.index != PYPI).then_some(wanted.index.as_str());
        let uv = make::installer(self.store, recipe, options, self.progress)?;
        let text = uv.compile(options, wanted, vendor, scratch).map_err(|said| match Cause::of_message(&said) {
            Cause::Network if vendor.is_some() => RealiseError::Unreachable { index: wanted.index.clone(), said },
            _ => self.refuse(said),
        })?;
        let listed: PyLock =
            toml::from_str(&text).map_err(|e| self.refuse(format!("uv's answer cannot be read: {e}")))?;
        let ranked = listed.packages.into_iter().flat_map(|p| p.wheels).filter_map(|w| {
            let path = path_of(&w.url)?;
            Some((wheel::rank(path.file_name()?, wanted)?, path, w))
        });
        let none = || {
            let [python, platform] = [&wanted.python, &wanted.platform].map(|w| w.as_deref().unwrap_or("?"));
            self.refuse(format!("it has no wheel for Python {python} on {platform}"))
        };
        let (_, path, found) = ranked.max_by(|a, b| a.0.cmp(&b.0)).ok_or_else(none)?;
        let mut artifact = Artifact {
            filename: path.file_name().map(str::to_owned),
            path: Some(path),
            size: found.size,
            sha256: found.hashes.get("sha256").cloned(),
            hash_source: HashSource::ComputedHere,
            reason: None,
            ..self.unrecorded()
        };
        if vendor.is_some() {
            self.ask_vendor(&mut artifact, &found.url, scratch)?;
        } else if artifact.sha256.is_none() {
            return Err(self.refuse("the index states no SHA-256".to_owned()));
        } else {
            // uv refuses a file that has not this hash: from here on it is ours, not just the index's word.
            uv.install(options, &self.alone(&artifact)?, &scratch.join("tree"), scratch)?;
        }
        Ok(artifact)
    }

    /// Fetches a vendor's file for its size and hash, which must be those that the vendor's index states, if it does.
    fn ask_vendor(&self, artifact: &mut Artifact, listed: &str, scratch: &Utf8Path) -> Result<(), RealiseError> {
        let url = artifact.url().unwrap_or_default();
        // Names compared as they are in addresses; the lock has no place for another host.
        if path_of(&url) != path_of(listed) || host_of(&url) != host_of(listed) {
            return Err(self.refuse(format!(
                "its file is at {listed}, on another host than the index, which the lock cannot say: write the entry by hand, \
                 its index being the address of that host"
            )));
        }
        let file = fetch::curl(self.options, &url, artifact.size, scratch)
            .map_err(|problem| self.refuse(format!("{url}: {problem}")))?;
        let (size, sha256) = digest::of_file(&file).map_err(|e| self.refuse(format!("{file}: {e}")))?;
        if let Some(stated) = artifact.sha256.as_ref().filter(|stated| **stated != sha256) {
            return Err(self.refuse(format!("{url} has the SHA-256 {sha256}, and the index says {stated}")));
        }
        (artifact.size, artifact.sha256) = (Some(size), Some(sha256));
        Ok(())
    }

    /// The recipe with this artifact and no other.
    fn alone(&self, artifact: &Artifact) -> Result<Resolved, RecipeError> {
        let recipe = Recipe::load(&self.options.root, self.recipe)?;
        let artifacts = vec![self.wanted.clone()];
        let recipe = Recipe { artifact: artifacts, overlay: Vec::new(), container: None, ..recipe };
        recipe.resolve(&Lock { path: Utf8PathBuf::new(), artifacts: vec![artifact.clone()] })
    }

    /// An entry of which nothing is known but what is wanted.
    fn unrecorded(&self) -> Artifact {
        Artifact {
            name: self.wanted.name.clone(),
            version: self.wanted.version.clone(),
            index: self.wanted.index.clone(),
            filename: None,
            path: None,
            size: None,
            sha256: None,
            hash_source: HashSource::Unrecorded,
            reason: Some("not recorded: index unreachable when locked".to_owned()),
        }
    }
}

/// The host of an address.
fn host_of(url: &str) -> Option<&str> {
    url.split_once("://")?.1.split('/').next()
}
