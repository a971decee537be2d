//! Limits as a case's author meets them: what is refused, and what a judgement says.

use super::*;
use crate::observation::compare::{Comparison, Elements, Rows, TensorView, compare, compare_exact_integers};
use onnx_graph::DataType;

fn bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect()
}

/// fp32 vectors, the last `masked` elements of which are masked.
fn compared(got: &[f64], reference: &[f64], masked: usize, baseline: Option<&[f64]>, limits: &Limits) -> Comparison {
    let shape = [got.len()];
    let view = |b| TensorView::new(DataType::Float32, &shape, Elements::Bytes(b)).unwrap();
    let mask: Vec<u8> = (0..got.len()).map(|i| u8::from(i < got.len() - masked)).collect();
    let mask = TensorView::new(DataType::Bool, &shape, Elements::Bytes(&mask)).unwrap();
    let rows = (masked > 0).then(|| Rows::new(&mask, &[0]).unwrap());
    let (got, reference, baseline) = (bytes(got), bytes(reference), baseline.map(bytes));
    let baseline = baseline.as_deref().map(view);
    compare(&view(&got), &view(&reference), rows.as_ref(), baseline.as_ref(), &limits.measure()).unwrap()
}

fn judged(got: &[f64], reference: &[f64], limits: &Limits) -> Judgement {
    judge(&compared(got, reference, 0, None, limits), limits)
}

/// Reads limits as a case's file has them.
fn read(text: &str) -> Result<Limits, String> {
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Case {
        limits: Limits,
    }
    crate::toml_file::parse::<Case>("case.toml".into(), text).map(|c| c.limits).map_err(|e| e.to_string())
}

fn limits(text: &str) -> Limits {
    read(&format!("limits = {text}")).unwrap()
}

/// The only reason of a judgement that did not pass.
fn reason(judgement: &Judgement) -> &str {
    assert!(!judgement.passed);
    assert_eq!(judgement.reasons.len(), 1, "{judgement:?}");
    &judgement.reasons[0]
}

#[test]
fn limits_are_a_profile_or_a_table_that_overrides_one() {
    assert_eq!(limits("\"fp32\""), Limits::profile("fp32").unwrap());
    assert_eq!(limits("{ profile = \"fp32\", max_abs = 2e-5 }").table().max_abs, Some(2e-5));
    let loosened = limits("{ profile = \"onnx-node\", atol = 1e-6, nonfinite = \"forbid\" }");
    assert_eq!((loosened.table().rtol, loosened.table().atol), (Some(1e-3), Some(1e-6)));
    assert_eq!(loosened.nonfinite(), NonFinitePolicy::Forbid);
    let text = serde_json::to_string(&loosened).unwrap();
    assert_eq!(serde_json::from_str::<Limits>(&text).unwrap(), loosened, "{text}");
}

#[test]
fn limits_that_make_no_sense_are_refused_with_the_line_and_the_reason() {
    for (text, expected) in [
        ("\"fp23\"", "there is no limits profile `fp23` (did you mean `fp32`?): the profiles are exact, fp32, fp16"),
        ("{ max_aps = 1 }", "unknown field `max_aps`"),
        ("{ max_aps = 1 }", "did you mean `max_abs`?"),
        ("{ max_abs = nan }", "limit `max_abs` is NaN: a limit is a finite number and not negative"),
        ("{ max_abs = inf }", "limit `max_abs` is inf"),
        ("{ rtol = -1e-3 }", "limit `rtol` is -0.001"),
        ("{ max_ulp = -1 }", "-1"),
        ("{ max_ulp = 4, outlier_fraction = 1.0 }", "limit `outlier_fraction` is 1: a part of all elements"),
        ("{ min_cosine = -1.0 }", "limit `min_cosine` is -1: a cosine that can be missed"),
        ("{ min_cosine = 1.5 }", "limit `min_cosine` is 1.5"),
        ("{ max_abs = 1.0, outlier_fraction = 0.1 }", "or beyond max_ulp, and none of these is set"),
        ("{}", "the limits do not bound the error"),
        ("{ nonfinite = \"forbid\" }", "the limits do not bound the error"),
        ("{ max_abs = 1.0, nonfinite = \"ignore\" }", "unknown variant `ignore`"),
        ("3", "expected the name of a limits profile or a table of limits"),
    ] {
        let e = read(&format!("limits = {text}")).unwrap_err();
        assert!(e.starts_with("case.toml: ") && e.contains("line 1") && e.contains(expected), "{text}: {e}");
    }
}

#[test]
fn every_profile_is_sound_and_has_its_row() {
    for (profile, row) in PROFILES.iter().zip(profiles_table()) {
        let limits = profile.limits().unwrap();
        assert_eq!((row.name, row.limits), (profile.name, limits.to_string()));
    }
    let rows: Vec<_> = profiles_table().into_iter().map(|r| format!("{}: {}", r.name, r.limits)).collect();
    insta::assert_snapshot!(rows.join("\n"), @r#"
exact: max_ulp 0
fp32: max_abs 1e-5
fp16: max_abs 2.0 x the same-precision baseline's
onnx-node: rtol 0.001, atol 1e-7
ulp: max_ulp 4
outliers: rtol 0.001, atol 1e-5, but for 0.001 of the elements
"#);
}

#[test]
fn an_error_above_max_abs_says_figure_limit_element_and_rows() {
    let limits = limits("\"fp32\"");
    let j = judged(&[1.0, 2.0, 3.0], &[1.0, 2.5, 3.0], &limits);
    insta::assert_snapshot!(reason(&j), @"the largest absolute error on all rows is 5.00e-1, above the limit 1e-5 (at [1]: got 2.0, reference 2.5)");
    assert_eq!(j.would_pass, Some(Figure(0.5)));
    let worst = j.worst.unwrap();
    assert_eq!(
        (worst.limit.as_str(), worst.rows.as_str(), worst.figure.0, worst.bound.0),
        ("max_abs", "all", 0.5, 1e-5)
    );

    let j = judge(&compared(&[1.0, 2.0], &[1.0, 2.25], 1, None, &limits), &limits);
    insta::assert_snapshot!(reason(&j), @"the largest absolute error on masked rows is 2.50e-1, above the limit 1e-5 (at [1]: got 2.0, reference 2.25)");
}

#[test]
fn what_is_within_its_limits_passes_and_shows_the_margin() {
    let j = judged(&[1.0, 2.0], &[1.0, 2.000_001], &limits("\"fp32\""));
    assert!(j.passed && j.reasons.is_empty());
    let worst = j.worst.unwrap();
    assert!(worst.figure.0 > 0.0 && worst.figure <= worst.bound, "{worst:?}");
    assert_eq!(j.would_pass, Some(worst.figure));
}

#[test]
fn the_margin_shown_is_that_of_the_limit_nearest_to_being_missed() {
    // An error of 0.5 uses half of max_abs, and nine tenths of what atol leaves.
    let j = judged(&[2.5], &[2.0], &limits("{ max_abs = 1.0, mean_abs = 2.0, atol = 0.55 }"));
    assert_eq!(j.worst.map(|w| (w.limit, w.bound.0)), Some(("atol".to_owned(), 0.55)));
    let j = judged(&[2.5], &[2.0], &limits("{ max_abs = 0.5, mean_abs = 2.0, atol = 0.55 }"));
    assert_eq!(j.worst.map(|w| (w.limit, w.bound.0)), Some(("max_abs".to_owned(), 0.5)));
}

#[test]
fn the_tolerance_that_would_pass_just_passes() {
    let (got, reference) = ([1.1, -7.3, 1e-9], [1.0, -7.0, 0.0]);
    let j = judged(&got, &reference, &limits("\"onnx-node\""));
    let atol = j.would_pass.unwrap().0;
    let with = |atol: f64| {
        Limits::new(&LimitsTable { profile: Some("onnx-node".into()), atol: Some(atol), ..Default::default() }).unwrap()
    };
    assert!(!j.passed && judged(&got, &reference, &with(atol)).passed);
    assert!(!judged(&got, &reference, &with(atol.next_down())).passed);
}

#[test]
fn every_kind_of_limit_has_its_sentence() {
    let got = [1.0, 2.0, 3.0, 4.5];
    let reference = [1.0, 2.0, 3.0, 4.0];
    let sentence = |text: &str| reason(&judged(&got, &reference, &limits(text))).to_owned();
    insta::assert_snapshot!(sentence("{ mean_abs = 0.1 }"), @"the mean absolute error on all rows is 1.25e-1, above the limit 0.1; the largest is 5.00e-1 (at [3]: got 4.5, reference 4.0)");
    insta::assert_snapshot!(sentence("{ rtol = 1e-3, atol = 1e-7 }"), @"1 of 4 elements on all rows is beyond atol 1e-7 + rtol 0.001 x |reference|: none may be (worst at [3]: got 4.5, reference 4.0); with atol 4.96e-1 none would be");
    insta::assert_snapshot!(sentence("{ max_ulp = 4 }"), @"1 of 4 elements on all rows is beyond 4 ULP: none may be (worst at [3]: got 4.5, reference 4.0); the furthest is 1048576 ULP apart");
    insta::assert_snapshot!(sentence("{ rtol = 1e-3, outlier_fraction = 0.2 }"), @"1 of 4 elements on all rows is beyond atol 0.0 + rtol 0.001 x |reference|: the fraction allowed is 0.2 and this is 2.50e-1 (worst at [3]: got 4.5, reference 4.0); with atol 4.96e-1 none would be");
    insta::assert_snapshot!(sentence("{ min_cosine = 0.9999 }"), @"the cosine on all rows is 0.9982953841253283, below the limit 0.9999");
    assert!(judged(&got, &reference, &limits("{ rtol = 1e-3, outlier_fraction = 0.25 }")).passed);
    assert!(judged(&got, &reference, &limits("{ max_ulp = 4, outlier_fraction = 0.25 }")).passed);
    assert!(judged(&got, &reference, &limits("{ min_cosine = 0.99 }")).passed);
}

#[test]
fn outliers_are_still_held_to_max_abs() {
    let j = judged(&[1.0, 9.0], &[1.0, 2.0], &limits("{ rtol = 1e-3, outlier_fraction = 0.5, max_abs = 1.0 }"));
    insta::assert_snapshot!(reason(&j), @"the largest absolute error on all rows is 7.00e0, above the limit 1.0 (at [1]: got 9.0, reference 2.0)");
}

#[test]
fn fp16_is_held_to_twice_its_baselines_error_on_the_same_rows() {
    let limits = limits("\"fp16\"");
    let judged = |got: &[f64], baseline: Option<&[f64]>| {
        judge(&compared(got, &[1.0, 1.0, 1.0, 1.0], 2, baseline, &limits), &limits)
    };
    assert!(judged(&[1.25, 1.0, 1.5, 1.0], Some(&[1.125, 1.0, 1.25, 1.0])).passed);
    let j = judged(&[1.25, 1.0, 1.5, 1.0], Some(&[1.125, 1.0, 1.0, 1.125]));
    insta::assert_snapshot!(reason(&j), @"the largest absolute error on masked rows is 5.00e-1, above the limit 2.50e-1, 2.0 x the 1.25e-1 of the float32 baseline (at [2]: got 1.5, reference 1.0)");
    let j = judged(&[1.25, 1.0, 1.0, 1.0], Some(&[1.0, f64::NAN, 1.0, 1.125]));
    insta::assert_snapshot!(reason(&j), @"the largest absolute error on valid rows is 2.50e-1, above the limit 0, 2.0 x the 0 of the float32 baseline (NaN or infinity on one side only left out: 1) (at [0]: got 1.25, reference 1.0)");
    let j = judged(&[1.0; 4], None);
    assert_eq!((j.passed, j.reasons.len()), (false, 2));
    insta::assert_snapshot!(j.reasons[0], @"the limit on valid rows is 2.0 x the error of a same-precision baseline and the case has none: give the output a baseline, or limits that need none");
}

#[test]
fn non_finite_values_must_match_or_be_absent() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let fp32 = limits("\"fp32\"");
    let matching = judged(&[nan, 1.0, inf], &[nan, 1.0, inf], &fp32);
    assert!(matching.passed, "{matching:?}");
    for (got, reference) in [
        ([1.0, nan], [1.0, 2.0]),
        ([1.0, 2.0], [1.0, nan]),
        ([nan, 1.0], [1.0, nan]),
        ([nan; 2], [1.0; 2]),
        ([inf, 1.0], [-inf, 1.0]),
    ] {
        let j = judged(&got, &reference, &fp32);
        assert!(!j.passed && j.would_pass == Some(Figure(inf)), "{got:?} against {reference:?}: {j:?}");
    }
    insta::assert_snapshot!(reason(&judged(&[1.0, nan], &[1.0, 2.0], &fp32)), @"NaN or infinity on all rows is on one side only, or of another kind, at 1 of 2 elements, first at [1]: got NaN, reference 2.0");

    let forbid = limits("{ profile = \"fp32\", nonfinite = \"forbid\" }");
    let j = judged(&[nan, 1.0, inf, nan], &[nan, 1.0, inf, nan], &forbid);
    insta::assert_snapshot!(j.reasons.join("\n"), @r#"
the output has 2 NaN (first at [0]), 1 +inf (first at [2]) on all rows, and the limits forbid non-finite values
the reference has 2 NaN (first at [0]), 1 +inf (first at [2]) on all rows, and the limits forbid non-finite values
"#);
    assert!(judged(&[1.0], &[1.0], &forbid).passed);
}

#[test]
fn a_difference_beyond_f64_is_above_any_limit() {
    let bytes = |v: f64| v.to_le_bytes();
    let (got, reference) = (bytes(1.7e308), bytes(-1.7e308));
    let view = |b| TensorView::new(DataType::Float64, &[], Elements::Bytes(b)).unwrap();
    let limits = limits("{ max_abs = 1e300 }");
    let j = judge(&compare(&view(&got), &view(&reference), None, None, &limits.measure()).unwrap(), &limits);
    insta::assert_snapshot!(reason(&j), @"the largest absolute error on all rows is inf, above the limit 1e300 (at []: got 1.7e308, reference -1.7e308)");
}

#[test]
fn what_cannot_be_compared_fails_with_both_sides_shown() {
    let limits = limits("\"fp32\"");
    let judged = |got: (DataType, &[usize]), reference: (DataType, &[usize])| {
        let (g, r) = (
            vec![0; got.0.byte_len(got.1.iter().product()).unwrap()],
            vec![0; reference.0.byte_len(reference.1.iter().product()).unwrap()],
        );
        let got = TensorView::new(got.0, got.1, Elements::Bytes(&g)).unwrap();
        let reference = TensorView::new(reference.0, reference.1, Elements::Bytes(&r)).unwrap();
        judge(&compare(&got, &reference, None, None, &limits.measure()).unwrap(), &limits)
    };
    let (f32, i64) = (DataType::Float32, DataType::Int64);
    insta::assert_snapshot!(reason(&judged((f32, &[2, 3]), (DataType::Float64, &[3, 2]))), @"the output is float32 of shape [2, 3] and the reference float64 of shape [3, 2]: the shapes differ");
    insta::assert_snapshot!(reason(&judged((f32, &[2]), (i64, &[2]))), @"the output is float32 of shape [2] and the reference int64 of shape [2]: the types cannot be compared");
    insta::assert_snapshot!(reason(&judged((f32, &[]), (i64, &[2]))), @"the output is float32 of shape [] and the reference int64 of shape [2]: the shapes differ and the types cannot be compared");
}

#[test]
fn integers_must_be_equal_whatever_the_limits() {
    let limits = limits("{ max_abs = 100.0 }");
    let got: Vec<u8> = [1i64, 2, 30].iter().flat_map(|v| v.to_le_bytes()).collect();
    let reference: Vec<u8> = [1i32, 2, 3].iter().flat_map(|v| v.to_le_bytes()).collect();
    let got = TensorView::new(DataType::Int64, &[3], Elements::Bytes(&got)).unwrap();
    let reference = TensorView::new(DataType::Int32, &[3], Elements::Bytes(&reference)).unwrap();
    let j = judge(&compare_exact_integers(&got, &reference, None).unwrap(), &limits);
    insta::assert_snapshot!(reason(&j), @"1 of 3 elements (int64 against int32) on all rows differs, first at [2]: got 30, reference 3; the largest difference is 27");
    assert_eq!(j.would_pass, None);
    assert!(judge(&compare_exact_integers(&got, &got, None).unwrap(), &limits).passed);
}

#[test]
fn empty_outputs_pass_and_exact_means_the_rounded_reference() {
    assert!(judged(&[], &[], &limits("{ profile = \"onnx-node\", min_cosine = 0.5, mean_abs = 0.0 }")).passed);
    let exact = limits("\"exact\"");
    assert!(judged(&[1.0, -0.0], &[1.0, 0.0], &exact).passed);
    assert!(!judged(&[1.0 + 2f64.powi(-23)], &[1.0], &exact).passed);
}

#[test]
fn a_comparison_measured_for_other_limits_is_not_judged_by_these() {
    let comparison = compared(&[1.0], &[1.0], 0, None, &limits("\"fp32\""));
    insta::assert_snapshot!(reason(&judge(&comparison, &limits("{ profile = \"onnx-node\", max_ulp = 3 }"))), @"the comparison counted elements beyond rtol 0.0, atol 1e-5 and the limits ask for rtol 0.001, atol 1e-7, 3 ULP: compare again with these limits");
}

#[test]
fn measures_and_limits_survive_the_worker_protocol() {
    for profile in PROFILES {
        let measure = profile.limits().unwrap().measure();
        let text = serde_json::to_string(&measure).unwrap();
        assert_eq!(serde_json::from_str::<Measure>(&text).unwrap(), measure, "{text}");
    }
}

#[test]
fn decades_stop_at_the_limit() {
    let fp32 = limits("\"fp32\"");
    let text = |c: &Comparison, limit| decades(c, limit).iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let c = compared(&[1.0, 2.0], &[1.0, 2.004], 0, None, &fp32);
    assert_eq!(text(&c, 1e-5), "1e0 holds, 1e-1 holds, 1e-2 holds, 1e-3 broken, 1e-4 broken, 1e-5 broken");
    assert_eq!(text(&c, 2e-2), "1e0 holds, 1e-1 holds");
    assert_eq!((text(&c, 0.0), text(&c, f64::NAN), text(&c, 5.0)), (String::new(), String::new(), String::new()));
    let masked = compared(&[1.0, 2.0], &[1.0, 2.004], 1, None, &fp32);
    assert_eq!(text(&masked, 1e-3), "1e0 holds, 1e-1 holds, 1e-2 holds, 1e-3 broken");
    let nan = compared(&[1.0, f64::NAN], &[1.0, 2.0], 0, None, &fp32);
    assert_eq!(text(&nan, 0.1), "1e0 broken, 1e-1 broken");
}
