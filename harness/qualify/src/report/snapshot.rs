//! The golden snapshot of a case: what must not change unnoticed, and nothing that differs by machine.
//!
//! Raw errors and times differ by CPU and are left out. Of the errors only the decades that hold are kept, and only
//! down to the limit: below it a figure may sit on either side of a decade on another machine.

use crate::case::Case;
use crate::observation::Observation;
use crate::observation::compare::{Comparison, Exact, FloatFigures, NonFinite, Outcome};
use crate::observation::placement::short;
use crate::verdict::limits::{Limits, LimitsTable, decades};
use crate::verdict::{Judged, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The snapshot's text.
pub fn text(case: &Case, observation: &Observation, judged: &Judged) -> String {
    let mut text = String::new();
    let facts = &observation.facts;
    let stage = judged.stage.map_or_else(String::new, |s| format!(" at {s}"));
    let _ = writeln!(text, "verdict: {}{stage}", judged.verdict);
    if let Some(known) = &judged.known {
        let _ = writeln!(text, "known because: {known}");
    }
    if let Some(graph) = &facts.graph {
        let opsets: Vec<_> = graph
            .opsets
            .iter()
            .map(|(domain, version)| format!("{} {version}", if domain.is_empty() { "ai.onnx" } else { domain }))
            .collect();
        let nodes: usize = graph.op_histogram.values().sum();
        let _ = writeln!(text, "graph: IR {}, opset {}, {nodes} nodes", graph.ir, opsets.join(", "));
        for (op, n) in &graph.op_histogram {
            let _ = writeln!(text, "  {op} {n}");
        }
    }
    if let Some(placement) = &facts.placement {
        let _ = writeln!(text, "placement: wanted {}", short(&placement.wanted));
        for (provider, ops) in &placement.nodes {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for (op, n) in ops {
                *counts.entry(without_serial(op)).or_default() += n;
            }
            let ops: Vec<_> = counts.iter().map(|(op, n)| format!("{op} {n}")).collect();
            let _ = writeln!(text, "  {}: {}", short(provider), ops.join(", "));
        }
    }
    for probe in &facts.probes {
        let _ = writeln!(text, "probe {}: {}", probe.tensor, signature(&probe.comparison));
    }
    for output in &facts.outputs {
        let _ = writeln!(text, "output {}: {}", output.name, signature(&output.comparison));
        // How wrong a wrong output is differs by processor, too.
        if judged.verdict != Verdict::Pass {
            continue;
        }
        if let Some(limit) = case.limits_of(&output.name).and_then(absolute_limit) {
            for decade in decades(&output.comparison, limit) {
                let _ = writeln!(text, "  {decade}");
            }
        }
    }
    text
}

/// Compiled subgraphs are numbered by session and by hash (`OpenVINO-EP-subgraph_3`); operators' names end in no number
/// behind an underscore.
fn without_serial(op: &str) -> &str {
    match op.rsplit_once('_') {
        Some((name, serial)) if serial.bytes().all(|b| b.is_ascii_digit()) => without_serial(name),
        _ => op,
    }
}

/// Type, shape, and what does not differ by processor: equality where that is asked for, non-finite values by kind.
fn signature(comparison: &Comparison) -> String {
    let word = match &comparison.outcome {
        Outcome::Mismatch(_) => format!(", the reference is {}", comparison.reference),
        Outcome::Exact(Exact { valid, masked }) => {
            let differing = valid.differing + masked.as_ref().map_or(0, |m| m.differing);
            if differing == 0 { ", equal".to_owned() } else { ", different".to_owned() }
        }
        Outcome::Floats(floats) => {
            let rows = |f: &FloatFigures, rows: &str| nonfinite(&f.nonfinite_got, rows);
            rows(&floats.valid, "") + &floats.masked.as_ref().map_or_else(String::new, |m| rows(m, " on masked rows"))
        }
    };
    format!("{}{word}", comparison.got)
}

/// NaN must not come or go unnoticed.
fn nonfinite(found: &NonFinite, rows: &str) -> String {
    [("NaN", &found.nan), ("+inf", &found.pos_inf), ("-inf", &found.neg_inf)]
        .iter()
        .filter(|(_, tally)| tally.count > 0)
        .fold(String::new(), |text, (kind, tally)| text + &format!(", {} {kind}{rows}", tally.count))
}

/// The limit on the absolute error that decades are counted down to.
fn absolute_limit(limits: &Limits) -> Option<f64> {
    let table = LimitsTable::from(limits.clone());
    table.max_abs.or(table.atol).filter(|limit| *limit > 0.0)
}
