//! The projections around attention, as layers of a model have them: elements in, elements out, weights in the graph.
//!
//! With E = H D features of an element: query, key and value are `x W + b` of the elements `[B,S,E]`, cut into heads, and the
//! heads' outputs, put together again, go through one more. Providers that keep weights in a narrower type show it here.

use super::inputs::Inputs;
use super::{SdpaCase, SdpaSpec, reference};
use crate::random::SplitMix64;
use ndarray::{Array, Array1, Array2, Array3, Array4};
use onnx_graph::Tensor;
use onnx_graph::builder::{Builder, Value};

/// Apart from the seeds of the inputs without projections.
const SEED: u64 = 100;

/// `x W + b`, in f64, rounded to the graph's precision.
pub(super) struct Projection {
    /// `[E,E]`
    pub weight: Array2<f64>,
    /// `[E]`
    pub bias: Array1<f64>,
}

/// Query, key, value and output, in this order.
pub(super) fn draw(spec: &SdpaSpec) -> [Projection; 4] {
    let mut random = SplitMix64(SEED);
    let features = spec.features();
    // Keeps variances at 1, as trained layers do.
    let width = 1.0 / (features as f64).sqrt();
    std::array::from_fn(|_| Projection {
        weight: spec.precision.round(&Array::from_shape_simple_fn((features, features), || random.bell() * width)),
        bias: spec.precision.round(&Array::from_shape_simple_fn(features, || random.bell() * width)),
    })
}

/// The case `plain`: input `elements`, output `output`, both `[B,S,E]`.
pub(super) fn case(spec: &SdpaSpec) -> SdpaCase {
    let [query, key, value, output] = draw(spec);
    let mut random = SplitMix64(SEED + 1);
    let shape = [spec.batch, spec.sequence, spec.features()];
    let elements = spec.precision.round(&Array3::from_shape_simple_fn(shape, || random.bell()));
    let heads = |projection: &Projection| into_heads(spec, &project(&elements, projection));
    let drawn = Inputs { query: heads(&query), key: heads(&key), value: heads(&value), valid: None };
    let attended = out_of_heads(spec, &reference::exact(&drawn, spec.scale()));
    let reference: Vec<f64> = project(&attended, &output).into_iter().collect();
    SdpaCase {
        name: "plain",
        inputs: vec![("elements".to_owned(), spec.precision.tensor(&shape, elements.into_iter()))],
        reference: Tensor::from_values(&shape, &reference).expect("the reference has the shape of the elements"),
        baseline: None,
        mask: None,
    }
}

/// A projection in the graph, named after what it makes.
pub(super) fn node(g: &mut Builder, spec: &SdpaSpec, input: &Value, projection: &Projection, name: &str) -> Value {
    let tensor = |shape: &[usize], values: Vec<f64>| spec.precision.tensor(shape, values.into_iter());
    let weight = tensor(projection.weight.shape(), projection.weight.iter().copied().collect());
    let weight = g.initialiser(&format!("{name}_weight"), &weight);
    let bias = g.initialiser(&format!("{name}_bias"), &tensor(&[spec.features()], projection.bias.to_vec()));
    let product = g.node(&format!("project_{name}"), "MatMul", &[input, &weight]).makes(&format!("{name}_product"));
    g.node(&format!("add_{name}_bias"), "Add", &[&product, &bias]).makes(name)
}

/// `x W + b` for `[B,S,E]`, each sum in order.
fn project(elements: &Array3<f64>, Projection { weight, bias }: &Projection) -> Array3<f64> {
    Array::from_shape_fn(elements.raw_dim(), |(b, s, e)| {
        let sum: f64 = (0..weight.nrows()).map(|k| elements[[b, s, k]] * weight[[k, e]]).sum();
        sum + bias[e]
    })
}

/// `[B,S,E]` as `[B,H,S,D]`.
fn into_heads(spec: &SdpaSpec, elements: &Array3<f64>) -> Array4<f64> {
    Array::from_shape_fn(spec.shape(), |(b, h, s, d)| elements[[b, s, h * spec.head_dim + d]])
}

/// `[B,H,S,D]` as `[B,S,E]`.
fn out_of_heads(spec: &SdpaSpec, heads: &Array4<f64>) -> Array3<f64> {
    let shape = (spec.batch, spec.sequence, spec.features());
    Array::from_shape_fn(shape, |(b, s, e)| heads[[b, e / spec.head_dim, s, e % spec.head_dim]])
}
