//! Distances in units in the last place: how many representable values lie between two.

use onnx_graph::DataType;

/// Writes to `out` how many ULP of `dtype` lie between `got` and `reference` rounded to that type, element by element,
/// and gives the largest. All values are finite; `got` holds values of `dtype`. Distances above 2^53, possible in f64
/// only, are rounded in `out`.
#[multiversion::multiversion(targets("x86_64+avx2"))]
pub(super) fn distances(dtype: DataType, got: &[f64], reference: &[f64], out: &mut [f64]) -> u64 {
    let pairs = got.iter().zip(reference).zip(out);
    match dtype {
        DataType::Float32 => {
            let mut max = 0u32;
            for ((&g, &r), out) in pairs {
                // Rounds to nearest, ties to even; beyond f32 it is infinite, the next place after the largest value.
                let distance = place_f32(g as f32).abs_diff(place_f32(r as f32));
                max = max.max(distance);
                *out = f64::from(distance);
            }
            u64::from(max)
        }
        DataType::Float64 => each(pairs, |x| place(x.to_bits(), 63)),
        DataType::Bfloat16 => each(pairs, |x| narrow_place(x, &BF16)),
        _ => each(pairs, |x| narrow_place(x, &F16)),
    }
}

fn each<'a>(pairs: impl Iterator<Item = ((&'a f64, &'a f64), &'a mut f64)>, place: impl Fn(f64) -> i64) -> u64 {
    let mut max = 0;
    for ((&g, &r), out) in pairs {
        let distance = place(g).abs_diff(place(r));
        max = max.max(distance);
        *out = distance as f64;
    }
    max
}

/// The place of a value among all values of its type in order, +0 and -0 being 0: its magnitude's bits, negated for
/// negative values.
fn place_f32(x: f32) -> i32 {
    let bits = x.to_bits() as i32;
    if bits < 0 { i32::MIN.wrapping_sub(bits) } else { bits }
}

fn place(bits: u64, sign: u32) -> i64 {
    let magnitude = (bits & !(1 << sign)) as i64;
    if bits >> sign == 0 { magnitude } else { -magnitude }
}

/// A float type narrower than f32.
struct Narrow {
    mantissa_bits: u32,
    /// Exponent of the smallest normal value.
    min_exponent: i32,
    /// Place of infinity.
    infinity: i64,
}

const F16: Narrow = Narrow { mantissa_bits: 10, min_exponent: -14, infinity: 0x7c00 };
const BF16: Narrow = Narrow { mantissa_bits: 7, min_exponent: -126, infinity: 0x7f80 };

/// The place of `x` rounded to that type, to nearest and ties to even. Rounded from f64 in one step: going through f32,
/// as the processor's own conversion does, would round twice.
fn narrow_place(x: f64, to: &Narrow) -> i64 {
    let magnitude = x.abs();
    let power_of_two = |exponent: i32| f64::from_bits(((1023 + exponent) as u64) << 52);
    let place = if magnitude < power_of_two(to.min_exponent) {
        // Subnormal: the places are equally far apart, and the scaling is exact.
        (magnitude * power_of_two(to.mantissa_bits as i32 - to.min_exponent)).round_ties_even() as i64
    } else {
        let dropped = 52 - to.mantissa_bits;
        let bits = magnitude.to_bits();
        let even = (bits >> dropped) & 1;
        let rounded = (bits + (1 << (dropped - 1)) - 1 + even) >> dropped;
        // The smallest normal value has exponent field 1 in the narrow type.
        let rebase = i64::from(1023 + to.min_exponent - 1) << to.mantissa_bits;
        (rounded as i64 - rebase).min(to.infinity)
    };
    if x.is_sign_negative() { -place } else { place }
}
