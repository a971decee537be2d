//! The graph: decomposed attention, every shape static.

use super::{MaskInput, SdpaSpec};
use onnx_graph::builder::{Builder, Value};
use onnx_graph::{DataType, Dim, Model, Tensor};

/// Counted up when the graph made from the same spec changes; the model's bytes depend on nothing else.
const GRAPH_VERSION: &str = "1";

/// The model of a spec: inputs `query`, `key`, `value` `[B,H,S,D]` and, with a mask, `mask` `[B,S]`; output `output`
/// `[B,H,S,D]`. Query and transposed key are each multiplied by the root of the scale; masked keys get -inf added before
/// the softmax, and rows without keys, NaN behind it, become 0. Opset 20, IR version 10.
pub fn graph(spec: &SdpaSpec) -> Model {
    let dtype = spec.precision.dtype();
    let shape = spec.shape().map(Dim::Fixed);
    let scalar = |value: f64| spec.precision.tensor(&[], std::iter::once(value));

    let mut g = Builder::new("sdpa");
    g.opset("", 20).ir_version(10).producer("ort-qualify", GRAPH_VERSION);
    let [query, key, value] = ["query", "key", "value"].map(|name| g.input(name, dtype, &shape));
    let root = g.initialiser("root_of_scale", &scalar(spec.scale().sqrt()));

    let query = g.node("scale_query", "Mul", &[&query, &root]).makes("scaled_query");
    let key = g.node("transpose_key", "Transpose", &[&key]).attribute("perm", [0, 1, 3, 2]).makes("transposed_key");
    let key = g.node("scale_key", "Mul", &[&key, &root]).makes("scaled_key");
    let scores = g.node("compare", "MatMul", &[&query, &key]).makes("scores");
    let weights = if spec.mask == MaskInput::None {
        softmax(&mut g, &scores)
    } else {
        let zero = g.initialiser("zero", &scalar(0.0));
        let excluded = g.initialiser("excluded", &scalar(f64::NEG_INFINITY));
        let valid = valid_keys(&mut g, spec);
        let bias = g.node("mask_to_bias", "Where", &[&valid, &zero, &excluded]).makes("bias");
        let scores = g.node("add_mask", "Add", &[&scores, &bias]).makes("masked_scores");
        let weights = softmax(&mut g, &scores);
        let no_keys = g.node("find_rows_without_keys", "IsNaN", &[&weights]).makes("no_keys");
        g.node("clear_rows_without_keys", "Where", &[&no_keys, &zero, &weights]).makes("safe_weights")
    };
    let output = g.node("attend", "MatMul", &[&weights, &value]).makes("output");
    g.output(&output, dtype, &shape);
    g.build().expect("all names above differ, and values come from the one builder")
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
