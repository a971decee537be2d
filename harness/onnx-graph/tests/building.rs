//! The builder: what it refuses, and that what it builds is what is read back.
#![allow(clippy::unwrap_used)] // a test file: an unwrap is an assertion

use bytes::Bytes;
use onnx_graph::builder::{BuildError, Builder, Value};
use onnx_graph::proto::attribute_proto::AttributeType as T;
use onnx_graph::{DataType, Dim, Model, Tensor};
use proptest::prelude::*;

fn builder() -> (Builder, Value) {
    let mut g = Builder::new("g");
    g.opset("", 20);
    let x = g.input("x", DataType::Float32, &[Dim::Fixed(2)]);
    (g, x)
}

#[test]
fn attributes_domains_and_absent_inputs_are_written_as_onnx_wants_them() {
    let (mut g, x) = builder();
    g.opset("com.microsoft", 1).ir_version(8);
    let [a, _] = (g.node("step", "Thing", &[&x, &Value::absent(), &x]).domain("com.microsoft"))
        .attribute("i", -3)
        .attribute("list", [1, 2])
        .attribute("f", 0.5)
        .attribute("s", "text")
        .attribute("t", Tensor::from_values(&[], &[1f32]).unwrap())
        .makes_all(["a", "b"]);
    g.output(&a, DataType::Float32, &[Dim::Fixed(2)]);
    let model = g.build().unwrap();
    let node = model.nodes().next().unwrap();
    assert_eq!(
        (node.inputs(), node.outputs()),
        (&["x", "", "x"].map(String::from)[..], &["a", "b"].map(String::from)[..])
    );
    let types: Vec<_> = node.proto().attribute.iter().map(onnx_graph::proto::AttributeProto::r#type).collect();
    assert_eq!(types, [T::Int, T::Ints, T::Float, T::String, T::Tensor]);
    assert_eq!(model.op_histogram().into_keys().collect::<Vec<_>>(), ["com.microsoft::Thing"]);
    assert_eq!(model.ir_version(), 8);
}

#[test]
fn a_name_taken_twice_is_refused() {
    let (mut g, x) = builder();
    g.node("a", "Relu", &[&x]).makes("x");
    assert_eq!(g.build().unwrap_err(), BuildError::Name("x".into()));

    let (mut g, x) = builder();
    let y = g.node("a", "Relu", &[&x]).makes("y");
    g.node("a", "Relu", &[&y]).makes("z");
    assert_eq!(g.build().unwrap_err(), BuildError::Name("a".into()));
}

#[test]
fn a_value_of_another_builder_and_a_domain_without_version_are_refused() {
    let mut other = Builder::new("other");
    let foreign = other.input("w", DataType::Float32, &[]);
    let (mut g, _) = builder();
    g.output(&foreign, DataType::Float32, &[]);
    assert_eq!(g.build().unwrap_err(), BuildError::Foreign { step: "output".into(), value: "w".into() });

    let (mut g, x) = builder();
    g.node("a", "Gelu", &[&x]).domain("com.microsoft").makes("y");
    assert!(g.build().unwrap_err().to_string().contains("`com.microsoft`"));
}

proptest! {
    #[test]
    fn what_is_built_is_what_is_loaded(
        widths in proptest::collection::vec(0usize..4, 1..12),
        weights in proptest::collection::vec(any::<f32>(), 3),
        opset in 1i64..30,
    ) {
        let mut g = Builder::new("random");
        g.opset("", opset).producer("test", "0");
        let w = g.initialiser("w", &Tensor::from_values(&[3], &weights).unwrap());
        let mut values = vec![g.input("x", DataType::Float32, &[Dim::Symbol("n".into()), Dim::Fixed(3)]), w];
        for (i, pick) in widths.iter().enumerate() {
            let (a, b) = (&values[pick % values.len()], &values[(pick * 7 + i) % values.len()]);
            let made = g.node(&format!("step_{i}"), "Add", &[a, b]).attribute("k", i as i64).makes(&format!("v{i}"));
            values.push(made);
        }
        g.output(&values[values.len() - 1], DataType::Float32, &[Dim::Unknown]);
        let model = g.build().unwrap();
        let bytes = model.encode().unwrap();
        let loaded = Model::from_bytes(Bytes::from(bytes.clone())).unwrap();
        // NaN weights are equal as bytes, so equality of messages is equality of models.
        prop_assert_eq!(&loaded, &model);
        prop_assert_eq!(loaded.encode().unwrap(), bytes);
        prop_assert_eq!(loaded.node_count(), widths.len());
    }
}
