//! Valid and masked rows.

use super::*;
use DataType::{Bool, Float32, Float64, Int64};

#[test]
fn a_mask_between_the_axes_splits_every_figure() {
    // [B, S] on [B, H, S, D]: event 0 has one valid row, event 1 two.
    let mask = Array::of(Float32, &[2, 2], &[1.0, 0.0, 1.0, 1.0]);
    let rows = Rows::new(&mask.view(), &[0, 2]).unwrap();
    let reference = Array::of(Float64, &[2, 3, 2, 2], &[0.0; 24]);
    let mut values = [0.0; 24];
    values[8..12].copy_from_slice(&[1.0, 0.0, 7.0, f64::NAN]); // event 0, head 2: row 0, then row 1
    let got = Array::of(Float32, &[2, 3, 2, 2], &values);
    let f = floats_of(compare(&got.view(), &reference.view(), Some(&rows), None, &Measure::default()).unwrap());
    let masked = f.masked.unwrap();
    assert_eq!((f.valid.elements, f.valid.max_abs.0, f.valid.worst_abs.unwrap().at), (18, 1.0, vec![0, 2, 0, 0]));
    assert_eq!((masked.elements, masked.max_abs.0, masked.worst_abs.unwrap().at), (6, 7.0, vec![0, 2, 1, 0]));
    assert_eq!((f.valid.nonfinite_mismatched, masked.nonfinite_mismatched), (0, 1));
    assert_eq!(masked.nonfinite_got.nan.first, Some(vec![0, 2, 1, 1]));
}

#[test]
fn integers_are_split_too() {
    let mask = Array::of(Int64, &[3], &[1.0, 0.0, -1.0]);
    let rows = Rows::new(&mask.view(), &[1]).unwrap();
    let got = Array::of(Int64, &[2, 3], &[0.0, 9.0, 0.0, 0.0, 9.0, 1.0]);
    let reference = Array::of(Int64, &[2, 3], &[0.0; 6]);
    let e = exact_of(compare(&got.view(), &reference.view(), Some(&rows), None, &Measure::default()).unwrap());
    assert_eq!((e.valid.differing, e.valid.first.unwrap().at), (1, vec![1, 2]));
    assert_eq!((e.masked.as_ref().unwrap().differing, e.masked.unwrap().elements), (2, 2));
}

#[test]
fn an_event_without_valid_rows_has_masked_figures_only() {
    let mask = Array::of(Bool, &[2], &[0.0; 2]);
    let rows = Rows::new(&mask.view(), &[0]).unwrap();
    let got = Array::of(Float32, &[2, 2], &[1.0; 4]);
    let f = floats_of(compare(&got.view(), &got.view(), Some(&rows), None, &Measure::default()).unwrap());
    assert_eq!((f.valid.elements, f.masked.unwrap().elements), (0, 4));
}

#[test]
fn a_mask_that_does_not_fit_is_refused_with_both_shapes() {
    let mask = Array::of(Bool, &[2, 3], &[1.0; 6]);
    let got = Array::of(Float32, &[2, 3, 4], &[0.0; 24]);
    let refusal = |axes: &[usize]| {
        let rows = Rows::new(&mask.view(), axes)?;
        compare(&got.view(), &got.view(), Some(&rows), None, &Measure::default())
    };
    assert!(refusal(&[0, 1]).is_ok());
    for (axes, expected) in [
        ([0, 2], "does not fit axes [0, 2] of an output of shape [2, 3, 4]: axis 2 has 4 elements and the mask has 3"),
        ([0, 3], "the output has 3 axes, counted from 0"),
        ([usize::MAX, 1], "the output has 3 axes, counted from 0"),
    ] {
        let e = refusal(&axes).unwrap_err().to_string();
        assert!(e.contains(expected), "{e}");
    }
    let e = refusal(&[0]).unwrap_err().to_string();
    assert!(e.contains("the mask is bool of shape [2, 3]") && e.contains("it has 2 axes and [0] names 1"), "{e}");

    let square = Array::of(Bool, &[2, 2], &[1.0; 4]);
    let rows = Rows::new(&square.view(), &[0, 0]).unwrap();
    let e = compare(&got.view(), &got.view(), Some(&rows), None, &Measure::default()).unwrap_err().to_string();
    assert!(e.contains("axis 0 is named twice"), "{e}");

    let nan = Array::of(Float32, &[2], &[1.0, f64::NAN]);
    let e = Rows::new(&nan.view(), &[0]).unwrap_err().to_string();
    assert!(e.contains("element 1 (row-major) is NaN"), "{e}");
    let strings = [String::new()];
    let strings = TensorView::new(DataType::String, &[1], Elements::Strings(&strings)).unwrap();
    let e = Rows::new(&strings, &[0]).unwrap_err().to_string();
    assert!(e.contains("a mask is bool, integer or float"), "{e}");
}

#[test]
fn extents_beside_an_empty_axis_may_be_of_any_size() {
    let shape = [0, usize::MAX, usize::MAX];
    let view = TensorView::new(Float32, &shape, Elements::Bytes(&[])).unwrap();
    let mask = Array::of(Bool, &[0], &[]);
    let rows = Rows::new(&mask.view(), &[0]).unwrap();
    let f = floats_of(compare(&view, &view, Some(&rows), None, &Measure::default()).unwrap());
    assert_eq!((f.valid.elements, f.masked.unwrap().elements), (0, 0));
}
