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
use ort_qualify::graph::stack::Trial;
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

fn cpu() -> Stack {
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
    Stack::open(settings, Duration::from_mins(1)).unwrap()
}

#[test]
fn the_proof_of_a_broken_pass_fails_and_says_where() {
    let mut stack = cpu();
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

/// `atan2(y, x)` as exporters take it apart, for `n` points.
fn taken_apart(n: usize) -> Model {
    let dims = [Dim::Fixed(n)];
    let mut g = Builder::new("atan2");
    g.opset("", 20).ir_version(9).producer("a test", "1");
    let y = g.input("y", DataType::Float32, &dims);
    let x = g.input("x", DataType::Float32, &dims);
    let scalar = |v: f32| Tensor::from_values(&[], &[v]).unwrap();
    let (zero, pi) = (g.initialiser("zero", &scalar(0.0)), g.initialiser("pi", &scalar(std::f32::consts::PI)));
    let quotient = g.node("div", "Div", &[&y, &x]).makes("quotient");
    let angle = g.node("atan", "Atan", &[&quotient]).makes("angle");
    let plus = g.node("add", "Add", &[&angle, &pi]).makes("plus");
    let minus = g.node("sub", "Sub", &[&angle, &pi]).makes("minus");
    let up = g.node("up", "Greater", &[&y, &zero]).makes("is_up");
    let turned = g.node("turn", "Where", &[&up, &plus, &minus]).makes("turned");
    let left = g.node("left", "Less", &[&x, &zero]).makes("is_left");
    let whole = g.node("whole", "Where", &[&left, &turned, &angle]).makes("phi");
    g.output(&whole, DataType::Float32, &dims);
    g.build().unwrap()
}

/// Points in every octant, of sizes from the smallest to the largest, and every pair of special values.
fn points(n: usize) -> (Vec<f32>, Vec<f32>) {
    let special = [0.0, f32::from_bits(1), f32::MIN_POSITIVE, 0.5, 1.0, f32::MAX, f32::INFINITY];
    let special: Vec<f32> = special.iter().flat_map(|&v| [v, -v]).collect();
    let mut bits = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bits >> 32
    };
    (0..n)
        .map(|i| match i / special.len() {
            k if k < special.len() => (special[k], special[i % special.len()]),
            // Every second point has a quotient of about one, where the octants meet.
            k if k % 2 == 0 => {
                let x = 1.0 + next() as f32 / 4e9;
                let y = x * (0.4 + next() as f32 / 4e9);
                (if next() % 2 == 0 { y } else { -y }, if next() % 2 == 0 { x } else { -x })
            }
            _ => {
                let any = |bits: u64| Some(f32::from_bits(bits as u32)).filter(|v| v.is_finite()).unwrap_or(1.0);
                (any(next()), any(next()))
            }
        })
        .unzip()
}

/// Floats between two of them; zeros of both signs are the same.
fn steps(a: f32, b: f32) -> u64 {
    let place = |v: f32| {
        let bits = i64::from(v.to_bits() & 0x7fff_ffff);
        if v.is_sign_negative() { -bits } else { bits }
    };
    place(a).abs_diff(place(b))
}

#[test]
fn atan2_is_within_one_ulp_of_the_correctly_rounded_value_on_a_million_points() {
    let n = 1_000_000;
    let rewritten = pass("atan2").unwrap().run(&taken_apart(n));
    assert_eq!((rewritten.sites.len(), rewritten.skipped.len()), (1, 0));
    let histogram = rewritten.model.op_histogram();
    let plain = ["Abs", "Add", "Div", "Equal", "Greater", "Less", "Mul", "Sub", "Where"];
    assert!(histogram.keys().all(|op| plain.contains(&op.as_str())), "{histogram:?}");
    let (y, x) = points(n);
    let feeds = [("y", &y), ("x", &x)];
    let sets = [feeds.map(|(name, v)| (name.to_owned(), Tensor::from_values(&[n], v).unwrap())).into()];
    let trial = Trial {
        model: &rewritten.model,
        base_dir: Utf8Path::new(".").as_std_path(),
        sets: &sets,
        tensors: &[],
        optimise: true,
        placement: false,
    };
    let phi = cpu().must_run("atan2", &trial).unwrap()[0]["phi"].values::<f32>().unwrap();
    let worst = (0..n).max_by_key(|&i| steps(phi[i], f64::from(y[i]).atan2(f64::from(x[i])) as f32)).unwrap();
    let right = f64::from(y[worst]).atan2(f64::from(x[worst])) as f32;
    let apart = steps(phi[worst], right);
    assert!(
        apart <= 1,
        "atan2({:e}, {:e}) is {:e} and should be {right:e}: {apart} steps",
        y[worst],
        x[worst],
        phi[worst]
    );
}
