//! Case files: `golden/cases/*.toml`, read into types that mirror them key by key.

use super::{Fallback, Isolation, KnownFailure, PlacementDemand};
use crate::bundle::ArrayRef;
use crate::observation::Stage;
use crate::toml_file::{self, TomlFileError};
use crate::verdict::limits::Limits;
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A case file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// Where the bundles are.
    pub source: SourceKind,
    /// SHA-256 of files by bundle, for sources that record none themselves.
    #[serde(default)]
    pub pins: BTreeMap<String, BTreeMap<Utf8PathBuf, String>>,
    /// Groups of like cases.
    pub group: Vec<Group>,
}

/// Where bundles are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum SourceKind {
    /// A folder of the project, relative to its root.
    Folder(Utf8PathBuf),
    /// The folder given by `--bundles` or `ORT_QUALIFY_BUNDLES`; its cases are skipped where there is none.
    External {
        /// What the folder should hold, for the message.
        about: String,
    },
    /// The files of a data recipe, by its name.
    Recipe(String),
}

/// A group of like cases: every bundle with every batch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The cases' names, with `{bundle}`, `{model}` (without its extension) and `{batch}` filled in.
    pub name: String,
    /// Bundle folders below the source.
    pub bundles: Vec<String>,
    /// The model's file in each bundle.
    pub model: Option<String>,
    /// Cases inside each bundle.
    pub batches: Vec<String>,
    /// The recipes that these cases are for (globs); all by default.
    #[serde(default = "everything")]
    pub recipes: Vec<String>,
    /// Limits for every output that has none of its own; those that the bundle states if not given here.
    pub limits: Option<Limits>,
    /// Outputs that need no reference; every other output of the model must have one.
    #[serde(default)]
    pub without_reference: Vec<String>,
    /// Limits by output.
    #[serde(default)]
    pub output_limits: BTreeMap<String, Limits>,
    /// What must hold of placement.
    #[serde(default)]
    pub placement: PlacementDemand,
    /// May nodes fall back to the CPU?
    #[serde(default)]
    pub fallback: Fallback,
    /// Does each case share a worker process?
    #[serde(default)]
    pub isolation: Isolation,
    /// Wall time allowed for each, in seconds.
    #[serde(default = "default_timeout_s")]
    pub timeout_s: u64,
    /// Words to select by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Probes, with `{batch}` filled in in array names.
    #[serde(default)]
    pub probe: Vec<GroupProbe>,
    /// Known failures of some of the cases.
    #[serde(default)]
    pub known_failure: Vec<GroupKnownFailure>,
}

/// A probe of every case of a group.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupProbe {
    /// The tensor's name in the model.
    pub tensor: String,
    /// Its reference, with `{batch}` filled in in the array's name.
    pub array: ArrayRef,
}

/// A known failure of some cases of a group.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupKnownFailure {
    /// Which bundles show it (globs); all by default.
    #[serde(default = "everything")]
    pub bundles: Vec<String>,
    /// Which batches show it (globs); all by default.
    #[serde(default = "everything")]
    pub batches: Vec<String>,
    /// Which recipes show it (globs); all by default.
    #[serde(default = "everything")]
    pub recipes: Vec<String>,
    /// Where it shows.
    pub stage: Stage,
    /// A regular expression that the failure's text must match.
    pub pattern: String,
    /// Why it is known and accepted.
    pub reason: String,
}

impl GroupKnownFailure {
    pub(super) fn of_case(&self) -> KnownFailure {
        KnownFailure {
            recipes: self.recipes.clone(),
            stage: self.stage,
            pattern: self.pattern.clone(),
            reason: self.reason.clone(),
        }
    }
}

/// Long enough for a large model on a slow machine, short enough to notice a hang.
fn default_timeout_s() -> u64 {
    120
}

fn everything() -> Vec<String> {
    vec!["*".to_owned()]
}

/// A case file that is wrong.
#[derive(Debug, thiserror::Error)]
pub enum CaseFileError {
    /// It cannot be read or parsed.
    #[error(transparent)]
    Toml(#[from] TomlFileError),
    /// The folder of case files cannot be listed.
    #[error("cannot list the case files in {folder}: {source}")]
    List {
        /// Which folder.
        folder: Utf8PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A field's value is wrong.
    #[error("{file}: {field}: {message}")]
    Field {
        /// Which file.
        file: Utf8PathBuf,
        /// Which field.
        field: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// Two cases have one name.
    #[error(
        "{file}: the case name `{name}` stands twice (the other is in {other}); give the group's `name` a word that tells them apart"
    )]
    Duplicate {
        /// Which file.
        file: Utf8PathBuf,
        /// The name.
        name: String,
        /// The file that has it already.
        other: Utf8PathBuf,
    },
    /// The recipes cannot be listed.
    #[error(transparent)]
    Recipes(Box<crate::recipe::RecipeError>),
    /// No case file at all.
    #[error("no case files (*.toml) in {folder}")]
    Empty {
        /// Which folder.
        folder: Utf8PathBuf,
    },
}

impl CaseFile {
    /// Reads every case file below `root/golden/cases`, in name order, with its path relative to `root`.
    pub fn read_all(root: &Utf8Path) -> Result<Vec<(Utf8PathBuf, Self)>, CaseFileError> {
        let folder = root.join("golden/cases");
        let listed = |source| CaseFileError::List { folder: folder.clone(), source };
        let mut names = Vec::new();
        for entry in folder.read_dir_utf8().map_err(listed)? {
            let path = entry.map_err(listed)?.into_path();
            if path.extension() == Some("toml") {
                names.push(path);
            }
        }
        names.sort();
        if names.is_empty() {
            return Err(CaseFileError::Empty { folder });
        }
        names
            .into_iter()
            .map(|path| {
                let file = toml_file::read(&path)?;
                Ok((path.strip_prefix(root).unwrap_or(&path).to_owned(), file))
            })
            .collect()
    }
}
