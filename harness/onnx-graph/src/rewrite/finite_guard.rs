//! `IsNaN` and `IsInf` by comparison, and the chain that exporters write for `nan_to_num` in one step.
//!
//! The chain replaces NaN, then plus, then minus infinity, each by a Where of its own. Where all three get the same value it is
//! `Where(Abs(x) <= largest finite, x, value)`: one comparison that is false for all three. (`x == x` would do for NaN too, and is
//! what compilers with fast-math fold away.)

use super::edit::Edit;
use super::safe_softmax::{self, largest};
use super::{Rewritten, Site, SiteInput};
use crate::infer::Types;
use crate::model::Model;
use crate::proto::NodeProto;
use crate::view::{View, int, is, node_label};
use std::collections::HashSet;

/// A value whose NaN, and perhaps infinities, are replaced.
pub(crate) struct Guard<'a> {
    /// The `IsNaN`.
    pub is_nan: &'a NodeProto,
    /// The guarded tensor.
    value: &'a str,
    /// What takes the place of NaN.
    with: &'a str,
    /// The Where that ends the chain.
    last: (usize, &'a NodeProto),
    /// Is it the whole chain, with the same value for all three?
    whole: bool,
}

/// Every NaN guard that is not behind a Softmax.
pub(crate) fn find<'a>(view: &View<'a>) -> Vec<Guard<'a>> {
    let softmax: HashSet<*const NodeProto> =
        safe_softmax::find(view).iter().map(|g| std::ptr::from_ref(g.is_nan)).collect();
    let of = |(index, guard): (usize, &'a NodeProto)| {
        let [condition, with, value] = guard.input.as_slice() else { return None };
        let is_nan = view.made_by(condition, "IsNaN").filter(|n| n.input.first() == Some(value))?;
        if !is(guard, "Where") || softmax.contains(&std::ptr::from_ref(is_nan)) {
            return None;
        }
        let same = |other: &str| {
            view.uniform(other).is_some_and(|v| view.uniform(with).map(f64::to_bits) == Some(v.to_bits()))
        };
        let plus = infinity_step(view, (index, guard), "Greater").filter(|(_, w)| same(w));
        let minus = plus.and_then(|(step, _)| infinity_step(view, step, "Less")).filter(|(_, w)| same(w));
        let (last, whole) = minus.map_or(((index, guard), false), |(step, _)| (step, true));
        Some(Guard { is_nan, value, with, last, whole })
    };
    view.graph.node.iter().enumerate().filter_map(of).collect()
}

type Step<'a> = (usize, &'a NodeProto);

/// `Where(And(IsInf(x), x > 0), value, x)` behind the Where that made x; the Where and the value.
fn infinity_step<'a>(view: &View<'a>, from: Step<'a>, side: &str) -> Option<(Step<'a>, &'a str)> {
    let x = from.1.output.first()?;
    // The step reads x three times, casts in between; all else that reads x would see another tensor.
    let step = view.consumers(x).find(|n| is(n, "Where") && n.input.get(2) == Some(x))?;
    let both = view.made_by(step.input.first()?, "And")?;
    let [a, b] = both.input.as_slice() else { return None };
    let is_inf = view.made_by(uncast(view, a)?, "IsInf")?;
    let compare = view.made_by(uncast(view, b)?, side)?;
    let fits = uncast(view, is_inf.input.first()?)? == x
        && compare.input.first() == Some(x)
        && view.uniform(compare.input.get(1)?) == Some(0.0)
        && view
            .consumers(x)
            .all(|n| std::ptr::eq(n, step) || std::ptr::eq(n, compare) || is(n, "Cast") || std::ptr::eq(n, is_inf))
        && !view.is_output(x);
    let index = view.producer(step.output.first()?)?.0;
    fits.then_some(((index, step), step.input.get(1)?.as_str()))
}

/// The tensor behind a Cast, or the tensor itself.
fn uncast<'a>(view: &View<'a>, tensor: &'a str) -> Option<&'a str> {
    match view.made_by(tensor, "Cast") {
        Some(cast) => cast.input.first().map(String::as_str),
        None => Some(tensor),
    }
}

pub(super) fn apply(model: &Model, view: &View<'_>, types: &Types) -> Rewritten {
    let mut edit = Edit::new(view);
    let (mut sites, mut skipped) = (Vec::new(), Vec::new());
    for guard in find(view).into_iter().filter(|g| g.whole) {
        let known = types.get(guard.value).dtype;
        edit.at(guard.is_nan);
        let most = known.and_then(|dtype| edit.float("largest_finite", dtype, largest(dtype)?));
        let (Some(most), Some(output)) = (most, guard.last.1.output.first()) else {
            skipped.push((node_label(guard.is_nan), "the type of what it guards is not known".to_owned()));
            continue;
        };
        let size = edit.node("size", "Abs", &[guard.value], vec![]);
        let finite = edit.node("is_finite", "LessOrEqual", &[&size, &most], vec![]);
        edit.makes("finite_or_else", "Where", &[&finite, guard.value, guard.with], vec![], output);
        edit.replace(guard.last.0);
        let inputs = vec![SiteInput::any(guard.value)];
        sites.push(Site { node: node_label(guard.is_nan), inputs, outputs: vec![output.clone()] });
    }
    let mut model = edit.finish(model);
    // What is left of IsNaN and IsInf stands alone.
    let view = View::new(&model);
    let types = Types::of(&view);
    let guarded: HashSet<*const NodeProto> =
        safe_softmax::find(&view).iter().map(|g| std::ptr::from_ref(g.is_nan)).collect();
    let mut edit = Edit::new(&view);
    for (index, node) in view.graph.node.iter().enumerate() {
        if !(is(node, "IsNaN") || is(node, "IsInf")) || guarded.contains(&std::ptr::from_ref(node)) {
            continue;
        }
        match alone(&mut edit, &types, index, node) {
            Ok(site) => sites.push(site),
            Err(why) => skipped.push((node_label(node), why)),
        }
    }
    let edited = edit.finish(&model);
    model = edited;
    Rewritten { model, sites, skipped }
}

fn alone(edit: &mut Edit, types: &Types, index: usize, node: &NodeProto) -> Result<Site, String> {
    let (Some(value), Some(output)) = (node.input.first(), node.output.first()) else {
        return Err("it has no input or no output".to_owned());
    };
    let dtype = types.get(value).dtype.ok_or("the type of its input is not known")?;
    let unknown = || format!("its input is {dtype}");
    edit.at(node);
    let constant = |edit: &mut Edit, step: &str, value: Option<f64>| edit.float(step, dtype, value?);
    if is(node, "IsNaN") {
        let infinite = constant(edit, "infinity", largest(dtype).map(|_| f64::INFINITY)).ok_or_else(unknown)?;
        let number = edit.node("is_a_number", "LessOrEqual", &[value, &infinite], vec![]);
        edit.makes("is_no_number", "Not", &[&number], vec![], output);
    } else {
        let (plus, minus) = (int(node, "detect_positive", 1) != 0, int(node, "detect_negative", 1) != 0);
        let most = constant(edit, "largest_finite", largest(dtype)).ok_or_else(unknown)?;
        match (plus, minus) {
            (true, true) => {
                let size = edit.node("size", "Abs", &[value], vec![]);
                edit.makes("is_infinite", "Greater", &[&size, &most], vec![], output);
            }
            (true, false) => edit.makes("is_plus_infinite", "Greater", &[value, &most], vec![], output),
            (false, true) => {
                let least = constant(edit, "least_finite", largest(dtype).map(|v| -v)).ok_or_else(unknown)?;
                edit.makes("is_minus_infinite", "Less", &[value, &least], vec![], output);
            }
            (false, false) => {
                let infinite = edit.float("infinity", dtype, f64::INFINITY).ok_or_else(unknown)?;
                // Nothing is greater, and NaN compares with nothing.
                edit.makes("never", "Greater", &[value, &infinite], vec![], output);
            }
        }
    }
    edit.replace(index);
    Ok(Site { node: node_label(node), inputs: vec![SiteInput::any(value)], outputs: vec![output.clone()] })
}
