//! Loading, inspecting, exposing: the model as its readers meet it.
#![allow(clippy::unwrap_used)] // a test file: an unwrap is an assertion

use bytes::Bytes;
use onnx_graph::builder::Builder;
use onnx_graph::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto,
    type_proto,
};
use onnx_graph::{DataType, Dim, Model, ModelError, Tensor, ValueKind, tensor_to_proto};
use proptest::prelude::*;
use std::io::Write;
use std::path::Path;

#[allow(clippy::unnecessary_wraps)] // as the message fields want it
fn text(s: &str) -> Option<String> {
    Some(s.to_owned())
}

fn node(domain: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        domain: text(domain),
        op_type: text(op),
        input: inputs.iter().map(|&s| s.to_owned()).collect(),
        output: outputs.iter().map(|&s| s.to_owned()).collect(),
        ..NodeProto::default()
    }
}

fn graph_of(nodes: Vec<NodeProto>, outputs: &[&str]) -> GraphProto {
    let output = outputs.iter().map(|&s| ValueInfoProto { name: text(s), ..ValueInfoProto::default() }).collect();
    GraphProto { node: nodes, output, ..GraphProto::default() }
}

fn model_of(graph: GraphProto) -> ModelProto {
    ModelProto { ir_version: Some(10), graph: Some(graph), ..ModelProto::default() }
}

/// `sum = x + bias`, `y = Relu(sum)`, with a symbol and an unknown extent in the input.
fn small() -> Model {
    let mut g = Builder::new("small");
    g.opset("", 20).producer("test", "1");
    let x = g.input("x", DataType::Float32, &[Dim::Symbol("batch".into()), Dim::Unknown, Dim::Fixed(3)]);
    let bias = g.initialiser("bias", &Tensor::from_values(&[3], &[1f32, 2.0, 3.0]).unwrap());
    let sum = g.node("add_bias", "Add", &[&x, &bias]).makes("sum");
    let y = g.node("rectify", "Relu", &[&sum]).makes("y");
    g.output(&y, DataType::Float32, &[Dim::Symbol("batch".into()), Dim::Unknown, Dim::Fixed(3)]);
    g.build().unwrap()
}

/// An If whose branch reads `sum` from outside, inside a model that also calls a function (which calls itself).
fn nested() -> Model {
    let mut branch = graph_of(vec![node("", "Neg", &["sum"], &["n"]), node("", "Add", &["n", "own"], &["b"])], &["b"]);
    branch.initializer.push(tensor_to_proto("own", &Tensor::from_values(&[1], &[1f32]).unwrap()));
    let mut choose = node("", "If", &["c"], &["z"]);
    choose.attribute.push(AttributeProto { name: text("then_branch"), g: Some(branch), ..AttributeProto::default() });
    let twice = FunctionProto {
        name: text("Twice"),
        domain: text("local"),
        node: vec![node("ai.onnx", "Add", &["a", "a"], &["b"]), node("local", "Twice", &["b"], &["c"])],
        ..FunctionProto::default()
    };
    let unused = FunctionProto { name: text("Unused"), node: vec![node("", "Erf", &[], &[])], ..twice.clone() };
    let calls = vec![node("local", "Twice", &["x"], &["sum"]), node("local", "Twice", &["sum"], &["t"]), choose];
    let mut proto = model_of(graph_of(calls, &["z"]));
    proto.functions = vec![twice, unused];
    Model { proto }
}

/// A length-delimited protobuf field, as a parent that holds nothing else.
fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag << 3 | 2];
    prost::encoding::encode_varint(content.len() as u64, &mut bytes);
    bytes.extend_from_slice(content);
    bytes
}

fn refusal(bytes: &'static [u8]) -> String {
    Model::from_bytes(Bytes::from_static(bytes)).unwrap_err().to_string()
}

#[test]
fn inputs_outputs_and_opsets_read_as_the_graph_states_them() {
    let model = small();
    let inputs = model.inputs();
    assert_eq!(inputs.len(), 1);
    assert_eq!(inputs[0].to_string(), "x float32[batch,?,3]");
    assert_eq!(model.outputs()[0].shape.as_ref().unwrap()[2], Dim::Fixed(3));
    assert_eq!(model.ir_version(), 10);
    assert_eq!(model.opsets().into_iter().collect::<Vec<_>>(), [(String::new(), 20)]);
}

#[test]
fn an_input_that_is_an_initialiser_is_not_asked_of_the_caller() {
    let mut model = small();
    let graph = model.proto.graph.as_mut().unwrap();
    graph.input.push(ValueInfoProto { name: text("bias"), ..ValueInfoProto::default() });
    assert_eq!(model.inputs().len(), 1);
}

#[test]
fn values_that_are_no_tensors_say_so() {
    let mut model = small();
    let sequence = type_proto::Value::SequenceType(Box::default());
    let output = &mut model.proto.graph.as_mut().unwrap().output[0];
    output.r#type = Some(TypeProto { value: Some(sequence), denotation: None });
    assert_eq!(model.outputs()[0].kind, ValueKind::Sequence);
    assert_eq!(model.outputs()[0].to_string(), "y sequence");
}

#[test]
fn the_histogram_walks_subgraphs_and_each_called_function_once() {
    let histogram = nested().op_histogram();
    let expected = [("Add", 2), ("If", 1), ("Neg", 1), ("local::Twice", 3)];
    assert_eq!(histogram.iter().map(|(k, &v)| (k.as_str(), v)).collect::<Vec<_>>(), expected);
    assert_eq!(nested().node_count(), 7);
}

#[test]
fn producers_consumers_and_captures_can_be_found() {
    let model = nested();
    let nodes: Vec<_> = model.nodes().collect();
    assert_eq!(nodes[1].inputs(), nodes[0].outputs());
    assert_eq!((nodes[2].index, nodes[2].op_type(), nodes[0].domain()), (2, "If", "local"));
    assert_eq!(nodes[2].captures().into_iter().collect::<Vec<_>>(), ["sum"]);
}

#[test]
fn exposing_adds_outputs_once_and_with_the_type_that_is_known() {
    let mut model = small();
    model.expose_outputs(&["sum".into(), "y".into(), "bias".into(), "sum".into()]).unwrap();
    let outputs: Vec<String> = model.outputs().iter().map(ToString::to_string).collect();
    assert_eq!(outputs, ["y float32[batch,?,3]", "sum untyped[..]", "bias float32[3]"]);
}

#[test]
fn exposing_an_unknown_tensor_names_the_nearest_and_changes_nothing() {
    let mut model = small();
    let before = model.clone();
    let error = model.expose_outputs(&["sum".into(), "biass".into()]).unwrap_err().to_string();
    assert!(error.contains("`biass` (did you mean `bias`?)"), "{error}");
    assert_eq!(model, before);
}

#[test]
fn a_loaded_model_addresses_its_weights_in_the_file_bytes() {
    let bytes = Bytes::from(small().encode().unwrap());
    let range = bytes.as_ptr_range();
    let model = Model::from_bytes(bytes.clone()).unwrap();
    let raw = model.graph().initializer[0].raw_data.as_ref().unwrap();
    assert!(range.contains(&raw.as_ptr()), "the weights were copied");
}

#[test]
fn a_file_loads_as_its_bytes_do() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&small().encode().unwrap()).unwrap();
    assert_eq!(Model::load(file.path()).unwrap(), small());
}

#[test]
fn what_is_no_model_is_refused_with_what_it_looks_like() {
    assert!(refusal(b"").contains("no graph (it is empty"));
    assert!(refusal(b"version https://git-lfs.github.com/spec/v1\n").contains("git lfs pull"));
    assert!(refusal(b"PK\x03\x04....").contains("zip archive"));
    assert!(refusal(b"\x20\x00\x00\x00ORTM").contains(".ort format"));
    // A graph, and no ir_version.
    assert!(refusal(b"\x3a\x00").contains("no ir_version"));
}

#[test]
fn an_unreadable_path_is_named() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Model::load(dir.path()), Err(ModelError::NotAFile { .. })));
    let absent = dir.path().join("absent.onnx");
    let error = Model::load(&absent).unwrap_err();
    assert!(matches!(&error, ModelError::Read { .. }) && error.to_string().contains("absent.onnx"), "{error}");
    assert!(Model::load(Path::new("/dev/null")).is_err());
}

#[test]
fn a_model_cut_short_anywhere_is_refused_or_differs() {
    let bytes = small().encode().unwrap();
    for end in 0..bytes.len() {
        let cut = Model::from_bytes(Bytes::copy_from_slice(&bytes[..end]));
        assert!(cut.map_or(true, |model| model != small()), "cut at {end}");
    }
}

#[test]
fn graphs_nested_without_end_are_refused() {
    // Made as bytes, from the inside out: messages this deep could not even be dropped.
    let mut graph = Vec::new();
    for _ in 0..2000 {
        let attribute = field(6, &graph); // AttributeProto.g
        let node = field(5, &attribute); // NodeProto.attribute
        graph = field(1, &node); // GraphProto.node
    }
    let mut bytes = vec![0x08, 10]; // ModelProto.ir_version
    bytes.extend(field(7, &graph)); // ModelProto.graph
    let error = Model::from_bytes(Bytes::from(bytes)).unwrap_err();
    assert!(matches!(error, ModelError::Decode { .. }), "{error}");
}

#[test]
fn a_model_of_two_gibibytes_is_not_written() {
    let part = Bytes::from(vec![0u8; 64 << 20]);
    let tensor = TensorProto { raw_data: Some(part), ..TensorProto::default() };
    let mut model = small();
    // One allocation, referred to 32 times.
    model.proto.graph.as_mut().unwrap().initializer = vec![tensor; 32];
    let error = model.encode().unwrap_err().to_string();
    assert!(error.contains("external data"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_give_a_model_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Model::from_bytes(Bytes::from(bytes)).map(|m| (m.inputs(), m.op_histogram(), m.external_files().is_ok()));
    }

    #[test]
    fn a_flipped_byte_gives_a_model_or_an_error(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut bytes = nested().encode().unwrap();
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(model) = Model::from_bytes(Bytes::from(bytes)) {
            prop_assert!(model.node_count() < 100);
            let _ = (model.inputs(), model.outputs(), model.external_files().is_ok());
            for node in model.nodes() {
                node.captures();
            }
        }
    }
}
