//! Error figures of one block of finite pairs: the loops that the speed of a comparison hangs on.

use super::comparison::Measure;
use super::scaled::{Scaled, exponent_of, times_power_of_two};

/// Independent accumulators of a figure, so that additions need not wait for one another. Blocks are padded to it.
pub(super) const LANES: usize = 8;

/// Magnitudes between which squares, and sums of them, neither overflow nor vanish.
const TAME: std::ops::RangeInclusive<f64> = f64::from_bits((1023 - 400) << 52)..=f64::from_bits((1023 + 400) << 52);

/// Figures of one block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockFigures {
    pub max_abs: f64,
    pub max_rel: f64,
    /// Largest `|got - reference| - rtol * |reference|`, never below 0.
    pub max_required: f64,
    pub beyond_tolerance: u64,
    pub zero_reference_differing: u64,
    pub sum_abs: Scaled,
    pub dot: Scaled,
    pub got_squared: Scaled,
    pub reference_squared: Scaled,
}

/// Largest magnitude of the values, or none if one of them is not finite.
#[multiversion::multiversion(targets("x86_64+avx2"))]
pub(super) fn magnitude(values: &[f64]) -> Option<f64> {
    let mut max = [0.0f64; LANES];
    // 0 for finite values and NaN for all others, and NaN stays in a sum.
    let mut probe = [0.0f64; LANES];
    for chunk in values.as_chunks::<LANES>().0 {
        for l in 0..LANES {
            max[l] = larger(max[l], chunk[l].abs());
            probe[l] += chunk[l] * 0.0;
        }
    }
    (probe.iter().sum::<f64>() == 0.0).then(|| max.into_iter().fold(0.0, larger))
}

/// Are products of values up to that magnitude safe from overflow, and those of its own size from vanishing?
pub(super) fn is_tame(magnitude: f64) -> bool {
    magnitude == 0.0 || TAME.contains(&magnitude)
}

/// Figures of a block of tame pairs; `errors` receives the absolute errors. All three are equally long, a multiple of
/// [`LANES`]: pairs of zeros at the end change no figure.
#[multiversion::multiversion(targets("x86_64+avx2"))]
pub(super) fn figures(got: &[f64], reference: &[f64], errors: &mut [f64], measure: &Measure) -> BlockFigures {
    let (rtol, atol) = (measure.rtol.0, measure.atol.0);
    let zero = [0.0f64; LANES];
    let (mut max_abs, mut max_rel, mut max_required) = (zero, zero, zero);
    let (mut sum, mut dot, mut gg, mut rr) = (zero, zero, zero, zero);
    let (mut beyond, mut differing) = ([0u64; LANES], [0u64; LANES]);
    let pairs = got.as_chunks::<LANES>().0.iter().zip(reference.as_chunks::<LANES>().0);
    for ((g, r), e) in pairs.zip(errors.as_chunks_mut::<LANES>().0) {
        for l in 0..LANES {
            let error = (g[l] - r[l]).abs();
            let size = r[l].abs();
            let required = required(error, size, rtol);
            e[l] = error;
            max_abs[l] = larger(max_abs[l], error);
            // 0/0 is NaN, which is never larger.
            max_rel[l] = larger(max_rel[l], if size == 0.0 { 0.0 } else { error / size });
            max_required[l] = larger(max_required[l], required);
            beyond[l] += u64::from(required > atol);
            differing[l] += u64::from(size == 0.0) & u64::from(error != 0.0);
            sum[l] += error;
            dot[l] += g[l] * r[l];
            gg[l] += g[l] * g[l];
            rr[l] += r[l] * r[l];
        }
    }
    let max = |lanes: [f64; LANES]| lanes.into_iter().fold(0.0, larger);
    let plain = |lanes: [f64; LANES]| Scaled { mantissa: lanes.iter().sum(), exponent: 0 };
    BlockFigures {
        max_abs: max(max_abs),
        max_rel: max(max_rel),
        max_required: max(max_required),
        beyond_tolerance: beyond.iter().sum(),
        zero_reference_differing: differing.iter().sum(),
        sum_abs: plain(sum),
        dot: plain(dot),
        got_squared: plain(gg),
        reference_squared: plain(rr),
    }
}

/// The same for finite pairs of any magnitude, `f64` ones near the ends of its range: sums are scaled, and differences
/// that overflow are taken at half size. `magnitudes` are the largest of `got` and `reference`.
pub(super) fn figures_of_extremes(
    got: &[f64],
    reference: &[f64],
    errors: &mut [f64],
    magnitudes: (f64, f64),
    measure: &Measure,
) -> BlockFigures {
    let mut figures = BlockFigures::default();
    let exponent = |magnitude: f64| if magnitude == 0.0 { 0 } else { exponent_of(magnitude) };
    let (got_exponent, reference_exponent) = (exponent(magnitudes.0), exponent(magnitudes.1));
    for ((&g, &r), error) in got.iter().zip(reference).zip(errors) {
        *error = (g - r).abs();
        figures.sum_abs.add(if error.is_finite() {
            Scaled { mantissa: *error, exponent: 0 }.normal()
        } else {
            Scaled { mantissa: (g / 2.0 - r / 2.0).abs(), exponent: 1 }.normal()
        });
        figures.max_abs = larger(figures.max_abs, *error);
        if r == 0.0 {
            figures.zero_reference_differing += u64::from(*error != 0.0);
        } else if error.is_finite() {
            figures.max_rel = larger(figures.max_rel, *error / r.abs());
        } else {
            figures.max_rel = larger(figures.max_rel, (g / 2.0 - r / 2.0).abs() / r.abs() * 2.0);
        }
        let required = required_of_extremes(g, r, measure.rtol.0);
        figures.max_required = larger(figures.max_required, required);
        figures.beyond_tolerance += u64::from(required > measure.atol.0);
        let (g, r) = (times_power_of_two(g, -got_exponent), times_power_of_two(r, -reference_exponent));
        figures.dot.add(Scaled { mantissa: g * r, exponent: got_exponent + reference_exponent });
        figures.got_squared.add(Scaled { mantissa: g * g, exponent: 2 * got_exponent });
        figures.reference_squared.add(Scaled { mantissa: r * r, exponent: 2 * reference_exponent });
    }
    figures
}

/// The `atol` that a pair asks for, given `rtol`; negative where `rtol` alone is more than enough.
fn required(error: f64, reference_size: f64, rtol: f64) -> f64 {
    error - rtol * reference_size
}

/// [`required`] for finite pairs of any magnitude, block of extremes or not: at half size where the difference
/// overflows.
pub(super) fn required_of_extremes(got: f64, reference: f64, rtol: f64) -> f64 {
    let error = (got - reference).abs();
    if error.is_finite() {
        required(error, reference.abs(), rtol)
    } else {
        required((got / 2.0 - reference / 2.0).abs(), (reference / 2.0).abs(), rtol) * 2.0
    }
}

/// Compiles to one instruction, unlike `f64::max`; NaN in `candidate` is never larger.
fn larger(max: f64, candidate: f64) -> f64 {
    if candidate > max { candidate } else { max }
}
