//! A recipe together with the files that its artifacts are.

use super::{Artifact, Lock, Recipe, RecipeError};
use crate::digest;
use serde::{Deserialize, Serialize};

/// A recipe whose every artifact is one known file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resolved {
    /// The recipe.
    pub recipe: Recipe,
    /// Its artifacts in the recipe's order.
    pub artifacts: Vec<Pinned>,
    /// SHA-256 over the recipe and its pins: the identity of the environment.
    pub key: String,
}

/// A file named by its size and hash: what an [`Artifact`] is once nothing about it is unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pinned {
    /// The distribution's name on its index.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The index by word.
    pub index: String,
    /// The file's name.
    pub filename: String,
    /// Size in bytes; `null` where the lock has none.
    pub size: Option<u64>,
    /// SHA-256, lower-case hex.
    pub sha256: String,
    /// Where the file is, for an index that is named by its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl Recipe {
    /// Finds every artifact in the lock. Refused: artifacts that are not there, and those without a recorded hash.
    pub fn resolve(&self, lock: &Lock) -> Result<Resolved, RecipeError> {
        let locked: Vec<Option<&Artifact>> = self.artifact.iter().map(|wanted| lock.find(wanted)).collect();
        let missing: Vec<String> = std::iter::zip(&self.artifact, &locked)
            .filter(|(_, found)| found.is_none())
            .map(|(wanted, _)| format!("`{} {}` of `{}`", wanted.name, wanted.version, wanted.index))
            .collect();
        if !missing.is_empty() {
            return Err(RecipeError::NotLocked {
                recipe: self.name.clone(),
                artifacts: missing.join(", "),
                lock: lock.path.clone(),
            });
        }
        let artifacts = locked.into_iter().flatten().map(|a| self.pin(a)).collect::<Result<Vec<_>, _>>()?;
        let key = key(self, &artifacts);
        Ok(Resolved { recipe: self.clone(), artifacts, key })
    }

    fn pin(&self, artifact: &Artifact) -> Result<Pinned, RecipeError> {
        let sha256 = artifact.sha256.clone().ok_or_else(|| RecipeError::Unrecorded {
            recipe: self.name.clone(),
            artifact: artifact.label(),
            index: artifact.index.clone(),
            reason: artifact.reason.clone().unwrap_or_default(),
        })?;
        Ok(Pinned {
            name: artifact.name.clone(),
            version: artifact.version.clone(),
            index: artifact.index.clone(),
            filename: artifact.filename.clone().unwrap_or_default(),
            size: artifact.size,
            sha256,
            url: artifact.url(),
        })
    }
}

impl Resolved {
    /// Bytes of all artifacts whose size is known.
    pub fn total_bytes(&self) -> u64 {
        self.artifacts.iter().filter_map(|a| a.size).sum()
    }

    /// `NAME VERSION, ...` of all artifacts, for messages.
    pub fn labels(&self) -> String {
        self.artifacts.iter().map(|a| format!("{} {}", a.name, a.version)).collect::<Vec<_>>().join(", ")
    }

    /// `NAME-KEY16`: the directory in the store.
    pub fn entry_name(&self) -> String {
        format!("{}-{}", self.recipe.name, &self.key[..16])
    }
}

/// SHA-256 of the canonical JSON: objects sorted, no blanks. Left out is the description, which changes nothing on disk;
/// in goes the format of the store entry, so that a new format never meets an old entry.
fn key(recipe: &Recipe, artifacts: &[Pinned]) -> String {
    let mut value = serde_json::json!({ "format": super::prefix::FORMAT, "recipe": recipe, "artifacts": artifacts });
    if let Some(recipe) = value["recipe"].as_object_mut() {
        recipe.remove("description");
    }
    value.sort_all_objects();
    digest::of_bytes(value.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use camino::Utf8Path;

    fn project() -> (Recipe, Lock) {
        let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        (Recipe::load(&root, "cpu").unwrap(), Lock::load(&root).unwrap())
    }

    #[test]
    fn the_key_follows_every_pin_and_setting_but_not_the_description() {
        let (recipe, lock) = project();
        let key = recipe.resolve(&lock).unwrap().key;
        assert!(digest::is_sha256(&key));
        let after = |change: fn(&mut Recipe, &mut Lock)| {
            let (mut recipe, mut lock) = (recipe.clone(), lock.clone());
            change(&mut recipe, &mut lock);
            recipe.resolve(&lock).unwrap().key
        };
        assert_eq!(after(|r, _| r.description = "other words".into()), key);
        assert_eq!(after(|_, l| l.artifacts.reverse()), key);
        assert_ne!(after(|r, _| _ = r.env.insert("A".into(), "1".into())), key);
        assert_ne!(after(|r, _| _ = r.session.insert("a".into(), "1".into())), key);
        assert_ne!(after(|_, l| l.artifacts.iter_mut().for_each(|a| a.sha256 = Some("0".repeat(64)))), key);
    }

    #[test]
    fn an_unlocked_artifact_and_an_unrecorded_hash_are_refused_by_name() {
        let (mut recipe, mut lock) = project();
        for artifact in &mut lock.artifacts {
            artifact.sha256 = None;
            artifact.reason = Some("the vendor publishes none".into());
        }
        let told = recipe.resolve(&lock).unwrap_err().to_string();
        assert!(told.contains("onnxruntime 1.32.0") && told.contains("the vendor publishes none"), "{told}");
        recipe.artifact[0].version = "1.99".into();
        let told = recipe.resolve(&lock).unwrap_err().to_string();
        assert!(told.contains("`onnxruntime 1.99` of `pypi`") && told.contains("lock.json"), "{told}");
    }
}
