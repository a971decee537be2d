//! atan2 as exporters take it apart, `Atan(y / x)` with the quadrant by comparisons, rebuilt so that it is right everywhere.
//!
//! The old form divides zero by zero where y and x are zeros, which zero-padded rows are, needs an Atan that not every provider
//! has, and puts (+0, -1) on the wrong side of the cut.
//!
//! The new form, in f32: with lo and hi the smaller and larger of |y| and |x|, t = lo / hi lies in [0, 1]. Up to tan(1/2) the
//! polynomial takes t itself, above it r = (lo - hi) / (lo + hi), since atan(t) = pi/4 + atan(r). The octant then adds a multiple
//! of pi/4, held as a sum of two f32, and signs. The polynomial is z + z^3 P(z^2), P of degree 5, fitted by least squares at 200
//! Chebyshev nodes in 40 digits with the weight of its effect, its coefficients rounded to f32; the largest relative error of the
//! fit is 9.9e-10, a 60th of half an ulp.

use super::edit::Edit;
use super::{Rewritten, Site, SiteInput};
use crate::builder::Attribute;
use crate::infer::Types;
use crate::model::Model;
use crate::proto::NodeProto;
use crate::tensor::DataType;
use crate::view::{View, is, node_label};

/// P of the polynomial, the constant first.
const COEFFICIENTS: [f32; 6] = [-0.333_333_16, 0.199_988_84, -0.142_607_99, 0.108_499_6, -0.076_525_37, 0.034_251_84];
/// tan(1/2): above it the reduced quotient is the better argument, and what it gives is at least 1/2.
const SPLIT: f64 = 0.546_302_489_843_790_5;
/// Above this a sum of two f32 may overflow.
const SCALE_FROM: f64 = 1e38;

/// An atan2.
pub(crate) struct Found<'a> {
    pub atan: &'a NodeProto,
    y: &'a str,
    x: &'a str,
    /// The Where that picks the half-plane, its index and output; without one it is an arc tangent of a quotient only.
    whole: Option<(usize, &'a str)>,
}

/// Every `Atan(y / x)`.
pub(crate) fn find<'a>(view: &View<'a>) -> Vec<Found<'a>> {
    let of = |atan: &'a NodeProto| {
        let quotient = is(atan, "Atan").then(|| view.made_by(atan.input.first()?, "Div")).flatten()?;
        let [y, x] = quotient.input.as_slice() else { return None };
        Some(Found { atan, y, x, whole: quadrants(view, atan, y, x) })
    };
    view.graph.node.iter().filter_map(of).collect()
}

/// `Where(x < 0, Where(y > 0, a + pi, a - pi), a)`, or with the inner comparison the other way round.
fn quadrants<'a>(view: &View<'a>, atan: &'a NodeProto, y: &str, x: &str) -> Option<(usize, &'a str)> {
    let angle = atan.output.first()?;
    let outer = view.consumers(angle).find(|n| is(n, "Where") && n.input.get(2) == Some(angle))?;
    let left = view.made_by(outer.input.first()?, "Less")?;
    let turned = view.made_by(outer.input.get(1)?, "Where")?;
    let [condition, when_true, when_false] = turned.input.as_slice() else { return None };
    let (side, up) = match (view.made_by(condition, "Greater"), view.made_by(condition, "Less")) {
        (Some(side), _) => (side, true),
        (None, Some(side)) => (side, false),
        (None, None) => return None,
    };
    let (plus, minus) = if up { (when_true, when_false) } else { (when_false, when_true) };
    let by_pi = |tensor: &str, op: &str| {
        let node = view.made_by(tensor, op)?;
        let pi = view.uniform(node.input.get(1)?)?;
        (node.input.first() == Some(angle) && (pi - std::f64::consts::PI).abs() < 1e-6).then_some(())
    };
    by_pi(plus, "Add").and_then(|()| by_pi(minus, "Sub"))?;
    let against_zero = |node: &NodeProto, tensor: &str| {
        node.input.first().is_some_and(|i| i == tensor) && node.input.get(1).and_then(|z| view.uniform(z)) == Some(0.0)
    };
    let fits = against_zero(left, x) && against_zero(side, y);
    let output = outer.output.first().filter(|_| fits)?;
    Some((view.producer(output)?.0, output))
}

pub(super) fn apply(model: &Model, view: &View<'_>, types: &Types) -> Rewritten {
    with(model, view, types, replace)
}

pub(super) fn meaning(model: &Model, view: &View<'_>, types: &Types) -> Rewritten {
    with(model, view, types, repair)
}

type Build = fn(&mut Edit, &str, &str, &str) -> Option<()>;

fn with(model: &Model, view: &View<'_>, types: &Types, build: Build) -> Rewritten {
    let mut edit = Edit::new(view);
    let (mut sites, mut skipped) = (Vec::new(), Vec::new());
    for found in find(view) {
        let label = node_label(found.atan);
        let Some((index, output)) = found.whole else {
            let why = "no comparisons pick the quadrant behind it: it is an arc tangent of a quotient, not atan2";
            skipped.push((label, why.to_owned()));
            continue;
        };
        let dtype = types.get(found.y).dtype.or(types.get(found.x).dtype);
        if dtype != Some(DataType::Float32) {
            let is = dtype.map_or("not known", DataType::name);
            skipped.push((label, format!("its type is {is}; the polynomial is for float32")));
            continue;
        }
        edit.at(found.atan);
        if build(&mut edit, found.y, found.x, output).is_some() {
            edit.replace(index);
            let inputs = vec![SiteInput::any(found.y), SiteInput::any(found.x)];
            sites.push(Site { node: label, inputs, outputs: vec![output.to_owned()] });
        }
    }
    Rewritten { model: edit.finish(model), sites, skipped }
}

/// The sizes of y and x, both one where both are infinite, and zero over one where both are zero.
struct Sizes {
    y: String,
    x: String,
}

/// A constant of float32.
fn f(edit: &mut Edit, step: &str, value: f64) -> Option<String> {
    edit.float(step, DataType::Float32, value)
}

/// Does the tensor have a minus sign, zeros included?
fn is_negative(edit: &mut Edit, step: &str, tensor: &str) -> Option<String> {
    let (zero, one) = (f(edit, "zero", 0.0)?, f(edit, "one", 1.0)?);
    let is_zero = edit.node(&format!("{step}_is_zero"), "Equal", &[tensor, &zero], vec![]);
    // One over a zero is an infinity of the zero's sign.
    let inverse = edit.node(&format!("{step}_inverse"), "Div", &[&one, tensor], vec![]);
    let signed = edit.node(&format!("{step}_signed"), "Where", &[&is_zero, &inverse, tensor], vec![]);
    Some(edit.node(&format!("{step}_is_negative"), "Less", &[&signed, &zero], vec![]))
}

fn sizes(edit: &mut Edit, y: &str, x: &str) -> Option<(Sizes, Sizes)> {
    let (largest, one, zero) =
        (f(edit, "largest_finite", f64::from(f32::MAX))?, f(edit, "one", 1.0)?, f(edit, "zero", 0.0)?);
    let size = Sizes { y: edit.node("y_size", "Abs", &[y], vec![]), x: edit.node("x_size", "Abs", &[x], vec![]) };
    let y_larger = edit.node("y_is_larger", "Greater", &[&size.y, &size.x], vec![]);
    let lower = edit.node("smaller_size", "Where", &[&y_larger, &size.x, &size.y], vec![]);
    let higher = edit.node("larger_size", "Where", &[&y_larger, &size.y, &size.x], vec![]);
    let both_infinite = edit.node("both_infinite", "Greater", &[&lower, &largest], vec![]);
    let both_zero = edit.node("both_zero", "Equal", &[&higher, &zero], vec![]);
    let lower = edit.node("smaller", "Where", &[&both_infinite, &one, &lower], vec![]);
    let higher = edit.node("larger_or_one", "Where", &[&both_infinite, &one, &higher], vec![]);
    let higher = edit.node("larger", "Where", &[&both_zero, &one, &higher], vec![]);
    // In `Sizes` of the quotient, y stands over x.
    Some((Sizes { y: lower, x: higher }, Sizes { y: y_larger, x: String::new() }))
}

/// The old form's meaning: one Atan of the smaller size over the larger, and the octant put right.
fn repair(edit: &mut Edit, y: &str, x: &str, output: &str) -> Option<()> {
    let (ratio, larger) = sizes(edit, y, x)?;
    let t = edit.node("quotient", "Div", &[&ratio.y, &ratio.x], vec![]);
    let angle = edit.node("angle", "Atan", &[&t], vec![]);
    let (half, pi) = (f(edit, "half_pi", std::f64::consts::FRAC_PI_2)?, f(edit, "pi", std::f64::consts::PI)?);
    let beyond = edit.node("beyond_diagonal", "Sub", &[&half, &angle], vec![]);
    let angle = edit.node("in_first_quadrant", "Where", &[&larger.y, &beyond, &angle], vec![]);
    let x_negative = is_negative(edit, "x", x)?;
    let left = edit.node("left", "Sub", &[&pi, &angle], vec![]);
    let angle = edit.node("in_upper_half", "Where", &[&x_negative, &left, &angle], vec![]);
    let y_negative = is_negative(edit, "y", y)?;
    let below = edit.node("below", "Neg", &[&angle], vec![]);
    edit.makes("atan2", "Where", &[&y_negative, &below, &angle], vec![], output);
    Some(())
}

fn replace(edit: &mut Edit, y: &str, x: &str, output: &str) -> Option<()> {
    let (ratio, larger) = sizes(edit, y, x)?;
    let (lo, hi) = (ratio.y.as_str(), ratio.x.as_str());
    let t = edit.node("quotient", "Div", &[lo, hi], vec![]);
    let (one, quarter, split) = (f(edit, "one", 1.0)?, f(edit, "quarter", 0.25)?, f(edit, "tan_half", SPLIT)?);
    let from = f(edit, "sum_may_overflow_from", SCALE_FROM)?;
    let large = edit.node("is_large", "Greater", &[hi, &from], vec![]);
    let scale = edit.node("scale", "Where", &[&large, &quarter, &one], vec![]);
    let lo = edit.node("smaller_scaled", "Mul", &[lo, &scale], vec![]);
    let hi = edit.node("larger_scaled", "Mul", &[hi, &scale], vec![]);
    let difference = edit.node("difference", "Sub", &[&lo, &hi], vec![]);
    let sum = edit.node("sum", "Add", &[&lo, &hi], vec![]);
    let reduced = edit.node("reduced_quotient", "Div", &[&difference, &sum], vec![]);
    let reduces = edit.node("is_reduced", "Greater", &[&t, &split], vec![]);
    let z = edit.node("argument", "Where", &[&reduces, &reduced, &t], vec![]);
    let square = edit.node("square", "Mul", &[&z, &z], vec![]);
    let mut polynomial = f(edit, "coefficient_5", f64::from(COEFFICIENTS[5]))?;
    for (i, &c) in COEFFICIENTS.iter().enumerate().rev().skip(1) {
        let c = f(edit, &format!("coefficient_{i}"), f64::from(c))?;
        let product = edit.node("horner_product", "Mul", &[&polynomial, &square], vec![]);
        polynomial = edit.node("horner_sum", "Add", &[&product, &c], vec![]);
    }
    let cube = edit.node("cube", "Mul", &[&z, &square], vec![]);
    let correction = edit.node("correction", "Mul", &[&cube, &polynomial], vec![]);
    let angle = edit.node("angle", "Add", &[&z, &correction], vec![]);
    let x_negative = is_negative(edit, "x", x)?;
    // Each change of octant turns the direction in which the angle counts.
    let minus = f(edit, "minus_one", -1.0)?;
    let turn = edit.node("turned_at_diagonal", "Where", &[&larger.y, &minus, &one], vec![]);
    let turn_left = edit.node("turned_at_axis", "Where", &[&x_negative, &minus, &one], vec![]);
    let turn = edit.node("direction", "Mul", &[&turn, &turn_left], vec![]);
    let directed = edit.node("directed_angle", "Mul", &[&turn, &angle], vec![]);
    // The multiple of pi/4 that the angle counts from, as a sum of two f32.
    let mut base = |part: &str, of: fn(f64) -> f64| {
        let quarters = |edit: &mut Edit, n: u32| {
            f(edit, &format!("quarter_pi_{n}_{part}"), of(f64::from(n) * std::f64::consts::FRAC_PI_4))
        };
        let mut at = |name: &str, reduced: u32, beyond: u32, plain: u32| {
            let (r, b, p) = (quarters(edit, reduced)?, quarters(edit, beyond)?, quarters(edit, plain)?);
            let whole = edit.node(&format!("{name}_whole_{part}"), "Where", &[&larger.y, &b, &p], vec![]);
            Some(edit.node(&format!("{name}_{part}"), "Where", &[&reduces, &r, &whole], vec![]))
        };
        let (right, left) = (at("base_right", 1, 2, 0)?, at("base_left", 3, 2, 4)?);
        Some(edit.node(&format!("base_{part}"), "Where", &[&x_negative, &left, &right], vec![]))
    };
    let high = base("high", |v| f64::from(v as f32))?;
    let low = base("low", |v| v - f64::from(v as f32))?;
    let small = edit.node("small_part", "Add", &[&directed, &low], vec![]);
    let upper = edit.node("in_upper_half", "Add", &[&high, &small], vec![]);
    let y_negative = is_negative(edit, "y", y)?;
    let side = edit.node("side", "Where", &[&y_negative, &minus, &one], vec![]);
    edit.makes("atan2", "Mul", &[&upper, &side], Vec::<(&str, Attribute)>::new(), output);
    Some(())
}
