//! Builds small graphs step by step: every step gets a name that says what it is for, and every name is unique.

use crate::inspect::{self, Dim};
use crate::model::Model;
use crate::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, attribute_proto::AttributeType,
};
use crate::tensor::{DataType, Tensor};
use crate::tensor_proto::tensor_to_proto;
use bytes::Bytes;
use std::collections::{BTreeMap, HashSet};

/// A graph under construction. Steps can only read values made before them, so the nodes are in a valid order.
#[derive(Debug)]
pub struct Builder {
    graph: GraphProto,
    opsets: BTreeMap<String, i64>,
    ir_version: i64,
    producer: Option<(String, String)>,
    values: HashSet<String>,
    nodes: HashSet<String>,
    fault: Option<BuildError>,
}

/// A tensor of the graph under construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(String);

impl Value {
    /// Stands for an optional input that is not given.
    pub fn absent() -> Self {
        Self(String::new())
    }

    /// The tensor's name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// A graph that cannot be: the first fault met while it was built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A name used twice, or none given.
    #[error("the name `{0}` is empty or taken: every tensor and every node of a graph needs a name of its own")]
    Name(String),
    /// A value of another builder.
    #[error("step `{step}` reads `{value}`, which this graph does not make: it is a value of another builder")]
    Foreign {
        /// The reading node, or `output`.
        step: String,
        /// The tensor.
        value: String,
    },
    /// An operator domain without a version.
    #[error("step `{step}` uses the operator domain `{domain}`: state its version with `opset` first")]
    Opset {
        /// The node.
        step: String,
        /// Its domain, empty for ONNX's own.
        domain: String,
    },
}

/// The value of a node's attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// One integer.
    Int(i64),
    /// Integers.
    Ints(Vec<i64>),
    /// One number.
    Float(f32),
    /// Text.
    String(String),
    /// A tensor.
    Tensor(Tensor),
}

macro_rules! attribute_from {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for Attribute {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

attribute_from! { i64 => Int, Vec<i64> => Ints, f32 => Float, &str => String, Tensor => Tensor }

impl<const N: usize> From<[i64; N]> for Attribute {
    fn from(values: [i64; N]) -> Self {
        Self::Ints(values.to_vec())
    }
}

impl Attribute {
    pub(crate) fn into_proto(self, name: &str) -> AttributeProto {
        let named = |r#type: AttributeType| AttributeProto {
            name: Some(name.to_owned()),
            r#type: Some(r#type as i32),
            ..AttributeProto::default()
        };
        match self {
            Self::Int(i) => AttributeProto { i: Some(i), ..named(AttributeType::Int) },
            Self::Ints(ints) => AttributeProto { ints, ..named(AttributeType::Ints) },
            Self::Float(f) => AttributeProto { f: Some(f), ..named(AttributeType::Float) },
            Self::String(s) => AttributeProto { s: Some(Bytes::from(s)), ..named(AttributeType::String) },
            Self::Tensor(t) => AttributeProto { t: Some(tensor_to_proto("", &t)), ..named(AttributeType::Tensor) },
        }
    }
}

impl Builder {
    /// An empty graph of that name, IR version 10, without operator domains.
    pub fn new(name: &str) -> Self {
        Self {
            graph: GraphProto { name: Some(name.to_owned()), ..GraphProto::default() },
            opsets: BTreeMap::new(),
            ir_version: 10,
            producer: None,
            values: HashSet::new(),
            nodes: HashSet::new(),
            fault: None,
        }
    }

    /// Sets the IR version.
    pub fn ir_version(&mut self, version: i64) -> &mut Self {
        self.ir_version = version;
        self
    }

    /// Sets the version of an operator domain; ONNX's own is the empty string.
    pub fn opset(&mut self, domain: &str, version: i64) -> &mut Self {
        self.opsets.insert(domain.to_owned(), version);
        self
    }

    /// Says who made the model.
    pub fn producer(&mut self, name: &str, version: &str) -> &mut Self {
        self.producer = Some((name.to_owned(), version.to_owned()));
        self
    }

    /// Adds an input.
    pub fn input(&mut self, name: &str, dtype: DataType, shape: &[Dim]) -> Value {
        self.graph.input.push(inspect::tensor_info(name, dtype, shape));
        self.value(name)
    }

    /// Adds a constant.
    pub fn initialiser(&mut self, name: &str, tensor: &Tensor) -> Value {
        self.graph.initializer.push(tensor_to_proto(name, tensor));
        self.value(name)
    }

    /// Begins a step: a node of ONNX's own domain. It is added when its outputs are named.
    pub fn node(&mut self, name: &str, op_type: &str, inputs: &[&Value]) -> Step<'_> {
        let node = NodeProto {
            name: Some(name.to_owned()),
            op_type: Some(op_type.to_owned()),
            input: inputs.iter().map(|v| v.0.clone()).collect(),
            ..NodeProto::default()
        };
        Step { builder: self, node }
    }

    /// Makes a tensor an output of the graph.
    pub fn output(&mut self, value: &Value, dtype: DataType, shape: &[Dim]) {
        self.check_read("output", &value.0);
        if self.graph.output.iter().any(|o| o.name() == value.0) {
            self.fail(BuildError::Name(value.0.clone()));
        }
        self.graph.output.push(inspect::tensor_info(&value.0, dtype, shape));
    }

    /// The model, or the first fault.
    pub fn build(self) -> Result<Model, BuildError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let (producer_name, producer_version) = self.producer.unzip();
        let opset_import = self.opsets.into_iter();
        Ok(Model {
            proto: ModelProto {
                ir_version: Some(self.ir_version),
                producer_name,
                producer_version,
                opset_import: opset_import
                    .map(|(domain, version)| OperatorSetIdProto { domain: Some(domain), version: Some(version) })
                    .collect(),
                graph: Some(self.graph),
                ..ModelProto::default()
            },
        })
    }

    fn value(&mut self, name: &str) -> Value {
        if name.is_empty() || !self.values.insert(name.to_owned()) {
            self.fail(BuildError::Name(name.to_owned()));
        }
        Value(name.to_owned())
    }

    fn check_read(&mut self, step: &str, value: &str) {
        if !self.values.contains(value) {
            self.fail(BuildError::Foreign { step: step.to_owned(), value: value.to_owned() });
        }
    }

    fn fail(&mut self, fault: BuildError) {
        self.fault.get_or_insert(fault);
    }
}

/// A node under construction.
#[must_use = "a step is added to the graph when its outputs are named"]
#[derive(Debug)]
pub struct Step<'a> {
    builder: &'a mut Builder,
    node: NodeProto,
}

impl Step<'_> {
    /// Takes the operator from another domain.
    pub fn domain(mut self, domain: &str) -> Self {
        self.node.domain = Some(domain.to_owned());
        self
    }

    /// Sets an attribute.
    pub fn attribute(mut self, name: &str, value: impl Into<Attribute>) -> Self {
        self.node.attribute.push(value.into().into_proto(name));
        self
    }

    /// Adds the node with one output.
    pub fn makes(self, output: &str) -> Value {
        let [value] = self.makes_all([output]);
        value
    }

    /// Adds the node with several outputs.
    pub fn makes_all<const N: usize>(mut self, outputs: [&str; N]) -> [Value; N] {
        let (builder, step) = (self.builder, self.node.name().to_owned());
        if step.is_empty() || !builder.nodes.insert(step.clone()) {
            builder.fail(BuildError::Name(step.clone()));
        }
        if !builder.opsets.contains_key(self.node.domain()) {
            builder.fail(BuildError::Opset { step: step.clone(), domain: self.node.domain().to_owned() });
        }
        for input in self.node.input.iter().filter(|i| !i.is_empty()) {
            builder.check_read(&step, input);
        }
        self.node.output = outputs.iter().map(|&o| o.to_owned()).collect();
        builder.graph.node.push(self.node);
        outputs.map(|name| builder.value(name))
    }
}
