//! Makes inner tensors visible as outputs, so that a run can return them.

use crate::error::ModelError;
use crate::inspect::{self, Dim};
use crate::model::Model;
use crate::proto::{GraphProto, ValueInfoProto};
use crate::tensor::DataType;
use crate::walk;
use std::collections::HashSet;

impl Model {
    /// Adds tensors of the main graph as outputs behind the present ones; those that are outputs already stay as they are.
    /// The outputs carry a type where the model states one. On an error the model is unchanged.
    pub fn expose_outputs(&mut self, tensors: &[String]) -> Result<(), ModelError> {
        let graph = self.graph();
        let known = known(graph);
        let mut outputs: HashSet<&str> = graph.output.iter().map(ValueInfoProto::name).collect();
        let mut added = Vec::new();
        for name in tensors {
            if !known.contains(name.as_str()) {
                return Err(ModelError::UnknownTensor { name: name.clone(), hint: hint(name, &known) });
            }
            if outputs.insert(name) {
                added.push(stated(graph, name));
            }
        }
        if let Some(graph) = &mut self.proto.graph {
            graph.output.extend(added);
        }
        Ok(())
    }
}

/// The tensors of the main graph.
pub(crate) fn known(graph: &GraphProto) -> HashSet<&str> {
    (graph.input.iter().map(ValueInfoProto::name))
        .chain(walk::initialiser_names(graph))
        .chain(graph.node.iter().flat_map(|n| n.output.iter().map(String::as_str)))
        .filter(|name| !name.is_empty())
        .collect()
}

/// What the graph states of a tensor: its type if it is an input, an initialiser or annotated, else only the name.
fn stated(graph: &GraphProto, name: &str) -> ValueInfoProto {
    if let Some(info) = graph.value_info.iter().chain(&graph.input).find(|i| i.name() == name) {
        return info.clone();
    }
    let initialiser = graph.initializer.iter().find(|i| i.name() == name);
    match initialiser.and_then(|i| Some((DataType::from_onnx(i.data_type())?, &i.dims))) {
        Some((dtype, dims)) => {
            let dims: Vec<Dim> = dims.iter().map(|&d| usize::try_from(d).map_or(Dim::Unknown, Dim::Fixed)).collect();
            inspect::tensor_info(name, dtype, &dims)
        }
        None => ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() },
    }
}

/// ` (did you mean `X`?)` with the most alike name, or nothing when none is alike.
pub(crate) fn hint(name: &str, known: &HashSet<&str>) -> String {
    let alike = known.iter().map(|k| (strsim::jaro_winkler(name, k), k)).filter(|(likeness, _)| *likeness > 0.7);
    // By name among equals, so that the message is the same each time.
    let nearest = alike.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)));
    nearest.map_or_else(String::new, |(_, k)| format!(" (did you mean `{k}`?)"))
}
