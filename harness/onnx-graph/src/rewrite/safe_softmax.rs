//! `Where(IsNaN(Softmax(x)), 0, Softmax(x))` without `IsNaN`.
//!
//! The Softmax of a row is NaN when the row holds a NaN or plus infinity, or nothing but minus infinity. Such a row is known by
//! its maximum once NaN is taken for plus infinity: the maximum is then infinite, and in every other row it is finite.

use super::edit::Edit;
use super::{Rewritten, Site, SiteInput};
use crate::builder::Attribute;
use crate::infer::Types;
use crate::model::Model;
use crate::proto::NodeProto;
use crate::view::{View, int, is, node_label};

/// A guarded Softmax.
pub(crate) struct Guarded<'a> {
    pub softmax: &'a NodeProto,
    pub is_nan: &'a NodeProto,
    pub guard: &'a NodeProto,
    guard_index: usize,
}

/// Every Softmax whose NaN are replaced by zeros.
pub(crate) fn find<'a>(view: &View<'a>) -> Vec<Guarded<'a>> {
    let of = |(guard_index, guard): (usize, &'a NodeProto)| {
        let [condition, zero, kept] = guard.input.as_slice() else { return None };
        let is_nan = view.made_by(condition, "IsNaN")?;
        let softmax = view.made_by(kept, "Softmax")?;
        let guards = is(guard, "Where") && is_nan.input.first() == Some(kept) && view.uniform(zero) == Some(0.0);
        guards.then_some(Guarded { softmax, is_nan, guard, guard_index })
    };
    view.graph.node.iter().enumerate().filter_map(of).collect()
}

pub(super) fn apply(model: &Model, view: &View<'_>, types: &Types) -> Rewritten {
    let mut edit = Edit::new(view);
    let (mut sites, mut skipped) = (Vec::new(), Vec::new());
    for found in find(view) {
        match replace(&mut edit, view, types, &found) {
            Ok(site) => sites.push(site),
            Err(why) => skipped.push((node_label(found.softmax), why)),
        }
    }
    Rewritten { model: edit.finish(model), sites, skipped }
}

fn replace(edit: &mut Edit, view: &View<'_>, types: &Types, found: &Guarded<'_>) -> Result<Site, String> {
    let Guarded { softmax, guard, guard_index, .. } = found;
    let (Some(scores), Some(output)) = (softmax.input.first(), guard.output.first()) else {
        return Err("it has no input or its guard no output".to_owned());
    };
    let dtype = types.get(scores).dtype.ok_or("the type of its scores is not known")?;
    let (largest, infinity) = (largest(dtype).ok_or(format!("its scores are {dtype}"))?, f64::INFINITY);
    if view.opset < 13 {
        return Err(format!("Softmax of opset {} works on two dimensions; rewrite from opset 13 on", view.opset));
    }
    edit.at(softmax);
    let unknown = || format!("{dtype} has no constants here");
    let most = edit.float("largest_finite", dtype, largest).ok_or_else(unknown)?;
    let infinite = edit.float("infinity", dtype, infinity).ok_or_else(unknown)?;
    let zero = edit.float("zero", dtype, 0.0).ok_or_else(unknown)?;
    let axis = int(softmax, "axis", -1);
    let usual = edit.node("at_most_largest", "LessOrEqual", &[scores, &most], vec![]);
    let marked = edit.node("nan_as_infinity", "Where", &[&usual, scores, &infinite], vec![]);
    let maximum = if view.opset >= 18 {
        let axes = edit.ints("axis", &[axis]);
        edit.node("row_maximum", "ReduceMax", &[&marked, &axes], vec![("keepdims", Attribute::Int(1))])
    } else {
        let attributes = vec![("axes", Attribute::Ints(vec![axis])), ("keepdims", Attribute::Int(1))];
        edit.node("row_maximum", "ReduceMax", &[&marked], attributes)
    };
    let size = edit.node("row_maximum_size", "Abs", &[&maximum], vec![]);
    let valid = edit.node("row_has_keys", "LessOrEqual", &[&size, &most], vec![]);
    let fed = edit.node("scores_without_empty_rows", "Where", &[&valid, scores, &zero], vec![]);
    let probabilities = edit.node("probabilities", "Softmax", &[&fed], vec![("axis", Attribute::Int(axis))]);
    edit.makes("empty_rows_as_zero", "Where", &[&valid, &probabilities, &zero], vec![], output);
    edit.replace(*guard_index);
    Ok(Site { node: node_label(softmax), inputs: vec![SiteInput::any(scores)], outputs: vec![output.clone()] })
}

/// The largest finite value of a float type that can be compared with on every provider.
pub(super) fn largest(dtype: crate::tensor::DataType) -> Option<f64> {
    use crate::tensor::DataType as T;
    match dtype {
        T::Float16 => Some(half::f16::MAX.to_f64()),
        T::Float32 => Some(f64::from(f32::MAX)),
        T::Float64 => Some(f64::MAX),
        _ => None,
    }
}
