//! Figures of float outputs: blocks of pairs are sorted into finite and non-finite ones and summed up per kind of row.

use super::comparison::{BaselineErrors, Element, FloatFigures, Floats, Measure, NonFinite, Tally};
use super::kernel::{LANES, figures, figures_of_extremes, is_tame, magnitude, required_of_extremes};
use super::peak::{Pair, Peak};
use super::quantile::Histogram;
use super::rows::{Rows, walk};
use super::scaled::{Scaled, cosine};
use super::widen::{BLOCK, Widen};
use super::{CompareError, TensorView, coordinates, parts_of, ulp};
use crate::observation::figure::Figure;
use onnx_graph::DataType;

/// Compares arrays of equal shape and comparable float types; the baseline likewise.
pub(super) fn compare(
    got: &TensorView<'_>,
    reference: &TensorView<'_>,
    rows: Option<&Rows>,
    baseline: Option<&TensorView<'_>>,
    measure: &Measure,
) -> Result<Floats, CompareError> {
    let mut floats = sum_up(got, reference, rows, measure)?;
    if let Some(view) = baseline {
        let errors = sum_up(view, reference, rows, measure)?;
        let of = |figures: FloatFigures| BaselineErrors {
            dtype: view.dtype().name().to_owned(),
            compared: figures.compared,
            nonfinite_mismatched: figures.nonfinite_mismatched,
            max_abs: figures.max_abs,
            mean_abs: figures.mean_abs,
        };
        floats.valid.baseline = Some(of(errors.valid));
        if let Some(masked) = &mut floats.masked {
            masked.baseline = errors.masked.map(of);
        }
    }
    Ok(floats)
}

fn sum_up(
    got: &TensorView<'_>,
    reference: &TensorView<'_>,
    rows: Option<&Rows>,
    measure: &Measure,
) -> Result<Floats, CompareError> {
    let (dtype, parts) = parts_of(got.dtype());
    let (got_floats, reference_floats) = (Widen::of(got), Widen::of(reference));
    let mut block = Block { got: [0.0; BLOCK], reference: [0.0; BLOCK], scratch: [0.0; BLOCK], from: [0; BLOCK] };
    let mut valid = Sums::new(dtype, *measure);
    let mut masked = rows.map(|_| Sums::new(dtype, *measure));
    for run in walk(rows, got.shape(), parts)? {
        let sums = match &mut masked {
            Some(masked) if !run.valid => masked,
            _ => &mut valid,
        };
        for start in run.elements.clone().step_by(BLOCK) {
            let range = start..run.elements.end.min(start + BLOCK);
            got_floats.block(range.clone(), &mut block.got);
            reference_floats.block(range.clone(), &mut block.reference);
            sums.add(&mut block, start, range.len());
        }
    }
    let mut shape = got.shape().to_vec();
    if parts > 1 {
        shape.push(parts);
    }
    Ok(Floats { valid: valid.finish(&shape), masked: masked.map(|sums| sums.finish(&shape)) })
}

/// Room for one block, used again and again.
struct Block {
    got: [f64; BLOCK],
    reference: [f64; BLOCK],
    /// Absolute errors, then distances in ULP.
    scratch: [f64; BLOCK],
    /// Where in the block a finite pair stood before the non-finite ones were taken out.
    from: [u16; BLOCK],
}

/// What is known of the rows of one kind.
struct Sums {
    dtype: DataType,
    measure: Measure,
    elements: u64,
    compared: u64,
    matching: u64,
    mismatched: u64,
    first_mismatch: Option<Pair>,
    nonfinite_got: [Kind; 3],
    nonfinite_reference: [Kind; 3],
    max_rel: f64,
    zero_reference_differing: u64,
    beyond_tolerance: u64,
    beyond_ulp: u64,
    max_ulp: u64,
    worst_abs: Peak,
    worst_required: Peak,
    worst_ulp: Peak,
    sum_abs: Scaled,
    dot: Scaled,
    got_squared: Scaled,
    reference_squared: Scaled,
    errors: Histogram,
    ulps: Histogram,
}

/// Non-finite values of one kind: how many, and the place of the first.
#[derive(Clone, Copy, Default)]
struct Kind {
    count: u64,
    first: Option<usize>,
}

/// 0 NaN, 1 +inf, 2 -inf; none for finite values.
fn kind_of(x: f64) -> Option<usize> {
    if x.is_finite() {
        None
    } else if x.is_nan() {
        Some(0)
    } else {
        Some(if x > 0.0 { 1 } else { 2 })
    }
}

impl Sums {
    fn new(dtype: DataType, measure: Measure) -> Self {
        Self {
            dtype,
            measure,
            elements: 0,
            compared: 0,
            matching: 0,
            mismatched: 0,
            first_mismatch: None,
            nonfinite_got: [Kind::default(); 3],
            nonfinite_reference: [Kind::default(); 3],
            max_rel: 0.0,
            zero_reference_differing: 0,
            beyond_tolerance: 0,
            beyond_ulp: 0,
            max_ulp: 0,
            worst_abs: Peak::default(),
            worst_required: Peak::default(),
            worst_ulp: Peak::default(),
            sum_abs: Scaled::default(),
            dot: Scaled::default(),
            got_squared: Scaled::default(),
            reference_squared: Scaled::default(),
            errors: Histogram::of_floats(),
            ulps: Histogram::of_integers(),
        }
    }

    /// Adds the first `n` pairs of the block; the first stands at `start` in the array.
    fn add(&mut self, block: &mut Block, start: usize, n: usize) {
        self.elements += n as u64;
        let padded = pad(block, n);
        if let (Some(got), Some(reference)) = (magnitude(&block.got[..padded]), magnitude(&block.reference[..padded])) {
            self.add_finite(block, n, (got, reference), |i| start + i);
        } else {
            let finite = self.take_out_nonfinite(block, start, n);
            let padded = pad(block, finite);
            let (got, reference) = (magnitude(&block.got[..padded]), magnitude(&block.reference[..padded]));
            let magnitudes = got.zip(reference).expect("only finite pairs were kept");
            let from = block.from;
            self.add_finite(block, finite, magnitudes, |i| start + usize::from(from[i]));
        }
    }

    /// Counts the pairs that are not finite on both sides and closes the gaps they leave; gives the number of others.
    fn take_out_nonfinite(&mut self, block: &mut Block, start: usize, n: usize) -> usize {
        let mut kept = 0;
        for i in 0..n {
            let (got, reference) = (block.got[i], block.reference[i]);
            let kinds = (kind_of(got), kind_of(reference));
            if kinds == (None, None) {
                block.got[kept] = got;
                block.reference[kept] = reference;
                block.from[kept] = i as u16;
                kept += 1;
                continue;
            }
            for (kind, tallies) in [(kinds.0, &mut self.nonfinite_got), (kinds.1, &mut self.nonfinite_reference)] {
                if let Some(kind) = kind {
                    tallies[kind].count += 1;
                    tallies[kind].first.get_or_insert(start + i);
                }
            }
            if kinds.0 == kinds.1 {
                self.matching += 1;
            } else {
                self.mismatched += 1;
                self.first_mismatch.get_or_insert(Pair { flat: start + i, got, reference });
            }
        }
        kept
    }

    /// Adds the first `n` pairs of the block, all finite; `place` is where the i-th stands in the array.
    fn add_finite(&mut self, block: &mut Block, n: usize, magnitudes: (f64, f64), place: impl Fn(usize) -> usize) {
        self.compared += n as u64;
        let padded = n.next_multiple_of(LANES);
        let (got, reference) = (&block.got[..padded], &block.reference[..padded]);
        let scratch = &mut block.scratch[..padded];
        let figures = if is_tame(magnitudes.0) && is_tame(magnitudes.1) {
            figures(got, reference, scratch, &self.measure)
        } else {
            figures_of_extremes(got, reference, scratch, magnitudes, &self.measure)
        };
        let pair = |i: usize| Pair { flat: place(i), got: got[i], reference: reference[i] };

        self.max_rel = self.max_rel.max(figures.max_rel);
        self.zero_reference_differing += figures.zero_reference_differing;
        self.beyond_tolerance += figures.beyond_tolerance;
        self.sum_abs.add(figures.sum_abs);
        self.dot.add(figures.dot);
        self.got_squared.add(figures.got_squared);
        self.reference_squared.add(figures.reference_squared);
        self.worst_abs.raise(figures.max_abs, || scratch.iter().position(|&e| e >= figures.max_abs).map(pair));
        self.worst_required.raise(figures.max_required, || {
            let required = |(g, r): (&f64, &f64)| required_of_extremes(*g, *r, self.measure.rtol.0);
            got.iter().zip(reference).position(|p| required(p) >= figures.max_required).map(pair)
        });
        if figures.max_abs == 0.0 {
            // No error, so no distance either, and histograms need not be told of zeros.
            return;
        }
        self.errors.add(&scratch[..n]);

        let max_ulp = ulp::distances(self.dtype, got, reference, scratch);
        self.ulps.add(&scratch[..n]);
        if let Some(limit) = self.measure.ulp {
            self.beyond_ulp += scratch.iter().filter(|&&d| d > limit as f64).count() as u64;
        }
        self.max_ulp = self.max_ulp.max(max_ulp);
        self.worst_ulp.raise(max_ulp as f64, || scratch.iter().position(|&d| d >= max_ulp as f64).map(pair));
    }

    fn finish(&self, shape: &[usize]) -> FloatFigures {
        let element = |pair: Pair| Element {
            at: coordinates(pair.flat, shape),
            got: Figure(pair.got),
            reference: Figure(pair.reference),
        };
        let tally = |kind: Kind| Tally { count: kind.count, first: kind.first.map(|flat| coordinates(flat, shape)) };
        let nonfinite =
            |[nan, pos, neg]: [Kind; 3]| NonFinite { nan: tally(nan), pos_inf: tally(pos), neg_inf: tally(neg) };
        FloatFigures {
            elements: self.elements,
            compared: self.compared,
            nonfinite_matching: self.matching,
            nonfinite_mismatched: self.mismatched,
            first_nonfinite_mismatch: self.first_mismatch.map(element),
            nonfinite_got: nonfinite(self.nonfinite_got),
            nonfinite_reference: nonfinite(self.nonfinite_reference),
            max_abs: Figure(self.worst_abs.value),
            mean_abs: Figure(if self.compared == 0 { 0.0 } else { self.sum_abs.over(self.compared as f64) }),
            p99_abs: Figure(self.errors.p99(self.compared, self.worst_abs.value)),
            max_rel: Figure(self.max_rel),
            zero_reference_differing: self.zero_reference_differing,
            p99_ulp: Figure(self.ulps.p99(self.compared, self.max_ulp as f64)),
            max_ulp: self.max_ulp,
            cosine: Figure(cosine(self.dot, self.got_squared, self.reference_squared)),
            worst_abs: self.worst_abs.pair.map(element),
            worst_required: self.worst_required.pair.map(element),
            worst_ulp: self.worst_ulp.pair.map(element),
            required_atol: Figure(self.worst_required.value),
            beyond_tolerance: self.beyond_tolerance,
            beyond_ulp: self.beyond_ulp,
            baseline: None,
        }
    }
}

/// Puts zeros behind the first `n` pairs, up to whole lanes; gives the padded length.
fn pad(block: &mut Block, n: usize) -> usize {
    let padded = n.next_multiple_of(LANES);
    block.got[n..padded].fill(0.0);
    block.reference[n..padded].fill(0.0);
    padded
}
