//! `graph rewrite` as a user meets it, and its proof against a pass that is wrong.

use super::project::{Project, repository};
use camino::{Utf8Path, Utf8PathBuf};
use onnx_graph::builder::Builder;
use onnx_graph::infer::Types;
use onnx_graph::rewrite::{Pass, Rewritten, pass};
use onnx_graph::{DataType, Dim, Model, Tensor, View};
use ort_qualify::graph::Stack;
use ort_qualify::graph::inputs::generate;
use ort_qualify::graph::rewriting::{Plan, rewrite};
use ort_qualify::run::Settings;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// `Where(IsNaN(Softmax(x)), 0, Softmax(x))` on `[2, 3, 8]`.
fn guarded_softmax() -> Model {
    let dims = [2, 3, 8].map(Dim::Fixed);
    let mut g = Builder::new("guarded");
    g.opset("", 20).ir_version(9).producer("a test", "1");
    let x = g.input("x", DataType::Float32, &dims);
    let zero = g.initialiser("nothing", &Tensor::from_values(&[], &[0f32]).unwrap());
    let p = g.node("softmax", "Softmax", &[&x]).attribute("axis", -1).makes("p");
    let nan = g.node("is_nan", "IsNaN", &[&p]).makes("nan");
    let y = g.node("guard", "Where", &[&nan, &zero, &p]).makes("y");
    g.output(&y, DataType::Float32, &dims);
    g.build().unwrap()
}

fn saved(project: &Project) -> Utf8PathBuf {
    let path = project.root.join("model.onnx");
    fs::write(&path, guarded_softmax().encode().unwrap()).unwrap();
    path
}

#[test]
fn a_rewritten_model_has_no_hazard_left_and_its_proof_beside_it() {
    let project = Project::plain("");
    saved(&project);
    let said = project.say(&["graph", "rewrite", "model.onnx", "--pass", "safe-softmax", "-o", "safe.onnx"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains("safe-softmax: 1 place"), "{}", said.stdout);
    let safe = Model::load(project.root.join("safe.onnx").as_std_path()).unwrap();
    assert!(!safe.op_histogram().contains_key("IsNaN"), "{:?}", safe.op_histogram());
    assert_eq!(safe.metadata("ort-qualify.passes"), Some("safe-softmax"));
    let proof = fs::read_to_string(project.root.join("safe.onnx.proof.json")).unwrap();
    let proof: Value = serde_json::from_str(&proof).unwrap();
    assert_eq!(proof["holds"], true);
    let kinds = proof["passes"][0]["sites"][0]["kinds"].as_array().unwrap();
    assert_eq!(kinds.len(), 9, "every kind is fed to a pass that excludes none: {kinds:?}");
    let again = project.say(&["graph", "lint", "safe.onnx"]);
    assert!(!again.stdout.contains("softmax-guard"), "{}", again.stdout);
}

#[test]
fn a_wrong_request_says_what_there_is() {
    let project = Project::plain("");
    saved(&project);
    let said = project.say(&["graph", "rewrite", "model.onnx", "--pass", "safe-sofmax"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("did you mean `safe-softmax`"), "{}", said.stderr);
    let said = project.say(&["graph", "rewrite", "model.onnx", "--pass", "safe-softmax", "--mask", "valid"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("no input `valid`") && said.stderr.contains("inputs are x"), "{}", said.stderr);
}

/// `safe-softmax`, but for a `LogSoftmax` where the `Softmax` should stand.
fn broken(model: &Model, view: &View<'_>, types: &Types) -> Rewritten {
    let mut rewritten = (pass("safe-softmax").unwrap().apply)(model, view, types);
    let nodes = &mut rewritten.model.proto.graph.as_mut().unwrap().node;
    let softmax = nodes.iter_mut().find(|n| n.op_type() == "Softmax").unwrap();
    softmax.op_type = Some("LogSoftmax".to_owned());
    rewritten
}

#[test]
fn the_proof_of_a_broken_pass_fails_and_says_where() {
    let settings = Settings {
        root: repository(),
        recipe: "cpu".to_owned(),
        bundles: None,
        store: None,
        evidence: Utf8PathBuf::new(),
        program: env!("CARGO_BIN_EXE_ort-qualify").into(),
        offline: false,
        rerun: true,
        threads: 1,
        quiet: true,
        fault: None,
    };
    let mut stack = Stack::open(settings, Duration::from_mins(1)).unwrap();
    let (model, extents) = (guarded_softmax(), BTreeMap::new());
    let sets = generate(&model, None, &extents, 1).unwrap();
    let passes = [Pass { apply: broken, ..*pass("safe-softmax").unwrap() }];
    let base_dir = Utf8Path::new(".").as_std_path();
    let plan = Plan { model: &model, base_dir, passes: &passes, extents: &extents, sets: &sets, seed: 1 };
    let (_, proof) = rewrite(&plan, &mut stack).unwrap();
    assert!(!proof.holds);
    let said = proof.disagreements().join("\n");
    assert!(said.contains("pass safe-softmax at softmax") && said.contains("the whole model on generated"), "{said}");
}
