//! Types of inner tensors, as far as they follow from inputs, constants and the operators that rewrites meet.
//!
//! What is not known stays unknown; nothing here refuses a model. Symbols can be given values ([`Types::with`]).

use crate::fold::{self, Small, fold, reshape};
use crate::inspect::Dim;
use crate::proto::NodeProto;
use crate::tensor::{DataType, Tensor};
use crate::view::{self, View, attribute, int};
use std::collections::{BTreeMap, HashMap};

/// What is known of one tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorType {
    /// Element type.
    pub dtype: Option<DataType>,
    /// Extents.
    pub shape: Option<Vec<Dim>>,
}

impl TensorType {
    /// The extents, if all are known.
    pub fn fixed(&self) -> Option<Vec<usize>> {
        self.shape.as_ref()?.iter().map(|d| if let Dim::Fixed(n) = d { Some(*n) } else { None }).collect()
    }
}

/// What is known of the tensors of a main graph.
#[derive(Debug, Default)]
pub struct Types {
    known: HashMap<String, TensorType>,
    values: HashMap<String, Small>,
}

impl Types {
    /// Infers with symbols as they stand.
    pub fn of(view: &View<'_>) -> Self {
        Self::with(view, &BTreeMap::new())
    }

    /// Infers with values for named extents (`batch` = 4).
    pub fn with(view: &View<'_>, extents: &BTreeMap<String, usize>) -> Self {
        let mut types = Self::default();
        let given = |dim: &Dim| match dim {
            Dim::Symbol(name) => extents.get(name).map_or_else(|| dim.clone(), |&n| Dim::Fixed(n)),
            other => other.clone(),
        };
        for (name, info) in view::stated(view.graph) {
            let shape = info.shape.map(|s| s.iter().map(given).collect());
            types.known.insert(name.to_owned(), TensorType { dtype: info.dtype, shape });
        }
        for tensor in &view.graph.initializer {
            if let Ok((dtype, shape)) = crate::external::type_and_shape(tensor) {
                let shape = Some(shape.into_iter().map(Dim::Fixed).collect());
                types.known.insert(tensor.name().to_owned(), TensorType { dtype: Some(dtype), shape });
                let value = view.constant(tensor.name()).and_then(|t| Small::from_tensor(&t));
                types.values.extend(value.map(|v| (tensor.name().to_owned(), v)));
            }
        }
        // Nodes of a cycle are left out: nothing is known of what they make.
        let order = view.topological().unwrap_or_default();
        for index in order {
            types.step(view, &view.graph.node[index]);
        }
        types
    }

    /// What is known of a tensor.
    pub fn get(&self, tensor: &str) -> TensorType {
        self.known.get(tensor).cloned().unwrap_or_default()
    }

    /// The value of a small tensor, where it follows from constants and shapes.
    pub fn value(&self, tensor: &str) -> Option<Tensor> {
        self.values.get(tensor).and_then(Small::to_tensor)
    }

    /// The same as integers.
    pub fn ints(&self, tensor: &str) -> Option<Vec<i64>> {
        self.values.get(tensor).and_then(Small::ints)
    }

    fn step(&mut self, view: &View<'_>, node: &NodeProto) {
        let value = fold(view, node, &|name| self.values.get(name).cloned(), &|name| self.get(name).fixed());
        for (i, output) in node.output.iter().enumerate().filter(|(_, o)| !o.is_empty()) {
            let inferred = self.output(view, node, i);
            let entry = self.known.entry(output.clone()).or_default();
            entry.dtype = entry.dtype.or(inferred.dtype);
            entry.shape = match (entry.shape.take(), inferred.shape) {
                // A stated symbol gives way to a number that follows from the inputs.
                (Some(stated), Some(inferred)) if stated.len() == inferred.len() => Some(
                    stated
                        .into_iter()
                        .zip(inferred)
                        .map(|(s, i)| if matches!((&s, &i), (Dim::Fixed(_), _) | (_, Dim::Unknown)) { s } else { i })
                        .collect(),
                ),
                (stated, inferred) => inferred.or(stated),
            };
        }
        if let Some(value) = value {
            if let Some(tensor) = value.to_tensor() {
                let shape = Some(tensor.shape.iter().copied().map(Dim::Fixed).collect());
                self.known.insert(node.output[0].clone(), TensorType { dtype: Some(tensor.dtype), shape });
            }
            self.values.insert(node.output[0].clone(), value);
        }
    }

    /// Type of output `i` of a node.
    fn output(&self, view: &View<'_>, node: &NodeProto, i: usize) -> TensorType {
        if !view::is(node, node.op_type()) {
            return TensorType::default();
        }
        let input = |i: usize| node.input.get(i).map(|n| self.get(n)).unwrap_or_default();
        let first = input(0);
        let same = |dtype| TensorType { dtype, shape: first.shape.clone() };
        match node.op_type() {
            "Constant" => view.constant_proto(&node.output[0]).map_or_else(TensorType::default, |t| {
                let parts = crate::external::type_and_shape(t).ok();
                parts.map_or_else(TensorType::default, |(dtype, shape)| TensorType {
                    dtype: Some(dtype),
                    shape: Some(shape.into_iter().map(Dim::Fixed).collect()),
                })
            }),
            "Cast" => same(i32::try_from(int(node, "to", 0)).ok().and_then(DataType::from_onnx)),
            "IsNaN" | "IsInf" | "Not" => same(Some(DataType::Bool)),
            "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "And" | "Or" | "Xor" => {
                TensorType { dtype: Some(DataType::Bool), shape: broadcast(&[first.shape, input(1).shape]) }
            }
            "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Min" | "Max" | "Mod" | "PRelu" | "Sum" => {
                let shapes: Vec<_> = (0..node.input.len()).map(|i| input(i).shape).collect();
                TensorType { dtype: first.dtype, shape: broadcast(&shapes) }
            }
            "Where" => TensorType {
                dtype: input(1).dtype.or(input(2).dtype),
                shape: broadcast(&[first.shape, input(1).shape, input(2).shape]),
            },
            "LayerNormalization" | "Dropout" if i > 0 => TensorType::default(),
            "Shape" => {
                TensorType { dtype: Some(DataType::Int64), shape: first.shape.map(|s| vec![Dim::Fixed(s.len())]) }
            }
            "TopK" => {
                let dtype = if i == 0 { first.dtype } else { Some(DataType::Int64) };
                TensorType { dtype, shape: self.topk(node, first.shape) }
            }
            "MatMul" => TensorType { dtype: first.dtype, shape: matmul(first.shape, input(1).shape) },
            "Gemm" => TensorType { dtype: first.dtype, shape: gemm(node, first.shape, input(1).shape) },
            op if op.starts_with("Reduce") => TensorType { dtype: first.dtype, shape: self.reduce(node, first.shape) },
            "ArgMax" | "ArgMin" => TensorType::default(),
            "Gather" | "GatherElements" | "Reshape" | "Transpose" | "Unsqueeze" | "Squeeze" | "Concat" | "Split"
            | "Slice" | "Expand" | "ConstantOfShape" | "Flatten" | "Tile" => {
                let constant = attribute(node, "value").and_then(|a| a.t.as_ref());
                let dtype = match node.op_type() {
                    "ConstantOfShape" => {
                        constant.map_or(Some(DataType::Float32), |t| DataType::from_onnx(t.data_type()))
                    }
                    _ => first.dtype,
                };
                TensorType { dtype, shape: self.moved(node, i, &first) }
            }
            op if ELEMENTWISE.contains(&op) => same(first.dtype),
            _ => TensorType::default(),
        }
    }

    fn topk(&self, node: &NodeProto, shape: Option<Vec<Dim>>) -> Option<Vec<Dim>> {
        let mut shape = shape?;
        let axis = view::axis(int(node, "axis", -1), shape.len())?;
        let k = node.input.get(1).and_then(|k| self.ints(k)).and_then(|k| k.first().copied());
        shape[axis] = k.and_then(|k| usize::try_from(k).ok()).map_or(Dim::Unknown, Dim::Fixed);
        Some(shape)
    }

    fn reduce(&self, node: &NodeProto, shape: Option<Vec<Dim>>) -> Option<Vec<Dim>> {
        let shape = shape?;
        let axes = match node.input.get(1).filter(|n| !n.is_empty()) {
            Some(name) => self.ints(name)?,
            None => attribute(node, "axes").map(|a| a.ints.clone()).unwrap_or_default(),
        };
        let axes: Option<Vec<usize>> = axes.iter().map(|&a| view::axis(a, shape.len())).collect();
        let axes = axes?;
        let reduced = |i: usize| axes.is_empty() || axes.contains(&i);
        let keeps = int(node, "keepdims", 1) != 0;
        let dims = shape.into_iter().enumerate();
        Some(if keeps {
            dims.map(|(i, d)| if reduced(i) { Dim::Fixed(1) } else { d }).collect()
        } else {
            dims.filter(|(i, _)| !reduced(*i)).map(|(_, d)| d).collect()
        })
    }

    /// Shape of operators that move elements about.
    fn moved(&self, node: &NodeProto, output: usize, first: &TensorType) -> Option<Vec<Dim>> {
        let shape = first.shape.clone();
        let second = || node.input.get(1).filter(|n| !n.is_empty());
        let axes = || match second() {
            Some(name) => self.ints(name),
            None => Some(attribute(node, "axes").map(|a| a.ints.clone()).unwrap_or_default()),
        };
        match node.op_type() {
            "Transpose" => {
                let shape = shape?;
                let perm: Vec<i64> = match attribute(node, "perm") {
                    Some(perm) => perm.ints.clone(),
                    None => (0..shape.len() as i64).rev().collect(),
                };
                perm.iter().map(|&p| shape.get(usize::try_from(p).ok()?).cloned()).collect()
            }
            "Unsqueeze" => fold::unsqueezed(&shape?, &axes()?, Dim::Fixed(1)),
            "Squeeze" => fold::squeezed(&shape?, &axes()?, &Dim::Fixed(1)),
            "Reshape" => {
                let wanted = self.ints(second()?)?;
                let zero = int(node, "allowzero", 0) != 0;
                let whole = first.fixed().and_then(|old| reshape(&old, &wanted, zero));
                let loose = || {
                    wanted.iter().map(|&d| usize::try_from(d).ok().filter(|&d| d > 0).map_or(Dim::Unknown, Dim::Fixed))
                };
                Some(whole.map_or_else(|| loose().collect(), |s| s.into_iter().map(Dim::Fixed).collect()))
            }
            "Expand" => {
                let wanted: Option<Vec<Dim>> =
                    self.ints(second()?)?.iter().map(|&d| usize::try_from(d).ok().map(Dim::Fixed)).collect();
                broadcast(&[shape, Some(wanted?)])
            }
            "ConstantOfShape" => {
                self.ints(node.input.first()?)?.iter().map(|&d| usize::try_from(d).ok().map(Dim::Fixed)).collect()
            }
            "Gather" => {
                let (mut shape, indices) = (shape?, self.get(second()?).shape?);
                let axis = view::axis(int(node, "axis", 0), shape.len())?;
                shape.splice(axis..=axis, indices);
                Some(shape)
            }
            "GatherElements" => self.get(second()?).shape,
            "Concat" => {
                let mut shape = shape?;
                let axis = view::axis(int(node, "axis", 0), shape.len())?;
                let extent = |name: &String| match self.get(name).shape?.get(axis)? {
                    Dim::Fixed(n) => Some(*n),
                    _ => None,
                };
                let sum = node.input.iter().try_fold(0usize, |sum, name| sum.checked_add(extent(name)?));
                shape[axis] = sum.map_or(Dim::Unknown, Dim::Fixed);
                Some(shape)
            }
            "Split" => {
                let mut shape = shape?;
                let axis = view::axis(int(node, "axis", 0), shape.len())?;
                let sizes = match second() {
                    Some(name) => self.ints(name),
                    None => attribute(node, "split").map(|a| a.ints.clone()),
                };
                let even = || match &shape[axis] {
                    Dim::Fixed(n) => n.checked_div(node.output.len()),
                    _ => None,
                };
                let part = sizes.map_or_else(even, |s| s.get(output).and_then(|&n| usize::try_from(n).ok()));
                shape[axis] = part.map_or(Dim::Unknown, Dim::Fixed);
                Some(shape)
            }
            "Slice" => self.sliced(node, shape?),
            _ => None,
        }
    }

    fn sliced(&self, node: &NodeProto, mut shape: Vec<Dim>) -> Option<Vec<Dim>> {
        let given = |i: usize| node.input.get(i).filter(|n| !n.is_empty());
        let (starts, ends) = (self.ints(given(1)?)?, self.ints(given(2)?)?);
        let axes = given(3).map_or_else(|| Some((0..starts.len() as i64).collect()), |n| self.ints(n))?;
        let steps = given(4).map_or_else(|| Some(vec![1; starts.len()]), |n| self.ints(n))?;
        for (((&start, &end), &axis), &step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
            let axis = view::axis(axis, shape.len())?;
            let Dim::Fixed(len) = shape[axis] else {
                shape[axis] = Dim::Unknown;
                continue;
            };
            let clamp = |i: i64| (if i < 0 { i.saturating_add(len as i64) } else { i }).clamp(0, len as i64);
            shape[axis] = match step {
                1.. => Dim::Fixed(((clamp(end) - clamp(start)).max(0) as usize).div_ceil(step as usize)),
                _ => Dim::Unknown,
            };
        }
        Some(shape)
    }
}

/// Operators whose first output has the type of their first input.
const ELEMENTWISE: &[&str] = &[
    "Abs",
    "Atan",
    "Ceil",
    "Clip",
    "Cos",
    "CumSum",
    "Dropout",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "Identity",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "Neg",
    "Reciprocal",
    "RMSNormalization",
    "Relu",
    "Round",
    "ScatterElements",
    "ScatterND",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softmax",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tanh",
    "Trilu",
];

/// The shape that operands broadcast to; unknown where one of them is.
fn broadcast(shapes: &[Option<Vec<Dim>>]) -> Option<Vec<Dim>> {
    let shapes: Option<Vec<&Vec<Dim>>> = shapes.iter().map(Option::as_ref).collect();
    let shapes = shapes?;
    let rank = shapes.iter().map(|s| s.len()).max()?;
    let mut out = vec![Dim::Fixed(1); rank];
    for shape in shapes {
        for (d, extent) in out[rank - shape.len()..].iter_mut().zip(shape) {
            *d = match (&*d, extent) {
                (Dim::Fixed(1), e) => e.clone(),
                (d, Dim::Fixed(1)) => d.clone(),
                (d, e) if d == e => d.clone(),
                // A number wins over a name: they must be equal, or one is 1 and the number is the result.
                (Dim::Fixed(n), _) | (_, Dim::Fixed(n)) => Dim::Fixed(*n),
                _ => Dim::Unknown,
            };
        }
    }
    Some(out)
}

fn matmul(a: Option<Vec<Dim>>, b: Option<Vec<Dim>>) -> Option<Vec<Dim>> {
    let (a, b) = (a?, b?);
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let (batch_a, last_a) = a.split_at(a.len() - 2);
    let (batch_b, last_b) = b.split_at(b.len() - 2);
    let mut out = if batch_a.is_empty() && batch_b.is_empty() {
        Vec::new()
    } else {
        broadcast(&[Some(batch_a.to_vec()), Some(batch_b.to_vec())])?
    };
    out.extend([last_a[0].clone(), last_b[1].clone()]);
    Some(out)
}

fn gemm(node: &NodeProto, a: Option<Vec<Dim>>, b: Option<Vec<Dim>>) -> Option<Vec<Dim>> {
    let (a, b) = (a.filter(|a| a.len() == 2)?, b.filter(|b| b.len() == 2)?);
    let flipped = |name| int(node, name, 0) != 0;
    Some(vec![a[usize::from(flipped("transA"))].clone(), b[usize::from(!flipped("transB"))].clone()])
}
