//! A graph as its readers want it: who makes a tensor, who reads it, in which order, of which type.

use crate::builder::Attribute;
use crate::inspect;
use crate::model::Model;
use crate::proto::{AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto};
use crate::tensor::{DataType, Tensor, element_count};
use crate::tensor_proto::tensor_from_proto;
use crate::walk;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Largest constant that is read for its values, in elements: shapes, axes and scales, never weights.
const SMALL: usize = 1024;

/// The main graph of a model, indexed by tensor name.
#[derive(Debug)]
pub struct View<'a> {
    /// The graph behind it.
    pub graph: &'a GraphProto,
    /// Version of ONNX's own operators; 0 where the model imports none.
    pub opset: i64,
    producers: HashMap<&'a str, usize>,
    consumers: HashMap<&'a str, Vec<usize>>,
    initialisers: HashMap<&'a str, &'a TensorProto>,
    outputs: HashSet<&'a str>,
}

impl<'a> View<'a> {
    /// Indexes the main graph.
    pub fn new(model: &'a Model) -> Self {
        let graph = model.graph();
        let mut producers = HashMap::new();
        let mut consumers: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, node) in graph.node.iter().enumerate() {
            for output in node.output.iter().filter(|o| !o.is_empty()) {
                producers.entry(output.as_str()).or_insert(index);
            }
            let mut read: BTreeSet<&str> = BTreeSet::new();
            walk::captures(node, &mut read);
            read.extend(node.input.iter().map(String::as_str).filter(|i| !i.is_empty()));
            for name in read {
                consumers.entry(name).or_default().push(index);
            }
        }
        Self {
            graph,
            opset: model.opsets().get("").copied().unwrap_or(0),
            producers,
            consumers,
            initialisers: graph.initializer.iter().map(|t| (t.name(), t)).collect(),
            outputs: graph.output.iter().map(ValueInfoProto::name).collect(),
        }
    }

    /// The node that makes a tensor, with its index; `None` for inputs and initialisers.
    pub fn producer(&self, tensor: &str) -> Option<(usize, &'a NodeProto)> {
        self.producers.get(tensor).map(|&index| (index, &self.graph.node[index]))
    }

    /// The node that makes a tensor, if it is ONNX's own operator of that type.
    pub fn made_by(&self, tensor: &str, op_type: &str) -> Option<&'a NodeProto> {
        self.producer(tensor).map(|(_, node)| node).filter(|node| is(node, op_type))
    }

    /// The nodes that read a tensor, subgraphs included, each once, in the graph's order.
    pub fn consumers(&self, tensor: &str) -> impl Iterator<Item = &'a NodeProto> {
        self.consumers.get(tensor).into_iter().flatten().map(|&index| &self.graph.node[index])
    }

    /// The one node that reads a tensor, if there is one only and the graph does not give the tensor out.
    pub fn only_consumer(&self, tensor: &str) -> Option<&'a NodeProto> {
        let mut consumers = self.consumers(tensor);
        consumers.next().filter(|_| consumers.next().is_none() && !self.is_output(tensor))
    }

    /// Does anything read the tensor, or is it an output of the graph?
    pub fn is_used(&self, tensor: &str) -> bool {
        !tensor.is_empty() && (self.is_output(tensor) || self.consumers.contains_key(tensor))
    }

    /// Is the tensor an output of the graph?
    pub fn is_output(&self, tensor: &str) -> bool {
        self.outputs.contains(tensor)
    }

    /// The initialiser of that name.
    pub fn initialiser(&self, tensor: &str) -> Option<&'a TensorProto> {
        self.initialisers.get(tensor).copied()
    }

    /// The message behind a constant: an initialiser or the value of a Constant node, seen through Identity nodes.
    pub fn constant_proto(&self, tensor: &str) -> Option<&'a TensorProto> {
        let mut name = tensor;
        // A cycle of Identity nodes is no graph, and still must end.
        for _ in 0..16 {
            if let Some(initialiser) = self.initialiser(name) {
                return Some(initialiser);
            }
            let (_, node) = self.producer(name)?;
            match node.op_type() {
                "Constant" => return attribute(node, "value")?.t.as_ref(),
                "Identity" => name = node.input.first()?,
                _ => return None,
            }
        }
        None
    }

    /// The values of a small constant that the model holds itself, whichever way it is written.
    pub fn constant(&self, tensor: &str) -> Option<Tensor> {
        if let Some(proto) = self.constant_proto(tensor) {
            let shape: Option<Vec<usize>> = proto.dims.iter().map(|&d| usize::try_from(d).ok()).collect();
            let small = element_count(&shape?).is_some_and(|n| n <= SMALL);
            return small.then(|| tensor_from_proto(proto, None).ok()).flatten();
        }
        let node = self.made_by(tensor, "Constant")?;
        let of = |a: &AttributeProto| match a.name() {
            "value_int" => Tensor::from_values(&[], &[a.i?]).ok(),
            "value_ints" => Tensor::from_values(&[a.ints.len()], &a.ints).ok(),
            "value_float" => Tensor::from_values(&[], &[a.f?]).ok(),
            "value_floats" => Tensor::from_values(&[a.floats.len()], &a.floats).ok(),
            _ => None,
        };
        node.attribute.iter().find_map(of)
    }

    /// A constant whose elements are all the same float.
    pub fn uniform(&self, tensor: &str) -> Option<f64> {
        let constant = self.constant(tensor)?;
        let values = floats(&constant)?;
        let first = *values.first()?;
        values.iter().all(|v| v.to_bits() == first.to_bits()).then_some(first)
    }

    /// Is it a constant, of whatever size?
    pub fn is_constant(&self, tensor: &str) -> bool {
        self.constant_proto(tensor).is_some() || self.made_by(tensor, "Constant").is_some()
    }

    /// Indices of the nodes so that each stands behind those it reads from; the given order where that is one already.
    /// `Err` names the nodes of a cycle (or those that wait for one).
    pub fn topological(&self) -> Result<Vec<usize>, Vec<usize>> {
        let nodes = &self.graph.node;
        let needs = |index: usize| -> BTreeSet<usize> {
            let mut read = BTreeSet::new();
            walk::captures(&nodes[index], &mut read);
            read.extend(nodes[index].input.iter().map(String::as_str));
            read.iter().filter_map(|name| self.producers.get(name).copied()).collect()
        };
        let mut waits: Vec<usize> = (0..nodes.len()).map(|index| needs(index).len()).collect();
        // The smallest ready index first: stable.
        let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|&index| waits[index] == 0).collect();
        let mut order = Vec::with_capacity(nodes.len());
        while let Some(index) = ready.pop_first() {
            order.push(index);
            let outputs: BTreeSet<&str> = nodes[index].output.iter().map(String::as_str).collect();
            let mut released = BTreeSet::new();
            for output in outputs.iter().filter(|o| self.producers.get(**o) == Some(&index)) {
                released.extend(self.consumers.get(output).into_iter().flatten());
            }
            for &next in &released {
                waits[next] -= 1;
                if waits[next] == 0 {
                    ready.insert(next);
                }
            }
        }
        if order.len() == nodes.len() {
            return Ok(order);
        }
        let placed: HashSet<usize> = order.into_iter().collect();
        Err((0..nodes.len()).filter(|index| !placed.contains(index)).collect())
    }

    /// Every name that the graph gives a tensor, those of subgraphs included: what a new name must differ from.
    pub fn names(&self) -> HashSet<String> {
        let mut names = HashSet::new();
        let mut graphs = vec![self.graph];
        while let Some(graph) = graphs.pop() {
            let infos = graph.input.iter().chain(&graph.output).chain(&graph.value_info);
            names.extend(infos.map(|i| i.name().to_owned()));
            names.extend(walk::initialiser_names(graph).map(str::to_owned));
            for node in &graph.node {
                names.extend(node.output.iter().chain(&node.input).cloned());
                names.insert(node.name().to_owned());
                graphs.extend(walk::subgraphs(node));
            }
        }
        names
    }
}

/// Is the node ONNX's own operator of that type?
pub fn is(node: &NodeProto, op_type: &str) -> bool {
    node.op_type() == op_type && walk::plain_domain(node.domain()).is_empty()
}

/// What to call a node: its name, or its operator and first output where it has none.
pub fn node_label(node: &NodeProto) -> String {
    match node.name() {
        "" => format!("{} -> {}", node.op_type(), node.output.first().map_or("?", String::as_str)),
        name => name.to_owned(),
    }
}

/// The attribute of that name.
pub fn attribute<'n>(node: &'n NodeProto, name: &str) -> Option<&'n AttributeProto> {
    node.attribute.iter().find(|a| a.name() == name)
}

/// An integer attribute, or its default.
pub fn int(node: &NodeProto, name: &str, default: i64) -> i64 {
    attribute(node, name).and_then(|a| a.i).unwrap_or(default)
}

/// An axis counted from the front; `None` where it lies outside the rank.
pub fn axis(axis: i64, rank: usize) -> Option<usize> {
    let counted = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
    usize::try_from(counted).ok().filter(|&a| a < rank)
}

/// The values of a float tensor as f64; `None` for other types.
pub fn floats(tensor: &Tensor) -> Option<Vec<f64>> {
    Some(match tensor.dtype {
        DataType::Float64 => tensor.values::<f64>()?,
        DataType::Float32 => tensor.values::<f32>()?.into_iter().map(f64::from).collect(),
        DataType::Float16 => tensor.values::<half::f16>()?.into_iter().map(f64::from).collect(),
        DataType::Bfloat16 => tensor.values::<half::bf16>()?.into_iter().map(f64::from).collect(),
        _ => return None,
    })
}

/// The values of an integer or bool tensor; `None` for other types.
pub fn ints(tensor: &Tensor) -> Option<Vec<i64>> {
    Some(match tensor.dtype {
        DataType::Int64 => tensor.values::<i64>()?,
        DataType::Int32 => tensor.values::<i32>()?.into_iter().map(i64::from).collect(),
        DataType::Bool => tensor.values::<bool>()?.into_iter().map(i64::from).collect(),
        _ => return None,
    })
}

/// A node of ONNX's own domain.
pub fn node(
    name: &str,
    op_type: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: Vec<(&str, Attribute)>,
) -> NodeProto {
    NodeProto {
        name: Some(name.to_owned()),
        op_type: Some(op_type.to_owned()),
        input: inputs.iter().map(|&i| i.to_owned()).collect(),
        output: outputs.iter().map(|&o| o.to_owned()).collect(),
        attribute: attributes.into_iter().map(|(name, value)| value.into_proto(name)).collect(),
        ..NodeProto::default()
    }
}

/// The stated types of the main graph's tensors, inputs, outputs and annotations.
pub(crate) fn stated(graph: &GraphProto) -> HashMap<&str, inspect::ValueInfo> {
    let infos = graph.value_info.iter().chain(&graph.output).chain(&graph.input);
    infos.map(|i| (i.name(), inspect::ValueInfo::from_proto(i))).collect()
}
