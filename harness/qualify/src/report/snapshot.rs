//! The golden snapshot of a case: what must not change unnoticed, and nothing that differs by machine.
//!
//! Raw errors and times differ by CPU and are left out. Of the errors only the decades that hold are kept, and only
//! down to the limit: below it a figure may sit on either side of a decade on another machine.

use crate::case::Case;
use crate::observation::Observation;
use crate::observation::placement::short;
use crate::verdict::Judged;
use crate::verdict::limits::decades;
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
        let opsets: Vec<_> = graph.opsets.iter().map(|(domain, version)| format!("{domain} {version}")).collect();
        let nodes: usize = graph.op_histogram.values().sum();
        let _ = writeln!(text, "graph: IR {}, opset {}, {nodes} nodes", graph.ir, opsets.join(", "));
        for (op, n) in &graph.op_histogram {
            let _ = writeln!(text, "  {op} {n}");
        }
    }
    if let Some(placement) = &facts.placement {
        let _ = writeln!(text, "placement: wanted {}", short(&placement.wanted));
        for (provider, ops) in &placement.nodes {
            let ops: Vec<_> = ops.iter().map(|(op, n)| format!("{op} {n}")).collect();
            let _ = writeln!(text, "  {}: {}", short(provider), ops.join(", "));
        }
    }
    for probe in &facts.probes {
        let word = if probe.comparison.is_equal() { "equal" } else { "different" };
        let _ = writeln!(text, "probe {}: {word}", probe.tensor);
    }
    for output in &facts.outputs {
        let limits = case.output_limits.get(&output.name).unwrap_or(&case.limits);
        let _ = writeln!(text, "output {}: {}", output.name, output.comparison.signature());
        for line in decades(&output.comparison, limits) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}
