//! Values of small tensors that follow from constants and shapes: what exporters leave of shape arithmetic.

use crate::proto::NodeProto;
use crate::tensor::{DataType, Tensor, element_count};
use crate::view::{self, View, attribute, floats, int, ints, is};
use ndarray::{ArrayD, Axis, IxDyn, Slice, Zip};

/// Largest tensor that is folded, in elements.
const SMALL: usize = 1024;

/// A small tensor with its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Small {
    pub dtype: DataType,
    pub values: Values,
}

/// Integers and bools exactly; floats as f64, rounded to their type after each step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    Int(ArrayD<i64>),
    Float(ArrayD<f64>),
}

impl Small {
    pub fn from_tensor(tensor: &Tensor) -> Option<Self> {
        let shape = IxDyn(&tensor.shape);
        if tensor.len() > SMALL {
            return None;
        }
        let values = match ints(tensor) {
            Some(values) => Values::Int(ArrayD::from_shape_vec(shape, values).ok()?),
            None => Values::Float(ArrayD::from_shape_vec(shape, floats(tensor)?).ok()?),
        };
        Some(Self { dtype: tensor.dtype, values })
    }

    pub fn to_tensor(&self) -> Option<Tensor> {
        let shape = match &self.values {
            Values::Int(a) => a.shape(),
            Values::Float(a) => a.shape(),
        };
        let tensor = match (&self.values, self.dtype) {
            (Values::Int(a), DataType::Int64) => Tensor::from_values(shape, &a.iter().copied().collect::<Vec<_>>()),
            (Values::Int(a), DataType::Int32) => {
                let narrow: Option<Vec<i32>> = a.iter().map(|&v| i32::try_from(v).ok()).collect();
                Tensor::from_values(shape, &narrow?)
            }
            (Values::Int(a), DataType::Bool) => {
                Tensor::from_values(shape, &a.iter().map(|&v| v != 0).collect::<Vec<_>>())
            }
            (Values::Float(a), DataType::Float64) => Tensor::from_values(shape, &a.iter().copied().collect::<Vec<_>>()),
            (Values::Float(a), DataType::Float32) => {
                Tensor::from_values(shape, &a.iter().map(|&v| v as f32).collect::<Vec<_>>())
            }
            _ => return None,
        };
        tensor.ok()
    }

    /// The integers in order; `None` for floats.
    pub fn ints(&self) -> Option<Vec<i64>> {
        match &self.values {
            Values::Int(a) => Some(a.iter().copied().collect()),
            Values::Float(_) => None,
        }
    }

    fn rank(&self) -> usize {
        match &self.values {
            Values::Int(a) => a.ndim(),
            Values::Float(a) => a.ndim(),
        }
    }

    /// The same change of form for either kind of value.
    fn reform(&self, ints: Reform<i64>, floats: Reform<f64>) -> Option<Self> {
        let values = match &self.values {
            Values::Int(a) => Values::Int(ints(a)?),
            Values::Float(a) => Values::Float(floats(a)?),
        };
        Some(Self { dtype: self.dtype, values })
    }

    fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        let shape = IxDyn(shape);
        self.reform(&|a| a.as_standard_layout().to_owned().into_shape_with_order(shape.clone()).ok(), &|a| {
            a.as_standard_layout().to_owned().into_shape_with_order(shape.clone()).ok()
        })
    }
}

type Reform<'f, T> = &'f dyn Fn(&ArrayD<T>) -> Option<ArrayD<T>>;

/// The value of a node's only output, if it follows from small inputs. `value` gives an input's, `shape` its extents.
pub(crate) fn fold(
    view: &View<'_>,
    node: &NodeProto,
    value: &dyn Fn(&str) -> Option<Small>,
    shape: &dyn Fn(&str) -> Option<Vec<usize>>,
) -> Option<Small> {
    if node.output.len() != 1 || !is(node, node.op_type()) {
        return None;
    }
    let input = |i: usize| node.input.get(i).filter(|n| !n.is_empty()).and_then(|n| value(n));
    match node.op_type() {
        "Constant" => Small::from_tensor(&view.constant(&node.output[0])?),
        "Shape" => {
            let shape = shape(node.input.first()?)?;
            let ends = |name, default| usize::try_from(clamp(int(node, name, default), shape.len())).ok();
            let range = ends("start", 0)?..ends("end", shape.len() as i64)?;
            int64(&[range.len()], shape.get(range)?.iter().map(|&d| d as i64).collect())
        }
        "Size" => int64(&[], vec![element_count(&shape(node.input.first()?)?)? as i64]),
        "Identity" => input(0),
        "Cast" => cast(&input(0)?, DataType::from_onnx(i32::try_from(int(node, "to", 0)).ok()?)?),
        "Gather" => gather(&input(0)?, &input(1)?, int(node, "axis", 0)),
        "Slice" => slice(&input(0)?, &input(1)?, &input(2)?, given(node, 3, &input)?, given(node, 4, &input)?),
        "Concat" => concat(&(0..node.input.len()).map(input).collect::<Option<Vec<_>>>()?, int(node, "axis", 0)),
        "Unsqueeze" | "Squeeze" => {
            let axes = match given(node, 1, &input)? {
                Some(axes) => axes.ints()?,
                None => attribute(node, "axes").map(|a| a.ints.clone()).unwrap_or_default(),
            };
            change_rank(&input(0)?, &axes, node.op_type() == "Unsqueeze")
        }
        "Reshape" => {
            let from = input(0)?;
            let old: Vec<usize> = match &from.values {
                Values::Int(a) => a.shape().to_vec(),
                Values::Float(a) => a.shape().to_vec(),
            };
            from.reshaped(&reshape(&old, &input(1)?.ints()?, int(node, "allowzero", 0) != 0)?)
        }
        "ConstantOfShape" => {
            let shape: Option<Vec<usize>> = input(0)?.ints()?.iter().map(|&d| usize::try_from(d).ok()).collect();
            let shape = shape.filter(|s| element_count(s).is_some_and(|n| n <= SMALL))?;
            let one = attribute(node, "value").and_then(|a| a.t.as_ref());
            let one = one.map(|t| crate::tensor_proto::tensor_from_proto(t, None));
            let one = one.map_or_else(|| Tensor::from_values(&[1], &[0f32]).ok(), Result::ok)?;
            let one = Small::from_tensor(&one)?.reshaped(&[])?;
            one.reform(&|a| Some(a.broadcast(shape.clone())?.to_owned()), &|a| {
                Some(a.broadcast(shape.clone())?.to_owned())
            })
        }
        "Range" => {
            let bound = |i| input(i)?.ints()?.first().copied();
            let (start, limit, step) = (bound(0)?, bound(1)?, bound(2)?);
            let count = usize::try_from((i128::from(limit) - i128::from(start)).checked_div(i128::from(step))?).ok()?;
            let count = count + usize::from((i128::from(limit) - i128::from(start)) % i128::from(step) != 0);
            if count > SMALL {
                return None;
            }
            int64(&[count], (0..count as i64).map(|i| start + i * step).collect())
        }
        "Add" | "Sub" | "Mul" | "Div" | "Equal" | "Less" | "Greater" | "Mod" | "Min" | "Max"
            if node.input.len() == 2 =>
        {
            binary(node, &input(0)?, &input(1)?)
        }
        "Sqrt" | "Floor" | "Ceil" | "Neg" | "Not" | "Reciprocal" => unary(node.op_type(), &input(0)?),
        "Where" => choose(&input(0)?, &input(1)?, &input(2)?),
        _ => None,
    }
}

fn int64(shape: &[usize], values: Vec<i64>) -> Option<Small> {
    Some(Small { dtype: DataType::Int64, values: Values::Int(ArrayD::from_shape_vec(IxDyn(shape), values).ok()?) })
}

/// An optional input: outer `None` if it is given and its value is not known.
#[allow(clippy::option_option)] // given or not, and known or not, are two questions
fn given(node: &NodeProto, i: usize, input: &dyn Fn(usize) -> Option<Small>) -> Option<Option<Small>> {
    match node.input.get(i) {
        Some(name) if !name.is_empty() => input(i).map(Some),
        _ => Some(None),
    }
}

/// An index counted from the front and held inside `0..=len`.
fn clamp(index: i64, len: usize) -> i64 {
    let len = len as i64;
    (if index < 0 { index.saturating_add(len) } else { index }).clamp(0, len)
}

fn gather(data: &Small, indices: &Small, axis: i64) -> Option<Small> {
    let axis = view::axis(axis, data.rank())?;
    let Values::Int(indices) = &indices.values else { return None };
    if indices.ndim() > 1 {
        return None;
    }
    let pick = |len: usize| -> Option<Vec<usize>> { indices.iter().map(|&i| view::axis(i, len)).collect() };
    let scalar = indices.ndim() == 0;
    data.reform(
        &|a| {
            let picked = a.select(Axis(axis), &pick(a.len_of(Axis(axis)))?);
            Some(if scalar { picked.index_axis(Axis(axis), 0).to_owned() } else { picked })
        },
        &|a| {
            let picked = a.select(Axis(axis), &pick(a.len_of(Axis(axis)))?);
            Some(if scalar { picked.index_axis(Axis(axis), 0).to_owned() } else { picked })
        },
    )
}

/// Slices of vectors only: that is what shapes are.
fn slice(data: &Small, starts: &Small, ends: &Small, axes: Option<Small>, steps: Option<Small>) -> Option<Small> {
    let one = |s: &Small| s.ints().filter(|v| v.len() == 1).map(|v| v[0]);
    let axis = axes.map_or(Some(0), |a| one(&a))?;
    let step = steps.map_or(Some(1), |s| one(&s))?;
    if data.rank() != 1 || view::axis(axis, 1)? != 0 || step == 0 {
        return None;
    }
    let (start, end) = (one(starts)?, one(ends)?);
    if step < 0 {
        // Only the whole vector backwards is met in practice.
        return None;
    }
    let cut = |len: usize| {
        Slice::new(clamp(start, len) as isize, Some(clamp(end, len).max(clamp(start, len)) as isize), step as isize)
    };
    data.reform(&|a| Some(a.slice_axis(Axis(0), cut(a.len())).to_owned()), &|a| {
        Some(a.slice_axis(Axis(0), cut(a.len())).to_owned())
    })
}

fn concat(parts: &[Small], axis: i64) -> Option<Small> {
    let first = parts.first()?.clone();
    let axis = Axis(view::axis(axis, first.rank())?);
    let same = parts.iter().all(|p| p.dtype == first.dtype);
    let ints: Option<Vec<_>> =
        parts.iter().map(|p| if let Values::Int(a) = &p.values { Some(a.view()) } else { None }).collect();
    let joined = ndarray::concatenate(axis, &ints.filter(|_| same)?).ok()?;
    (joined.len() <= SMALL).then_some(Small { dtype: first.dtype, values: Values::Int(joined) })
}

fn change_rank(data: &Small, axes: &[i64], insert: bool) -> Option<Small> {
    let shape = match &data.values {
        Values::Int(a) => a.shape().to_vec(),
        Values::Float(a) => a.shape().to_vec(),
    };
    data.reshaped(&if insert { unsqueezed(&shape, axes, 1)? } else { squeezed(&shape, axes, &1)? })
}

/// A shape with extents of one put in at `axes`, which count in the new rank.
pub(crate) fn unsqueezed<D: Clone>(shape: &[D], axes: &[i64], one: D) -> Option<Vec<D>> {
    let rank = shape.len().checked_add(axes.len())?;
    let axes: Option<Vec<usize>> = axes.iter().map(|&a| view::axis(a, rank)).collect();
    let axes = axes?;
    let mut rest = shape.iter();
    (0..rank).map(|i| if axes.contains(&i) { Some(one.clone()) } else { rest.next().cloned() }).collect()
}

/// A shape without the extents of one at `axes`; all of them where no axes are named.
pub(crate) fn squeezed<D: Clone + PartialEq>(shape: &[D], axes: &[i64], one: &D) -> Option<Vec<D>> {
    let axes: Option<Vec<usize>> = axes.iter().map(|&a| view::axis(a, shape.len())).collect();
    let axes = axes?;
    let goes = |i: usize, d: &D| if axes.is_empty() { d == one } else { axes.contains(&i) };
    Some(shape.iter().enumerate().filter(|(i, d)| !goes(*i, d)).map(|(_, d)| d.clone()).collect())
}

/// The shape that `Reshape` makes of `old`; `None` if it cannot be.
pub(crate) fn reshape(old: &[usize], wanted: &[i64], allow_zero: bool) -> Option<Vec<usize>> {
    let total = element_count(old)?;
    let mut shape = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (i, &d) in wanted.iter().enumerate() {
        shape.push(match d {
            -1 if open.is_none() => {
                open = Some(i);
                1
            }
            0 if !allow_zero => *old.get(i)?,
            d => usize::try_from(d).ok()?,
        });
    }
    if let Some(open) = open {
        shape[open] = total.checked_div(element_count(&shape)?)?;
    }
    (element_count(&shape)? == total).then_some(shape)
}

fn round_to(dtype: DataType, value: f64) -> Option<f64> {
    match dtype {
        DataType::Float64 => Some(value),
        DataType::Float32 => Some(f64::from(value as f32)),
        _ => None,
    }
}

fn cast(data: &Small, to: DataType) -> Option<Small> {
    use DataType as T;
    let values = match (&data.values, to) {
        (Values::Int(a), T::Int64) => Values::Int(a.clone()),
        (Values::Int(a), T::Int32) if a.iter().all(|&v| i32::try_from(v).is_ok()) => Values::Int(a.clone()),
        (Values::Int(a), T::Bool) => Values::Int(a.mapv(|v| i64::from(v != 0))),
        (Values::Int(a), T::Float32) => Values::Float(a.mapv(|v| f64::from(v as f32))),
        (Values::Int(a), T::Float64) => Values::Float(a.mapv(|v| v as f64)),
        (Values::Float(a), T::Float32) => Values::Float(a.mapv(|v| f64::from(v as f32))),
        (Values::Float(a), T::Float64) => Values::Float(a.clone()),
        // Outside of what an i64 holds a cast is whatever the provider makes of it.
        (Values::Float(a), T::Int64) if a.iter().all(|v| v.abs() < 9e18) => Values::Int(a.mapv(|v| v as i64)),
        _ => return None,
    };
    Some(Small { dtype: to, values })
}

fn unary(op: &str, data: &Small) -> Option<Small> {
    let values = match (op, &data.values) {
        ("Not", Values::Int(a)) => Values::Int(a.mapv(|v| i64::from(v == 0))),
        ("Neg", Values::Int(a)) => Values::Int(a.mapv(i64::wrapping_neg)),
        (_, Values::Float(a)) => {
            let apply: fn(f64) -> f64 = match op {
                "Sqrt" => f64::sqrt,
                "Floor" => f64::floor,
                "Ceil" => f64::ceil,
                "Neg" => |v| -v,
                "Reciprocal" => f64::recip,
                _ => return None,
            };
            round_to(data.dtype, 0.0)?;
            Values::Float(a.mapv(|v| round_to(data.dtype, apply(v)).unwrap_or(v)))
        }
        _ => return None,
    };
    Some(Small { dtype: data.dtype, values })
}

/// The common shape of operands; `None` where they do not broadcast or the result is not small.
fn common(shapes: &[&[usize]]) -> Option<Vec<usize>> {
    let rank = shapes.iter().map(|s| s.len()).max()?;
    let mut out = vec![1; rank];
    for shape in shapes {
        for (d, &extent) in out[rank - shape.len()..].iter_mut().zip(*shape) {
            match (*d, extent) {
                (1, e) => *d = e,
                (a, e) if a == e || e == 1 => {}
                _ => return None,
            }
        }
    }
    element_count(&out).filter(|&n| n <= SMALL).map(|_| out)
}

fn zip<A: Copy, B: Copy, T>(a: &ArrayD<A>, b: &ArrayD<B>, apply: impl Fn(A, B) -> T) -> Option<ArrayD<T>> {
    let shape = common(&[a.shape(), b.shape()])?;
    let (a, b) = (a.broadcast(shape.clone())?, b.broadcast(shape)?);
    Some(Zip::from(a).and(b).map_collect(|&a, &b| apply(a, b)))
}

fn binary(node: &NodeProto, a: &Small, b: &Small) -> Option<Small> {
    let op = node.op_type();
    let compares = matches!(op, "Equal" | "Less" | "Greater");
    let dtype = if compares { DataType::Bool } else { a.dtype };
    let values = match (&a.values, &b.values) {
        (Values::Int(x), Values::Int(y)) => {
            let divides = matches!(op, "Div" | "Mod") && (y.iter().any(|&v| v == 0) || int(node, "fmod", 0) != 0);
            if divides {
                return None;
            }
            Values::Int(zip(x, y, |x, y| match op {
                "Add" => x.wrapping_add(y),
                "Sub" => x.wrapping_sub(y),
                "Mul" => x.wrapping_mul(y),
                "Div" => x.wrapping_div(y),
                // The result has the divisor's sign.
                "Mod" => x.wrapping_rem(y).wrapping_add(y).wrapping_rem(y),
                "Min" => x.min(y),
                "Max" => x.max(y),
                "Equal" => i64::from(x == y),
                "Less" => i64::from(x < y),
                _ => i64::from(x > y),
            })?)
        }
        #[allow(clippy::float_cmp)] // ONNX's own Equal
        (Values::Float(x), Values::Float(y)) if compares => Values::Int(zip(x, y, |x, y| match op {
            "Equal" => i64::from(x == y),
            "Less" => i64::from(x < y),
            _ => i64::from(x > y),
        })?),
        (Values::Float(x), Values::Float(y)) => {
            round_to(dtype, 0.0)?;
            let apply: fn(f64, f64) -> f64 = match op {
                "Add" => |x, y| x + y,
                "Sub" => |x, y| x - y,
                "Mul" => |x, y| x * y,
                "Div" => |x, y| x / y,
                _ => return None,
            };
            // An f64 holds the exact sum, product or quotient of two f32 well enough for one correct rounding.
            Values::Float(zip(x, y, |x, y| round_to(dtype, apply(x, y)).unwrap_or(f64::NAN))?)
        }
        _ => return None,
    };
    Some(Small { dtype, values })
}

fn choose(condition: &Small, a: &Small, b: &Small) -> Option<Small> {
    let Values::Int(c) = &condition.values else { return None };
    let values = match (&a.values, &b.values) {
        (Values::Int(x), Values::Int(y)) => {
            let picked = zip(c, x, |c, x| (c != 0).then_some(x))?;
            Values::Int(zip(&picked, y, |x: Option<i64>, y| x.unwrap_or(y))?)
        }
        (Values::Float(x), Values::Float(y)) => {
            let picked = zip(c, x, |c, x| (c != 0).then_some(x))?;
            Values::Float(zip(&picked, y, |x: Option<f64>, y| x.unwrap_or(y))?)
        }
        _ => return None,
    };
    Some(Small { dtype: a.dtype, values })
}
