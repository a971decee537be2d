//! What a model says of itself: inputs, outputs, opsets, nodes.

use crate::model::Model;
use crate::proto::{self, NodeProto, TypeProto, ValueInfoProto, tensor_shape_proto::dimension, type_proto};
use crate::tensor::DataType;
use crate::walk;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

/// One input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// Its name.
    pub name: String,
    /// Element type, for tensors that state a known one.
    pub dtype: Option<DataType>,
    /// Extents, for tensors that state them.
    pub shape: Option<Vec<Dim>>,
    /// What it is.
    pub kind: ValueKind,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A dense tensor, or nothing is stated.
    Tensor,
    /// A list of values.
    Sequence,
    /// A value that may be absent.
    Optional,
    /// A map or a sparse tensor.
    Other,
}

/// One extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Known, in elements.
    Fixed(usize),
    /// Named: equal names mean equal extents.
    Symbol(String),
    /// Not stated.
    Unknown,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(n) => write!(f, "{n}"),
            Self::Symbol(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

impl ValueInfo {
    /// The shape as text, `[2,16,batch,?]`; `[..]` when no rank is stated.
    pub fn shape_text(&self) -> String {
        let Some(shape) = &self.shape else { return "[..]".to_owned() };
        let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
        format!("[{}]", dims.join(","))
    }

    pub(crate) fn from_proto(info: &ValueInfoProto) -> Self {
        use type_proto::Value;
        let name = info.name().to_owned();
        let (dtype, shape, kind) = match info.r#type.as_ref().and_then(|t| t.value.as_ref()) {
            None => (None, None, ValueKind::Tensor),
            Some(Value::TensorType(t)) => {
                let shape = t.shape.as_ref().map(|s| s.dim.iter().map(|d| Dim::from_proto(d.value.as_ref())).collect());
                (DataType::from_onnx(t.elem_type()), shape, ValueKind::Tensor)
            }
            Some(Value::SequenceType(_)) => (None, None, ValueKind::Sequence),
            Some(Value::OptionalType(_)) => (None, None, ValueKind::Optional),
            Some(Value::MapType(_) | Value::SparseTensorType(_)) => (None, None, ValueKind::Other),
        };
        Self { name, dtype, shape, kind }
    }
}

impl fmt::Display for ValueInfo {
    /// `query float16[2,16,events,?]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ValueKind::Tensor => {
                let dtype = self.dtype.map_or("untyped", DataType::name);
                write!(f, "{} {dtype}{}", self.name, self.shape_text())
            }
            ValueKind::Sequence => write!(f, "{} sequence", self.name),
            ValueKind::Optional => write!(f, "{} optional", self.name),
            ValueKind::Other => write!(f, "{} (neither tensor nor sequence)", self.name),
        }
    }
}

impl Dim {
    fn from_proto(value: Option<&dimension::Value>) -> Self {
        match value {
            // Some exporters write -1 for "not known".
            Some(dimension::Value::DimValue(n)) => usize::try_from(*n).map_or(Self::Unknown, Self::Fixed),
            Some(dimension::Value::DimParam(name)) if !name.is_empty() => Self::Symbol(name.clone()),
            Some(dimension::Value::DimParam(_)) | None => Self::Unknown,
        }
    }

    fn to_proto(&self) -> proto::tensor_shape_proto::Dimension {
        let value = match self {
            Self::Fixed(n) => Some(dimension::Value::DimValue(*n as i64)),
            Self::Symbol(name) => Some(dimension::Value::DimParam(name.clone())),
            Self::Unknown => None,
        };
        proto::tensor_shape_proto::Dimension { value, denotation: None }
    }
}

/// The message that states a tensor's name, type and extents.
pub(crate) fn tensor_info(name: &str, dtype: DataType, shape: &[Dim]) -> ValueInfoProto {
    let shape = proto::TensorShapeProto { dim: shape.iter().map(Dim::to_proto).collect() };
    let tensor = type_proto::Tensor { elem_type: Some(dtype as i32), shape: Some(shape) };
    let r#type = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), denotation: None };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(r#type), ..ValueInfoProto::default() }
}

/// The message that states a tensor's name and type, of whatever rank.
pub(crate) fn tensor_info_unranked(name: &str, dtype: DataType) -> ValueInfoProto {
    let tensor = type_proto::Tensor { elem_type: Some(dtype as i32), shape: None };
    let r#type = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), denotation: None };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(r#type), ..ValueInfoProto::default() }
}

/// One node of the main graph.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// Position in the graph.
    pub index: usize,
    proto: &'a NodeProto,
}

impl<'a> Node<'a> {
    /// Its name; may be empty.
    pub fn name(&self) -> &'a str {
        self.proto.name()
    }

    /// The operator.
    pub fn op_type(&self) -> &'a str {
        self.proto.op_type()
    }

    /// The operator's domain, empty for ONNX's own.
    pub fn domain(&self) -> &'a str {
        walk::plain_domain(self.proto.domain())
    }

    /// Names of the tensors it reads, empty for an absent optional input.
    pub fn inputs(&self) -> &'a [String] {
        &self.proto.input
    }

    /// Names of the tensors it makes, empty for one that is not wanted.
    pub fn outputs(&self) -> &'a [String] {
        &self.proto.output
    }

    /// Tensors of outer graphs that its subgraphs (If, Loop, Scan) read beside its inputs.
    pub fn captures(&self) -> BTreeSet<&'a str> {
        let mut captured = BTreeSet::new();
        walk::captures(self.proto, &mut captured);
        captured
    }

    /// The message behind it, attributes included.
    pub fn proto(&self) -> &'a NodeProto {
        self.proto
    }
}

impl Model {
    /// Inputs that a caller must or may feed: the graph's, without those that are initialisers.
    pub fn inputs(&self) -> Vec<ValueInfo> {
        let graph = self.graph();
        let initialisers: HashSet<&str> = walk::initialiser_names(graph).collect();
        graph.input.iter().filter(|i| !initialisers.contains(i.name())).map(ValueInfo::from_proto).collect()
    }

    /// Outputs.
    pub fn outputs(&self) -> Vec<ValueInfo> {
        self.graph().output.iter().map(ValueInfo::from_proto).collect()
    }

    /// Opset version by domain; ONNX's own domain is the empty string.
    pub fn opsets(&self) -> BTreeMap<String, i64> {
        let imports = self.proto.opset_import.iter();
        imports.map(|o| (walk::plain_domain(o.domain()).to_owned(), o.version())).collect()
    }

    /// The nodes of the main graph in order.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.graph().node.iter().enumerate().map(|(index, proto)| Node { index, proto })
    }

    /// How often each operator occurs: `Op` for ONNX's own, `domain::Op` otherwise. Subgraphs are included, and so is the
    /// body of each model-local function that is called, once however often it is called.
    pub fn op_histogram(&self) -> BTreeMap<String, usize> {
        let mut histogram = BTreeMap::new();
        walk::every_node(&self.proto, &mut |node| {
            let key = match walk::plain_domain(node.domain()) {
                "" => node.op_type().to_owned(),
                domain => format!("{domain}::{}", node.op_type()),
            };
            *histogram.entry(key).or_insert(0) += 1;
        });
        histogram
    }

    /// Number of nodes, counted as in [`Model::op_histogram`].
    pub fn node_count(&self) -> usize {
        let mut count = 0;
        walk::every_node(&self.proto, &mut |_| count += 1);
        count
    }
}
