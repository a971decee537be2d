use super::reference::{exact, rounded_to_f16};
use super::*;
use approx::assert_abs_diff_eq;
use ndarray::{Array, array};

fn spec(precision: Precision, mask: MaskInput) -> SdpaSpec {
    SdpaSpec { batch: 3, heads: 2, sequence: 12, head_dim: 8, precision, mask, projections: false }
}

/// One event, one head, two elements of one feature each.
fn tiny(valid: Option<[bool; 2]>) -> Inputs {
    let column = |a: f64, b: f64| Array::from_shape_vec((1, 1, 2, 1), vec![a, b]).unwrap();
    let valid = valid.map(|[a, b]| array![[a, b]]);
    Inputs { query: column(0.0, 1.0), key: column(0.0, 2.0), value: column(1.0, 3.0), valid }
}

fn input<'a>(case: &'a SdpaCase, name: &str) -> &'a Tensor {
    &case.inputs.iter().find(|(n, _)| n == name).unwrap().1
}

#[test]
fn the_reference_is_what_one_computes_by_hand() {
    let output = exact(&tiny(None), 1.0);
    // Query 0 is alike to both keys: the mean of 1 and 3. Query 1 sees scores 0 and 2: (1 + 3 e^2) / (1 + e^2).
    assert_abs_diff_eq!(output[[0, 0, 0, 0]], 2.0, epsilon = 1e-15);
    assert_abs_diff_eq!(output[[0, 0, 1, 0]], 2.761_594_155_955_765, epsilon = 1e-14);
    // With the second key masked only the first value is left, and with both masked nothing.
    assert_eq!(exact(&tiny(Some([true, false])), 1.0).into_raw_vec_and_offset().0, [1.0, 1.0]);
    assert_eq!(exact(&tiny(Some([false, false])), 1.0).into_raw_vec_and_offset().0, [0.0, 0.0]);
}

#[test]
fn the_float16_baseline_rounds_every_step_and_guards_rows_without_keys() {
    let output = rounded_to_f16(&tiny(None), 1.0);
    assert_eq!(output[[0, 0, 0, 0]], f16::from_f32(2.0));
    // The weights 0.1192 and 0.8808 as float16, then their weighted sum as float16.
    let weights = [0.119_202_92_f32, 0.880_797_1].map(|w| f16::from_f32(w).to_f32());
    assert_eq!(output[[0, 0, 1, 0]], f16::from_f32(weights[0] + 3.0 * weights[1]));
    assert!(rounded_to_f16(&tiny(Some([false, false])), 1.0).iter().all(|&x| x == f16::ZERO));
}

#[test]
fn weights_sum_to_one_so_constant_values_come_out_unchanged() {
    let spec = spec(Precision::Fp32, MaskInput::Bool);
    let mut drawn = Inputs::draw(&spec, 9, Some(Pattern::Holes));
    drawn.value.fill(1.0);
    for x in exact(&drawn, spec.scale()) {
        assert_abs_diff_eq!(x, 1.0, epsilon = 1e-14);
    }
}

#[test]
fn masked_keys_have_no_influence() {
    let spec = spec(Precision::Fp16, MaskInput::Bool);
    let mut drawn = Inputs::draw(&spec, 9, Some(Pattern::Padded));
    let (before, before_f16) = (exact(&drawn, spec.scale()), rounded_to_f16(&drawn, spec.scale()));
    let valid = drawn.valid.clone().unwrap();
    for ((event, _, key, _), x) in drawn.key.indexed_iter_mut() {
        if !valid[[event, key]] {
            *x = 100.0;
        }
    }
    assert_eq!(exact(&drawn, spec.scale()), before);
    assert_eq!(rounded_to_f16(&drawn, spec.scale()), before_f16);
}

#[test]
fn the_four_masks_look_as_they_are_called() {
    let cases = cases(&spec(Precision::Fp32, MaskInput::Bool));
    assert_eq!(cases.iter().map(|c| c.name).collect::<Vec<_>>(), ["full", "padded", "holes", "allmasked"]);
    let rows = |case: &SdpaCase| -> Vec<String> {
        let values: Vec<bool> = case.mask.as_ref().unwrap().values().unwrap();
        values.chunks(12).map(|row| row.iter().map(|&v| if v { '1' } else { '.' }).collect()).collect()
    };
    assert_eq!(rows(&cases[0]), ["111111111111"; 3]);
    assert_eq!(rows(&cases[1]), ["111111111...", "111111......", "111........."]);
    assert!(rows(&cases[2]).iter().any(|row| row.contains(".1")), "{:?}", rows(&cases[2]));
    assert_eq!(rows(&cases[3]), ["............", "111111......", "111........."]);
    assert_eq!(Some(input(&cases[1], "mask")), cases[1].mask.as_ref());
}

#[test]
fn an_event_without_keys_gives_zeros_and_the_others_do_not() {
    let case = &cases(&spec(Precision::Fp16, MaskInput::Float))[3];
    let (reference, baseline) = (&case.reference, case.baseline.as_ref().unwrap());
    let (exact, rounded): (Vec<f64>, Vec<f16>) = (reference.values().unwrap(), baseline.values().unwrap());
    let event = exact.len() / 3;
    assert!(exact[..event].iter().all(|&x| x == 0.0) && rounded[..event].iter().all(|&x| x == f16::ZERO));
    assert!(exact[event..].iter().all(|x| x.is_finite() && *x != 0.0));
    let worst = exact.iter().zip(&rounded).map(|(a, b)| (a - b.to_f64()).abs()).fold(0.0, f64::max);
    assert!(worst > 1e-5 && worst < 1e-2, "the baseline is {worst} off");
}

#[test]
fn inputs_have_the_types_of_the_graph_and_both_masks_say_the_same() {
    for precision in [Precision::Fp32, Precision::Fp16] {
        for mask in [MaskInput::None, MaskInput::Bool, MaskInput::Float] {
            let spec = spec(precision, mask);
            let wanted: Vec<_> = graph(&spec).inputs().into_iter().map(|i| (i.name, i.dtype.unwrap())).collect();
            for case in cases(&spec) {
                let given: Vec<_> = case.inputs.iter().map(|(name, t)| (name.clone(), t.dtype)).collect();
                assert_eq!(given, wanted);
                assert_eq!(case.baseline.is_some(), precision == Precision::Fp16);
            }
        }
    }
    let floats = &cases(&spec(Precision::Fp32, MaskInput::Float))[1];
    let bools: Vec<bool> = floats.mask.as_ref().unwrap().values().unwrap();
    let ones: Vec<f32> = input(floats, "mask").values().unwrap();
    assert!(ones.iter().zip(&bools).all(|(one, &valid)| one.to_bits() == f32::from(u8::from(valid)).to_bits()));
}

#[test]
fn inputs_never_change() {
    // Computed apart from this code, in Python.
    let first = |spec: &SdpaSpec| cases(spec)[0].inputs[0].1.clone();
    let wide: Vec<f32> = first(&spec(Precision::Fp32, MaskInput::None)).values().unwrap();
    assert_eq!(wide[..3].iter().map(|x| x.to_bits()).collect::<Vec<_>>(), [0x3fb6_dd01, 0x3e0e_7cfd, 0xbfba_0346]);
    let narrow: Vec<f16> = first(&spec(Precision::Fp16, MaskInput::None)).values().unwrap();
    assert_eq!(narrow[..3].iter().map(|x| x.to_bits()).collect::<Vec<_>>(), [0x3db7, 0x3074, 0xbdd0]);
    let mean = wide.iter().sum::<f32>() / wide.len() as f32;
    let square = wide.iter().map(|x| x * x).sum::<f32>() / wide.len() as f32;
    assert!(mean.abs() < 0.1 && (square - 1.0).abs() < 0.15, "mean {mean}, mean square {square}");
}

#[test]
fn the_graph_is_the_decomposed_form() {
    let ops = |mask| graph(&spec(Precision::Fp16, mask)).op_histogram().into_iter().collect::<Vec<_>>();
    let named = |list: &[(&str, usize)]| list.iter().map(|&(op, n)| (op.to_owned(), n)).collect::<Vec<_>>();
    assert_eq!(ops(MaskInput::None), named(&[("MatMul", 2), ("Mul", 2), ("Softmax", 1), ("Transpose", 1)]));
    let masked = [("Add", 1), ("IsNaN", 1), ("MatMul", 2), ("Mul", 2), ("Softmax", 1), ("Transpose", 1)];
    let masked = [&masked[..], &[("Unsqueeze", 1), ("Where", 2)]].concat();
    assert_eq!(ops(MaskInput::Bool), named(&masked));
    let model = graph(&spec(Precision::Fp16, MaskInput::Float));
    assert_eq!(model.op_histogram()["Cast"], 1);
    assert_eq!(model.outputs()[0].to_string(), "output float16[3,2,12,8]");
    assert_eq!((model.ir_version(), model.opsets()[""]), (10, 20));
    let floats = model.graph().initializer.iter().filter(|i| i.data_type() == DataType::Float32 as i32).count();
    assert_eq!(floats, 0, "a float16 graph holds no float32");
}

#[test]
fn projections_are_made_of_elements_and_change_what_attention_gives() {
    let with = SdpaSpec { projections: true, ..spec(Precision::Fp32, MaskInput::None) };
    let model = graph(&with);
    assert_eq!(model.op_histogram()["MatMul"], 6);
    let told = |values: Vec<String>| values.join(", ");
    let inputs = told(model.inputs().iter().map(ToString::to_string).collect());
    assert_eq!(
        (inputs.as_str(), model.outputs()[0].to_string().as_str()),
        ("elements float32[3,12,16]", "output float32[3,12,16]")
    );
    let case = &cases(&with)[0];
    let output: Vec<f64> = case.reference.values().unwrap();
    assert!(output.iter().all(|x| x.is_finite()) && output.len() == 3 * 12 * 16);
    assert!(with.check().is_ok());
    for other in [SdpaSpec { precision: Precision::Fp16, ..with }, SdpaSpec { mask: MaskInput::Bool, ..with }] {
        assert!(other.check().unwrap_err().contains("in fp32 and without a mask"));
    }
}
