//! How large integers can get: intervals over the int64 tensors of a graph.

use super::{Findings, Severity, Target};
use crate::infer::Types;
use crate::inspect::Dim;
use crate::proto::NodeProto;
use crate::tensor::DataType;
use crate::view::{self, View, int, is, node_label};
use std::collections::HashMap;

/// Least and greatest value.
type Interval = (i128, i128);

pub(super) fn look(view: &View<'_>, types: &Types, target: &Target, found: &mut Findings) {
    let mut known: HashMap<&str, Interval> = HashMap::new();
    let (mut to_float, mut to_int, mut computed) = (Vec::new(), Vec::new(), Vec::new());
    let Ok(order) = view.topological() else { return };
    for index in order {
        let node = &view.graph.node[index];
        let interval = |tensor: &str| {
            let value = types.ints(tensor).or_else(|| view.constant(tensor).and_then(|t| view::ints(&t)));
            let of = |v: &Vec<i64>| Some((i128::from(*v.iter().min()?), i128::from(*v.iter().max()?)));
            known.get(tensor).copied().or_else(|| value.as_ref().and_then(of))
        };
        let ranges: Vec<Option<Interval>> = (0..node.output.len()).map(|i| step(types, node, i, &interval)).collect();
        let fed = node.input.first().and_then(|i| interval(i));
        for (output, range) in node.output.iter().zip(ranges) {
            let Some(range) = range else { continue };
            if types.get(output).dtype == Some(DataType::Int64) {
                known.insert(output, range);
                let constant = types.value(output).is_some();
                if !constant && beyond(range, 24) {
                    computed.push(format!("{} (up to {})", node_label(node), range.1.max(-range.0)));
                }
            }
        }
        if is(node, "Cast") {
            let to = DataType::from_onnx(i32::try_from(int(node, "to", 0)).unwrap_or(0));
            match (fed, to) {
                (Some(range), Some(DataType::Float32)) if beyond(range, 24) => to_float.push(node_label(node)),
                (Some(range), Some(DataType::Int32)) if beyond(range, 31) => to_int.push(node_label(node)),
                _ => {}
            }
        }
    }
    found.add("int64-range", Severity::Warning, "cast to float32, with values from 2^24 on", to_float);
    found.add("int64-range", Severity::Warning, "cast to int32, with values from 2^31 on", to_int);
    let narrowing = if target.provider == "migraphx" { Severity::Warning } else { Severity::Note };
    found.add("int64-range", narrowing, "computed with values from 2^24 on, which must stay int64", computed);
}

fn beyond(range: Interval, bits: u32) -> bool {
    range.1.max(-range.0) > 1 << bits
}

/// Where the values of an output lie, if they are integers that follow.
fn step(
    types: &Types,
    node: &NodeProto,
    output: usize,
    interval: &dyn Fn(&str) -> Option<Interval>,
) -> Option<Interval> {
    let input = |i: usize| node.input.get(i).and_then(|n| interval(n));
    let extent = |tensor: &String, axis: i64| {
        let shape = types.get(tensor).shape?;
        match shape.get(view::axis(axis, shape.len())?)? {
            Dim::Fixed(n) => Some(*n as i128),
            _ => None,
        }
    };
    let join = |a: Interval, b: Interval| (a.0.min(b.0), a.1.max(b.1));
    // Far beyond what an int64 holds nothing is said: it would have wrapped.
    let held = |range: Interval| Some((range.0.max(-(1 << 100)), range.1.min(1 << 100)));
    match node.op_type() {
        "TopK" if output == 1 => Some((0, extent(node.input.first()?, int(node, "axis", -1))? - 1)),
        "Add" | "Sub" | "Mul" => {
            let (a, b) = (input(0)?, input(1)?);
            match node.op_type() {
                "Add" => held((a.0 + b.0, a.1 + b.1)),
                "Sub" => held((a.0 - b.1, a.1 - b.0)),
                _ => {
                    let products =
                        [a.0.checked_mul(b.0)?, a.0.checked_mul(b.1)?, a.1.checked_mul(b.0)?, a.1.checked_mul(b.1)?];
                    held((*products.iter().min()?, *products.iter().max()?))
                }
            }
        }
        "CumSum" => {
            let (a, n) = (
                input(0)?,
                node.input.first().and_then(|i| {
                    let axis = types.ints(node.input.get(1)?)?;
                    extent(i, *axis.first()?)
                })?,
            );
            held(((a.0 * n).min(a.0), (a.1 * n).max(a.1)))
        }
        "Where" => Some(join(input(1)?, input(2)?)),
        "Concat" | "Min" | "Max" => {
            let all: Option<Vec<Interval>> = (0..node.input.len()).map(input).collect();
            all?.into_iter().reduce(join)
        }
        "Cast" if types.get(node.input.first()?).dtype == Some(DataType::Bool) => Some((0, 1)),
        "Cast" | "Identity" | "Reshape" | "Transpose" | "Unsqueeze" | "Squeeze" | "Expand" | "Slice" | "Gather"
        | "GatherElements" | "Split" | "Tile" => input(0),
        _ => None,
    }
}
