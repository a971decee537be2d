//! A recipe together with the files that its artifacts are.

use super::package::Format;
use super::{Artifact, Lock, Overlay, Recipe, RecipeError, host, wheel};
use crate::digest;
use camino::Utf8PathBuf;
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
    /// The file's path below the index's file store or, for an index that is named by its address, behind the host.
    pub path: Utf8PathBuf,
    /// Size in bytes; `null` where the lock has none.
    pub size: Option<u64>,
    /// SHA-256, lower-case hex.
    pub sha256: String,
    /// Where the file is, for an index that is named by its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl Recipe {
    /// Finds every artifact in the lock, and the overlay for this machine. Refused: artifacts that are not there, those
    /// without a recorded hash, overlays of which none loads here, and a container without its image.
    pub fn resolve(&self, lock: &Lock) -> Result<Resolved, RecipeError> {
        if let Some(container) = self.container.as_ref().filter(|c| c.image.is_none() || c.sha256.is_none()) {
            let field = if container.image.is_none() { "image" } else { "sha256" };
            return Err(RecipeError::NoImage { recipe: self.name.clone(), field });
        }
        self.overlaid(host::glibc())?.resolve_artifacts(lock)
    }

    /// The recipe with the overlay that a machine with this glibc can load among its artifacts, its libraries before all
    /// others. Where the glibc is not known, the first is taken.
    pub(super) fn overlaid(&self, glibc: Option<(u32, u32)>) -> Result<Self, RecipeError> {
        let loads = |overlay: &&Overlay| match (host::version(&overlay.glibc), glibc) {
            (Some(least), Some(found)) => found >= least,
            _ => true,
        };
        let mut recipe = self.clone();
        recipe.overlay.clear();
        match self.overlay.iter().find(loads) {
            Some(overlay) => {
                recipe.artifact.push(overlay.artifact.clone());
                recipe.library_dirs.insert(0, overlay.library_dir.clone());
            }
            None if self.overlay.is_empty() => {}
            None => {
                let needs = |o: &Overlay| {
                    format!("{} {} needs glibc {} or newer", o.artifact.name, o.artifact.version, o.glibc)
                };
                return Err(RecipeError::NoOverlay {
                    recipe: self.name.clone(),
                    needs: self.overlay.iter().map(needs).collect::<Vec<_>>().join(", "),
                    found: glibc.unwrap_or_default(),
                });
            }
        }
        Ok(recipe)
    }

    fn resolve_artifacts(&self, lock: &Lock) -> Result<Resolved, RecipeError> {
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
        for (wanted, pinned) in std::iter::zip(&self.artifact, &artifacts) {
            if Format::of(&pinned.filename) == Ok(Format::Wheel) && wheel::rank(&pinned.filename, wanted).is_none() {
                let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
                return Err(RecipeError::Misfit {
                    recipe: self.name.clone(),
                    filename: pinned.filename.clone(),
                    python: text(&wanted.python),
                    platform: text(&wanted.platform),
                });
            }
        }
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
            path: artifact.path.clone().unwrap_or_default(),
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

/// SHA-256 of the canonical JSON: objects sorted, no blanks. Left out are the description, which changes nothing on disk,
/// and the path of an image, whose hash says more; in goes the format of the store entry, so that a new format never meets an old entry.
fn key(recipe: &Recipe, artifacts: &[Pinned]) -> String {
    let mut value = serde_json::json!({ "format": super::prefix::FORMAT, "recipe": recipe, "artifacts": artifacts });
    if let Some(recipe) = value["recipe"].as_object_mut() {
        recipe.remove("description");
        if let Some(container) = recipe.get_mut("container").and_then(|c| c.as_object_mut()) {
            container.remove("image");
        }
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
    fn the_first_overlay_that_the_machines_glibc_loads_stands_before_all_other_libraries() {
        let recipe = Recipe::load(&Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), "migraphx").unwrap();
        let overlay = |glibc| {
            let chosen = recipe.overlaid(glibc)?;
            assert!(chosen.overlay.is_empty() && chosen.artifact.len() == recipe.artifact.len() + 1);
            Ok::<_, RecipeError>((chosen.artifact.last().unwrap().name.clone(), chosen.library_dirs[0].clone()))
        };
        let debian = ("libstdc++6".to_owned(), Utf8PathBuf::from("usr/lib/x86_64-linux-gnu"));
        assert_eq!(overlay(Some((2, 36))).unwrap(), debian);
        assert_eq!(overlay(None).unwrap(), debian);
        assert_eq!(overlay(Some((2, 34))).unwrap(), ("libstdcxx".to_owned(), "lib".into()), "Alma Linux 9");
        let e = overlay(Some((2, 12))).unwrap_err();
        let told = e.to_string();
        assert!(
            e.is_environment() && told.contains("libstdc++6 12.2.0-14+deb12u1 needs glibc 2.36 or newer"),
            "{told}"
        );
        assert!(told.contains("libstdcxx 15.3.0-h934c35e_7 needs glibc 2.17") && told.contains("has 2.12"), "{told}");
    }

    #[test]
    fn a_wheel_for_another_python_or_platform_is_refused_by_its_name() {
        let (mut recipe, lock) = project();
        recipe.artifact[0].platform = Some("aarch64-manylinux_2_28".into());
        let told = recipe.resolve(&lock).unwrap_err().to_string();
        assert!(told.contains("onnxruntime-1.32.0-cp312-cp312-") && told.contains("aarch64-manylinux_2_28"), "{told}");
        (recipe.artifact[0].platform, recipe.artifact[0].python) = (None, None);
        assert!(matches!(recipe.resolve(&lock), Err(RecipeError::Misfit { .. })));
    }

    #[test]
    fn the_key_follows_an_images_hash_and_not_where_it_lies() {
        let (_, lock) = project();
        let recipe = Recipe::load(&Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), "cuda-container").unwrap();
        let key = |image: &str, digit: &str| {
            let mut recipe = recipe.clone();
            let container = recipe.container.as_mut().unwrap();
            (container.image, container.sha256) = (Some(image.into()), Some(digit.repeat(64)));
            recipe.resolve(&lock).unwrap().key
        };
        assert_eq!(key("/a.sif", "0"), key("/b.sif", "0"));
        assert_ne!(key("/a.sif", "0"), key("/a.sif", "1"));
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
