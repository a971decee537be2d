//! The graph: decomposed attention, every shape static.

use super::{MaskInput, SdpaSpec, projections};
use onnx_graph::builder::{Builder, Value};
use onnx_graph::{DataType, Dim, Model, Tensor};

/// Counted up when the graph made from the same spec changes; the model's bytes depend on nothing else.
const GRAPH_VERSION: &str = "1";

/// The model of a spec: inputs `query`, `key`, `value` `[B,H,S,D]` and, with a mask, `mask` `[B,S]`; output `output`
/// `[B,H,S,D]`. Query and transposed key are each multiplied by the root of the scale; masked keys get -inf added before
/// the softmax, and rows without keys, NaN behind it, become 0. With projections, input `elements` and output `output`
/// `[B,S,HD]`, attention between them. Opset 20, IR version 10.
pub fn graph(spec: &SdpaSpec) -> Model {
    let dtype = spec.precision.dtype();
    let mut g = Builder::new("sdpa");
    g.opset("", 20).ir_version(10).producer("ort-qualify", GRAPH_VERSION);
    if spec.projections {
        let shape = [spec.batch, spec.sequence, spec.features()].map(Dim::Fixed);
        let elements = g.input("elements", dtype, &shape);
        let [query, key, value, output] = projections::draw(spec);
        let cut = extents(&mut g, "heads_shape", &[spec.batch, spec.sequence, spec.heads, spec.head_dim]);
        let [query, key, value] = [("query", query), ("key", key), ("value", value)].map(|(name, projection)| {
            let whole = projections::node(&mut g, spec, &elements, &projection, name);
            let heads = g.node(&format!("cut_{name}"), "Reshape", &[&whole, &cut]).makes(&format!("{name}_cut"));
            swap(&mut g, &heads, &format!("{name}_heads"))
        });
        let attended = attend(&mut g, spec, [query, key, value], "attended");
        let attended = swap(&mut g, &attended, "attended_elements");
        let join = extents(&mut g, "elements_shape", &[spec.batch, spec.sequence, spec.features()]);
        let joined = g.node("join_heads", "Reshape", &[&attended, &join]).makes("joined");
        let output = projections::node(&mut g, spec, &joined, &output, "output");
        g.output(&output, dtype, &shape);
    } else {
        let shape = spec.shape().map(Dim::Fixed);
        let inputs = ["query", "key", "value"].map(|name| g.input(name, dtype, &shape));
        let output = attend(&mut g, spec, inputs, "output");
        g.output(&output, dtype, &shape);
    }
    g.build().expect("all names above differ, and values come from the one builder")
}

/// Attention of query, key and value `[B,H,S,D]`.
fn attend(g: &mut Builder, spec: &SdpaSpec, [query, key, value]: [Value; 3], output: &str) -> Value {
    let scalar = |value: f64| spec.precision.tensor(&[], std::iter::once(value));
    let root = g.initialiser("root_of_scale", &scalar(spec.scale().sqrt()));
    let query = g.node("scale_query", "Mul", &[&query, &root]).makes("scaled_query");
    let key = g.node("transpose_key", "Transpose", &[&key]).attribute("perm", [0, 1, 3, 2]).makes("transposed_key");
    let key = g.node("scale_key", "Mul", &[&key, &root]).makes("scaled_key");
    let scores = g.node("compare", "MatMul", &[&query, &key]).makes("scores");
    let weights = if spec.mask == MaskInput::None {
        softmax(g, &scores)
    } else {
        let zero = g.initialiser("zero", &scalar(0.0));
        let excluded = g.initialiser("excluded", &scalar(f64::NEG_INFINITY));
        let valid = valid_keys(g, spec);
        let bias = g.node("mask_to_bias", "Where", &[&valid, &zero, &excluded]).makes("bias");
        let scores = g.node("add_mask", "Add", &[&scores, &bias]).makes("masked_scores");
        let weights = softmax(g, &scores);
        let no_keys = g.node("find_rows_without_keys", "IsNaN", &[&weights]).makes("no_keys");
        g.node("clear_rows_without_keys", "Where", &[&no_keys, &zero, &weights]).makes("safe_weights")
    };
    g.node("attend", "MatMul", &[&weights, &value]).makes(output)
}

/// Heads before elements, or back.
fn swap(g: &mut Builder, value: &Value, makes: &str) -> Value {
    g.node(&format!("make_{makes}"), "Transpose", &[value]).attribute("perm", [0, 2, 1, 3]).makes(makes)
}

/// A shape as a constant.
fn extents(g: &mut Builder, name: &str, shape: &[usize]) -> Value {
    let values: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
    g.initialiser(name, &Tensor::from_values(&[shape.len()], &values).expect("as many values as extents"))
}

fn softmax(g: &mut Builder, scores: &Value) -> Value {
    g.node("softmax", "Softmax", &[scores]).attribute("axis", -1).makes("weights")
}

/// The mask as bool `[B,1,1,S]`, to be spread over heads and queries.
fn valid_keys(g: &mut Builder, spec: &SdpaSpec) -> Value {
    let dtype = if spec.mask == MaskInput::Bool { DataType::Bool } else { spec.precision.dtype() };
    let mut mask = g.input("mask", dtype, &[Dim::Fixed(spec.batch), Dim::Fixed(spec.sequence)]);
    if spec.mask == MaskInput::Float {
        let to = i64::from(DataType::Bool as i32);
        mask = g.node("mask_to_bool", "Cast", &[&mask]).attribute("to", to).makes("bool_mask");
    }
    let axes = Tensor::from_values(&[2], &[1i64, 2]).expect("two values for a shape of two");
    let axes = g.initialiser("head_and_query_axes", &axes);
    g.node("mask_per_key", "Unsqueeze", &[&mask, &axes]).makes("valid_keys")
}
