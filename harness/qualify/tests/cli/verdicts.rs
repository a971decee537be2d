//! Exit codes and verdicts of runs that go as they should, or as they are known to.

use super::project::{Project, group, identity};
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
    assert!(reasons.contains("output `output`: the largest absolute error on valid rows is"), "{reasons}");
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
        "y: 1 elements NaN or infinite on one side only (valid rows), passes with no atol",
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
fn cases_without_their_bundles_are_skipped_with_the_reason() {
    let cases = "source.external.about = \"far away\"\n[[group]]\nname = \"{bundle}/{batch}\"\nbundles = [\"b\"]\nbatches = [\"plain\"]\nlimits = \"fp32\"\n";
    let project = Project::new(cases);
    let run = project.run(&[]);
    assert_eq!((run.code, run.verdict("b/plain").0.as_str()), (0, "skipped"));
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
