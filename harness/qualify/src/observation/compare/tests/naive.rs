//! Every figure against an implementation that says the definitions in the plainest way: lists, sorting, division.

use super::*;
use proptest::prelude::*;

/// One pair as it was drawn: how to make the reference, how to make the output from it.
type Draw = (u8, u64, u8, u64);

const TYPES: [(DataType, DataType); 9] = [
    (DataType::Float32, DataType::Float64),
    (DataType::Float32, DataType::Float32),
    (DataType::Float64, DataType::Float64),
    (DataType::Float16, DataType::Float64),
    (DataType::Float16, DataType::Float32),
    (DataType::Float16, DataType::Float16),
    (DataType::Bfloat16, DataType::Float64),
    (DataType::Bfloat16, DataType::Float32),
    (DataType::Bfloat16, DataType::Bfloat16),
];

#[derive(Debug)]
struct Case {
    types: (DataType, DataType),
    shape: Vec<usize>,
    axes: Option<Vec<usize>>,
    mask: Vec<bool>,
    pairs: Vec<Draw>,
    /// Only values that need no special care: the fast path.
    plain: bool,
    rtol: f64,
    atol: f64,
    ulp: Option<u64>,
}

fn shape() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        4 => prop::collection::vec(0usize..6, 0..5),
        2 => (1000usize..3200).prop_map(|n| vec![n]),
        2 => (1usize..4, 500usize..1100).prop_map(|(a, b)| vec![a, b]),
        1 => (300usize..1100, 1usize..4).prop_map(|(a, b)| vec![a, b]),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    shape()
        .prop_flat_map(|shape| {
            let n: usize = shape.iter().product();
            let axes: Vec<usize> = (0..shape.len()).collect();
            let some = prop::sample::subsequence(axes, 0..=shape.len()).prop_shuffle();
            (Just(shape), prop::option::of(some), prop::collection::vec(any::<Draw>(), n))
        })
        .prop_flat_map(|(shape, axes, pairs)| {
            let masked: usize = axes.iter().flatten().map(|&a| shape[a]).product();
            let tolerance = || prop_oneof![Just(0.0), Just(1e-3), Just(0.7), 1e-8..2.0f64];
            (
                (Just(shape), Just(axes), Just(pairs), prop::collection::vec(any::<bool>(), masked)),
                (prop::sample::select(&TYPES[..]), any::<bool>(), tolerance(), tolerance()),
                prop::option::of(0u64..2000),
            )
        })
        .prop_map(|((shape, axes, pairs, mask), (types, plain, rtol, atol), ulp)| Case {
            types,
            shape,
            axes,
            mask,
            pairs,
            plain,
            rtol,
            atol,
            ulp,
        })
}

/// A value of any kind: ordinary, zero, near the ends of the types, any bits at all, not finite.
fn reference_value((kind, bits, ..): Draw, plain: bool) -> f64 {
    let ordinary = (bits as f64 / u64::MAX as f64 - 0.5) * 8.0;
    match kind {
        _ if plain => ordinary,
        0..=9 => 0.0,
        10..=14 => -0.0,
        15..=19 => f64::NAN,
        20..=24 => f64::INFINITY,
        25..=29 => f64::NEG_INFINITY,
        30..=39 => f64::from_bits(bits),
        40..=44 => f64::from_bits(bits >> 13),
        45..=49 => f64::MAX,
        50..=54 => ordinary * 1e-40,
        55..=59 => ordinary * 1e38,
        60..=64 => ordinary * 1e-7,
        _ => ordinary,
    }
}

fn got_value(draw: Draw, plain: bool) -> f64 {
    let reference = reference_value(draw, plain);
    let (.., change, bits) = draw;
    match change {
        0..=40 => reference,
        41..=60 if !plain => reference_value((change.wrapping_mul(11), bits, 0, 0), false),
        61..=80 => reference + 1e-3 * (bits as f64 / u64::MAX as f64),
        _ => reference * (1.0 + 1e-6 * (bits as f64 / u64::MAX as f64)),
    }
}

/// The values as the array holds them.
fn values(array: &Array) -> Vec<f64> {
    let bytes = &array.bytes[1..];
    match array.dtype {
        DataType::Float64 => bytes.chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
        DataType::Float32 => bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()).into()).collect(),
        DataType::Float16 => bytes.chunks(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]).into()).collect(),
        _ => bytes.chunks(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).into()).collect(),
    }
}

/// Is the element at those coordinates valid?
fn is_valid(case: &Case, at: &[usize]) -> bool {
    let Some(axes) = &case.axes else { return true };
    let index = axes.iter().fold(0, |index, &axis| index * case.shape[axis] + at[axis]);
    case.mask[index]
}

/// Steps between two values of a type: places in the sorted list of its values for the short types, the order of bits
/// for the long ones. The reference goes to the nearest place, of two to the one with an even last bit.
fn ulps(dtype: DataType, got: f64, reference: f64) -> i128 {
    let signed = |magnitude: u64, negative: bool| if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
    let of_f32 = |v: f32| signed(v.abs().to_bits().into(), v.is_sign_negative());
    let short = |widen: fn(u16) -> f64, infinity: u16, x: f64| {
        let magnitude = x.abs();
        // The first value that is not below; infinity stands for the value one step beyond the largest.
        let step = widen(infinity - 1) - widen(infinity - 2);
        let value = |bits: u16| if bits == infinity { widen(infinity - 1) + step } else { widen(bits) };
        let (mut above, mut end) = (0, infinity + 1);
        while above < end {
            let middle = u16::midpoint(above, end);
            if value(middle) < magnitude { above = middle + 1 } else { end = middle }
        }
        let place = if above == 0 || above > infinity {
            above.min(infinity)
        } else {
            let (low, high) = (magnitude - value(above - 1), value(above) - magnitude);
            if low < high || (low == high && above % 2 == 1) { above - 1 } else { above }
        };
        signed(place.into(), x.is_sign_negative())
    };
    let f16 = |bits| half::f16::from_bits(bits).to_f64();
    let bf16 = |bits| half::bf16::from_bits(bits).to_f64();
    let distance = match dtype {
        DataType::Float64 => {
            signed(got.abs().to_bits(), got.is_sign_negative())
                - signed(reference.abs().to_bits(), reference.is_sign_negative())
        }
        DataType::Float32 => of_f32(got as f32) - of_f32(reference as f32),
        DataType::Float16 => short(f16, 0x7c00, got) - short(f16, 0x7c00, reference),
        _ => short(bf16, 0x7f80, got) - short(bf16, 0x7f80, reference),
    };
    distance.abs()
}

/// `|got - reference|` as a mantissa and whether it counts twice, since the difference may be beyond f64.
fn halved_error(got: f64, reference: f64) -> f64 {
    (got / 2.0 - reference / 2.0).abs()
}

fn check_part(case: &Case, found: &FloatFigures, pairs: &[(usize, f64, f64)]) -> Result<(), TestCaseError> {
    let at = |flat: usize| coordinates(flat, &case.shape);
    let finite: Vec<_> = pairs.iter().copied().filter(|(_, g, r)| g.is_finite() && r.is_finite()).collect();
    let same_kind = |g: f64, r: f64| (g.is_nan() && r.is_nan()) || (g.is_infinite() && g == r);
    let odd: Vec<_> = pairs.iter().copied().filter(|(_, g, r)| !(g.is_finite() && r.is_finite())).collect();
    let moved: Vec<_> = odd.iter().copied().filter(|&(_, g, r)| !same_kind(g, r)).collect();
    prop_assert_eq!(found.elements, pairs.len() as u64);
    prop_assert_eq!(found.compared, finite.len() as u64);
    prop_assert_eq!(found.nonfinite_mismatched, moved.len() as u64);
    prop_assert_eq!(found.nonfinite_matching, (odd.len() - moved.len()) as u64);
    prop_assert_eq!(found.first_nonfinite_mismatch.as_ref().map(|e| e.at.clone()), moved.first().map(|m| at(m.0)));
    for (tally, of) in [
        (&found.nonfinite_got.nan, odd.iter().filter(|p| p.1.is_nan()).collect::<Vec<_>>()),
        (&found.nonfinite_got.pos_inf, odd.iter().filter(|p| p.1 == f64::INFINITY).collect()),
        (&found.nonfinite_got.neg_inf, odd.iter().filter(|p| p.1 == f64::NEG_INFINITY).collect()),
        (&found.nonfinite_reference.nan, odd.iter().filter(|p| p.2.is_nan()).collect()),
        (&found.nonfinite_reference.pos_inf, odd.iter().filter(|p| p.2 == f64::INFINITY).collect()),
        (&found.nonfinite_reference.neg_inf, odd.iter().filter(|p| p.2 == f64::NEG_INFINITY).collect()),
    ] {
        prop_assert_eq!(tally, &Tally { count: of.len() as u64, first: of.first().map(|p| at(p.0)) });
    }

    // The first pair with the largest of a figure, if that is above 0.
    let worst = |figure: &dyn Fn(f64, f64) -> f64| {
        let mut worst: Option<(f64, usize)> = None;
        for &(flat, g, r) in &finite {
            let value = figure(g, r);
            if value > worst.map_or(0.0, |w| w.0) {
                worst = Some((value, flat));
            }
        }
        worst
    };
    let place = |e: &Option<Element>| e.as_ref().map(|e| e.at.clone());
    let error = |g: f64, r: f64| (g - r).abs();
    let worst_abs = worst(&error);
    prop_assert_eq!(found.max_abs.0, worst_abs.map_or(0.0, |w| w.0));
    prop_assert_eq!(place(&found.worst_abs), worst_abs.map(|w| at(w.1)));
    // 2 * (d/2 - rtol * |r|/2) is d - rtol * |r| wherever that can be said in f64.
    let required = |g: f64, r: f64| {
        if error(g, r).is_finite() {
            error(g, r) - case.rtol * r.abs()
        } else {
            2.0 * (halved_error(g, r) - case.rtol * (r.abs() / 2.0))
        }
    };
    let worst_required = worst(&required);
    prop_assert_eq!(found.required_atol.0, worst_required.map_or(0.0, |w| w.0));
    prop_assert_eq!(place(&found.worst_required), worst_required.map(|w| at(w.1)));
    prop_assert_eq!(found.beyond_tolerance, finite.iter().filter(|p| required(p.1, p.2) > case.atol).count() as u64);
    let rel = |g: f64, r: f64| {
        if r == 0.0 {
            0.0
        } else if error(g, r).is_finite() {
            error(g, r) / r.abs()
        } else {
            2.0 * (halved_error(g, r) / r.abs())
        }
    };
    prop_assert_eq!(found.max_rel.0, worst(&rel).map_or(0.0, |w| w.0));
    prop_assert_eq!(found.zero_reference_differing, finite.iter().filter(|p| p.2 == 0.0 && p.1 != 0.0).count() as u64);

    let distances: Vec<i128> = finite.iter().map(|p| ulps(case.types.0, p.1, p.2)).collect();
    let max_ulp = distances.iter().copied().max().unwrap_or(0);
    prop_assert_eq!(i128::from(found.max_ulp), max_ulp);
    let first = distances.iter().position(|&d| d as f64 >= max_ulp as f64 && d > 0);
    prop_assert_eq!(place(&found.worst_ulp), first.map(|i| at(finite[i].0)));
    let beyond = case.ulp.map_or(0, |limit| distances.iter().filter(|&&d| d > i128::from(limit)).count());
    prop_assert_eq!(found.beyond_ulp, beyond as u64);

    check_quantile(found.p99_abs.0, finite.iter().map(|p| error(p.1, p.2)).collect())?;
    check_quantile(found.p99_ulp.0, distances.iter().map(|&d| d as f64).collect())?;
    check_sums(found, &finite)
}

fn check_quantile(found: f64, mut values: Vec<f64>) -> Result<(), TestCaseError> {
    values.sort_by(f64::total_cmp);
    let exact = if values.is_empty() { 0.0 } else { values[(values.len() * 99).div_ceil(100) - 1] };
    let bound = exact * (1.0 + QUANTILE_RESOLUTION) + f64::from_bits(1 << 46);
    prop_assert!(exact <= found && found <= bound, "{found:e} for {exact:e}");
    if exact.fract() == 0.0 && exact <= 128.0 {
        prop_assert_eq!(found, exact);
    }
    Ok(())
}

fn check_sums(found: &FloatFigures, finite: &[(usize, f64, f64)]) -> Result<(), TestCaseError> {
    let n = finite.len().max(1) as f64;
    let half_mean: f64 = finite.iter().map(|p| halved_error(p.1, p.2) / n).sum();
    let mean: f64 = finite.iter().map(|p| (p.1 - p.2).abs()).sum::<f64>() / n;
    let expected = if mean.is_finite() { mean } else { half_mean * 2.0 };
    prop_assert!(
        expected == found.mean_abs.0 || (found.mean_abs.0 - expected).abs() <= expected * 1e-9,
        "mean {:e} for {expected:e}",
        found.mean_abs.0
    );
    // Brought to a largest magnitude of 1 before anything is squared.
    let largest = |v: &[f64]| v.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let unit = |v: Vec<f64>| {
        let m = largest(&v);
        if m < 1e-300 {
            v.iter().map(|x| x * 2f64.powi(1000) / (m * 2f64.powi(1000))).collect()
        } else {
            v.iter().map(|x| x / m).collect::<Vec<_>>()
        }
    };
    let (g, r): (Vec<f64>, Vec<f64>) = finite.iter().map(|p| (p.1, p.2)).unzip();
    let cosine = match (largest(&g) == 0.0, largest(&r) == 0.0) {
        (true, true) => 1.0,
        (false, false) => {
            let (g, r) = (unit(g), unit(r));
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            dot(&g, &r) / dot(&g, &g).sqrt() / dot(&r, &r).sqrt()
        }
        _ => 0.0,
    };
    prop_assert!((found.cosine.0 - cosine).abs() < 1e-9, "cosine {} for {cosine}", found.cosine.0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_figure_is_that_of_the_definitions(case in case()) {
        let got: Vec<f64> = case.pairs.iter().map(|&d| got_value(d, case.plain)).collect();
        let reference: Vec<f64> = case.pairs.iter().map(|&d| reference_value(d, case.plain)).collect();
        let got = Array::of(case.types.0, &case.shape, &got);
        let reference = Array::of(case.types.1, &case.shape, &reference);
        let rows = case.axes.as_ref().map(|axes| {
            let shape: Vec<usize> = axes.iter().map(|&a| case.shape[a]).collect();
            let mask: Vec<f64> = case.mask.iter().map(|&m| if m { 1.0 } else { 0.0 }).collect();
            Rows::new(&Array::of(DataType::Bool, &shape, &mask).view(), axes).unwrap()
        });
        let measure = Measure { rtol: Figure(case.rtol), atol: Figure(case.atol), ulp: case.ulp };
        let found = floats_of(compare(&got.view(), &reference.view(), rows.as_ref(), None, &measure).unwrap());

        let pairs = values(&got).into_iter().zip(values(&reference)).enumerate().map(|(i, (g, r))| (i, g, r));
        let (valid, masked): (Vec<_>, Vec<_>) = pairs.partition(|p| is_valid(&case, &coordinates(p.0, &case.shape)));
        check_part(&case, &found.valid, &valid)?;
        prop_assert_eq!(found.masked.is_some(), case.axes.is_some());
        if let Some(figures) = &found.masked {
            check_part(&case, figures, &masked)?;
        }
    }
}
