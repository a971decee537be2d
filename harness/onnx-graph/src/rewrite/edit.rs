//! Changing a graph: new nodes take the place of old ones, and what nobody needs any more goes.

use crate::builder::Attribute;
use crate::model::Model;
use crate::proto::{GraphProto, NodeProto, TensorProto, ValueInfoProto};
use crate::tensor::{DataType, Tensor};
use crate::tensor_proto::tensor_to_proto;
use crate::view::{self, View};
use crate::walk;
use half::f16;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Changes to the main graph of a model, collected and then made at once.
pub(super) struct Edit {
    names: HashSet<String>,
    scope: String,
    added: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    /// Constants that are there already, by what they hold.
    held: HashMap<(String, Vec<u8>), String>,
    replaced: HashSet<usize>,
}

impl Edit {
    pub fn new(view: &View<'_>) -> Self {
        Self {
            names: view.names(),
            scope: String::new(),
            added: Vec::new(),
            constants: Vec::new(),
            held: HashMap::new(),
            replaced: HashSet::new(),
        }
    }

    /// New nodes are named after the node whose place they take.
    pub fn at(&mut self, node: &NodeProto) {
        self.scope = view::node_label(node).replace(" -> ", "_");
    }

    fn fresh(&mut self, wanted: &str) -> String {
        let base = format!("{}/{wanted}", self.scope);
        let mut name = base.clone();
        let mut n = 1;
        while !self.names.insert(name.clone()) {
            n += 1;
            name = format!("{base}_{n}");
        }
        name
    }

    /// Adds a node whose output gets a new name, which is given back. `step` says what the node is for.
    pub fn node(&mut self, step: &str, op: &str, inputs: &[&str], attributes: Vec<(&str, Attribute)>) -> String {
        let name = self.fresh(step);
        self.added.push(view::node(&name, op, inputs, &[&name], attributes));
        name
    }

    /// Adds a node of two outputs with new names.
    pub fn node2(&mut self, step: &str, op: &str, inputs: &[&str], attributes: Vec<(&str, Attribute)>) -> [String; 2] {
        let name = self.fresh(step);
        let outputs = [self.fresh(&format!("{step}_values")), self.fresh(&format!("{step}_indices"))];
        self.added.push(view::node(&name, op, inputs, &[&outputs[0], &outputs[1]], attributes));
        outputs
    }

    /// Adds a node that makes a tensor which the graph has already: its present maker must be replaced.
    pub fn makes(&mut self, step: &str, op: &str, inputs: &[&str], attributes: Vec<(&str, Attribute)>, output: &str) {
        let name = self.fresh(step);
        self.added.push(view::node(&name, op, inputs, &[output], attributes));
    }

    /// A constant of the graph; equal ones are held once.
    pub fn constant(&mut self, step: &str, tensor: &Tensor) -> String {
        let bytes = tensor.bytes().map(|b| b.to_vec()).unwrap_or_default();
        let key = (format!("{}{:?}", tensor.dtype, tensor.shape), bytes);
        if let Some(name) = self.held.get(&key) {
            return name.clone();
        }
        let name = self.fresh(step);
        self.constants.push(tensor_to_proto(&name, tensor));
        self.held.insert(key, name.clone());
        name
    }

    /// A scalar of a float type.
    pub fn float(&mut self, step: &str, dtype: DataType, value: f64) -> Option<String> {
        let tensor = match dtype {
            DataType::Float64 => Tensor::from_values(&[], &[value]),
            DataType::Float32 => Tensor::from_values(&[], &[value as f32]),
            DataType::Float16 => Tensor::from_values(&[], &[f16::from_f64(value)]),
            _ => return None,
        };
        Some(self.constant(step, &tensor.ok()?))
    }

    /// An int64 scalar.
    pub fn int(&mut self, step: &str, value: i64) -> String {
        let scalar = Tensor::from_values(&[], &[value]).expect("one value for a scalar");
        self.constant(step, &scalar)
    }

    /// An int64 vector.
    pub fn ints(&mut self, step: &str, values: &[i64]) -> String {
        let vector = Tensor::from_values(&[values.len()], values).expect("as many values as the shape says");
        self.constant(step, &vector)
    }

    /// The node goes: its outputs are made by new ones.
    pub fn replace(&mut self, index: usize) {
        self.replaced.insert(index);
    }

    /// The model with the changes made. Nodes and initialisers that nothing needs any more are left out, if something
    /// needed them before.
    pub fn finish(self, model: &Model) -> Model {
        if self.added.is_empty() && self.replaced.is_empty() {
            return model.clone();
        }
        let view = View::new(model);
        let useful_before = useful(view.graph);
        let read_before = read(view.graph);
        let was_read: HashSet<String> = read_before.iter().map(|&n| n.to_owned()).collect();
        let kept = view.graph.node.iter().enumerate().filter(|(index, _)| !self.replaced.contains(index));
        // Nodes that were useless before stay: that is lint's business.
        let idle: HashSet<String> = (view.graph.node.iter().enumerate())
            .filter(|(index, _)| !useful_before.contains(index))
            .flat_map(|(_, n)| n.output.iter().cloned())
            .collect();
        let mut graph = GraphProto { node: kept.map(|(_, n)| n.clone()).collect(), ..view.graph.clone() };
        graph.node.extend(self.added);
        graph.initializer.extend(self.constants);
        let useful_now = useful(&graph);
        let stays = |(index, node): (usize, NodeProto)| {
            let was_idle = !node.output.is_empty() && node.output.iter().all(|o| idle.contains(o));
            (useful_now.contains(&index) || was_idle).then_some(node)
        };
        graph.node = std::mem::take(&mut graph.node).into_iter().enumerate().filter_map(stays).collect();
        let read_now: HashSet<String> = read(&graph).iter().map(|&n| n.to_owned()).collect();
        graph.initializer.retain(|i| read_now.contains(i.name()) || !was_read.contains(i.name()));
        graph.value_info.clear();
        let mut edited = model.clone();
        edited.proto.graph = Some(graph);
        sort(&mut edited);
        edited
    }
}

/// Puts the nodes into an order in which each stands behind those it reads from; a cyclic graph stays as it is.
pub(crate) fn sort(model: &mut Model) {
    let Ok(order) = View::new(model).topological() else { return };
    if let Some(graph) = &mut model.proto.graph {
        let mut nodes: Vec<Option<NodeProto>> = std::mem::take(&mut graph.node).into_iter().map(Some).collect();
        graph.node = order.into_iter().filter_map(|index| nodes[index].take()).collect();
    }
}

/// Indices of the nodes that an output depends on.
pub(crate) fn useful(graph: &GraphProto) -> HashSet<usize> {
    let mut makers: HashMap<&str, usize> = HashMap::new();
    for (index, node) in graph.node.iter().enumerate() {
        makers.extend(node.output.iter().map(|o| (o.as_str(), index)));
    }
    let mut wanted: Vec<&str> = graph.output.iter().map(ValueInfoProto::name).collect();
    let mut useful = HashSet::new();
    while let Some(tensor) = wanted.pop() {
        let Some(&index) = makers.get(tensor).filter(|_| !tensor.is_empty()) else { continue };
        if useful.insert(index) {
            let mut inner = BTreeSet::new();
            walk::captures(&graph.node[index], &mut inner);
            wanted.extend(inner);
            wanted.extend(graph.node[index].input.iter().map(String::as_str));
        }
    }
    useful
}

/// The tensors that nodes, subgraphs or the outputs read.
pub(crate) fn read(graph: &GraphProto) -> BTreeSet<&str> {
    let mut read: BTreeSet<&str> = graph.output.iter().map(ValueInfoProto::name).collect();
    for node in &graph.node {
        walk::captures(node, &mut read);
        read.extend(node.input.iter().map(String::as_str));
    }
    read
}
