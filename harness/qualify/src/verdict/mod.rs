//! Verdicts: an observation held against what must hold. Judges; runs nothing.

pub mod limits;

use limits::{Limits, Margin};

use crate::case::{Case, PlacementDemand, any_matches};
use crate::observation::figure::Figure;
use crate::observation::placement::{Placement, short};
use crate::observation::{End, Observation, Stage};
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
pub fn judge(case: &Case, recipe: &str, observation: &Observation) -> Judged {
    let mut outputs = Vec::new();
    let failure = failure(case, observation, &mut outputs);
    let known = case.known_failures.iter().filter(|k| any_matches(&k.recipes, recipe)).collect::<Vec<_>>();
    let Some((stage, reasons)) = failure else {
        let (verdict, known) = match known.first() {
            Some(k) => (Verdict::UnexpectedPass, Some(k.reason.clone())),
            None => (Verdict::Pass, None),
        };
        let reasons = match verdict {
            Verdict::UnexpectedPass => {
                vec![format!("it passes, and {} says that it must fail: update the golden data", case.file)]
            }
            _ => Vec::new(),
        };
        return Judged { verdict, stage: None, reasons, known, outputs };
    };
    let text = reasons.join("\n");
    let expected = known.iter().find(|k| k.stage == stage && matches(&k.pattern, &text));
    let mut reasons = reasons;
    if expected.is_none() {
        for k in &known {
            reasons.push(format!(
                "(known to fail at stage {} with /{}/, and this is another failure)",
                k.stage, k.pattern
            ));
        }
    }
    Judged {
        verdict: if expected.is_some() { Verdict::KnownFailure } else { Verdict::Fail },
        stage: Some(stage),
        reasons,
        known: expected.map(|k| k.reason.clone()),
        outputs,
    }
}

/// A verdict for a case that cannot be run on this machine.
pub fn skipped(reason: String) -> Judged {
    Judged { verdict: Verdict::Skipped, stage: None, reasons: vec![reason], known: None, outputs: Vec::new() }
}

fn matches(pattern: &str, text: &str) -> bool {
    // The pattern was checked when the case file was read.
    regex::Regex::new(pattern).is_ok_and(|r| r.is_match(text))
}

/// The first stage at which something does not hold, with all that does not hold there.
fn failure(case: &Case, observation: &Observation, outputs: &mut Vec<OutputMargin>) -> Option<(Stage, Vec<String>)> {
    let facts = &observation.facts;
    let mut beyond = Vec::new();
    for output in &facts.outputs {
        let Some(limits) = case.limits_of(&output.name) else {
            beyond.push(format!("output `{}`: neither {} nor the bundle states limits for it", output.name, case.file));
            continue;
        };
        let judgement = limits::judge(&output.comparison, limits);
        beyond.extend(judgement.reasons.iter().map(|r| format!("output `{}`: {r}", output.name)));
        outputs.push(OutputMargin {
            name: output.name.clone(),
            worst: judgement.worst,
            would_pass: judgement.would_pass,
        });
    }
    if let Some(reasons) = ended_badly(observation) {
        return Some((observation.stage, reasons));
    }
    if case.placement == PlacementDemand::Provider
        && let Some(placement) = &facts.placement
    {
        let reasons = misplaced(placement);
        if !reasons.is_empty() {
            return Some((Stage::Placement, reasons));
        }
    }
    // Integers first: where the order of a sort is off, the floats behind it say nothing.
    let exact = Limits::profile("exact").expect("a profile of this program");
    let mut reasons: Vec<String> = facts
        .probes
        .iter()
        .flat_map(|p| {
            limits::judge(&p.comparison, &exact).reasons.into_iter().map(|r| format!("probe `{}`: {r}", p.tensor))
        })
        .collect();
    reasons.append(&mut beyond);
    if facts.outputs.is_empty() {
        reasons.push("no output was compared, so nothing is shown".to_owned());
    }
    (!reasons.is_empty()).then_some((Stage::Compare, reasons))
}

fn ended_badly(observation: &Observation) -> Option<Vec<String>> {
    let stage = observation.stage;
    let mut reasons = vec![match &observation.end {
        End::Finished => return None,
        End::Refused { message } => {
            let mut reasons = vec![message.clone()];
            if let Some(placement) = &observation.facts.placement {
                reasons.extend(misplaced(placement));
            }
            return Some(reasons);
        }
        End::Died { how, out_of_memory: false } => format!("the worker died at stage {stage}: {how}"),
        End::Died { how, out_of_memory: true } => {
            format!("the worker died at stage {stage}: {how}; the kernel's out-of-memory killer acted")
        }
        End::TimedOut { limit_s, by } => format!("time limit of {limit_s} s reached at stage {stage}; ended by {by}"),
    }];
    let said: Vec<&str> = observation.stderr_tail.iter().map(|l| l.trim_end()).filter(|l| !l.is_empty()).collect();
    if !said.is_empty() {
        reasons.push(format!("its last words: {}", said.join("\n")));
    }
    Some(reasons)
}

/// How many misplaced nodes a reason names before it counts the rest.
const NAMED_NODES: usize = 8;

fn misplaced(placement: &Placement) -> Vec<String> {
    if placement.is_wholly_there() {
        return Vec::new();
    }
    if placement.nodes.is_empty() {
        return vec!["the profile names no node, so placement is not shown".to_owned()];
    }
    let nodes = &placement.elsewhere;
    let mut named: Vec<String> = nodes
        .iter()
        .take(NAMED_NODES)
        .map(|n| format!("{} ({} on {})", n.name, n.op_type, short(&n.provider)))
        .collect();
    if nodes.len() > NAMED_NODES {
        named.push(format!("{} more", nodes.len() - NAMED_NODES));
    }
    let (count, wanted) = (nodes.len(), short(&placement.wanted));
    let are = if count == 1 { "node is" } else { "nodes are" };
    vec![format!("{count} {are} not on {wanted}: {}; placement: {}", named.join(", "), placement.summary())]
}
