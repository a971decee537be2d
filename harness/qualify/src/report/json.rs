//! The same as the table for programs: `run --json`.

use crate::observation::Timings;
use crate::observation::memory::peak_rss_mib;
use crate::observation::placement::Placement;
use crate::run::{CaseResult, Late};
use crate::verdict::OutputMargin;
use crate::verdict::Verdict;
use camino::Utf8Path;
use serde::Serialize;
use std::collections::BTreeMap;

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Run<'a> {
    recipe: &'a str,
    /// Wall time in seconds, fetching and realising included.
    wall_s: f64,
    evidence: &'a Utf8Path,
    /// Number of cases by verdict.
    verdicts: BTreeMap<String, usize>,
    as_expected: bool,
    /// Peak resident memory of this process, not of its workers.
    harness_peak_rss_mib: Option<f64>,
    /// Shared workers that did not end cleanly, in words.
    late_deaths: Vec<&'a str>,
    cases: Vec<Row<'a>>,
}

#[derive(Debug, Serialize)]
struct Row<'a> {
    case: &'a str,
    verdict: Verdict,
    stage: Option<String>,
    reasons: &'a [String],
    known: Option<&'a str>,
    warnings: &'a [String],
    outputs: &'a [OutputMargin],
    placement: Option<String>,
    elapsed_ms: Option<f64>,
    /// Milliseconds inside the library on session creation and inference.
    library_work_ms: Option<f64>,
    timings: Option<Timings>,
    kept: bool,
    evidence: Option<&'a Utf8Path>,
}

impl<'a> Run<'a> {
    /// A run's results as a value to print.
    pub fn new(
        recipe: &'a str,
        wall_s: f64,
        evidence: &'a Utf8Path,
        results: &'a [CaseResult],
        late: &'a [Late],
    ) -> Self {
        let mut verdicts = BTreeMap::new();
        for result in results {
            *verdicts.entry(result.judged.verdict.to_string()).or_default() += 1;
        }
        Self {
            recipe,
            wall_s,
            evidence,
            verdicts,
            as_expected: late.is_empty() && results.iter().all(|r| r.judged.verdict.is_as_expected()),
            harness_peak_rss_mib: peak_rss_mib(),
            late_deaths: late.iter().map(|l| l.0.as_str()).collect(),
            cases: results.iter().map(row).collect(),
        }
    }
}

fn row(result: &CaseResult) -> Row<'_> {
    let observation = result.observation.as_ref();
    Row {
        case: &result.case.name,
        verdict: result.judged.verdict,
        stage: result.judged.stage.map(|s| s.to_string()),
        reasons: &result.judged.reasons,
        known: result.judged.known.as_deref(),
        warnings: &result.judged.warnings,
        outputs: &result.judged.outputs,
        placement: observation.and_then(|o| o.facts.placement.as_ref()).map(Placement::summary),
        elapsed_ms: observation.map(|o| o.elapsed_ms),
        library_work_ms: observation.map(|o| o.facts.timings.library_work_ms().0),
        timings: observation.map(|o| o.facts.timings),
        kept: result.kept,
        evidence: result.evidence.as_deref(),
    }
}
