//! Verdicts: an observation held against what must hold. Judges; runs nothing.

mod failure;
pub mod limits;

use limits::Margin;

use crate::case::{Case, KnownFailure, any_matches};
use crate::observation::figure::Figure;
use crate::observation::{Observation, Stage};
use crate::recipe::Recipe;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a case stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All that must hold holds.
    Pass,
    /// Something does not.
    Fail,
    /// It failed where and as it is known to.
    KnownFailure,
    /// It is known to fail and did not: the golden data is out of date, and the run fails until it is mended.
    UnexpectedPass,
    /// The recipe or the bundle cannot exist on this machine, for the reason given.
    Skipped,
}

impl Verdict {
    /// Does the run stand with it?
    pub fn is_as_expected(self) -> bool {
        matches!(self, Self::Pass | Self::KnownFailure | Self::Skipped)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::KnownFailure => "known-failure",
            Self::UnexpectedPass => "unexpected-pass",
            Self::Skipped => "skipped",
        })
    }
}

/// A verdict with its grounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// How the case stands.
    pub verdict: Verdict,
    /// Where it failed, if it did.
    pub stage: Option<Stage>,
    /// What does not hold, one sentence each; for a skipped case why it cannot be.
    pub reasons: Vec<String>,
    /// Why a failure is known and accepted, or why an unexpected pass was expected to fail.
    pub known: Option<String>,
    /// What does not decide but should be looked at.
    pub warnings: Vec<String>,
    /// Each output's worst figure against its limit.
    pub outputs: Vec<OutputMargin>,
}

/// An output's worst figure against its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputMargin {
    /// The output's name.
    pub name: String,
    /// The figure nearest to, or farthest beyond, its limit; none where nothing could be measured.
    pub worst: Option<Margin>,
    /// The smallest `atol` that would just have passed; `inf` where none would, none where outputs must be equal.
    pub would_pass: Option<Figure>,
}

/// Holds an observation against a case's expectations on a recipe.
pub fn judge(case: &Case, recipe: &Recipe, observation: &Observation) -> Judged {
    let mut outputs = Vec::new();
    let failure = failure::of(case, observation, &mut outputs);
    let mut warnings = strays(recipe, observation);
    warnings.extend(unmasked(observation));
    let known: Vec<&KnownFailure> =
        case.known_failures.iter().filter(|k| any_matches(&k.recipes, &recipe.name)).collect();
    let Some(failure) = failure else {
        let passed =
            Judged { verdict: Verdict::Pass, stage: None, reasons: Vec::new(), known: None, warnings, outputs };
        return match known.first() {
            None => passed,
            Some(k) => Judged {
                verdict: Verdict::UnexpectedPass,
                reasons: vec![format!("it passes, and {} says that it must fail: update the golden data", case.file)],
                known: Some(k.reason.clone()),
                ..passed
            },
        };
    };
    let covering = failure.covered_by(&known);
    let stage = Some(failure.stage());
    let mut reasons = failure.into_reasons();
    let verdict = if covering.is_some() { Verdict::KnownFailure } else { Verdict::Fail };
    if covering.is_none() {
        let told = |k: &&KnownFailure| {
            format!("(known to fail at stage {} with /{}/: that does not cover all of this)", k.stage, k.pattern)
        };
        reasons.extend(known.iter().map(told));
    }
    Judged { verdict, stage, reasons, known: covering.map(|k| k.reason.clone()), warnings, outputs }
}

/// Outputs that the case's mask does not fit.
fn unmasked(observation: &Observation) -> impl Iterator<Item = String> {
    observation.facts.outputs.iter().filter(|o| o.mask_left_out).map(|o| {
        format!(
            "the mask does not lie on the leading axes of output `{}` ({}), whose rows were all compared alike: state \
             its mask_axes in the bundle",
            o.name, o.comparison.got
        )
    })
}

/// Variables that change what a library computes, and that came from the caller's environment and not from the recipe.
fn strays(recipe: &Recipe, observation: &Observation) -> Vec<String> {
    let variables = observation.facts.process.iter().flat_map(|p| &p.variables);
    let stray = variables.filter(|(name, _)| !recipe.variables().any(|own| own == name.as_str()));
    stray
        .map(|(name, value)| {
            format!("{name}={value} was set when the worker started, and recipe `{}` does not set it", recipe.name)
        })
        .collect()
}

/// A verdict for a case that cannot be run on this machine.
pub fn skipped(reason: String) -> Judged {
    Judged {
        verdict: Verdict::Skipped,
        stage: None,
        reasons: vec![reason],
        known: None,
        warnings: Vec::new(),
        outputs: Vec::new(),
    }
}
