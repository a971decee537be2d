//! Making the lock agree with the recipes: what they want and the lock has not is looked up, fetched once and hashed.

use super::check::PYPI;
use super::debian::{self, DEBIAN};
use super::installer::Installer;
use super::lock::{Artifact, HashSource, Lock, path_of};
use super::{Options, Progress, RealiseError, Recipe, RecipeError, Resolved, Wanted, fetch, wheel};
use crate::atomic;
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// Looks up what is missing, drops what is unused and writes the lock. Entries that stay are not touched.
pub fn lock(root: &Utf8Path, options: &Options, progress: &Progress) -> Result<Disagreement, RealiseError> {
    let recipes = Recipe::list(root)?;
    let mut lock = Lock::load(root)?;
    let disagreement = Disagreement::of(&lock, &recipes);
    for (recipe, wanted) in &disagreement.missing {
        let bar = progress.spinner(format!("looking up {} {}", wanted.name, wanted.version));
        let found = look_up(recipe, wanted, options);
        bar.finish_and_clear();
        lock.artifacts.push(found?);
    }
    lock.artifacts.retain(|a| recipes.iter().flat_map(Recipe::wants).any(|w| a.is(w)));
    lock.artifacts.sort_by(|a, b| (&a.index, &a.name, &a.version).cmp(&(&b.index, &b.name, &b.version)));
    atomic::write_json(&lock.path, &lock.mirror()).map_err(|why| RealiseError::Disk {
        action: "write",
        path: lock.path.clone(),
        why,
    })?;
    Ok(disagreement)
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
    hashes: BTreeMap<String, String>,
}

/// Asks the index for the file, and fetches it once so that its hash is one that was computed from the file.
fn look_up(recipe: &str, wanted: &Wanted, options: &Options) -> Result<Artifact, RealiseError> {
    let refuse = |problem: String| {
        RealiseError::Recipe(RecipeError::LookUp {
            recipe: recipe.to_owned(),
            artifact: format!("{} {}", wanted.name, wanted.version),
            index: wanted.index.clone(),
            problem,
        })
    };
    let scratch = tempfile::tempdir().map_err(|e| refuse(e.to_string()))?;
    let scratch =
        Utf8Path::from_path(scratch.path()).ok_or_else(|| refuse("the temporary folder is not UTF-8".to_owned()))?;
    if wanted.index == DEBIAN {
        let artifact = debian::look_up(options, wanted).map_err(&refuse)?;
        // Fetched once, so that the hash is one that was computed from the file.
        for pinned in &alone(recipe, wanted, &artifact, options)?.artifacts {
            fetch::fetch(options, recipe, pinned, scratch)?;
        }
        return Ok(artifact);
    }
    if wanted.index != PYPI {
        return Err(refuse("only `pypi` is looked up: write the entry by hand, with who recorded the hash".to_owned()));
    }
    let uv = Installer::uv(options).map_err(&refuse)?;
    let text = uv.compile(options, wanted, scratch).map_err(&refuse)?;
    let listed: PyLock = toml::from_str(&text).map_err(|e| refuse(format!("uv's answer cannot be read: {e}")))?;
    let ranked = listed.packages.into_iter().flat_map(|p| p.wheels).filter_map(|w| {
        let path = path_of(&w.url)?;
        Some((wheel::rank(path.file_name()?, wanted)?, path, w))
    });
    let none = || {
        let [python, platform] = [&wanted.python, &wanted.platform].map(|w| w.as_deref().unwrap_or("?"));
        refuse(format!("it has no wheel for Python {python} on {platform}"))
    };
    let (_, path, found) = ranked.max_by(|a, b| a.0.cmp(&b.0)).ok_or_else(none)?;
    let sha256 = found.hashes.get("sha256").cloned().ok_or_else(|| refuse("the index states no SHA-256".to_owned()))?;
    let artifact = Artifact {
        name: wanted.name.clone(),
        version: wanted.version.clone(),
        index: wanted.index.clone(),
        filename: path.file_name().map(str::to_owned),
        path: Some(path),
        size: found.size,
        sha256: Some(sha256),
        hash_source: HashSource::ComputedHere,
        reason: None,
    };
    // uv refuses a file that has not this hash: from here on it is ours, not just the index's word.
    uv.install(options, &alone(recipe, wanted, &artifact, options)?, &scratch.join("tree"), scratch)?;
    Ok(artifact)
}

/// The recipe with this artifact and no other.
fn alone(recipe: &str, wanted: &Wanted, artifact: &Artifact, options: &Options) -> Result<Resolved, RecipeError> {
    let recipe = Recipe::load(&options.root, recipe)?;
    let recipe = Recipe { artifact: vec![wanted.clone()], overlay: Vec::new(), ..recipe };
    recipe.resolve(&Lock { path: Utf8PathBuf::new(), artifacts: vec![artifact.clone()] })
}
