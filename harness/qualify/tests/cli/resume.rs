//! A run goes on where an earlier one stopped, and only there.

use super::project::{Project, group};
use onnx_graph::builder::Builder;
use onnx_graph::{DataType, Dim, Tensor};
use ort_qualify::bundle::array::write_npz;
use std::fs;

const CASE: &str = "sdpa_fp32/plain";

fn kept(project: &Project, words: &[&str]) -> bool {
    let run = project.run(words);
    assert_eq!(run.code, 0, "{}", run.json);
    run.case(CASE)["kept"].as_bool().unwrap()
}

#[test]
fn a_finished_case_is_kept_until_something_that_it_depends_on_changes() {
    let project = Project::plain("");
    assert!(!kept(&project, &[]));
    assert!(kept(&project, &[]));
    assert!(!kept(&project, &["--rerun"]));
    assert!(kept(&project, &[]), "what --rerun wrote counts");

    project.edit("golden/cases/cases.toml", "batches", "timeout_s = 7\nbatches");
    assert!(!kept(&project, &[]), "the case changed");

    project.edit("env-recipes/cpu.toml", "[host]", "[session]\n\"session.disable_prepacking\" = \"1\"\n\n[host]");
    assert!(!kept(&project, &[]), "the recipe changed");

    let evidence = project.root.join("target/evidence/cpu/sdpa_fp32__plain/observation.json");
    let whole = fs::read_to_string(&evidence).unwrap();
    fs::write(&evidence, &whole[..whole.len() / 2]).unwrap();
    assert!(!kept(&project, &[]), "the evidence is not whole");
}

#[test]
fn what_is_kept_is_judged_again() {
    let project = Project::plain("limits = { max_abs = 1e-12 }");
    assert_eq!(project.run(&[]).code, 1);
    project.edit("target/evidence/cpu/sdpa_fp32__plain/verdict.json", "\"fail\"", "\"pass\"");
    let run = project.run(&[]);
    assert!(run.case(CASE)["kept"].as_bool().unwrap());
    assert_eq!((run.code, run.verdict(CASE).0.as_str()), (1, "fail@compare"));
}

/// A folder without a manifest: one integer model, and a trace that only a case file names.
fn traced(project: &Project) {
    let folder = project.root.join("raw/ints");
    fs::create_dir_all(&folder).unwrap();
    let mut g = Builder::new("ints");
    g.opset("", 20).ir_version(10).producer("a test", "1");
    let shape = [Dim::Fixed(2)];
    let x = g.input("x", DataType::Int64, &shape);
    let inner = g.node("inner", "Neg", &[&x]).makes("inner");
    let y = g.node("outer", "Neg", &[&inner]).makes("y");
    g.output(&y, DataType::Int64, &shape);
    fs::write(folder.join("model.onnx"), g.build().unwrap().encode().unwrap()).unwrap();
    let save = |file: &str, name: &str, values: [i64; 2]| {
        let tensor = Tensor::from_values(&[2], &values).unwrap();
        write_npz(fs::File::create(folder.join(file)).unwrap(), [(name, &tensor)]).unwrap();
    };
    save("inputs.npz", "a_x", [1, 2]);
    save("outputs.npz", "a_y", [1, 2]);
    save("trace.npz", "inner", [-1, -2]);
}

#[test]
fn a_trace_that_only_the_case_names_is_among_what_it_depends_on() {
    let case = "source.external.about = \"x\"\n[[group]]\nname = \"{bundle}/{batch}\"\nbundles = [\"ints\"]\nbatches = [\"a\"]\n\
                limits = \"exact\"\n[[group.probe]]\ntensor = \"inner\"\narray = { file = \"trace.npz\", array = \"inner\" }\n";
    let project = Project::new(case);
    traced(&project);
    let run = |project: &Project| project.run(&["--bundles", "raw"]).verdict("ints/a");
    assert_eq!(run(&project).0, "pass");
    fs::write(project.root.join("raw/ints/trace.npz"), "junk").unwrap();
    let (verdict, reasons) = run(&project);
    assert_eq!(verdict, "fail@run", "{reasons}");
}

#[test]
fn a_changed_bundle_is_run_again() {
    let project = Project::plain("");
    assert!(!kept(&project, &[]));
    let bundles = project.root.join("golden/bundles");
    fs::remove_dir_all(bundles.join("sdpa_fp32")).unwrap();
    let said = project.say(&["bundle", "export", "sdpa", bundles.join("sdpa_fp32").as_str(), "--sequence", "8"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(!kept(&project, &[]));
}

#[test]
fn what_a_killed_run_left_half_filled_is_swept_by_the_next_and_that_of_others_is_not() {
    let project = Project::plain("");
    assert!(!kept(&project, &[]));
    let folder = project.root.join("target/evidence/cpu");
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let (left, others) = (format!(".part-{}-x", gone.id()), format!(".part-{}-x", std::process::id()));
    fs::create_dir(folder.join(&left)).unwrap();
    fs::create_dir(folder.join(&others)).unwrap();
    assert!(kept(&project, &[]));
    assert!(!folder.join(left).exists() && folder.join(others).exists());
}

#[test]
fn an_interrupted_run_leaves_whole_evidence_only() {
    let project = Project::new(&group("sdpa_fp32_masked", "full padded holes allmasked", "timeout_s = 4"));
    let run = project.run(&["--jobs", "1", "--fault", "hang-deaf@compare", "full"]);
    assert_eq!(run.code, 1);
    let folder = project.root.join("target/evidence/cpu");
    let names: Vec<_> = folder.read_dir_utf8().unwrap().map(|e| e.unwrap().file_name().to_owned()).collect();
    assert_eq!(names, ["sdpa_fp32_masked__full"]);
    let run = project.run(&[]);
    assert_eq!(run.json["verdicts"]["pass"], 4, "{}", run.json);
}
