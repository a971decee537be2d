//! Hand cases of float outputs.

use super::*;
use DataType::{Bfloat16, Complex64, Float16, Float32, Float64};

#[test]
fn neighbours_are_one_ulp_apart_in_every_type_and_zero_has_one_place() {
    let f32_tiny = f64::from(f32::from_bits(1));
    for (dtype, next_to_1, tiny) in [
        (Float16, 1.0 + 2f64.powi(-10), 2f64.powi(-24)),
        (Bfloat16, 1.0 + 2f64.powi(-7), 2f64.powi(-133)),
        (Float32, 1.0 + 2f64.powi(-23), f32_tiny),
        (Float64, 1.0f64.next_up(), f64::from_bits(1)),
    ] {
        let ulp = |got: f64, reference: f64| figures((dtype, &[got]), (dtype, &[reference])).max_ulp;
        assert_eq!(ulp(next_to_1, 1.0), 1, "{dtype}");
        assert_eq!(ulp(-1.0, -next_to_1), 1, "{dtype}");
        assert_eq!(ulp(tiny, 0.0), 1, "{dtype}");
        assert_eq!(ulp(tiny, -tiny), 2, "{dtype}");
        assert_eq!(ulp(-0.0, 0.0), 0, "{dtype}");
        // From the other side of zero, with something that differs beside it so that distances are looked at.
        assert_eq!(figures((dtype, &[-0.0, tiny]), (dtype, &[0.0, 0.0])).max_ulp, 1, "{dtype}");
    }
}

#[test]
fn a_wider_reference_is_rounded_once_and_to_even_before_ulp_are_counted() {
    let ulp = |dtype, got: f64, reference: f64| figures((dtype, &[got]), (Float64, &[reference])).max_ulp;
    let (half, quarter) = (2f64.powi(-11), 2f64.powi(-12));
    assert_eq!(ulp(Float16, 1.0, 1.0 + half), 0, "a tie goes to even");
    assert_eq!(ulp(Float16, 1.0, 1.0 + 3.0 * half), 2, "a tie goes to even");
    assert_eq!(ulp(Float16, 1.0, 1.0 + half + 2f64.powi(-40)), 1, "rounded through f32 it would look like a tie");
    assert_eq!(ulp(Float16, 1.0, 1.0 + quarter), 0);
    assert_eq!(ulp(Float32, 1.0, 1.0 + 2f64.powi(-24)), 0);
    assert_eq!(ulp(Float32, 1.0, 1.0 + 2f64.powi(-24) + 2f64.powi(-50)), 1);
    assert_eq!(ulp(Float16, 2f64.powi(-24), 2f64.powi(-25)), 1, "a tie of subnormals goes to even, 0");
    assert_eq!(ulp(Float16, 2f64.powi(-14), 2f64.powi(-14) - 2f64.powi(-26)), 0, "up into the normal values");
    // Beyond the type's range: one step beyond the largest value.
    assert_eq!(ulp(Float16, 65504.0, 1e300), 1);
    assert_eq!(ulp(Bfloat16, f64::from(half::bf16::MAX), -1e300), 2 * 0x7f80 - 1);
    assert_eq!(ulp(Float32, f64::from(f32::MAX), 1e300), 1);
}

#[test]
fn nan_is_counted_on_its_side_and_matches_only_nan_at_its_place() {
    let nan = f64::NAN;
    let moved = figures((Float32, &[nan, 1.0, 2.0]), (Float32, &[0.0, nan, 2.5]));
    assert_eq!((moved.elements, moved.compared, moved.nonfinite_matching, moved.nonfinite_mismatched), (3, 1, 0, 2));
    let first = moved.first_nonfinite_mismatch.unwrap();
    assert_eq!((first.at.as_slice(), first.got.0.is_nan(), first.reference.0), ([0].as_slice(), true, 0.0));
    assert_eq!(
        (moved.nonfinite_got.nan.first.as_deref(), moved.nonfinite_reference.nan.first.as_deref()),
        (Some([0].as_slice()), Some([1].as_slice()))
    );
    assert_eq!((moved.max_abs, moved.worst_abs.unwrap().at), (Figure(0.5), vec![2]));

    let one_side = figures((Float32, &[1.0, 1.0]), (Float32, &[1.0, nan]));
    assert_eq!(
        (one_side.nonfinite_mismatched, one_side.nonfinite_got.count(), one_side.nonfinite_reference.nan.count),
        (1, 0, 1)
    );

    let both = figures((Float32, &[nan, 1.0]), (Float64, &[nan, 1.0]));
    assert_eq!(
        (both.nonfinite_matching, both.nonfinite_mismatched, both.compared, both.max_abs),
        (1, 0, 1, Figure(0.0))
    );

    let all = figures((Float16, &[nan; 3]), (Float16, &[nan; 3]));
    assert_eq!((all.nonfinite_matching, all.compared, all.cosine, all.max_abs), (3, 0, Figure(1.0), Figure(0.0)));
}

#[test]
fn infinities_match_by_sign_and_an_overflow_is_a_mismatch() {
    let inf = f64::INFINITY;
    let f = figures((Float16, &[inf, -inf, inf, inf, inf]), (Float64, &[inf, -inf, -inf, 1e300, f64::NAN]));
    assert_eq!((f.nonfinite_matching, f.nonfinite_mismatched, f.compared), (2, 3, 0));
    assert_eq!((f.nonfinite_got.pos_inf.count, f.nonfinite_got.neg_inf.count), (4, 1));
    assert_eq!(f.nonfinite_reference.neg_inf.first, Some(vec![1]));
    assert_eq!(f.first_nonfinite_mismatch.unwrap().at, [2]);
}

#[test]
fn a_zero_reference_is_left_out_of_the_relative_error_and_counted() {
    let f = figures((Float32, &[0.5, 0.0, 2.5]), (Float32, &[0.0, 0.0, 2.0]));
    assert_eq!((f.max_rel, f.zero_reference_differing), (Figure(0.25), 1));
}

#[test]
fn sums_near_the_ends_of_f64_neither_overflow_nor_vanish() {
    let huge = figures((Float64, &[1.5e308, 1.5e308]), (Float64, &[1e308, 1e308]));
    assert!((huge.mean_abs.0 / 0.5e308 - 1.0).abs() < 1e-12, "{huge:?}");
    assert!((huge.cosine.0 - 1.0).abs() < 1e-12, "{huge:?}");
    let apart = figures((Float64, &[1.5e308, 0.0]), (Float64, &[-1.5e308, 0.0]));
    assert_eq!((apart.max_abs, apart.max_rel, apart.cosine), (Figure(f64::INFINITY), Figure(2.0), Figure(-1.0)));
    assert!((apart.mean_abs.0 / 1.5e308 - 1.0).abs() < 1e-12, "the mean is in range: {apart:?}");
    let tiny = figures((Float64, &[3e-310, 4e-310]), (Float64, &[4e-310, -3e-310]));
    assert!(tiny.cosine.0.abs() < 1e-9 && tiny.mean_abs.0 > 3.9e-310, "{tiny:?}");
    // Normal numbers whose squares are 0 in f64.
    let small = figures((Float64, &[3e-200, 4e-200]), (Float64, &[4e-200, 3e-200]));
    assert!((small.cosine.0 - 0.96).abs() < 1e-12, "{small:?}");
}

#[test]
fn the_cosine_of_nothing_with_nothing_is_1_and_with_something_0() {
    let cosine = |got: &[f64], reference: &[f64]| figures((Float32, got), (Float32, reference)).cosine.0;
    assert_eq!(cosine(&[0.0, 0.0], &[0.0, -0.0]), 1.0);
    assert_eq!(cosine(&[0.0, 1.0], &[0.0, 0.0]), 0.0);
    assert_eq!(cosine(&[0.0, 0.0], &[0.0, 1.0]), 0.0);
    assert_eq!(cosine(&[3.0, 4.0], &[-3.0, -4.0]), -1.0);
}

#[test]
fn empty_arrays_and_scalars_are_compared() {
    let empty = Array::of(Float32, &[0, 7], &[]);
    let f = floats_of(compare(&empty.view(), &empty.view(), None, None, &Measure::default()).unwrap());
    assert_eq!((f.valid.elements, f.valid.max_abs, f.valid.p99_ulp, f.masked), (0, Figure(0.0), Figure(0.0), None));

    let (got, reference) = (Array::of(Float32, &[], &[2.0]), Array::of(Float64, &[], &[1.5]));
    let f = floats_of(compare(&got.view(), &reference.view(), None, None, &Measure::default()).unwrap()).valid;
    let worst = f.worst_abs.unwrap();
    assert_eq!((f.elements, f.max_abs.0, worst.at, worst.got.0, worst.reference.0), (1, 0.5, vec![], 2.0, 1.5));
}

#[test]
fn shapes_and_types_that_cannot_be_compared_are_facts_with_both_shown() {
    let kinds = [
        (Float32, Float64, None),
        (Float16, Float32, None),
        (Bfloat16, Float32, None),
        (Float64, Float32, Some(Mismatch::Dtype)),
        (Float16, Bfloat16, Some(Mismatch::Dtype)),
        (Complex64, Float64, Some(Mismatch::Dtype)),
        (Float32, DataType::Int32, Some(Mismatch::Dtype)),
        (DataType::Int32, DataType::Int64, Some(Mismatch::Dtype)),
    ];
    for (got, reference, expected) in kinds {
        let values = |dtype| vec![1.0; if dtype == Complex64 { 4 } else { 2 }];
        let (got, reference) = (Array::of(got, &[2], &values(got)), Array::of(reference, &[2], &values(reference)));
        let c = compare(&got.view(), &reference.view(), None, None, &Measure::default()).unwrap();
        let found = if let Outcome::Mismatch(m) = &c.outcome { Some(*m) } else { None };
        assert_eq!(found, expected, "{} against {}", c.got, c.reference);
    }
    let (got, reference) = (Array::of(Float32, &[2, 1], &[1.0; 2]), Array::of(DataType::Int64, &[2], &[1.0; 2]));
    let c = compare(&got.view(), &reference.view(), None, None, &Measure::default()).unwrap();
    assert_eq!(c.outcome, Outcome::Mismatch(Mismatch::ShapeAndDtype));
    assert_eq!(
        (c.got.to_string(), c.reference.to_string()),
        ("float32 of shape [2, 1]".into(), "int64 of shape [2]".into())
    );
}

#[test]
fn complex_numbers_are_pairs_with_an_axis_of_their_own() {
    let got = Array::of(Complex64, &[2, 1], &[1.0, 2.0, 3.0, 4.5]);
    let reference = Array::of(DataType::Complex128, &[2, 1], &[1.0, 2.0, 3.0, 4.0]);
    let f = floats_of(compare(&got.view(), &reference.view(), None, None, &Measure::default()).unwrap()).valid;
    assert_eq!((f.elements, f.worst_abs.unwrap().at), (4, vec![1, 0, 1]));
}

#[test]
fn a_baseline_is_measured_against_the_same_reference_on_the_same_rows() {
    let mask = Array::of(DataType::Bool, &[2], &[1.0, 0.0]);
    let rows = Rows::new(&mask.view(), &[0]).unwrap();
    let got = Array::of(Float16, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let reference = Array::of(Float64, &[2, 2], &[1.0; 4]);
    let baseline = Array::of(Float32, &[2, 2], &[1.5, 1.0, f64::NAN, 2.0]);
    let measure = Measure::default();
    let f = floats_of(compare(&got.view(), &reference.view(), Some(&rows), Some(&baseline.view()), &measure).unwrap());
    let valid = f.valid.baseline.unwrap();
    assert_eq!((valid.max_abs.0, valid.mean_abs.0, valid.compared, valid.dtype.as_str()), (0.5, 0.25, 2, "float32"));
    let masked = f.masked.unwrap().baseline.unwrap();
    assert_eq!((masked.max_abs.0, masked.nonfinite_mismatched), (1.0, 1));

    let e = compare(&got.view(), &reference.view(), None, Some(&mask.view()), &measure).unwrap_err().to_string();
    assert!(e.contains("baseline is bool of shape [2] and the reference float64 of shape [2, 2]"), "{e}");
}

#[test]
fn required_atol_is_the_smallest_that_passes() {
    let got = Array::of(Float32, &[3], &[1.1, 2.3, -3.7]);
    let reference = Array::of(Float64, &[3], &[1.0, 2.0, -3.0]);
    let beyond = |rtol: f64, atol: f64| {
        let measure = Measure { rtol: Figure(rtol), atol: Figure(atol), ulp: None };
        floats_of(compare(&got.view(), &reference.view(), None, None, &measure).unwrap()).valid
    };
    let required = beyond(0.01, 0.0).required_atol.0;
    assert_eq!(beyond(0.01, required).beyond_tolerance, 0);
    let just_missed = beyond(0.01, required.next_down());
    assert_eq!((just_missed.beyond_tolerance, just_missed.worst_required.unwrap().at), (1, vec![2]));
    assert_eq!(beyond(10.0, 0.0).required_atol.0, 0.0);
}

#[test]
fn tolerances_that_are_none_and_data_that_does_not_fit_are_refused() {
    let a = Array::of(Float32, &[1], &[1.0]);
    for (rtol, atol) in [(f64::NAN, 0.0), (-1.0, 0.0), (0.0, f64::INFINITY)] {
        let measure = Measure { rtol: Figure(rtol), atol: Figure(atol), ulp: None };
        let e = compare(&a.view(), &a.view(), None, None, &measure).unwrap_err().to_string();
        assert!(e.contains("a tolerance is a number and not negative"), "{e}");
    }
    let e = TensorView::new(Float32, &[2, 3], Elements::Bytes(&[0; 23])).unwrap_err().to_string();
    assert!(e.contains("a float32 array of shape [2, 3] needs 24 bytes and has 23 bytes"), "{e}");
    let e = TensorView::new(Float32, &[1], Elements::Strings(&[String::new()])).unwrap_err().to_string();
    assert!(e.contains("needs 4 bytes and has 1 strings"), "{e}");
    let e = TensorView::new(Float32, &[usize::MAX, 2], Elements::Bytes(&[])).unwrap_err().to_string();
    assert!(e.contains("more elements than can be addressed"), "{e}");
}

#[test]
fn a_comparison_survives_json_with_its_nan_and_infinities() {
    let got = Array::of(Float64, &[3], &[f64::NAN, 1.7e308, 1.0]);
    let reference = Array::of(Float64, &[3], &[f64::INFINITY, -1.7e308, 1.0]);
    let c = compare(&got.view(), &reference.view(), None, None, &Measure::default()).unwrap();
    let text = serde_json::to_string(&c).unwrap();
    assert!(text.contains("\"NaN\"") && text.contains("\"inf\"") && !text.contains("got\":null"), "{text}");
    let back: Comparison = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
}
