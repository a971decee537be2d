//! The static part: recipes, lock and the project's own lock files agree, and what is not pinned says so.

use super::{Finding, Severity};
use crate::recipe::{Disagreement, FOLDER, HashSource, Lock, Recipe, RecipeError};
use camino::Utf8Path;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A pinned file of a recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PinRow {
    /// The recipe.
    pub recipe: String,
    /// The artifact.
    pub artifact: String,
    /// Its version.
    pub version: String,
    /// Its index by word.
    pub index: String,
    /// SHA-256; none where nobody recorded it.
    pub sha256: Option<String>,
    /// Who computed the hash.
    pub hash_source: String,
}

/// Every pin of every recipe, and what is wrong or unpinned.
pub fn pins(root: &Utf8Path) -> Result<(Vec<PinRow>, Vec<Finding>), RecipeError> {
    let recipes = Recipe::list(root)?;
    let lock = Lock::load(root)?;
    let lock_file = Utf8Path::new(FOLDER).join("lock.json");
    let mut findings = Vec::new();
    let disagreement = Disagreement::of(&lock, &recipes);
    for (recipe, wanted) in &disagreement.missing {
        let message = format!("recipe `{recipe}` wants {} {}, which is not locked", wanted.name, wanted.version);
        findings.push(Finding::error(&*lock_file, message));
    }
    for label in &disagreement.unused {
        findings.push(Finding::error(&*lock_file, format!("{label} is locked, and no recipe wants it")));
    }
    let mut rows = Vec::new();
    for recipe in &recipes {
        for artifact in recipe.wants().filter_map(|wanted| lock.find(wanted)) {
            if artifact.hash_source == HashSource::Unrecorded {
                let reason = artifact.reason.as_deref().unwrap_or_default();
                let message =
                    format!("{} of recipe `{}` has no recorded hash: {reason}", artifact.label(), recipe.name);
                findings.push(Finding::new(Severity::Warning, &*lock_file, message));
            }
            rows.push(PinRow {
                recipe: recipe.name.clone(),
                artifact: artifact.name.clone(),
                version: artifact.version.clone(),
                index: artifact.index.clone(),
                sha256: artifact.sha256.clone(),
                hash_source: artifact.hash_source.to_string(),
            });
        }
    }
    findings.extend(cargo(root));
    findings.extend(flake(root));
    Ok((rows, findings))
}

/// The parts of a `flake.lock` that pin an input.
#[derive(Deserialize)]
struct FlakeLock {
    root: String,
    nodes: BTreeMap<String, FlakeNode>,
}

#[derive(Deserialize)]
struct FlakeNode {
    locked: Option<FlakePin>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FlakePin {
    rev: Option<String>,
    nar_hash: Option<String>,
}

/// Every input of the flake is locked to a revision and the hash of its content.
fn flake(root: &Utf8Path) -> Vec<Finding> {
    const LOCK: &str = "flake.lock";
    if !root.join("flake.nix").exists() {
        return Vec::new();
    }
    let read = std::fs::read(root.join(LOCK)).map_err(|e| e.to_string());
    let lock: FlakeLock = match read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|e| e.to_string())) {
        Ok(lock) => lock,
        Err(e) => return vec![Finding::error(LOCK, format!("flake.nix is there, and its lock cannot be read: {e}"))],
    };
    let pinned = |node: &FlakeNode| node.locked.as_ref().is_some_and(|pin| pin.rev.is_some() && pin.nar_hash.is_some());
    let open = lock.nodes.iter().filter(|(name, node)| **name != lock.root && !pinned(node));
    open.map(|(name, _)| Finding::error(LOCK, format!("the input `{name}` has no revision or no hash of its content")))
        .collect()
}

/// Crates that `Cargo.toml` pins exactly are locked at that version, and the toolchain is the one the workspace is for.
fn cargo(root: &Utf8Path) -> Vec<Finding> {
    let read = |name: &str| -> Result<toml::Table, Finding> {
        let text = std::fs::read_to_string(root.join(name))
            .map_err(|e| Finding::error(name, format!("cannot be read: {e}")))?;
        text.parse().map_err(|e| Finding::error(name, format!("cannot be parsed: {e}")))
    };
    // A project that only uses this program has no workspace of its own.
    if !root.join("Cargo.toml").exists() {
        return Vec::new();
    }
    match (read("Cargo.toml"), read("Cargo.lock"), read("rust-toolchain.toml")) {
        (Ok(manifest), Ok(lock), Ok(toolchain)) => {
            exact(&manifest, &lock).chain(channel(&manifest, &toolchain)).collect()
        }
        (manifest, lock, toolchain) => [manifest, lock, toolchain].into_iter().filter_map(Result::err).collect(),
    }
}

fn exact(manifest: &toml::Table, lock: &toml::Table) -> impl Iterator<Item = Finding> {
    let dependencies = manifest.get("workspace").and_then(|w| w.get("dependencies")).and_then(|d| d.as_table());
    let locked = |name: &str| -> Vec<&str> {
        let packages = lock.get("package").and_then(|p| p.as_array()).into_iter().flatten();
        packages
            .filter(|p| p.get("name").and_then(|n| n.as_str()) == Some(name))
            .filter_map(|p| p.get("version")?.as_str())
            .collect()
    };
    dependencies.into_iter().flatten().filter_map(move |(name, value)| {
        let required = value.as_str().or_else(|| value.get("version")?.as_str())?.strip_prefix('=')?;
        let found = locked(name);
        (found != [required]).then(|| {
            Finding::error("Cargo.lock", format!("Cargo.toml pins {name} {required}, and {found:?} is locked"))
        })
    })
}

fn channel(manifest: &toml::Table, toolchain: &toml::Table) -> Option<Finding> {
    let package = manifest.get("workspace")?.get("package")?;
    let (wanted, found) =
        (package.get("rust-version")?.as_str()?, toolchain.get("toolchain")?.get("channel")?.as_str()?);
    let agree = found == wanted || found.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'));
    (!agree).then(|| {
        Finding::error(
            "rust-toolchain.toml",
            format!("Cargo.toml says rust-version {wanted}, and the toolchain is {found}"),
        )
    })
}
