//! Outputs that must be equal.

use super::*;
use DataType::{Bool, Float8E4M3Fn, Int4, Int32, Int64, Uint8};

fn compare_exact(got: &Array, reference: &Array) -> ExactFigures {
    exact_of(compare(&got.view(), &reference.view(), None, None, &Measure::default()).unwrap()).valid
}

#[test]
fn integers_say_how_many_differ_where_first_and_how_far() {
    let got = Array::of(Int64, &[2, 3], &[1.0, 2.0, 30.0, 4.0, 5.0, -60.0]);
    let reference = Array::of(Int64, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let f = compare_exact(&got, &reference);
    assert_eq!((f.elements, f.differing, f.max_abs), (6, 2, Some(Figure(66.0))));
    assert_eq!(f.first, Some(Difference { at: vec![0, 2], got: "30".into(), reference: "3".into() }));
    assert_eq!(
        compare_exact(&got, &got),
        ExactFigures { elements: 6, max_abs: Some(Figure(0.0)), ..Default::default() }
    );
}

#[test]
fn the_ends_of_64_bits_are_apart_without_overflow() {
    let bytes = |v: i64| v.to_le_bytes().to_vec();
    let (low, high) = (bytes(i64::MIN), bytes(i64::MAX));
    let view = |b| TensorView::new(Int64, &[], Elements::Bytes(b)).unwrap();
    let f = exact_of(compare(&view(&low), &view(&high), None, None, &Measure::default()).unwrap()).valid;
    assert_eq!(f.max_abs, Some(Figure(2f64.powi(64))));
}

#[test]
fn bools_are_true_for_any_nonzero_byte() {
    let got = Array::of(Bool, &[3], &[1.0, 255.0, 0.0]);
    let f = compare_exact(&got, &Array::of(Bool, &[3], &[1.0, 1.0, 1.0]));
    assert_eq!((f.differing, f.max_abs), (1, None));
    assert_eq!(f.first, Some(Difference { at: vec![2], got: "false".into(), reference: "true".into() }));
}

#[test]
fn packed_integers_keep_their_sign_and_bits_are_shown_as_bits() {
    // -8, 7, 1 against -8, -1, 1, low bits first; the unused half byte says nothing.
    let view = |b| TensorView::new(Int4, &[3], Elements::Bytes(b)).unwrap();
    let f =
        exact_of(compare(&view(&[0x78, 0x01]), &view(&[0xf8, 0x71]), None, None, &Measure::default()).unwrap()).valid;
    assert_eq!((f.differing, f.max_abs), (1, Some(Figure(8.0))));
    assert_eq!(f.first, Some(Difference { at: vec![1], got: "7".into(), reference: "-1".into() }));

    let view = |b| TensorView::new(DataType::Int2, &[4], Elements::Bytes(b)).unwrap();
    let f =
        exact_of(compare(&view(&[0b1110_0100]), &view(&[0b0110_0100]), None, None, &Measure::default()).unwrap()).valid;
    assert_eq!(f.first, Some(Difference { at: vec![3], got: "-1".into(), reference: "1".into() }));

    let got = Array::of(Float8E4M3Fn, &[2], &[f64::from(0x7fu8), 1.0]);
    let f = compare_exact(&got, &Array::of(Float8E4M3Fn, &[2], &[f64::from(0x7eu8), 1.0]));
    assert_eq!((f.differing, f.max_abs), (1, None));
    assert_eq!(f.first.unwrap().got, "0x7f");
}

#[test]
fn strings_are_compared_and_long_ones_cut() {
    let (a, b) = (["x".repeat(500), "same".into()], ["y".into(), "same".into()]);
    let view = |s| TensorView::new(DataType::String, &[2], Elements::Strings(s)).unwrap();
    let f = exact_of(compare(&view(&a), &view(&b), None, None, &Measure::default()).unwrap()).valid;
    let first = f.first.unwrap();
    assert_eq!((f.differing, first.at, first.got, first.reference), (1, vec![0], "x".repeat(80) + "…", "y".to_owned()));
}

#[test]
fn probes_are_compared_by_value_across_widths_and_say_both_types() {
    let got = Array::of(Int64, &[3], &[0.0, 1.0, -2.0]);
    let reference = Array::of(Int32, &[3], &[0.0, 1.0, -2.0]);
    let c = compare_exact_integers(&got.view(), &reference.view(), None).unwrap();
    assert_eq!((c.got.dtype.as_str(), c.reference.dtype.as_str()), ("int64", "int32"));
    assert_eq!(exact_of(c).valid.differing, 0);

    // What only looks equal in the narrower type is not.
    let far = Array::of(Int64, &[3], &[0.0, 1.0 + 2f64.powi(32), -2.0]);
    let f = exact_of(compare_exact_integers(&far.view(), &reference.view(), None).unwrap()).valid;
    assert_eq!((f.differing, f.max_abs), (1, Some(Figure(2f64.powi(32)))));

    for other in [Array::of(Bool, &[3], &[0.0; 3]), Array::of(DataType::Float32, &[3], &[0.0; 3])] {
        let c = compare_exact_integers(&got.view(), &other.view(), None).unwrap();
        assert_eq!(c.outcome, Outcome::Mismatch(Mismatch::Dtype));
    }
    let short = Array::of(Uint8, &[2], &[0.0; 2]);
    let c = compare_exact_integers(&got.view(), &short.view(), None).unwrap();
    assert_eq!(c.outcome, Outcome::Mismatch(Mismatch::Shape));
}
