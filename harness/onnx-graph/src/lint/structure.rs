//! Hazards of the graph as such: names, order, what is lost or left over, external data.

use super::{Findings, Severity};
use crate::model::Model;
use crate::proto::ValueInfoProto;
use crate::rewrite::{read, useful};
use crate::view::{View, node_label};
use crate::walk;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

pub(super) fn look(model: &Model, view: &View<'_>, dir: Option<&Path>, found: &mut Findings) {
    let graph = view.graph;
    let label = |index: usize| node_label(&graph.node[index]);
    if let Err(waiting) = view.topological() {
        found.add("cycle", Severity::Error, "", waiting.into_iter().map(label).collect());
    } else {
        let mut made: HashSet<&str> = HashSet::new();
        let late = graph.node.iter().filter(|node| {
            let mut needs: BTreeSet<&str> = node.input.iter().map(String::as_str).collect();
            walk::captures(node, &mut needs);
            let early = needs.iter().any(|n| view.producer(n).is_some() && !made.contains(n));
            made.extend(node.output.iter().map(String::as_str));
            early
        });
        found.add("node-order", Severity::Warning, "", late.map(node_label).collect());
    }
    names(view, found);
    let known = crate::expose::known(graph);
    let undefined = read(graph).into_iter().filter(|n| !n.is_empty() && !known.contains(n));
    found.add("undefined-tensor", Severity::Error, "", undefined.map(str::to_owned).collect());
    let reads = read(graph);
    let unread = walk::initialiser_names(graph).filter(|n| !reads.contains(n));
    found.add("unread-initialiser", Severity::Note, "", unread.map(str::to_owned).collect());
    let useful = useful(graph);
    let dead = graph.node.iter().enumerate().filter(|(index, _)| !useful.contains(index));
    found.add("dead-node", Severity::Note, "", dead.map(|(_, n)| node_label(n)).collect());
    external(model, dir, found);
}

fn names(view: &View<'_>, found: &mut Findings) {
    let graph = view.graph;
    let unnamed = graph.node.iter().filter(|n| n.name().is_empty());
    found.add("unnamed-node", Severity::Note, "", unnamed.map(node_label).collect());
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    graph.node.iter().filter(|n| !n.name().is_empty()).for_each(|n| *count.entry(n.name()).or_default() += 1);
    let twice =
        |count: BTreeMap<&str, usize>| count.into_iter().filter(|(_, n)| *n > 1).map(|(n, _)| n.to_owned()).collect();
    found.add("duplicate-node-name", Severity::Note, "", twice(count));
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    let made = graph.node.iter().flat_map(|n| &n.output).map(String::as_str).filter(|o| !o.is_empty());
    let inputs: HashSet<&str> = graph.input.iter().map(ValueInfoProto::name).collect();
    // An initialiser may give an input of its name a default.
    let held = walk::initialiser_names(graph).filter(|n| !inputs.contains(n));
    for name in made.chain(inputs.iter().copied()).chain(held) {
        *count.entry(name).or_default() += 1;
    }
    found.add("duplicate-tensor", Severity::Error, "", twice(count));
}

fn external(model: &Model, dir: Option<&Path>, found: &mut Findings) {
    let files = match dir.map_or_else(|| model.external_files(), |dir| model.check_external(dir)) {
        Ok(files) => files,
        Err(error) => {
            return found.add("external-data", Severity::Error, error.to_string(), vec!["external data".to_owned()]);
        }
    };
    let mut ranges: BTreeMap<&str, Vec<(u64, u64, &str)>> = BTreeMap::new();
    for file in &files {
        let end = file.offset.saturating_add(file.needed);
        ranges.entry(&file.location).or_default().push((file.offset, end, &file.tensor));
    }
    let mut overlapping = BTreeSet::new();
    for ranges in ranges.values_mut() {
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            let [(from, to, a), (start, end, b)] = pair else { continue };
            if start < to && (from, to) != (start, end) {
                overlapping.extend([(*a).to_owned(), (*b).to_owned()]);
            }
        }
    }
    found.add("external-overlap", Severity::Warning, "", overlapping.into_iter().collect());
}
