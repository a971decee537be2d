//! Hazards of what is computed: guards, sorts, quotients, float16.

use super::{Findings, Severity, Target};
use crate::infer::Types;
use crate::proto::NodeProto;
use crate::rewrite::{find_atan2, find_guards, find_softmax_guards, sort_needs};
use crate::tensor::DataType;
use crate::view::{View, floats, is, node_label};
use std::collections::HashSet;

pub(super) fn look(view: &View<'_>, types: &Types, target: &Target, found: &mut Findings) {
    let takes = |op: &str| target.claims.as_ref().and_then(|c| c.takes(op, None));
    let worse_without = |op: &str| if takes(op) == Some(false) { Severity::Error } else { Severity::Warning };
    let labels = |nodes: Vec<&NodeProto>| nodes.into_iter().map(node_label).collect::<Vec<_>>();
    let guarded = find_softmax_guards(view);
    found.add("softmax-guard", worse_without("IsNaN"), "", labels(guarded.iter().map(|g| g.is_nan).collect()));
    let guards = find_guards(view);
    found.add("nan-guard", worse_without("IsNaN"), "", labels(guards.iter().map(|g| g.is_nan).collect()));
    let angles = find_atan2(view);
    found.add("atan2-zero", worse_without("Atan"), "", labels(angles.iter().map(|a| a.atan).collect()));
    sorts(view, types, target, found);
    let parts = view.graph.node.iter().filter(|n| is(n, "Split"));
    let outputs = parts.flat_map(|n| n.output.iter().filter(|o| view.is_output(o)));
    found.add("split-output", Severity::Warning, "", outputs.cloned().collect());
    float16(view, types, found);
}

fn sorts(view: &View<'_>, types: &Types, target: &Target, found: &mut Findings) {
    let (mut infinite, mut floats, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for node in &view.graph.node {
        let Some(needs) = sort_needs(view, types, node) else { continue };
        if needs.float_keys {
            if reads_infinity(view, node) { infinite.push(node_label(node)) } else { floats.push(node_label(node)) }
        }
        if needs.values_unread {
            unread.push(node_label(node));
        }
    }
    let cuda = if target.provider == "cuda" { Severity::Error } else { Severity::Warning };
    found.add("topk-infinite-key", cuda, "", infinite);
    found.add("topk-float-key", Severity::Warning, "", floats);
    found.add("topk-unread-values", Severity::Warning, "", unread);
}

/// Does an infinite constant reach the keys of a sort through a few operators that keep values as they are?
fn reads_infinity(view: &View<'_>, node: &NodeProto) -> bool {
    let passes = [
        "Where",
        "Add",
        "Sub",
        "Gather",
        "Reshape",
        "Transpose",
        "Cast",
        "Unsqueeze",
        "Squeeze",
        "Slice",
        "Identity",
        "Concat",
    ];
    let mut seen: HashSet<&str> = HashSet::new();
    let mut pending: Vec<(&str, usize)> = node.input.first().map(|k| (k.as_str(), 0)).into_iter().collect();
    while let Some((tensor, depth)) = pending.pop() {
        if depth > 8 || !seen.insert(tensor) {
            continue;
        }
        let constant = view.constant(tensor).and_then(|t| floats(&t));
        if constant.is_some_and(|v| v.iter().any(|v| v.is_infinite())) {
            return true;
        }
        if let Some((_, maker)) = view.producer(tensor).filter(|(_, n)| passes.contains(&n.op_type())) {
            pending.extend(maker.input.iter().map(|i| (i.as_str(), depth + 1)));
        }
    }
    false
}

fn float16(view: &View<'_>, types: &Types, found: &mut Findings) {
    let graph = view.graph;
    let dtype = |tensor: &str| types.get(tensor).dtype;
    let half = Some(DataType::Float16);
    let held = graph.initializer.iter().filter(|i| i.data_type() == DataType::Float16 as i32).count();
    let fed = graph.input.iter().any(|i| dtype(i.name()) == half);
    if held > 0 || fed {
        let softmax = graph.node.iter().filter(|n| is(n, "Softmax"));
        let single = |t: &String| dtype(t) == Some(DataType::Float32);
        let mut at: Vec<String> = softmax.filter(|n| n.input.first().is_some_and(single)).map(node_label).collect();
        // Outputs that are float32 on purpose come from a Cast; float32 inputs say that the float16 is inner only.
        let public = graph.input.iter().any(|i| dtype(i.name()) == Some(DataType::Float32));
        let outputs = graph.output.iter().map(|o| o.name().to_owned());
        at.extend(outputs.filter(|o| !public && single(o)));
        found.add("fp16-in-fp32", Severity::Warning, "", at);
    }
    let out_of_range = |tensor: &str, limit: f64| {
        let values = view.constant(tensor).and_then(|t| floats(&t)).unwrap_or_default();
        values.iter().any(|v| v.abs() > limit)
    };
    let mut at: Vec<String> = Vec::new();
    for node in &graph.node {
        let narrows = is(node, "Cast") && node.output.first().is_some_and(|o| dtype(o) == half);
        let infinite = |t: &&String| dtype(t) == half && view.is_constant(t) && out_of_range(t, 65504.0);
        let beyond = |t: &&String| narrows && out_of_range(t, 65504.0);
        if node.input.iter().any(|t| infinite(&t) || beyond(&t)) {
            at.push(node_label(node));
        }
    }
    found.add("fp16-range", Severity::Warning, "", at);
}
