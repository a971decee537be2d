//! Cases: named qualification tests, and what must hold for each.

mod expand;
mod file;
mod filter;

pub(crate) use expand::any_matches;
pub use expand::expand;
pub use file::{CaseFile, CaseFileError, SourceKind};
pub use filter::{Filter, FilterError};

use crate::bundle::{Bundle, NamedArray};
use crate::observation::Stage;
use crate::verdict::limits::{Limits, LimitsError};
use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One named qualification test: which model, which arrays, what must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique over all case files; words joined by `/`.
    pub name: String,
    /// The case file it comes from, relative to the project.
    pub file: Utf8PathBuf,
    /// Where its bundle is.
    pub source: SourceKind,
    /// The bundle's folder below the source.
    pub bundle: String,
    /// The model's file in the bundle; `None`: the bundle's own word, or `model.onnx`.
    pub model: Option<String>,
    /// The case inside the bundle.
    pub batch: String,
    /// The recipes that it is for (globs).
    pub recipes: Vec<String>,
    /// Limits for every output that has none of its own; `None`: the bundle's.
    pub limits: Option<Limits>,
    /// Outputs that need no reference; every other output of the model must have one.
    pub without_reference: Vec<String>,
    /// Limits by output.
    pub output_limits: BTreeMap<String, Limits>,
    /// What must hold of placement.
    pub placement: PlacementDemand,
    /// May nodes fall back to the CPU?
    pub fallback: Fallback,
    /// Does the case share a worker process with others?
    pub isolation: Isolation,
    /// Wall time allowed, in seconds.
    pub timeout_s: u64,
    /// Words to select by.
    pub tags: Vec<String>,
    /// Intermediate tensors to compare exactly, beside those that the bundle names.
    pub probes: Vec<NamedArray>,
    /// SHA-256 of the bundle's files where the bundle itself records none.
    pub pins: BTreeMap<Utf8PathBuf, String>,
    /// Failures that are known and must show.
    pub known_failures: Vec<KnownFailure>,
}

impl Case {
    /// Is the case for this recipe?
    pub fn is_for(&self, recipe: &str) -> bool {
        any_matches(&self.recipes, recipe)
    }

    /// The limits of an output, if any are stated.
    pub fn limits_of(&self, output: &str) -> Option<&Limits> {
        self.output_limits.get(output).or(self.limits.as_ref())
    }

    /// Fills in the limits that the bundle states for outputs that this case states none for.
    pub fn with_limits_of(&self, bundle: &Bundle) -> Result<Self, LimitsError> {
        let mut case = self.clone();
        for output in &bundle.outputs {
            if let (None, Some(profile)) = (self.limits_of(&output.name), &output.limits) {
                case.output_limits.insert(output.name.clone(), Limits::profile(profile)?);
            }
        }
        Ok(case)
    }
}

/// What must hold of placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementDemand {
    /// Every node runs on the recipe's provider.
    #[default]
    Provider,
    /// Placement is recorded and demands nothing.
    Recorded,
}

/// May nodes fall back to the CPU provider?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// The session is refused where a node would.
    #[default]
    Denied,
    /// They may; placement shows it.
    Allowed,
}

/// Does a case share a worker process?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// A process of its own, whose clean end is part of what must hold.
    #[default]
    Fresh,
    /// A long-lived process for many cases, restarted after a crash: faster.
    Shared,
}

/// A failure that is known: it must show at that stage with that text, or the run fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownFailure {
    /// The recipes that show it (globs).
    pub recipes: Vec<String>,
    /// Where it shows.
    pub stage: Stage,
    /// A regular expression that the failure's text must match.
    pub pattern: String,
    /// Why it is known and accepted.
    pub reason: String,
}
