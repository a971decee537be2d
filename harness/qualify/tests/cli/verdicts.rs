//! Exit codes and verdicts of runs that go as they should, or as they are known to.

use super::project::{Project, Said, group, identity};
use onnx_graph::{DataType, Dim};
use std::process::Stdio;

#[test]
fn all_as_expected_is_0_and_the_table_says_what_a_person_asks_first() {
    let project = Project::new(&group("sdpa_fp16_masked", "full allmasked", ""));
    let said = project.say(&["run"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    for wanted in [
        "sdpa_fp16_masked/allmasked",
        "output: baseline_factor",
        "passes from atol",
        "CPU ",
        "2 cases on recipe cpu",
        "2 pass",
        "evidence in",
    ] {
        assert!(said.stdout.contains(wanted), "{wanted:?} is not in {}", said.stdout);
    }
}

#[test]
fn a_limit_that_is_exceeded_is_1_and_says_where_and_what_would_pass() {
    let project = Project::plain("limits = { max_abs = 1e-9 }");
    let run = project.run(&[]);
    let (verdict, reasons) = run.verdict("sdpa_fp32/plain");
    assert_eq!((run.code, verdict.as_str()), (1, "fail@compare"));
    assert!(reasons.contains("output `output`: the largest absolute error on all rows is"), "{reasons}");
    let passes = run.case("sdpa_fp32/plain")["outputs"][0]["would_pass"].as_f64().unwrap();
    let project = Project::plain(&format!("limits = {{ max_abs = {passes:e} }}"));
    assert_eq!(project.run(&[]).code, 0, "the tolerance that was said to just pass, passes");
}

#[test]
fn a_nan_on_one_side_is_what_the_table_and_the_reason_show() {
    let project = Project::new(&group("nan", "plain", "limits = \"fp32\""));
    identity(&project, "nan", [1.0, f32::NAN], |_| {});
    let said = project.say(&["run"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    for wanted in [
        "y: 1 elements NaN or infinite (all rows), passes with no atol",
        "at 1 of 2 elements, first at [1]: got 2.0, reference NaN",
    ] {
        assert!(said.stdout.contains(wanted), "{wanted:?} is not in {}", said.stdout);
    }
}

#[test]
fn a_known_failure_must_fail_where_and_as_it_is_known_to() {
    let known = |stage: &str, pattern: &str, limits: &str| {
        let text = format!(
            "limits = {limits}\n[[group.known_failure]]\nstage = \"{stage}\"\npattern = \"{pattern}\"\nreason = \"a test\""
        );
        let run = Project::plain(&text).run(&[]);
        (run.code, run.verdict("sdpa_fp32/plain"))
    };
    let tight = "{ max_abs = 1e-12 }";
    assert_eq!(known("compare", "largest absolute error", tight).1.0, "known-failure@compare");
    let (code, (verdict, reasons)) = known("run", "largest absolute error", tight);
    assert_eq!((code, verdict.as_str()), (1, "fail@compare"));
    assert!(reasons.contains("known to fail at stage run"), "{reasons}");
    assert_eq!(known("compare", "another text", tight).0, 1);
    let (code, (verdict, reasons)) = known("compare", "largest absolute error", "\"fp32\"");
    assert_eq!((code, verdict.as_str()), (1, "unexpected-pass"));
    assert!(reasons.contains("update the golden data"), "{reasons}");
}

#[test]
fn a_known_failure_covers_only_what_it_names_and_never_a_case_that_was_not_tried() {
    let known = |stage: &str, pattern: &str| {
        format!("[[group.known_failure]]\nstage = \"{stage}\"\npattern = \"{pattern}\"\nreason = \"a test\"")
    };
    let both = format!("limits = {{ max_abs = 1e-12, max_ulp = 0 }}\n{}", known("compare", "largest absolute error"));
    let (verdict, reasons) = Project::plain(&both).run(&[]).verdict("sdpa_fp32/plain");
    assert_eq!(verdict, "fail@compare");
    assert!(reasons.contains("beyond 0 ULP") && reasons.contains("does not cover all of this"), "{reasons}");
    let each = format!("{both}\n{}", known("compare", "beyond 0 ULP"));
    assert_eq!(Project::plain(&each).run(&[]).verdict("sdpa_fp32/plain").0, "known-failure@compare");

    let project = Project::new(&group("sdpa_fp32", "absent", &known("load", "has no case `absent`")));
    let run = project.run(&[]);
    assert_eq!((run.code, run.verdict("sdpa_fp32/absent").0.as_str()), (1, "fail@load"));
}

#[test]
fn an_output_without_a_reference_fails_unless_the_case_says_that_it_needs_none() {
    let verdict = |rest: &str| {
        let project = Project::new(&group("two", "plain", &format!("limits = \"fp32\"\n{rest}")));
        identity(&project, "two", [1.0, 2.0], |g| {
            let z = g.input("more", DataType::Float32, &[Dim::Fixed(2)]);
            let z = g.node("other", "Identity", &[&z]).makes("z");
            g.output(&z, DataType::Float32, &[Dim::Fixed(2)]);
        });
        project.run(&[]).verdict("two/plain")
    };
    let (failed, reasons) = verdict("");
    assert_eq!(failed, "fail@compare");
    assert!(reasons.contains("output `z` of the model has no reference"), "{reasons}");
    assert_eq!(verdict("without_reference = [\"z\"]").0, "pass");
}

#[test]
fn variables_that_the_recipe_does_not_set_are_a_warning() {
    let project = Project::plain("");
    let said: Said = project.command(&["run"]).env("OMP_NUM_THREADS", "1").output().unwrap().into();
    assert_eq!(said.code, 0);
    assert!(
        said.stdout.contains("warning, 1 cases: OMP_NUM_THREADS=1 was set when the worker started"),
        "{}",
        said.stdout
    );
}

#[test]
fn a_ready_made_store_is_used_as_it_is_and_nothing_is_fetched() {
    let project = Project::plain("");
    let (ready, empty) = (project.root.join("ready"), project.root.join("empty"));
    assert_eq!(project.say(&["recipe", "realise", "cpu", "--store", ready.as_str()]).code, 0);
    let run = |words: &[&str]| {
        let mut command = project.command(&[&["run", "--offline", "--store", empty.as_str()], words].concat());
        Said::from(command.env("ORT_QUALIFY_PREFIXES", format!("/absent:{ready}")).output().unwrap())
    };
    let said = run(&[]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(!empty.exists());
    let audited = project
        .command(&["audit", "--evidence", "target/evidence", "--store", empty.as_str()])
        .env("ORT_QUALIFY_PREFIXES", &ready)
        .output()
        .unwrap();
    assert_eq!(audited.status.code(), Some(0));
}

#[test]
fn a_request_is_replayed_by_hand() {
    let project = Project::plain("");
    project.run(&[]);
    let request = project.root.join("target/evidence/cpu/sdpa_fp32__plain/request.json");
    let output = project.command(&["worker"]).stdin(std::fs::File::open(request).unwrap()).output().unwrap();
    let said = Said::from(output);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.lines().last().unwrap().starts_with("{\"finished\":"), "{}", said.stdout);
}

#[test]
fn cases_without_their_bundles_are_skipped_with_the_reason() {
    let cases = "source.external.about = \"far away\"\n[[group]]\nname = \"{bundle}/{batch}\"\nbundles = [\"b\"]\nbatches = [\"plain\"]\nlimits = \"fp32\"\n";
    let project = Project::new(cases);
    let run = project.run(&[]);
    assert_eq!((run.code, run.verdict("b/plain").0.as_str()), (2, "skipped"), "nothing was run");
    assert!(run.verdict("b/plain").1.contains("far away: name their folder with --bundles"), "{}", run.json);
    let listed = project.say(&["list"]);
    assert!(listed.stdout.contains("skipped here: far away"), "{}", listed.stdout);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let project = Project::plain("");
    let mut child = project.command(&["list"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn the_profiles_of_limits_are_one_table() {
    let said = Project::plain("").say(&["limits"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    for profile in ["exact", "fp32", "fp16", "onnx-node", "ulp", "outliers"] {
        assert!(said.stdout.contains(profile), "{}", said.stdout);
    }
}
