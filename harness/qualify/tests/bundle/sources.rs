//! Folders of other layouts: replayed as they lie, and imported.

use super::{edit, folder, refusal};
use camino::Utf8Path;
use onnx_graph::{DataType, Model, Tensor};
use ort_qualify::bundle::array::{DEFAULT_CAP_BYTES, write_npz};
use ort_qualify::bundle::{self, ArrayRef, Arrays, Bundle, ImportOptions, Layout, Mask, OpenOptions};
use std::fs;

/// A model that adds `mask` `[batch]` to each row of `Xfeat_normed` `[batch, 2]`.
fn adder() -> Model {
    use onnx_graph::Dim::{Fixed, Symbol};
    let mut b = onnx_graph::builder::Builder::new("adder");
    b.opset("", 20).producer("by hand", "1");
    let shape = [Symbol("batch".to_owned()), Fixed(2)];
    let x = b.input("Xfeat_normed", DataType::Float32, &shape);
    let mask = b.input("mask", DataType::Float32, &shape[..1]);
    let axes = b.initialiser("axes", &Tensor::from_values(&[1], &[1i64]).unwrap());
    let column = b.node("column", "Unsqueeze", &[&mask, &axes]).makes("mask_column");
    let sum = b.node("sum", "Add", &[&x, &column]).makes("sum");
    b.output(&sum, DataType::Float32, &shape);
    b.build().unwrap()
}

/// The adder with `axes` in the file `location`.
fn adder_with_external_data(location: &str) -> Model {
    use onnx_graph::proto::StringStringEntryProto as Entry;
    let mut model = adder();
    let axes = &mut model.proto.graph.as_mut().unwrap().initializer[0];
    axes.raw_data = None;
    axes.data_location = Some(1);
    axes.external_data = vec![Entry { key: Some("location".to_owned()), value: Some(location.to_owned()) }];
    model
}

fn save_npz(path: &Utf8Path, arrays: &[(&str, Tensor)]) {
    write_npz(fs::File::create(path).unwrap(), arrays.iter().map(|(n, t)| (*n, t))).unwrap();
}

fn rows(batch: usize) -> Tensor {
    Tensor::from_values(&[batch, 2], &vec![0.5f32; 2 * batch]).unwrap()
}

fn mask(batch: usize) -> Tensor {
    Tensor::from_values(&[batch], &vec![1f32; batch]).unwrap()
}

fn sums(batch: usize) -> Tensor {
    Tensor::from_values(&[batch, 2], &vec![1.5f64; 2 * batch]).unwrap()
}

/// A folder as array directories are: two batches, a tensor whose name in the arrays is another, external data.
fn array_directory(dir: &Utf8Path) {
    fs::create_dir_all(dir.join("data")).unwrap();
    fs::write(dir.join("model.onnx"), adder_with_external_data("data/axes.bin").encode().unwrap()).unwrap();
    fs::write(dir.join("data/axes.bin"), 1i64.to_le_bytes()).unwrap();
    let inputs = [("plain_X", rows(2)), ("plain_mask", mask(2)), ("one_X", rows(1)), ("one_mask", mask(1))];
    save_npz(&dir.join("inputs.npz"), &inputs);
    save_npz(&dir.join("outputs_fp64.npz"), &[("plain_sum", sums(2)), ("one_sum", sums(1))]);
    save_npz(&dir.join("trace.npz"), &[("plain_column", mask(2))]);
}

#[test]
fn an_array_directory_is_replayed_as_it_lies_and_imported_whole() {
    let (_keep, dir) = folder();
    let source = dir.join("adder");
    array_directory(&source);
    let mut bundle = Bundle::open(&source).unwrap();
    assert_eq!((bundle.layout, bundle.name.as_str()), (Layout::ArrayDirectory, "adder"));
    assert_eq!(bundle.mask, Some(Mask { input: "mask".to_owned() }));
    let names: Vec<&str> = bundle.cases.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["plain", "one"]);
    let x = &bundle.cases[0].inputs[0];
    assert_eq!((x.name.as_str(), x.array.array.as_deref()), ("Xfeat_normed", Some("plain_X")));
    assert_eq!(x.array.read(&source, DEFAULT_CAP_BYTES).unwrap(), rows(2));
    bundle.verify().unwrap();

    bundle.add_probe("plain", "mask_column", ArrayRef::named("trace.npz", "plain_column")).unwrap();
    bundle.verify().unwrap();
    assert!(bundle.add_probe("plain", "mask_column", ArrayRef::file("../x.npy")).is_err());
    assert!(bundle.add_probe("plane", "mask_column", ArrayRef::file("trace.npz")).is_err());

    let imported = bundle::import(&source, &dir.join("out/b"), &ImportOptions::default()).unwrap();
    assert_eq!(imported.cases[1].outputs[0].array, ArrayRef::named("outputs_fp64.npz", "one_sum"));
    assert_eq!(imported.provenance.versions["by hand"], "1");
    let listed: Vec<&str> = imported.files.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(listed, ["data/axes.bin", "inputs.npz", "model.onnx", "outputs_fp64.npz"]);
    assert_eq!(imported.fingerprint().unwrap(), Bundle::open(&source).unwrap().fingerprint().unwrap());
    fs::remove_dir_all(&source).unwrap();
    imported.verify().unwrap();
    let again = bundle::import(&dir.join("out/b"), &dir.join("c"), &ImportOptions::default()).unwrap_err().to_string();
    assert!(again.contains("is a bundle already"), "{again}");
}

#[test]
fn what_an_array_directory_lacks_is_said() {
    let (_keep, dir) = folder();
    let open = |change: &dyn Fn(&Utf8Path)| {
        let source = dir.join("s");
        let _ = fs::remove_dir_all(&source);
        array_directory(&source);
        change(&source);
        Bundle::open(&source).and_then(|b| b.verify().map(|_| b)).map_err(|e| e.to_string())
    };
    let refused = |change: &dyn Fn(&Utf8Path)| open(change).unwrap_err();
    let outputs = |d: &Utf8Path, arrays: &[(&str, Tensor)]| save_npz(&d.join("outputs_fp64.npz"), arrays);

    let fallback = open(&|d| fs::rename(d.join("outputs_fp64.npz"), d.join("outputs_fp32.npz")).unwrap()).unwrap();
    assert!(fallback.provenance.notes[0].contains("outputs_fp32.npz"));

    let e = refused(&|d| fs::remove_file(d.join("outputs_fp64.npz")).unwrap());
    assert!(e.contains("none of `outputs_fp64.npz`"), "{e}");
    let e = refused(&|d| outputs(d, &[("plain_sum", sums(2))]));
    assert!(e.contains("inputs.npz: arrays: the batch `one` has no arrays in"), "{e}");
    let e = refused(&|d| outputs(d, &[("plain_sum", sums(2)), ("one_sum", sums(1)), ("one_extra", sums(1))]));
    assert!(e.contains("`one_extra` is of no tensor") && e.contains("--input-map"), "{e}");
    let e = refused(&|d| outputs(d, &[("plain_sum", sums(1)), ("one_sum", sums(1))]));
    assert!(e.contains("case `plain`, output `sum`") && e.contains("`batch` was 2 in input `Xfeat_normed`"), "{e}");
    let e = refused(&|d| {
        outputs(d, &[("plain_sum", Tensor::from_values(&[2, 2], &[1i64; 4]).unwrap()), ("one_sum", sums(1))]);
    });
    assert!(e.contains("the reference is int64 and the model gives float32"), "{e}");
    let e = refused(&|d| fs::remove_file(d.join("data/axes.bin")).unwrap());
    assert!(e.contains("`axes`") && e.contains("data/axes.bin"), "{e}");
    let e = refused(&|d| fs::write(d.join("model.onnx"), "{}").unwrap());
    assert!(e.contains("model.onnx") && e.contains("JSON"), "{e}");
    let e = refused(&|d| {
        fs::rename(d.join("model.onnx"), d.join("a.onnx")).unwrap();
        fs::write(d.join("b.onnx"), "").unwrap();
    });
    assert!(e.contains("there are 2 models (`a.onnx`, `b.onnx`)"), "{e}");
    let e = Bundle::open(&dir.join("absent")).unwrap_err().to_string();
    assert!(e.contains("absent: cannot open"), "{e}");
    let e = Bundle::open(&dir).unwrap_err().to_string();
    assert!(e.contains("is no bundle"), "{e}");
}

#[test]
fn external_data_must_lie_inside_and_be_listed() {
    let (_keep, dir) = folder();
    for location in ["../axes.bin", "/axes.bin", "link/axes.bin"] {
        let source = dir.join("s");
        array_directory(&source);
        fs::write(dir.join("axes.bin"), 1i64.to_le_bytes()).unwrap();
        let _ = std::os::unix::fs::symlink("..", source.join("link"));
        fs::write(source.join("model.onnx"), adder_with_external_data(location).encode().unwrap()).unwrap();
        let e = Bundle::open(&source).unwrap_err().to_string();
        assert!(e.contains(location) && e.contains("axes"), "{location}: {e}");
    }
    let source = dir.join("t");
    array_directory(&source);
    let bundle = bundle::import(&source, &dir.join("b"), &ImportOptions::default()).unwrap();
    let entry = format!(
        "[[file]]\npath = \"data/axes.bin\"\nsize = 8\nsha256 = \"{}\"\n",
        ort_qualify::digest::of_bytes(&1i64.to_le_bytes())
    );
    edit(&bundle, |text| text.replace(&entry, ""));
    assert!(refusal(&bundle.dir).contains("file `data/axes.bin`: is in the folder and not in the manifest"));
}

#[test]
fn two_npz_files_become_cases_by_batch_or_one_case_by_name() {
    let (_keep, dir) = folder();
    fs::write(dir.join("m.onnx"), adder().encode().unwrap()).unwrap();
    save_npz(&dir.join("in.npz"), &[("features", rows(3)), ("mask", mask(3))]);
    save_npz(&dir.join("out.npz"), &[("sum", sums(3))]);
    let arrays = Some(Arrays { inputs: dir.join("in.npz"), outputs: dir.join("out.npz") });
    let options = ImportOptions { arrays: arrays.clone(), ..ImportOptions::default() };
    let bundle = bundle::import(&dir.join("m.onnx"), &dir.join("b"), &options).unwrap();
    assert_eq!((bundle.name.as_str(), bundle.cases[0].name.as_str()), ("b", "default"));
    assert_eq!(bundle.model, "m.onnx");

    // Two names that nothing pairs: the caller has to.
    save_npz(&dir.join("in.npz"), &[("a_x", rows(3)), ("a_y", mask(3))]);
    save_npz(&dir.join("out.npz"), &[("a_z", sums(3))]);
    let e = bundle::import(&dir, &dir.join("c"), &options).unwrap_err().to_string();
    assert!(
        e.contains("in.npz: arrays: array `a_x`")
            && e.contains("not yet paired are `x`, `y` with `Xfeat_normed`, `mask`"),
        "{e}"
    );
    let tensor_names = [("x", "Xfeat_normed"), ("y", "mask"), ("z", "sum")];
    let tensor_names = tensor_names.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    let open = OpenOptions { tensor_names, name: Some("named".to_owned()), model: Some("m.onnx".into()) };
    let bundle = bundle::import(&dir, &dir.join("c"), &ImportOptions { open, arrays }).unwrap();
    assert_eq!((bundle.name.as_str(), bundle.cases[0].name.as_str()), ("named", "a"));
    assert_eq!(bundle.cases[0].inputs[1].name, "mask");
}

/// A `TensorProto`: dims (field 1), data type (2), raw data (9).
fn tensor_pb(tensor: &Tensor) -> Vec<u8> {
    let mut bytes: Vec<u8> = tensor.shape.iter().flat_map(|&d| [0x08, d as u8]).collect();
    let raw = tensor.bytes().unwrap();
    bytes.extend([0x10, tensor.dtype as u8, 0x4a, raw.len() as u8]);
    bytes.extend_from_slice(raw);
    bytes
}

fn backend_test(dir: &Utf8Path) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("model.onnx"), adder().encode().unwrap()).unwrap();
    for (set, batch) in [("test_data_set_10", 2), ("test_data_set_2", 1)] {
        let set = dir.join(set);
        fs::create_dir(&set).unwrap();
        fs::write(set.join("input_0.pb"), tensor_pb(&rows(batch))).unwrap();
        fs::write(set.join("input_1.pb"), tensor_pb(&mask(batch))).unwrap();
        let sum = Tensor::from_values(&[batch, 2], &vec![1.5f32; 2 * batch]).unwrap();
        fs::write(set.join("output_0.pb"), tensor_pb(&sum)).unwrap();
    }
}

#[test]
fn a_backend_test_directory_is_replayed_as_it_lies_and_imported() {
    let (_keep, dir) = folder();
    let source = dir.join("test_adder");
    backend_test(&source);
    let bundle = Bundle::open(&source).unwrap();
    assert_eq!((bundle.layout, bundle.name.as_str()), (Layout::BackendTest, "test_adder"));
    let names: Vec<&str> = bundle.cases.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["test_data_set_2", "test_data_set_10"], "by number");
    assert_eq!(bundle.cases[0].inputs[1].name, "mask");
    assert_eq!(bundle.cases[1].inputs[0].array.read(&source, DEFAULT_CAP_BYTES).unwrap(), rows(2));
    bundle.verify().unwrap();
    let imported = bundle::import(&source, &dir.join("b"), &ImportOptions::default()).unwrap();
    assert_eq!(imported.files.len(), 7);
    imported.verify().unwrap();

    let set = source.join("test_data_set_2");
    fs::copy(set.join("input_0.pb"), set.join("input_2.pb")).unwrap();
    let e = Bundle::open(&source).unwrap_err().to_string();
    assert!(e.contains("test_data_set_2/input_2.pb: is input number 2"), "{e}");
    fs::rename(set.join("input_2.pb"), set.join("input_1.pb")).unwrap();
    let e = Bundle::open(&source).unwrap().verify().unwrap_err().to_string();
    assert!(e.contains("case `test_data_set_2`, input `mask`: has the shape [1, 2]"), "{e}");
    fs::remove_file(set.join("input_1.pb")).unwrap();
    let e = Bundle::open(&source).unwrap().verify().unwrap_err().to_string();
    assert!(e.contains("input `mask`: is missing; the model needs `mask float32[batch]`"), "{e}");
    fs::write(set.join("input_1.pb"), [0xff; 9]).unwrap();
    let e = Bundle::open(&source).unwrap().verify().unwrap_err().to_string();
    assert!(e.contains("input_1.pb") && e.contains("does not hold one tensor"), "{e}");
}

#[test]
fn an_import_that_fails_leaves_nothing_behind() {
    let (_keep, dir) = folder();
    let source = dir.join("s");
    array_directory(&source);
    fs::write(source.join("data/axes.bin"), [0; 3]).unwrap();
    let out = dir.join("out");
    assert!(bundle::import(&source, &out.join("b"), &ImportOptions::default()).is_err());
    assert!(!out.exists());
    fs::write(&out, "a file where the folder should be").unwrap();
    array_directory(&dir.join("good"));
    let e = bundle::import(&dir.join("good"), &out.join("b"), &ImportOptions::default()).unwrap_err();
    assert!(e.to_string().contains("out: cannot make"), "{e}");
}

/// `ort-qualify bundle ...`: exit code and standard error.
fn verb(line: &[&str]) -> (i32, String) {
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_ort-qualify")).arg("bundle").args(line).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_command_line_says_whose_fault_it_is_by_exit_code() {
    let (_keep, dir) = folder();
    let source = dir.join("s");
    array_directory(&source);
    let dest = dir.join("b");
    let import = verb(&["import", source.as_str(), dest.as_str(), "--name", "own", "--input-map", "X=Xfeat_normed"]);
    assert_eq!(import, (0, String::new()));
    assert_eq!(Bundle::open(&dest).unwrap().name, "own");
    assert_eq!(verb(&["verify", dest.as_str()]).0, 0);
    assert_eq!(verb(&["show", source.as_str(), "--model", "model.onnx"]).0, 0);
    for wrong in [
        &["verify", "/absent"][..],
        &["import", source.as_str(), dest.as_str()],
        &["verify", dest.as_str(), "--name", "other"],
        &["show", source.as_str(), "--model", "absent.onnx"],
    ] {
        let (code, stderr) = verb(wrong);
        assert_eq!(code, 2, "{wrong:?}");
        assert!(stderr.starts_with("error: ") && stderr.lines().count() == 1, "{stderr}");
    }
}
