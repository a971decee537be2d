//! External data: what may be referred to, what must be there.
#![allow(clippy::unwrap_used)] // a test file: an unwrap is an assertion

use onnx_graph::proto::{GraphProto, ModelProto, StringStringEntryProto, TensorProto};
use onnx_graph::{Model, ModelError, tensor_from_proto};
use std::fs;
use std::path::Path;

/// A float32 tensor `w` of `[2, 3]` (24 bytes) with these entries of `external_data`.
fn tensor(entries: &[(&str, &str)]) -> TensorProto {
    let entry = |&(key, value): &(&str, &str)| StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value.to_owned()),
    };
    TensorProto {
        name: Some("w".to_owned()),
        data_type: Some(1),
        dims: vec![2, 3],
        data_location: Some(1),
        external_data: entries.iter().map(entry).collect(),
        ..TensorProto::default()
    }
}

fn model(entries: &[(&str, &str)]) -> Model {
    let graph = GraphProto { initializer: vec![tensor(entries)], ..GraphProto::default() };
    Model { proto: ModelProto { ir_version: Some(10), graph: Some(graph), ..ModelProto::default() } }
}

fn refusal(result: Result<impl Sized, ModelError>) -> String {
    match result {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_location_that_could_lead_out_is_refused_and_named() {
    let faults = [
        ("", "names no location"),
        ("/etc/hostname", "absolute"),
        ("../w.bin", "`..`"),
        ("a/../../w.bin", "`..`"),
        ("a\\w.bin", "backslash"),
        ("a\0b", "NUL"),
        (".", "a folder"),
    ];
    for (location, fault) in faults {
        let error = refusal(model(&[("location", location)]).external_files());
        assert!(error.contains("tensor `w`") && error.contains(fault), "{location:?}: {error}");
    }
    assert!(refusal(model(&[]).external_files()).contains("names no location"));
}

#[test]
fn numbers_are_checked_against_the_type_and_the_shape() {
    let files = model(&[("location", "./w.bin"), ("offset", "4"), ("length", "24")]).external_files().unwrap();
    assert_eq!((files[0].offset, files[0].length, files[0].needed), (4, Some(24), 24));
    for (key, value, fault) in [("length", "20", "20 bytes"), ("length", "-1", "`-1`"), ("offset", "x", "`x`")] {
        let error = refusal(model(&[("location", "w.bin"), (key, value)]).external_files());
        assert!(error.contains(fault), "{error}");
    }
}

#[test]
fn data_are_read_from_their_offset() {
    let dir = tempfile::tempdir().unwrap();
    let values: Vec<u8> = (0..7).flat_map(|i: u8| f32::from(i).to_le_bytes()).collect();
    fs::write(dir.path().join("w.bin"), &values).unwrap();
    let message = tensor(&[("location", "w.bin"), ("offset", "4")]);
    let read = tensor_from_proto(&message, Some(dir.path())).unwrap();
    assert_eq!(read.values::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert!(refusal(tensor_from_proto(&message, None)).contains("no folder"));
}

#[test]
fn missing_short_and_outside_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (inside, outside) = (dir.path().join("model"), dir.path().join("outside.bin"));
    fs::create_dir(&inside).unwrap();
    fs::write(&outside, [0; 24]).unwrap();
    let check = |location: &str, offset: &str| {
        model(&[("location", location), ("offset", offset)]).check_external(Path::new(&inside))
    };

    assert!(refusal(check("absent.bin", "0")).contains("not there"));

    fs::write(inside.join("w.bin"), [0; 24]).unwrap();
    assert_eq!(check("w.bin", "0").unwrap().len(), 1);
    assert!(refusal(check("w.bin", "1")).contains("24 are wanted from byte 1"));
    assert!(refusal(check("w.bin", &u64::MAX.to_string())).contains("cut short"));

    std::os::unix::fs::symlink(inside.join("w.bin"), inside.join("fine.bin")).unwrap();
    assert!(check("fine.bin", "0").is_ok());
    std::os::unix::fs::symlink(&outside, inside.join("out.bin")).unwrap();
    assert!(refusal(check("out.bin", "0")).contains("leads out"));
    fs::create_dir(inside.join("folder")).unwrap();
    assert!(refusal(check("folder", "0")).contains("not a regular file"));
}
