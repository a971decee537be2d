//! The project's own layout: written, read back, verified, and refused after any change.

use super::{content, edit, folder, refusal};
use bytes::Bytes;
use camino::Utf8Path;
use onnx_graph::{DataType, Tensor};
use ort_qualify::bundle::array::DEFAULT_CAP_BYTES;
use ort_qualify::bundle::sdpa::{self, MaskInput, Precision, SdpaSpec};
use ort_qualify::bundle::{self, Bundle, BundleParts, CaseParts, Layout, Mask, OutputParts, OutputSpec, Provenance};
use std::fs;
use std::hash::{BuildHasher, RandomState};

const SPEC: SdpaSpec = SdpaSpec {
    batch: 2,
    heads: 2,
    sequence: 4,
    head_dim: 3,
    precision: Precision::Fp16,
    mask: MaskInput::Float,
    projections: false,
};

/// Masked float16 attention: mask axes that are not the leading ones, a baseline, a bool and a bfloat16 probe.
fn parts() -> BundleParts {
    let probe = Tensor::from_bytes(DataType::Bfloat16, vec![2], Bytes::from_static(&[0x80, 0x3f, 0, 0x40])).unwrap();
    let inner = sdpa::graph(&SPEC).nodes().next().unwrap().outputs()[0].clone();
    let case = |case: sdpa::SdpaCase| CaseParts {
        name: case.name.to_owned(),
        description: String::new(),
        inputs: case.inputs,
        outputs: vec![OutputParts { name: "output".to_owned(), reference: case.reference, baseline: case.baseline }],
        probes: vec![(inner.clone(), probe.clone())],
    };
    BundleParts {
        name: "sdpa_fp16".to_owned(),
        description: "masked attention".to_owned(),
        model: sdpa::graph(&SPEC),
        mask: Some(Mask { input: "mask".to_owned() }),
        outputs: vec![OutputSpec {
            name: "output".to_owned(),
            mask_axes: Some(vec![0, 2]),
            limits: Some("fp16".to_owned()),
        }],
        cases: sdpa::cases(&SPEC).into_iter().map(case).collect(),
        provenance: Provenance { producer: "test".to_owned(), seed: Some(1), ..Provenance::default() },
    }
}

/// Writes the bundle of [`parts`] below a folder.
fn written(dir: &Utf8Path) -> Bundle {
    bundle::write(&dir.join("b"), &parts()).unwrap()
}

#[test]
fn what_is_written_is_read_back_and_verified() {
    let (_keep, dir) = folder();
    let bundle = written(&dir);
    assert_eq!(bundle.layout, Layout::Own);
    assert_eq!(bundle, Bundle::open(&dir.join("b")).unwrap());
    let facts = bundle.verify().unwrap();
    let says = |text: &str| facts.iter().any(|f| f.finding.contains(text));
    assert!(says("every size and SHA-256 as recorded") && says("mask [2, 4] on axes [0, 2]"), "{facts:?}");
    for (case, parts) in bundle.cases.iter().zip(parts().cases) {
        for (input, (name, tensor)) in case.inputs.iter().zip(&parts.inputs) {
            assert_eq!(input.name, *name);
            assert_eq!(input.array.read(&bundle.dir, DEFAULT_CAP_BYTES).unwrap(), *tensor);
        }
        let (output, wanted) = (&case.outputs[0], &parts.outputs[0]);
        assert_eq!(output.array.read(&bundle.dir, DEFAULT_CAP_BYTES).unwrap(), wanted.reference);
        let baseline = output.baseline.as_ref().unwrap().read(&bundle.dir, DEFAULT_CAP_BYTES).unwrap();
        assert_eq!(Some(baseline), wanted.baseline);
        assert_eq!(case.probes[0].array.read(&bundle.dir, DEFAULT_CAP_BYTES).unwrap(), parts.probes[0].1);
    }
    assert!(bundle.case("padded").is_ok());
    assert!(bundle.case("paded").unwrap_err().to_string().contains("did you mean `padded`"));
}

#[test]
fn the_same_parts_give_the_same_bytes_and_nothing_is_overwritten() {
    let (_keep, dir) = folder();
    let (one, two) = (dir.join("one"), dir.join("two"));
    let first = bundle::write(&one, &parts()).unwrap();
    let second = bundle::write(&two, &parts()).unwrap();
    let bytes = |d: &Utf8Path| content(d).into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>();
    assert_eq!(bytes(&one), bytes(&two));
    assert_eq!(first.fingerprint().unwrap(), second.fingerprint().unwrap());
    let e = bundle::write(&one, &parts()).unwrap_err().to_string();
    assert!(e.contains("one: is there already"), "{e}");
    // Nothing else is left behind.
    assert_eq!(dir.read_dir_utf8().unwrap().count(), 2);
}

#[test]
fn a_bundle_that_would_not_verify_is_not_written() {
    let (_keep, dir) = folder();
    let mut wrong = parts();
    wrong.cases[0].inputs[0].1 = Tensor::from_values(&[1], &[1f32]).unwrap();
    let e = bundle::write(&dir.join("b"), &wrong).unwrap_err().to_string();
    assert!(e.contains("case `full`, input `query`: is float32 and the model wants float16"), "{e}");
    let mut twice = parts();
    twice.cases[1].name = twice.cases[0].name.clone();
    assert!(bundle::write(&dir.join("b"), &twice).is_err());
    assert_eq!(dir.read_dir_utf8().unwrap().count(), 0);
}

#[test]
fn an_output_that_is_no_tensor_cannot_be_compared() {
    use onnx_graph::proto::{ModelProto, TypeProto, type_proto};
    use prost::Message as _;
    let (_keep, dir) = folder();
    let mut parts = parts();
    let mut model = ModelProto::decode(parts.model.encode().unwrap().as_slice()).unwrap();
    let sequence = type_proto::Value::SequenceType(Box::default());
    model.graph.as_mut().unwrap().output[0].r#type = Some(TypeProto { value: Some(sequence), denotation: None });
    parts.model = onnx_graph::Model::from_bytes(model.encode_to_vec().into()).unwrap();
    let e = bundle::write(&dir.join("b"), &parts).unwrap_err().to_string();
    assert!(e.contains("the model gives `output sequence`, and only tensors can be compared"), "{e}");
}

#[test]
fn any_flipped_byte_in_any_file_is_refused() {
    let (_keep, dir) = folder();
    let bundle = written(&dir);
    let files = content(&bundle.dir);
    assert_eq!(files.len(), 7, "model, four archives, manifest, its hash");
    let total: usize = files.iter().map(|f| f.1.len()).sum();
    // Another place each time; a failure names the seed that repeats it.
    let seed = std::env::var("ORT_QUALIFY_TEST_SEED").ok().and_then(|s| s.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| RandomState::new().hash_one("flips"));
    println!("ORT_QUALIFY_TEST_SEED={seed}");
    let mut drawn = 0u64;
    let mut draw = |below: usize| {
        drawn += 1;
        let digest = ort_qualify::digest::of_bytes(format!("{seed} {drawn}").as_bytes());
        (u64::from_str_radix(&digest[..16], 16).unwrap() % below as u64) as usize
    };
    for round in 0..200 {
        // One round in two goes by size, so that every part of the large files is met; the others give each file a turn.
        let (file, at) = if round % 2 == 0 {
            let mut at = draw(total);
            let file = files
                .iter()
                .position(|f| {
                    if at < f.1.len() {
                        true
                    } else {
                        at -= f.1.len();
                        false
                    }
                })
                .unwrap();
            (file, at)
        } else {
            let file = round / 2 % files.len();
            (file, draw(files[file].1.len()))
        };
        let (path, whole) = &files[file];
        let mut bytes = whole.clone();
        let flip = 1 + draw(255) as u8;
        bytes[at] ^= flip;
        fs::write(path, &bytes).unwrap();
        let verified = Bundle::open(&bundle.dir).and_then(|b| b.verify());
        assert!(verified.is_err(), "seed {seed}: byte {at} of {path} ^ {flip} was not noticed");
        fs::write(path, whole).unwrap();
    }
    Bundle::open(&bundle.dir).unwrap().verify().unwrap();
}

#[test]
fn missing_extra_truncated_and_linked_files_are_refused() {
    let (_keep, dir) = folder();
    let bundle = written(&dir);
    let inputs = bundle.dir.join("inputs.npz");
    let whole = fs::read(&inputs).unwrap();

    fs::write(bundle.dir.join("extra.txt"), "x").unwrap();
    assert!(refusal(&bundle.dir).contains("file `extra.txt`: is in the folder and not in the manifest"));
    fs::remove_file(bundle.dir.join("extra.txt")).unwrap();

    fs::write(&inputs, &whole[..whole.len() - 1]).unwrap();
    assert!(refusal(&bundle.dir).contains("inputs.npz: has"));
    fs::remove_file(&inputs).unwrap();
    assert!(refusal(&bundle.dir).contains("`inputs.npz` cannot be opened"));

    // The right bytes, but elsewhere.
    fs::write(dir.join("elsewhere.npz"), &whole).unwrap();
    std::os::unix::fs::symlink(dir.join("elsewhere.npz"), &inputs).unwrap();
    assert!(refusal(&bundle.dir).contains("`inputs.npz` is a link that leads out"));

    fs::remove_file(bundle.dir.join("bundle.sha256")).unwrap();
    assert!(refusal(&bundle.dir).contains("bundle.sha256: cannot read"));
}

#[test]
fn a_manifest_that_says_something_impossible_is_refused_with_file_and_field() {
    let (_keep, dir) = folder();
    let edits: &[(&str, &str, &str)] = &[
        ("format = 1", "format = 2", "format: 2 is not known"),
        ("model = \"model.onnx\"", "model = \"modle.onnx\"", "model: `modle.onnx` is not among"),
        ("description", "descripton", "did you mean `description`"),
        ("name = \"sdpa_fp16\"", "name = \"a b\"", "`a b` is no usable name"),
        ("name = \"padded\"", "name = \"full\"", "case `full`: is there twice"),
        ("name = \"padded\"", "name = \"../up\"", "`../up` is no usable name"),
        ("name = \"key\"", "name = \"query\"", "case `full`, input `query`: is there twice"),
        ("name = \"key\"", "name = \"keys\"", "did you mean `key`"),
        ("file = \"inputs.npz\"", "file = \"../inputs.npz\"", "climbs out with `..`"),
        ("file = \"inputs.npz\"", "file = \"/inputs.npz\"", "is absolute"),
        ("path = \"inputs.npz\"", "path = \"../inputs.npz\"", "climbs out with `..`"),
        ("path = \"inputs.npz\"", "path = \"model.onnx\"", "file `model.onnx`: is listed twice"),
        ("path = \"inputs.npz\"", "path = \"bundle.toml\"", "are not listed in the manifest"),
        ("array = \"full/query\"", "array = \"full/qery\"", "did you mean `full/query`"),
        ("array = \"full/query\"", "array = \"full/mask\"", "and the model says"),
        ("dtype = \"bfloat16\"", "dtype = \"bfloat\"", "`bfloat` is no element type (did you mean `bfloat16`?)"),
        ("dtype = \"bfloat16\"", "dtype = \"float32\"", "cannot be read as float32"),
        ("mask_axes = [0, 2]", "mask_axes = [0, 1]", "do not pick the mask's shape [2, 4]"),
        ("mask_axes = [0, 2]", "mask_axes = [0, 9]", "do not pick the mask's shape [2, 4]"),
        ("input = \"mask\"", "input = \"musk\"", "did you mean `mask`"),
        ("tensor = \"", "tensor = \"x", "no node of the main graph makes such a tensor"),
        ("sha256 = \"", "sha256 = \"A", "64 lower-case hex digits"),
    ];
    for (index, (from, to, wanted)) in edits.iter().enumerate() {
        let bundle = bundle::write(&dir.join(index.to_string()), &parts()).unwrap();
        edit(&bundle, |text| text.replacen(from, to, 1));
        let e = refusal(&bundle.dir);
        assert!(e.contains("bundle.toml") || e.contains(bundle.dir.as_str()), "{to}: {e}");
        assert!(e.contains(wanted), "{to}: {e}");
    }
}

#[test]
fn a_manifest_changed_without_its_hash_says_how_to_sign_it() {
    let (_keep, dir) = folder();
    let bundle = written(&dir);
    let path = bundle.dir.join("bundle.toml");
    fs::write(&path, fs::read_to_string(&path).unwrap() + "\n").unwrap();
    assert!(refusal(&bundle.dir).contains("sha256sum bundle.toml > bundle.sha256"));
}
