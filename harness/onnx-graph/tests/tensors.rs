//! Tensors from every field that a message may keep them in.
#![allow(clippy::unwrap_used)] // a test file: an unwrap is an assertion

use bytes::Bytes;
use half::f16;
use onnx_graph::proto::{StringStringEntryProto, TensorProto, tensor_proto::Segment};
use onnx_graph::{DataType, ModelError, Tensor, read_tensor_pb, tensor_from_proto, tensor_to_proto};
use proptest::prelude::*;
use prost::Message;
use std::fs;

fn message(dtype: DataType, dims: &[i64]) -> TensorProto {
    let name = Some("t".to_owned());
    TensorProto { name, data_type: Some(dtype as i32), dims: dims.to_vec(), ..TensorProto::default() }
}

/// Element type, extents, what `int32_data` holds and the bytes it stands for.
type Case = (DataType, &'static [i64], &'static [i32], &'static [u8]);

fn bytes_of(message: &TensorProto) -> Vec<u8> {
    tensor_from_proto(message, None).unwrap().bytes().unwrap().to_vec()
}

fn refusal(message: &TensorProto) -> String {
    tensor_from_proto(message, None).unwrap_err().to_string()
}

#[test]
fn small_types_are_read_from_int32_data_as_numbers_or_bit_patterns() {
    use DataType as T;
    let cases: &[Case] = &[
        (T::Int8, &[2], &[-1, 127], &[255, 127]),
        (T::Uint8, &[2], &[0, 255], &[0, 255]),
        (T::Int16, &[1], &[-2], &[254, 255]),
        (T::Uint16, &[1], &[65535], &[255, 255]),
        (T::Float16, &[1], &[0x3c00], &[0, 0x3c]),
        (T::Bfloat16, &[1], &[0xff80], &[0x80, 0xff]),
        (T::Bool, &[2], &[1, 0], &[1, 0]),
        (T::Float8E5M2, &[1], &[200], &[200]),
        (T::Int32, &[1], &[-1], &[255; 4]),
        // Three elements of four bits in two bytes; five of two bits in two.
        (T::Int4, &[3], &[0x21, 0x03], &[0x21, 0x03]),
        (T::Float4E2M1, &[2], &[0x7f], &[0x7f]),
        (T::Uint2, &[5], &[0xe4, 1], &[0xe4, 1]),
    ];
    for (dtype, dims, data, expected) in cases {
        let message = TensorProto { int32_data: data.to_vec(), ..message(*dtype, dims) };
        assert_eq!(bytes_of(&message), *expected, "{dtype}");
    }
}

#[test]
fn wide_types_are_read_from_their_own_fields() {
    use DataType as T;
    let float = TensorProto { float_data: vec![1.5, -2.0], ..message(T::Float32, &[2]) };
    assert_eq!(tensor_from_proto(&float, None).unwrap().values::<f32>().unwrap(), [1.5, -2.0]);
    let complex = TensorProto { float_data: vec![1.0, 2.0], ..message(T::Complex64, &[]) };
    assert_eq!(bytes_of(&complex).len(), 8);
    let double = TensorProto { double_data: vec![0.1], ..message(T::Float64, &[]) };
    assert_eq!(tensor_from_proto(&double, None).unwrap().values::<f64>().unwrap(), [0.1]);
    let long = TensorProto { int64_data: vec![i64::MIN], ..message(T::Int64, &[1]) };
    assert_eq!(tensor_from_proto(&long, None).unwrap().values::<i64>().unwrap(), [i64::MIN]);
    let unsigned = TensorProto { uint64_data: vec![u64::from(u32::MAX)], ..message(T::Uint32, &[1]) };
    assert_eq!(tensor_from_proto(&unsigned, None).unwrap().values::<u32>().unwrap(), [u32::MAX]);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_allocated() {
    use DataType as T;
    let huge = TensorProto { raw_data: Some(Bytes::from_static(b"1234")), ..message(T::Float32, &[i64::MAX, 2]) };
    assert!(refusal(&huge).contains("tensor `t`"));
    assert!(refusal(&message(T::Float32, &[-1])).contains("negative extent"));
    assert!(refusal(&message(T::Float32, &[])).contains("needs 4 bytes"));
    assert!(refusal(&TensorProto { data_type: Some(99), ..message(T::Float32, &[]) }).contains("element type 99"));
    let wide = TensorProto { int32_data: vec![256], ..message(T::Uint8, &[1]) };
    assert!(refusal(&wide).contains("256"), "{}", refusal(&wide));
    let text = TensorProto { string_data: vec![Bytes::from_static(b"\xff")], ..message(T::String, &[1]) };
    assert!(refusal(&text).contains("UTF-8"));
    // Data in a field that belongs to another type are not data.
    let misplaced = TensorProto { float_data: vec![1.0], ..message(T::Int64, &[1]) };
    assert!(refusal(&misplaced).contains("has 0 bytes"));
}

#[test]
fn a_tensor_without_elements_needs_no_data() {
    let empty = tensor_from_proto(&message(DataType::Float32, &[0, 5]), None).unwrap();
    assert!(empty.is_empty() && empty.shape == [0, 5]);
}

#[test]
fn values_go_in_and_come_out_only_as_their_own_type() {
    let tensor = Tensor::from_values(&[2], &[f16::ONE, f16::NEG_INFINITY]).unwrap();
    assert_eq!(tensor.values::<f16>().unwrap(), [f16::ONE, f16::NEG_INFINITY]);
    assert_eq!(tensor.values::<u16>(), None);
    assert_eq!(Tensor::from_values(&[2], &[true, false]).unwrap().values::<bool>().unwrap(), [true, false]);
    assert!(Tensor::from_values(&[3], &[1i64]).is_err());
}

#[test]
fn a_tensor_file_is_read_and_a_sequence_or_optional_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("input_0.pb");
    let tensor = Tensor::from_values(&[2], &[1f32, 2.0]).unwrap();
    fs::write(&path, tensor_to_proto("x", &tensor).encode_to_vec()).unwrap();
    assert_eq!(read_tensor_pb(&path).unwrap(), ("x".to_owned(), tensor.clone()));

    // SequenceProto { name: "s" = 1, elem_type: TENSOR = 2, tensor_values: [..] = 3 }; OptionalProto has the same start.
    let inner = tensor_to_proto("x", &tensor).encode_to_vec();
    let mut sequence = vec![0x0a, 1, b's', 0x10, 1, 0x1a, inner.len() as u8];
    sequence.extend(inner);
    for bytes in [sequence.as_slice(), &sequence[..5], &[0x10, 1], b"", b"\xff\xff"] {
        fs::write(&path, bytes).unwrap();
        let error = read_tensor_pb(&path).unwrap_err();
        assert!(matches!(error, ModelError::NotATensor { .. }), "{error}");
    }
    let segment = TensorProto { segment: Some(Segment::default()), ..message(DataType::Float32, &[]) };
    assert!(refusal(&segment).contains("segment"));
}

/// A tensor of any type, up to 3 x 5 elements, with any bytes.
fn any_tensor() -> impl Strategy<Value = Tensor> {
    let shape = proptest::collection::vec(0usize..5, 0..3);
    (1i32..=26, shape).prop_flat_map(|(number, shape)| {
        let dtype = DataType::from_onnx(number).unwrap();
        let elements: usize = shape.iter().product();
        match dtype.byte_len(elements) {
            Some(n) => proptest::collection::vec(any::<u8>(), n)
                .prop_map(move |b| Tensor::from_bytes(dtype, shape.clone(), b.into()).unwrap())
                .boxed(),
            None => proptest::collection::vec(any::<String>(), elements)
                .prop_map(move |s| Tensor::from_strings(shape.clone(), s).unwrap())
                .boxed(),
        }
    })
}

proptest! {
    #[test]
    fn every_tensor_survives_the_round_trip(tensor in any_tensor()) {
        let encoded = Bytes::from(tensor_to_proto("t", &tensor).encode_to_vec());
        let decoded = TensorProto::decode(encoded).unwrap();
        prop_assert_eq!(tensor_from_proto(&decoded, None).unwrap(), tensor);
    }

    #[test]
    fn any_message_gives_a_tensor_or_an_error(
        dtype in -1i32..30,
        dims in proptest::collection::vec(prop_oneof![-1i64..5, any::<i64>()], 0..4),
        ints in proptest::collection::vec(any::<i32>(), 0..6),
        raw in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
        external in proptest::option::of(any::<String>()),
    ) {
        let entry = |value| StringStringEntryProto { key: Some("location".to_owned()), value: Some(value) };
        let message = TensorProto {
            data_type: Some(dtype),
            dims,
            int32_data: ints,
            raw_data: raw.map(Bytes::from),
            data_location: external.is_some().then_some(1),
            external_data: external.into_iter().map(entry).collect(),
            ..TensorProto::default()
        };
        if let Ok(tensor) = tensor_from_proto(&message, None) {
            prop_assert_eq!(tensor.bytes().map(Bytes::len), tensor.dtype.byte_len(tensor.len()));
        }
    }
}
