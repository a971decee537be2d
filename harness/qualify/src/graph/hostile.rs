//! Hostile tensors: the values on which a rewrite is most likely to be wrong, kind by kind, from a seed.

use crate::random::SplitMix64;
use half::f16;
use onnx_graph::rewrite::Kind;
use onnx_graph::{DataType, Tensor};

/// Every kind, in the order in which proofs go through them.
pub(super) const KINDS: &[Kind] = &[
    Kind::Plain,
    Kind::Ties,
    Kind::Zeros,
    Kind::Infinities,
    Kind::Nan,
    Kind::Denormals,
    Kind::Largest,
    Kind::Axes,
    Kind::EmptyRows,
];

/// Elements that a kind should see in all, where tensors are small.
const ELEMENTS: usize = 2048;
/// Most sets of a kind.
const MOST_SETS: usize = 64;

/// A tensor to be drawn.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub dtype: DataType,
    pub shape: Vec<usize>,
    /// Holds each of 0..n once along this axis.
    pub permutation_along: Option<usize>,
}

/// How many sets of a kind are drawn for these tensors.
pub(super) fn sets_of(kind: Kind, wanted: &[Wanted]) -> usize {
    let largest = wanted.iter().map(|w| w.shape.iter().product::<usize>()).max().unwrap_or(1).max(1);
    let elements = match kind {
        // Every combination of the special values.
        Kind::Axes => specials(DataType::Float32).len().pow(wanted.len().min(3) as u32),
        _ => ELEMENTS,
    };
    elements.div_ceil(largest).clamp(1, MOST_SETS)
}

/// Set `set` of that kind; nothing where the kind has no meaning for these types, or a type cannot be drawn.
pub(super) fn draw(kind: Kind, wanted: &[Wanted], set: usize, random: &mut SplitMix64) -> Option<Vec<Tensor>> {
    let of_floats = !matches!(kind, Kind::Plain | Kind::Ties | Kind::Zeros | Kind::Largest);
    if of_floats && !wanted.iter().any(|w| w.dtype.is_float()) {
        return None;
    }
    wanted.iter().enumerate().map(|(place, w)| one(kind, w, place, set, random)).collect()
}

fn one(kind: Kind, wanted: &Wanted, place: usize, set: usize, random: &mut SplitMix64) -> Option<Tensor> {
    let count = wanted.shape.iter().product::<usize>();
    if let Some(axis) = wanted.permutation_along {
        return from_integers(wanted, &permutations(&wanted.shape, axis, random));
    }
    if wanted.dtype.is_float() {
        let row = wanted.shape.last().copied().unwrap_or(1).max(1);
        let values = floats(kind, wanted.dtype, count, row, (place, set), random);
        return from_floats(wanted, &values);
    }
    let values: Vec<i64> = (0..count).map(|_| integer(kind, wanted.dtype, random)).collect();
    from_integers(wanted, &values)
}

/// Smallest positive, smallest normal and largest finite value.
fn ends(dtype: DataType) -> (f64, f64, f64) {
    match dtype {
        DataType::Float16 => (f16::MIN_POSITIVE_SUBNORMAL.to_f64(), f16::MIN_POSITIVE.to_f64(), f16::MAX.to_f64()),
        DataType::Float64 => (f64::from_bits(1), f64::MIN_POSITIVE, f64::MAX),
        _ => (f64::from(f32::from_bits(1)), f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX)),
    }
}

/// What the axes kind combines.
fn specials(dtype: DataType) -> Vec<f64> {
    let (tiny, _, largest) = ends(dtype);
    let half = [0.0, tiny, 0.5, 1.0, largest, f64::INFINITY];
    half.iter().flat_map(|&v| [v, -v]).collect()
}

fn floats(
    kind: Kind,
    dtype: DataType,
    count: usize,
    row: usize,
    (place, set): (usize, usize),
    random: &mut SplitMix64,
) -> Vec<f64> {
    let (tiny, normal, largest) = ends(dtype);
    // Sizes from a millionth to a million, as far as the type goes.
    let plain = |random: &mut SplitMix64| {
        let size = 10f64.powi((random.next() % 13) as i32 - 6).min(largest / 8.0);
        random.bell() * if random.next().is_multiple_of(2) { 1.0 } else { size }
    };
    let one_in = |random: &mut SplitMix64, n: u64| random.next().is_multiple_of(n);
    let sign = |random: &mut SplitMix64| if random.next().is_multiple_of(2) { 1.0 } else { -1.0 };
    let special = specials(dtype);
    let mut of_row = 0;
    (0..count)
        .map(|i| match kind {
            Kind::Ties => [-1.0, 0.0, 0.5, 1.0][(random.next() % 4) as usize],
            Kind::Zeros => 0.0 * sign(random),
            Kind::Infinities if one_in(random, 3) => f64::INFINITY * sign(random),
            Kind::Nan if one_in(random, 3) => f64::NAN,
            Kind::Plain | Kind::Infinities | Kind::Nan => plain(random),
            Kind::Denormals => sign(random) * tiny * (random.next() % (2 * (normal / tiny).min(1e15) as u64)) as f64,
            Kind::Largest => {
                sign(random) * [largest, largest / 2.0, largest / 3.0, normal][(random.next() % 4) as usize]
            }
            Kind::Axes => special[(set * count + i) / special.len().pow(place as u32) % special.len()],
            Kind::EmptyRows => {
                if i % row == 0 {
                    of_row = random.next() % 3;
                }
                let empty = of_row == 0 || (of_row == 1 && one_in(random, 2));
                if empty { f64::NEG_INFINITY } else { plain(random) }
            }
        })
        .collect()
}

fn integer(kind: Kind, dtype: DataType, random: &mut SplitMix64) -> i64 {
    let draw = random.next();
    let within = |n: u64| (draw >> 8) % n;
    match (kind, dtype) {
        (_, DataType::Bool) => (draw >> 63) as i64,
        (Kind::Ties, _) => within(3) as i64,
        (Kind::Zeros, _) => 0,
        (Kind::Largest, DataType::Int32) => {
            i64::from([i32::MIN, i32::MAX, 1 << 24, (1 << 24) + 1, -(1 << 24) - 1][within(5) as usize])
        }
        (Kind::Largest, _) => {
            [i64::MIN, i64::MAX, (1 << 24) + 1, (1 << 31) + 1, (1 << 53) + 1, 1 << 53][within(6) as usize]
        }
        _ => within(2001) as i64 - 1000,
    }
}

/// Independent permutations of 0..n along an axis.
fn permutations(shape: &[usize], axis: usize, random: &mut SplitMix64) -> Vec<i64> {
    let extent = shape.get(axis).copied().unwrap_or(1);
    let inner: usize = shape.iter().skip(axis + 1).product();
    let outer: usize = shape.iter().take(axis).product();
    let mut values = vec![0; outer * extent * inner];
    for line in 0..outer * inner {
        let mut order: Vec<i64> = (0..extent as i64).collect();
        // Fisher and Yates.
        for last in (1..extent).rev() {
            order.swap(last, (random.next() % (last as u64 + 1)) as usize);
        }
        for (i, value) in order.into_iter().enumerate() {
            values[(line / inner * extent + i) * inner + line % inner] = value;
        }
    }
    values
}

/// A tensor of a float type from f64; nothing for types that cannot be drawn.
pub(super) fn from_floats(wanted: &Wanted, values: &[f64]) -> Option<Tensor> {
    match wanted.dtype {
        DataType::Float64 => Tensor::from_values(&wanted.shape, values),
        DataType::Float32 => Tensor::from_values(&wanted.shape, &values.iter().map(|&v| v as f32).collect::<Vec<_>>()),
        DataType::Float16 => {
            Tensor::from_values(&wanted.shape, &values.iter().map(|&v| f16::from_f64(v)).collect::<Vec<_>>())
        }
        _ => return None,
    }
    .ok()
}

/// A tensor of an integer type or bool; nothing for types that cannot be drawn.
pub(super) fn from_integers(wanted: &Wanted, values: &[i64]) -> Option<Tensor> {
    match wanted.dtype {
        DataType::Int64 => Tensor::from_values(&wanted.shape, values),
        DataType::Int32 => {
            let narrow: Option<Vec<i32>> = values.iter().map(|&v| i32::try_from(v).ok()).collect();
            Tensor::from_values(&wanted.shape, &narrow?)
        }
        DataType::Bool => Tensor::from_values(&wanted.shape, &values.iter().map(|&v| v != 0).collect::<Vec<_>>()),
        _ => return None,
    }
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(dtype: DataType, shape: &[usize]) -> Wanted {
        Wanted { dtype, shape: shape.to_vec(), permutation_along: None }
    }

    #[test]
    fn every_combination_of_special_values_is_met() {
        let two = [wanted(DataType::Float32, &[7]), wanted(DataType::Float32, &[7])];
        let mut random = SplitMix64(1);
        let mut met = std::collections::BTreeSet::new();
        for set in 0..sets_of(Kind::Axes, &two) {
            let drawn = draw(Kind::Axes, &two, set, &mut random).unwrap();
            let [y, x] = drawn.as_slice() else { panic!("two were asked for") };
            let pairs = y.values::<f32>().unwrap().into_iter().zip(x.values::<f32>().unwrap());
            met.extend(pairs.map(|(y, x)| (y.to_bits(), x.to_bits())));
        }
        assert_eq!(met.len(), 12 * 12);
    }

    #[test]
    fn each_kind_is_what_it_says() {
        let mut random = SplitMix64(7);
        let mut all = |kind| {
            let drawn = draw(kind, &[wanted(DataType::Float32, &[40, 8])], 0, &mut random).unwrap();
            drawn[0].values::<f32>().unwrap()
        };
        assert!(all(Kind::Plain).iter().all(|v| v.is_finite()));
        assert!(all(Kind::Zeros).iter().all(|v| *v == 0.0));
        assert!(all(Kind::Zeros).iter().any(|v| v.is_sign_negative()));
        assert!(all(Kind::Nan).iter().any(|v| v.is_nan()));
        assert!(all(Kind::Infinities).contains(&f32::INFINITY));
        assert!(all(Kind::Denormals).iter().filter(|v| v.is_subnormal()).count() > 100);
        assert!(all(Kind::Largest).contains(&f32::MAX));
        let rows = all(Kind::EmptyRows);
        assert!(rows.chunks(8).any(|row| row.iter().all(|v| *v == f32::NEG_INFINITY)));
        assert!(rows.chunks(8).any(|row| row.iter().all(|v| v.is_finite())));
    }

    #[test]
    fn permutations_hold_each_number_once() {
        let mut random = SplitMix64(3);
        let w = Wanted { permutation_along: Some(1), ..wanted(DataType::Int64, &[2, 5, 3]) };
        let values = draw(Kind::Plain, &[w], 0, &mut random).unwrap()[0].values::<i64>().unwrap();
        for (outer, inner) in (0..2).flat_map(|o| (0..3).map(move |i| (o, i))) {
            let mut line: Vec<i64> = (0..5).map(|k| values[(outer * 5 + k) * 3 + inner]).collect();
            line.sort_unstable();
            assert_eq!(line, [0, 1, 2, 3, 4]);
        }
    }
}
