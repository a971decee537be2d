//! An order by `TopK` that every provider agrees on.
//!
//! Providers differ in how they order equal keys, some lose their way when a key is infinite, and some drop or narrow what nobody
//! reads. The new nodes sort twice. First the keys, made finite: infinities and NaN become the largest numbers of their sign, and a
//! class says what they were. Equal neighbours then get the same rank (a running count of rises), and rank, class and position make
//! one integer that no other element has:
//!
//! ```text
//! key = (rank * 4 + class) * n + position            in int64, below 2^63 up to n = 10^9
//! ```
//!
//! The second sort is over those. Its order is unique, so that ties come out by the lower index whatever the provider does with
//! them. `order = position[j] + (sorted key - key[j])` reads both outputs of it; the last term is zero.

use super::edit::Edit;
use super::safe_softmax::largest;
use super::{Rewritten, Site, SiteInput};
use crate::builder::Attribute;
use crate::infer::Types;
use crate::inspect::Dim;
use crate::model::Model;
use crate::proto::NodeProto;
use crate::tensor::{DataType, Tensor};
use crate::view::{self, View, int, is, node_label};

/// Why a `TopK` should be rewritten; nothing for one that any provider orders alike.
pub(crate) struct Needs {
    /// Nobody reads its values.
    pub values_unread: bool,
    /// Its keys are floats that may be equal, infinite or NaN.
    pub float_keys: bool,
}

/// What a `TopK` needs; `None` for other nodes and for sorts that are unique already.
pub(crate) fn needs(view: &View<'_>, types: &Types, node: &NodeProto) -> Option<Needs> {
    if !is(node, "TopK") {
        return None;
    }
    let used = |i: usize| node.output.get(i).is_some_and(|o| view.is_used(o));
    let keys = node.input.first()?;
    let dtype = types.get(keys).dtype;
    let float_keys = dtype.is_none_or(DataType::is_float) && !(is_clamped(view, keys) && used(0));
    let needs = Needs { values_unread: !used(0), float_keys };
    (used(1) && (needs.values_unread || needs.float_keys)).then_some(needs)
}

/// Are the keys held inside the finite numbers, as this pass does it?
fn is_clamped(view: &View<'_>, keys: &str) -> bool {
    let keys = view.made_by(keys, "Neg").and_then(|n| n.input.first()).map_or(keys, String::as_str);
    let Some([below, least, _]) = view.made_by(keys, "Where").map(|n| n.input.as_slice()) else { return false };
    let least = view.uniform(least);
    view.made_by(below, "Less").is_some() && least.is_some_and(|v| v.is_finite() && v < -6e4)
}

pub(super) fn apply(model: &Model, view: &View<'_>, types: &Types) -> Rewritten {
    let mut edit = Edit::new(view);
    let (mut sites, mut skipped) = (Vec::new(), Vec::new());
    for (index, node) in view.graph.node.iter().enumerate() {
        if needs(view, types, node).is_none() {
            continue;
        }
        match Sort::of(view, types, node).map(|sort| sort.replace(&mut edit, view)) {
            Ok(site) => {
                edit.replace(index);
                sites.push(site);
            }
            Err(why) => skipped.push((node_label(node), why)),
        }
    }
    Rewritten { model: edit.finish(model), sites, skipped }
}

/// A sort to be replaced.
struct Sort<'a> {
    node: &'a NodeProto,
    keys: &'a str,
    values: &'a str,
    indices: &'a str,
    dtype: DataType,
    axis: usize,
    /// Elements along the axis, and how many of them are wanted.
    extent: usize,
    count: usize,
    descending: bool,
    /// The keys are a permutation of 0..n: one sort does.
    permutation: bool,
}

impl<'a> Sort<'a> {
    fn of(view: &View<'_>, types: &Types, node: &'a NodeProto) -> Result<Self, String> {
        let [keys, count] = node.input.as_slice() else {
            return Err("it has its k as an attribute, as before opset 10".to_owned());
        };
        let [values, indices] = node.output.as_slice() else {
            return Err(format!("it has {} outputs where TopK has two", node.output.len()));
        };
        if view.opset < 13 {
            return Err(format!("opset {} has not all operators that the new order needs; 13 has", view.opset));
        }
        let known = types.get(keys);
        let dtype = known.dtype.ok_or("the type of its keys is not known")?;
        let shape = known.shape.ok_or("the rank of its keys is not known")?;
        let axis = view::axis(int(node, "axis", -1), shape.len()).ok_or("its axis lies outside of its keys")?;
        let Dim::Fixed(extent) = shape[axis] else {
            return Err("how many elements it sorts is not known: give the extents, as --set NAME=N".to_owned());
        };
        let count = types.ints(count).and_then(|k| k.first().copied()).and_then(|k| usize::try_from(k).ok());
        let count = count.ok_or("its k is not a constant")?;
        let sortable = matches!(dtype, DataType::Int64 | DataType::Int32) || largest(dtype).is_some();
        if !sortable || extent == 0 || extent > 1_000_000_000 || count > extent {
            return Err(format!("it takes {count} of {extent} elements of {dtype}"));
        }
        let maker = view.made_by(keys, "TopK").filter(|m| m.output.get(1) == Some(keys));
        let all = |m: &NodeProto| {
            let axis_of = |n: &NodeProto| view::axis(int(n, "axis", -1), shape.len());
            let whole = m
                .input
                .first()
                .is_some_and(|i| types.get(i).shape.as_ref().and_then(|s| s.get(axis)) == Some(&shape[axis]));
            whole && axis_of(m) == axis_of(node)
        };
        let descending = int(node, "largest", 1) != 0;
        let permutation = maker.is_some_and(all);
        Ok(Self { node, keys, values, indices, dtype, axis, extent, count, descending, permutation })
    }

    fn replace(&self, edit: &mut Edit, view: &View<'_>) -> Site {
        edit.at(self.node);
        let ordered = match (self.permutation, self.dtype.is_float()) {
            (true, _) => self.unique(edit, None),
            (false, true) => self.floats(edit),
            (false, false) => self.integers(edit),
        };
        let (values, indices) = (self.values, self.indices);
        let axis = || vec![("axis", Attribute::Int(self.axis as i64))];
        if self.count == self.extent {
            edit.makes("order", "Identity", &[&ordered], vec![], indices);
        } else {
            let ends = [0, self.count as i64, self.axis as i64, 1].map(|v| edit.ints("slice", &[v]));
            let [from, to, along, step] = ends;
            edit.makes("first_of_order", "Slice", &[&ordered, &from, &to, &along, &step], vec![], indices);
        }
        let mut outputs = vec![indices.to_owned()];
        if view.is_used(values) {
            edit.makes("values", "GatherElements", &[self.keys, indices], axis(), values);
            outputs.push(values.to_owned());
        }
        let permutation_along = self.permutation.then_some(self.axis);
        Site {
            node: node_label(self.node),
            inputs: vec![SiteInput { tensor: self.keys.to_owned(), permutation_along }],
            outputs,
        }
    }

    /// Both outputs of an ascending sort of all elements.
    fn sort(&self, edit: &mut Edit, step: &str, keys: &str) -> [String; 2] {
        let all = edit.ints("all", &[self.extent as i64]);
        let attributes = vec![("axis", Attribute::Int(self.axis as i64)), ("largest", Attribute::Int(0))];
        edit.node2(step, "TopK", &[keys, &all], attributes)
    }

    fn gather(&self, edit: &mut Edit, step: &str, data: &str, at: &str) -> String {
        edit.node(step, "GatherElements", &[data, at], vec![("axis", Attribute::Int(self.axis as i64))])
    }

    /// The order of unique integer keys, through the positions that they came from where those are not their own.
    fn unique(&self, edit: &mut Edit, keyed: Option<(&str, &str)>) -> String {
        let flipped = (keyed.is_none() && self.descending).then(|| self.complement(edit));
        let keys = keyed.map_or(flipped.as_deref().unwrap_or(self.keys), |(keys, _)| keys);
        let [sorted, at] = self.sort(edit, "unique_sort", keys);
        let again = self.gather(edit, "key_at_order", keys, &at);
        let none = edit.node("zero_from_both_outputs", "Sub", &[&sorted, &again], vec![]);
        let none = match self.dtype {
            DataType::Int32 if keyed.is_none() => {
                edit.node("zero_as_index", "Cast", &[&none], vec![("to", Attribute::Int(DataType::Int64 as i64))])
            }
            _ => none,
        };
        let positions = keyed.map(|(_, positions)| self.gather(edit, "position_of_unique", positions, &at));
        edit.node("order_of_unique", "Add", &[positions.as_deref().unwrap_or(&at), &none], vec![])
    }

    /// Integers in the opposite order, without overflow: -1 - x.
    fn complement(&self, edit: &mut Edit) -> String {
        let minus_one = match self.dtype {
            DataType::Int32 => {
                let one = Tensor::from_values(&[], &[-1i32]).expect("one value for a scalar");
                edit.constant("minus_one", &one)
            }
            _ => edit.int("minus_one", -1),
        };
        edit.node("opposite", "Sub", &[&minus_one, self.keys], vec![])
    }

    fn integers(&self, edit: &mut Edit) -> String {
        let opposite = self.descending.then(|| self.complement(edit));
        let [sorted, at] = self.sort(edit, "first_sort", opposite.as_deref().unwrap_or(self.keys));
        let rank = self.rank(edit, &sorted);
        self.keyed(edit, &rank, &at)
    }

    fn floats(&self, edit: &mut Edit) -> String {
        let (keys, most) = (self.keys, largest(self.dtype).unwrap_or(f64::MAX));
        let mut constant = |step: &str, value| edit.float(step, self.dtype, value).unwrap_or_default();
        let (most, least) = (constant("largest_finite", most), constant("least_finite", -most));
        let usual = edit.node("at_most_largest", "LessOrEqual", &[keys, &most], vec![]);
        let bounded = edit.node("bounded_above", "Where", &[&usual, keys, &most], vec![]);
        let below = edit.node("below_least", "Less", &[&bounded, &least], vec![]);
        let finite = edit.node("bounded", "Where", &[&below, &least, &bounded], vec![]);
        let above = edit.node("above_largest", "Greater", &[keys, &most], vec![]);
        // Ascending: minus infinity, numbers, plus infinity; descending the other way round; NaN last in both.
        let (low, high) = if self.descending { (2, 0) } else { (0, 2) };
        let [low, number, high, nan] = [low, 1, high, 3].map(|class| edit.int("class", class));
        let beyond = edit.node("class_beyond", "Where", &[&above, &high, &nan], vec![]);
        let within = edit.node("class_within", "Where", &[&below, &low, &number], vec![]);
        let class = edit.node("class", "Where", &[&usual, &within, &beyond], vec![]);
        let ascending = if self.descending { edit.node("opposite", "Neg", &[&finite], vec![]) } else { finite };
        let [sorted, at] = self.sort(edit, "first_sort", &ascending);
        let rank = self.rank(edit, &sorted);
        let class = self.gather(edit, "class_in_order", &class, &at);
        let four = edit.int("classes", 4);
        let rank = edit.node("rank_of_classes", "Mul", &[&rank, &four], vec![]);
        let rank = edit.node("rank_with_class", "Add", &[&rank, &class], vec![]);
        self.keyed(edit, &rank, &at)
    }

    /// How many rises there are up to each element of a sorted tensor: equal elements get the same rank.
    fn rank(&self, edit: &mut Edit, sorted: &str) -> String {
        let before: Vec<i64> = (0..self.extent as i64).map(|i| (i - 1).max(0)).collect();
        let before = edit.ints("position_before", &before);
        let axis = vec![("axis", Attribute::Int(self.axis as i64))];
        let left = edit.node("left_neighbour", "Gather", &[sorted, &before], axis);
        let rises = edit.node("rises", "Greater", &[sorted, &left], vec![]);
        let rises = edit.node("rise", "Cast", &[&rises], vec![("to", Attribute::Int(DataType::Int64 as i64))]);
        let along = edit.int("axis", self.axis as i64);
        edit.node("rank", "CumSum", &[&rises, &along], vec![])
    }

    /// The order of `rank`, ties by position, where `at` are the positions in the first order.
    fn keyed(&self, edit: &mut Edit, rank: &str, at: &str) -> String {
        let extent = edit.int("extent", self.extent as i64);
        let scaled = edit.node("rank_scaled", "Mul", &[rank, &extent], vec![]);
        let key = edit.node("unique_key", "Add", &[&scaled, at], vec![]);
        self.unique(edit, Some((&key, at)))
    }
}
