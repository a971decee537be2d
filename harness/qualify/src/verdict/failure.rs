//! What does not hold of an observation.

use super::OutputMargin;
use super::limits::{self, Limits};
use crate::case::{Case, KnownFailure, PlacementDemand};
use crate::observation::compare::{Mismatch, Outcome};
use crate::observation::placement::{Placement, short};
use crate::observation::{End, Observation, Probe, Stage};

/// What does not hold.
pub(super) enum Failure {
    /// The case or its bundle is wrong: never a known failure, since nothing was tried.
    Ours(String),
    /// The worker ended at a stage; the sentences are about that one event.
    Event(Stage, Vec<String>),
    /// The worker finished, and each of these does not hold for itself.
    Findings(Vec<(Stage, String)>),
}

impl Failure {
    /// The first stage at which something does not hold.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Ours(_) => Stage::Load,
            Self::Event(stage, _) => *stage,
            Self::Findings(found) => found.first().map_or(Stage::Compare, |(stage, _)| *stage),
        }
    }

    /// The known failure that this is. Known failures must cover each finding: one more than is known is news.
    pub fn covered_by<'k>(&self, known: &[&'k KnownFailure]) -> Option<&'k KnownFailure> {
        let covering =
            |stage: Stage, text: &str| known.iter().find(|k| k.stage == stage && matches(&k.pattern, text)).copied();
        match self {
            Self::Ours(_) => None,
            Self::Event(stage, reasons) => covering(*stage, &reasons.join("\n")),
            Self::Findings(found) => {
                let covers: Option<Vec<_>> = found.iter().map(|(stage, reason)| covering(*stage, reason)).collect();
                covers?.first().copied()
            }
        }
    }

    /// All sentences.
    pub fn into_reasons(self) -> Vec<String> {
        match self {
            Self::Ours(message) => vec![message],
            Self::Event(_, reasons) => reasons,
            Self::Findings(found) => found.into_iter().map(|(_, reason)| reason).collect(),
        }
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    // The pattern was checked when the case file was read.
    regex::Regex::new(pattern).is_ok_and(|r| r.is_match(text))
}

/// All that does not hold, if anything; margins of the outputs go to `outputs` in any case.
pub(super) fn of(case: &Case, observation: &Observation, outputs: &mut Vec<OutputMargin>) -> Option<Failure> {
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
    if let End::NotStarted { message } = &observation.end {
        return Some(Failure::Ours(message.clone()));
    }
    if let Some(reasons) = ended_badly(observation) {
        return Some(Failure::Event(observation.stage, reasons));
    }
    let mut found: Vec<(Stage, String)> = Vec::new();
    if case.placement == PlacementDemand::Provider
        && let Some(placement) = &facts.placement
    {
        found.extend(misplaced(placement).into_iter().map(|reason| (Stage::Placement, reason)));
    }
    // Integers first: where the order of a sort is off, the floats behind it say nothing.
    let mut beyond_exact: Vec<String> = facts.probes.iter().flat_map(probe).collect();
    beyond_exact.append(&mut beyond);
    let missing = facts.not_compared.iter().filter(|name| !case.without_reference.contains(name));
    beyond_exact.extend(missing.map(|name| {
        format!("output `{name}` of the model has no reference: give the bundle one, or name it in the group's without_reference")
    }));
    if facts.outputs.is_empty() {
        beyond_exact.push("no output was compared, so nothing is shown".to_owned());
    }
    found.extend(beyond_exact.into_iter().map(|reason| (Stage::Compare, reason)));
    (!found.is_empty()).then_some(Failure::Findings(found))
}

/// Why a probe is not its reference, if it is not.
fn probe(probe: &Probe) -> Vec<String> {
    let Probe { tensor, comparison } = probe;
    if let Outcome::Mismatch(Mismatch::Dtype) = comparison.outcome {
        let (got, reference) = (&comparison.got, &comparison.reference);
        return vec![format!(
            "probe `{tensor}`: probes are integers, and the tensor is {got}, the reference {reference}"
        )];
    }
    let exact = Limits::profile("exact").expect("a profile of this program");
    limits::judge(comparison, &exact).reasons.into_iter().map(|r| format!("probe `{tensor}`: {r}")).collect()
}

fn ended_badly(observation: &Observation) -> Option<Vec<String>> {
    let stage = observation.stage;
    let mut reasons = vec![match &observation.end {
        End::Finished | End::NotStarted { .. } => return None,
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
    if placement.truncated {
        return vec![
            "the library's profile was cut off at its largest number of events, so placement is not shown: give the model \
             less to loop over"
                .to_owned(),
        ];
    }
    if placement.nodes.is_empty() {
        return vec![
            "the profile names no node, so placement is not shown; where a model is folded into constants, say \
             placement = \"recorded\""
                .to_owned(),
        ];
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
