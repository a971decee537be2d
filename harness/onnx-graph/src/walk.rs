//! Walks over a model: every graph, node and tensor, subgraphs and model-local functions included.

use crate::proto::{FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};
use std::collections::{BTreeSet, HashMap, HashSet};

/// ONNX's own operators may be written with or without their domain's name.
pub(crate) fn plain_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Names of the initialisers of one graph, sparse ones included.
pub(crate) fn initialiser_names(graph: &GraphProto) -> impl Iterator<Item = &str> {
    let sparse = graph.sparse_initializer.iter().filter_map(|s| s.values.as_ref());
    graph.initializer.iter().chain(sparse).map(TensorProto::name)
}

/// The graphs that a node holds in its attributes.
pub(crate) fn subgraphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().flat_map(|a| a.g.iter().chain(&a.graphs))
}

/// Every node of the main graph, of subgraphs, and once of each function that is called from there.
pub(crate) fn every_node<'a>(model: &'a ModelProto, visit: &mut dyn FnMut(&'a NodeProto)) {
    // A function's name is unique only together with its domain and overload.
    let key = |f: &'a FunctionProto| (plain_domain(f.domain()), f.name(), f.overload());
    let mut uncalled: HashMap<_, &FunctionProto> = model.functions.iter().map(|f| (key(f), f)).collect();
    let mut pending: Vec<&[NodeProto]> = model.graph.iter().map(|g| g.node.as_slice()).collect();
    while let Some(nodes) = pending.pop() {
        for node in nodes {
            visit(node);
            pending.extend(subgraphs(node).map(|g| g.node.as_slice()));
            let call = (plain_domain(node.domain()), node.op_type(), node.overload());
            // Taken out on first sight, so that recursion between functions (not allowed, yet writable) ends too.
            pending.extend(uncalled.remove(&call).map(|f| f.node.as_slice()));
        }
    }
}

/// Every tensor that may hold data: initialisers and attributes, wherever they stand.
pub(crate) fn every_tensor<'a>(model: &'a ModelProto, visit: &mut dyn FnMut(&'a TensorProto)) {
    let training = model.training_info.iter().flat_map(|t| t.initialization.iter().chain(&t.algorithm));
    let mut graphs: Vec<&GraphProto> = model.graph.iter().chain(training).collect();
    let mut bodies: Vec<&[NodeProto]> = model.functions.iter().map(|f| f.node.as_slice()).collect();
    loop {
        if let Some(graph) = graphs.pop() {
            graph.initializer.iter().for_each(&mut *visit);
            let sparse = graph.sparse_initializer.iter();
            sparse.flat_map(|s| s.values.iter().chain(&s.indices)).for_each(&mut *visit);
            bodies.push(&graph.node);
        } else if let Some(nodes) = bodies.pop() {
            for node in nodes {
                for attribute in &node.attribute {
                    attribute.t.iter().chain(&attribute.tensors).for_each(&mut *visit);
                    let sparse = attribute.sparse_tensor.iter().chain(&attribute.sparse_tensors);
                    sparse.flat_map(|s| s.values.iter().chain(&s.indices)).for_each(&mut *visit);
                }
                graphs.extend(subgraphs(node));
            }
        } else {
            return;
        }
    }
}

/// Adds the tensors of outer graphs that the subgraphs of `node` read.
pub(crate) fn captures<'a>(node: &'a NodeProto, found: &mut BTreeSet<&'a str>) {
    for graph in subgraphs(node) {
        let own: HashSet<&str> = (graph.input.iter().map(ValueInfoProto::name))
            .chain(initialiser_names(graph))
            .chain(graph.node.iter().flat_map(|n| n.output.iter().map(String::as_str)))
            .collect();
        let mut read: BTreeSet<&str> = graph.output.iter().map(ValueInfoProto::name).collect();
        for inner in &graph.node {
            read.extend(inner.input.iter().map(String::as_str));
            captures(inner, &mut read);
        }
        found.extend(read.into_iter().filter(|name| !name.is_empty() && !own.contains(name)));
    }
}

/// As [`every_tensor`] for one graph and its subgraphs, to be changed.
pub(crate) fn every_tensor_mut(graph: &mut GraphProto, visit: &mut dyn FnMut(&mut TensorProto)) {
    graph.initializer.iter_mut().for_each(&mut *visit);
    for node in &mut graph.node {
        for attribute in &mut node.attribute {
            attribute.t.iter_mut().chain(&mut attribute.tensors).for_each(&mut *visit);
            for inner in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                every_tensor_mut(inner, visit);
            }
        }
    }
}
