//! The part of a graph between tensors, as a model of its own.

use crate::error::ModelError;
use crate::expose;
use crate::infer::{TensorType, Types};
use crate::inspect::{self, Dim};
use crate::model::Model;
use crate::proto::{GraphProto, ModelProto, ValueInfoProto};
use crate::view::View;
use crate::walk;
use std::collections::{BTreeSet, HashSet};

impl Model {
    /// The sub-model that computes `to` from `from` and from constants. Where `from` is empty, it begins at the model's
    /// inputs. Tensors that `to` needs and that do not follow from `from` are an error that names them.
    ///
    /// `types` gives the new inputs and outputs their types where the model states none.
    pub fn cut(&self, from: &[String], to: &[String], types: &Types) -> Result<Self, ModelError> {
        let view = View::new(self);
        let graph = view.graph;
        let known = expose::known(graph);
        for name in from.iter().chain(to) {
            if !known.contains(name.as_str()) {
                return Err(ModelError::UnknownTensor { name: name.clone(), hint: expose::hint(name, &known) });
            }
        }
        let starts: HashSet<&str> = from.iter().map(String::as_str).collect();
        let inputs: HashSet<&str> = graph.input.iter().map(ValueInfoProto::name).collect();
        let mut wanted: Vec<&str> = to.iter().map(String::as_str).filter(|t| !starts.contains(t)).collect();
        let (mut kept, mut read, mut missing) = (HashSet::new(), HashSet::new(), BTreeSet::new());
        let mut entered: Vec<&str> = Vec::new();
        while let Some(tensor) = wanted.pop() {
            if tensor.is_empty() || !read.insert(tensor) {
                continue;
            }
            if starts.contains(tensor) {
                continue;
            }
            match view.producer(tensor) {
                Some((index, node)) => {
                    if kept.insert(index) {
                        let mut inner = BTreeSet::new();
                        walk::captures(node, &mut inner);
                        wanted.extend(inner);
                        wanted.extend(node.input.iter().map(String::as_str));
                    }
                }
                None if view.initialiser(tensor).is_some() => {}
                None if from.is_empty() && inputs.contains(tensor) => entered.push(tensor),
                None => {
                    missing.insert(tensor);
                }
            }
        }
        if !missing.is_empty() {
            let missing: Vec<&str> = missing.into_iter().collect();
            return Err(ModelError::Cut { to: to.join("`, `"), missing: missing.join("`, `") });
        }
        let stated = |name: &str| {
            graph
                .input
                .iter()
                .chain(&graph.output)
                .chain(&graph.value_info)
                .find(|i| i.name() == name && i.r#type.is_some())
        };
        let info = |name: &str| stated(name).cloned().unwrap_or_else(|| describe(name, &types.get(name)));
        let first: Vec<&str> = if from.is_empty() {
            graph.input.iter().map(ValueInfoProto::name).filter(|n| entered.contains(n)).collect()
        } else {
            from.iter().map(String::as_str).filter(|n| read.contains(n)).collect()
        };
        let nodes = graph.node.iter().enumerate().filter(|(index, _)| kept.contains(index));
        let cut = GraphProto {
            node: nodes.map(|(_, node)| node.clone()).collect(),
            name: graph.name.clone(),
            initializer: graph
                .initializer
                .iter()
                .filter(|i| read.contains(i.name()) && !starts.contains(i.name()))
                .cloned()
                .collect(),
            sparse_initializer: graph.sparse_initializer.clone(),
            input: first.iter().map(|n| info(n)).collect(),
            output: to.iter().map(|n| info(n)).collect(),
            ..GraphProto::default()
        };
        Ok(Self { proto: ModelProto { graph: Some(cut), training_info: Vec::new(), ..self.proto.clone() } })
    }
}

/// What inference knows, as a message.
pub(crate) fn describe(name: &str, known: &TensorType) -> ValueInfoProto {
    match (known.dtype, &known.shape) {
        (Some(dtype), Some(shape)) => inspect::tensor_info(name, dtype, shape),
        (Some(dtype), None) => inspect::tensor_info_unranked(name, dtype),
        (None, _) => ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() },
    }
}

impl Types {
    /// Extents with the unknown ones as they are; a short form for messages.
    pub fn shape_text(&self, tensor: &str) -> String {
        let known = self.get(tensor);
        let shape =
            known.shape.map_or_else(|| "..".to_owned(), |s| s.iter().map(Dim::to_string).collect::<Vec<_>>().join(","));
        format!("{}[{shape}]", known.dtype.map_or("untyped", |d| d.name()))
    }
}
