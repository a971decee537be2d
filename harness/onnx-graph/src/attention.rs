//! Where a graph computes attention: as one operator, or taken apart into `MatMul`, Softmax and `MatMul`.

use crate::proto::NodeProto;
use crate::view::{View, is, node_label};
use crate::walk::plain_domain;
use std::fmt;

/// The forms that attention comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// `MatMul`, pointwise operators, Softmax, a guard perhaps, `MatMul`.
    Decomposed,
    /// ONNX's own `Attention`, from opset 23 on.
    Attention,
    /// `com.microsoft::MultiHeadAttention`.
    MultiHeadAttention,
    /// Another operator of `com.microsoft` with attention in its name.
    Other,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Decomposed => "decomposed",
            Self::Attention => "Attention",
            Self::MultiHeadAttention => "MultiHeadAttention",
            Self::Other => "other",
        })
    }
}

/// One place where attention is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// How.
    pub form: Form,
    /// The node that names the site: the Softmax where it is taken apart.
    pub node: String,
    /// The product of query and key, where it is taken apart.
    pub scores: Option<String>,
    /// The node that puts zeros in place of the NaN of rows without keys, if there is one.
    pub guard: Option<String>,
    /// The mask's tensor, if one is found.
    pub mask: Option<String>,
}

/// Operators that may stand between the product and the Softmax.
const POINTWISE: &[&str] = &["Add", "Sub", "Mul", "Div", "Where", "Cast", "Clip", "Max", "Min", "Identity", "Tanh"];

/// The sites of the main graph, in its order.
pub fn sites(view: &View<'_>) -> Vec<Site> {
    let of = |node: &NodeProto| {
        let form = match (plain_domain(node.domain()), node.op_type()) {
            ("", "Softmax") => return decomposed(view, node),
            ("", "Attention") => Form::Attention,
            ("com.microsoft", "MultiHeadAttention") => Form::MultiHeadAttention,
            ("com.microsoft", op) if op.contains("Attention") => Form::Other,
            _ => return None,
        };
        let at = match form {
            Form::MultiHeadAttention => 4,
            _ => 3,
        };
        let mask = node.input.get(at).filter(|m| !m.is_empty()).cloned();
        Some(Site { form, node: node_label(node), scores: None, guard: None, mask })
    };
    view.graph.node.iter().filter_map(of).collect()
}

fn decomposed(view: &View<'_>, softmax: &NodeProto) -> Option<Site> {
    let mut mask = None;
    let mut name = softmax.input.first()?;
    let mut scores = None;
    for _ in 0..8 {
        let (_, node) = view.producer(name)?;
        if is(node, "MatMul") || is(node, "Einsum") {
            scores = Some(node_label(node));
            break;
        }
        if !POINTWISE.contains(&node.op_type()) {
            return None;
        }
        let (towards, other) = towards_product(view, node)?;
        if matches!(node.op_type(), "Add" | "Where") {
            mask = mask.or(other.filter(|o| !view.is_constant(o)).cloned());
        }
        name = towards;
    }
    scores.as_ref()?;
    let mut probabilities = softmax.output.first()?;
    let mut guard = None;
    for _ in 0..8 {
        let next = view.consumers(probabilities).find(|n| !is(n, "IsNaN"))?;
        if is(next, "MatMul") && next.input.first() == Some(probabilities) {
            return Some(Site { form: Form::Decomposed, node: node_label(softmax), scores, guard, mask });
        }
        if is(next, "Where") && next.input.first().is_some_and(|c| view.made_by(c, "IsNaN").is_some()) {
            guard = Some(node_label(next));
        } else if !matches!(next.op_type(), "Cast" | "Identity" | "Dropout" | "Where" | "Mul") {
            return None;
        }
        probabilities = next.output.first()?;
    }
    None
}

/// The input of a pointwise operator that leads to the product of query and key, and the other one.
fn towards_product<'n>(view: &View<'_>, node: &'n NodeProto) -> Option<(&'n String, Option<&'n String>)> {
    let leads = |name: &String| {
        let mut name = name;
        for _ in 0..8 {
            let Some((_, node)) = view.producer(name) else { return false };
            if is(node, "MatMul") || is(node, "Einsum") {
                return true;
            }
            if !POINTWISE.contains(&node.op_type()) {
                return false;
            }
            match node.input.iter().find(|i| view.producer(i).is_some_and(|(_, n)| !is(n, "Constant"))) {
                Some(next) => name = next,
                None => return false,
            }
        }
        false
    };
    let inputs = || node.input.iter().filter(|i| !i.is_empty());
    let towards = inputs().find(|i| leads(i)).or_else(|| node.input.first())?;
    // A Where's condition is its mask, whichever branch the scores are.
    let other = if is(node, "Where") { node.input.first() } else { inputs().find(|i| *i != towards) };
    Some((towards, other.filter(|o| *o != towards)))
}
