//! Hazards of a model on a stack: versions, operators that the provider leaves, attention forms, TF32, shapes.

use super::{Findings, Severity, Target};
use crate::attention::{self, Form};
use crate::infer::Types;
use crate::inspect::Dim;
use crate::model::Model;
use crate::proto::NodeProto;
use crate::tensor::DataType;
use crate::view::{View, is, node_label};
use crate::walk;
use std::collections::BTreeMap;

pub(super) fn look(model: &Model, view: &View<'_>, types: &Types, target: &Target, found: &mut Findings) {
    let too_new = |have: i64, most: Option<i64>| most.filter(|&most| have > most);
    if let Some(most) = too_new(model.ir_version(), target.max_ir) {
        let detail = format!("IR {} where {} reads {most} at most", model.ir_version(), target.name);
        found.add("ir-version", Severity::Error, detail, vec!["the model".to_owned()]);
    }
    if let Some(most) = too_new(view.opset, target.max_opset) {
        let detail = format!("opset {} where {} has {most}", view.opset, target.name);
        found.add("opset-version", Severity::Error, detail, vec!["the model".to_owned()]);
    }
    unclaimed(view, types, target, found);
    attention_forms(view, types, target, found);
    let products = ["MatMul", "Gemm", "Conv", "Einsum", "Attention", "MultiHeadAttention"];
    let float =
        |n: &&NodeProto| n.input.first().is_some_and(|i| types.get(i).dtype.is_none_or(|d| d == DataType::Float32));
    let at = view.graph.node.iter().filter(|n| products.contains(&n.op_type()) && float(n));
    if target.tf32 {
        found.add("tf32", Severity::Error, "use_tf32 is not 0", at.map(node_label).collect());
    }
    shapes(model, view, types, found);
}

fn unclaimed(view: &View<'_>, types: &Types, target: &Target, found: &mut Findings) {
    let Some(claims) = &target.claims else { return };
    let mut left: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in &view.graph.node {
        let operator = match walk::plain_domain(node.domain()) {
            "" => node.op_type().to_owned(),
            domain => format!("{domain}::{}", node.op_type()),
        };
        // Constants are folded by the library before nodes are given away.
        if is(node, "Constant") || node.output.first().is_some_and(|o| types.value(o).is_some()) {
            continue;
        }
        let dtype = node.input.first().and_then(|i| types.get(i).dtype);
        if claims.takes(&operator, dtype.map(DataType::name)) == Some(false) {
            left.entry(operator).or_default().push(node_label(node));
        }
    }
    for (operator, nodes) in left {
        let detail = format!("{operator} on {} ({})", target.name, claims.source);
        found.add("unclaimed-operator", Severity::Error, detail, nodes);
    }
}

fn attention_forms(view: &View<'_>, types: &Types, target: &Target, found: &mut Findings) {
    let on_cuda = if target.provider == "cuda" { Severity::Error } else { Severity::Note };
    let sites = attention::sites(view);
    let of = |form: Form| sites.iter().filter(move |s| s.form == form);
    let broadcast = of(Form::Attention).filter(|site| {
        let shape = site.mask.as_ref().and_then(|m| types.get(m).shape).unwrap_or_default();
        matches!(shape.as_slice(), [.., Dim::Fixed(1), keys] if *keys != Dim::Fixed(1) && shape.len() == 4)
    });
    found.add("attention-broadcast-mask", on_cuda, "", broadcast.map(|s| s.node.clone()).collect());
    let masked = of(Form::MultiHeadAttention).filter(|site| site.mask.is_some());
    let severity = if target.provider == "cuda" { Severity::Error } else { Severity::Warning };
    found.add("mha-masked-event", severity, "", masked.map(|s| s.node.clone()).collect());
}

fn shapes(model: &Model, view: &View<'_>, types: &Types, found: &mut Findings) {
    let varies =
        |shape: &Option<Vec<Dim>>| shape.as_ref().is_none_or(|s| s.iter().any(|d| !matches!(d, Dim::Fixed(_))));
    let inputs = model.inputs();
    let dynamic: Vec<String> = inputs.iter().filter(|i| varies(&i.shape)).map(ToString::to_string).collect();
    if dynamic.is_empty() {
        return;
    }
    found.add("dynamic-shape", Severity::Note, "", dynamic);
    let baked = view.graph.node.iter().filter(|n| {
        let wanted = n.input.get(1).and_then(|s| types.ints(s));
        let constant = wanted.is_some_and(|w| w.len() > 1 && w.iter().all(|&d| d > 0) && w.iter().any(|&d| d > 1));
        let moves = is(n, "Reshape") || is(n, "Expand");
        let fed = n.input.first().map(|i| types.get(i).shape);
        // An Expand of a constant to a constant shape is a constant; of a varying tensor it fixes what varies.
        moves && constant && fed.is_some_and(|s| s.is_some() && varies(&s))
    });
    found.add("baked-shape", Severity::Warning, "", baked.map(node_label).collect());
}
