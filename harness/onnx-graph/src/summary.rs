//! What is in a model, counted: the facts that `graph show` prints.

use crate::attention::{self, Site};
use crate::external;
use crate::inspect::{Dim, ValueInfo};
use crate::model::Model;
use crate::proto::TensorProto;
use crate::tensor::element_count;
use crate::view::View;
use std::collections::{BTreeMap, BTreeSet};

/// A model's facts. Weights are counted by what type and shape say; no weight is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// IR version.
    pub ir: i64,
    /// Operator set versions by domain.
    pub opsets: BTreeMap<String, i64>,
    /// Who made it: name and version.
    pub producer: String,
    /// Inputs to feed.
    pub inputs: Vec<ValueInfo>,
    /// Outputs.
    pub outputs: Vec<ValueInfo>,
    /// Names of extents that are given at run time only, and inputs that leave some unsaid (`?`).
    pub dynamic: BTreeSet<String>,
    /// Nodes, subgraphs and called functions included.
    pub nodes: usize,
    /// Nodes by operator.
    pub operators: BTreeMap<String, usize>,
    /// Model-local functions.
    pub functions: usize,
    /// Elements of float initialisers of the main graph.
    pub parameters: u64,
    /// Bytes of all initialisers of the main graph.
    pub weight_bytes: u64,
    /// Initialisers, the largest first.
    pub initialisers: Vec<Initialiser>,
    /// Bytes that are referred to in each external file, and by how many tensors.
    pub external: BTreeMap<String, (u64, usize)>,
    /// Where attention is computed.
    pub attention: Vec<Site>,
    /// The model's own notes.
    pub metadata: BTreeMap<String, String>,
}

/// One initialiser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialiser {
    /// Its name.
    pub name: String,
    /// Element type and extents, `float32[512,55]`.
    pub text: String,
    /// Size in bytes; 0 where type and shape give none.
    pub bytes: u64,
}

impl Model {
    /// Counts what is in the model.
    pub fn summary(&self) -> Summary {
        let view = View::new(self);
        let (inputs, outputs) = (self.inputs(), self.outputs());
        let mut initialisers: Vec<Initialiser> = view.graph.initializer.iter().map(initialiser).collect();
        initialisers.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        let mut external = BTreeMap::new();
        // What cannot be trusted is lint's to say; it is counted where it can be.
        for file in self.external_files().unwrap_or_default() {
            let (bytes, tensors): &mut (u64, usize) = external.entry(file.location).or_default();
            *bytes = bytes.saturating_add(file.needed);
            *tensors += 1;
        }
        let dims = inputs.iter().chain(&outputs).flat_map(|i| i.shape.iter().flatten());
        let dynamic = dims.filter(|d| !matches!(d, Dim::Fixed(_))).map(Dim::to_string).collect();
        Summary {
            ir: self.ir_version(),
            opsets: self.opsets(),
            producer: [self.proto.producer_name(), self.proto.producer_version()].join(" ").trim().to_owned(),
            dynamic,
            nodes: self.node_count(),
            operators: self.op_histogram(),
            functions: self.proto.functions.len(),
            parameters: view.graph.initializer.iter().filter_map(parameters).sum(),
            weight_bytes: initialisers.iter().map(|i| i.bytes).fold(0, u64::saturating_add),
            initialisers,
            external,
            attention: attention::sites(&view),
            metadata: self.proto.metadata_props.iter().map(|p| (p.key().to_owned(), p.value().to_owned())).collect(),
            inputs,
            outputs,
        }
    }
}

fn initialiser(tensor: &TensorProto) -> Initialiser {
    let parts = external::type_and_shape(tensor).ok();
    let (text, bytes) = parts.map_or_else(
        || ("of no readable type".to_owned(), None),
        |(dtype, shape)| {
            let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
            let bytes = element_count(&shape).and_then(|n| dtype.byte_len(n));
            (format!("{dtype}[{}]", extents.join(",")), bytes)
        },
    );
    Initialiser { name: tensor.name().to_owned(), text, bytes: bytes.unwrap_or(0) as u64 }
}

fn parameters(tensor: &TensorProto) -> Option<u64> {
    let (dtype, shape) = external::type_and_shape(tensor).ok()?;
    let floats = dtype.is_float() || dtype.name().starts_with("float");
    element_count(&shape).filter(|_| floats).map(|n| n as u64)
}
