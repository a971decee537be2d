//! What a comparison found, as it is written into an observation.

use super::{CompareError, TensorView};
use crate::observation::figure::Figure;
use serde::{Deserialize, Serialize};

/// With which tolerances elements are counted. The figures beside the counts do not depend on it, but
/// [`FloatFigures::required_atol`] does, on `rtol`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Relative tolerance: an element is beyond when `|got - reference| - rtol * |reference| > atol`.
    pub rtol: Figure,
    /// Absolute tolerance, in the output's unit.
    pub atol: Figure,
    /// Distance in ULP beyond which elements are counted; none counts nothing.
    pub ulp: Option<u64>,
}

impl Measure {
    /// Refuses tolerances that are negative or not a number.
    pub(super) fn check(&self) -> Result<(), CompareError> {
        for (name, Figure(value)) in [("rtol", self.rtol), ("atol", self.atol)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(CompareError::Tolerance { name, value: value.to_string() });
            }
        }
        Ok(())
    }
}

/// An output held beside its reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Type and shape of the output.
    pub got: ArrayKind,
    /// Type and shape of the reference.
    pub reference: ArrayKind,
    /// The tolerances that elements were counted with.
    pub measure: Measure,
    /// The facts.
    pub outcome: Outcome,
}

/// Type and shape of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayKind {
    /// Name of the element type (`float32`).
    pub dtype: String,
    /// Extents in elements, outermost first.
    pub shape: Vec<usize>,
}

impl From<&TensorView<'_>> for ArrayKind {
    fn from(view: &TensorView<'_>) -> Self {
        Self { dtype: view.dtype().name().to_owned(), shape: view.shape().to_vec() }
    }
}

impl std::fmt::Display for ArrayKind {
    /// `float32 of shape [2, 3]`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of shape {:?}", self.dtype, self.shape)
    }
}

/// How the two arrays could be compared, and what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Not at all.
    Mismatch(Mismatch),
    /// By the size of the error.
    Floats(Box<Floats>),
    /// By equality.
    Exact(Exact),
}

/// What keeps two arrays from being compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mismatch {
    /// The shapes differ.
    Shape,
    /// The types are not comparable.
    Dtype,
    /// Both.
    ShapeAndDtype,
}

/// Errors of a float output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floats {
    /// On valid rows: all rows where there is no mask.
    pub valid: FloatFigures,
    /// On masked rows; none where there is no mask.
    pub masked: Option<FloatFigures>,
}

/// Figures over some rows of a float output. "Pairs" are an element of the output and its reference; errors are
/// measured, in f64, on those pairs only that are finite on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FloatFigures {
    /// Pairs on these rows.
    pub elements: u64,
    /// Pairs that are finite on both sides: what the errors are measured on.
    pub compared: u64,
    /// Pairs with the same kind of non-finite value on both sides (NaN and NaN, +inf and +inf, -inf and -inf).
    pub nonfinite_matching: u64,
    /// Pairs with a non-finite value that the other side has not.
    pub nonfinite_mismatched: u64,
    /// The first of the mismatched pairs.
    pub first_nonfinite_mismatch: Option<Element>,
    /// Non-finite values of the output.
    pub nonfinite_got: NonFinite,
    /// Non-finite values of the reference.
    pub nonfinite_reference: NonFinite,
    /// Largest `|got - reference|`; `inf` where the difference is beyond f64.
    pub max_abs: Figure,
    /// Mean of `|got - reference|`.
    pub mean_abs: Figure,
    /// 99th percentile of `|got - reference|`: at least 99 % of the pairs are not above it. An upper bound of the
    /// exact value, larger by at most [`super::QUANTILE_RESOLUTION`] of it.
    pub p99_abs: Figure,
    /// Largest `|got - reference| / |reference|` over the pairs whose reference is not 0.
    pub max_rel: Figure,
    /// Pairs that differ and whose reference is 0, so that `max_rel` says nothing about them.
    pub zero_reference_differing: u64,
    /// 99th percentile of the distance in ULP, with the same resolution as `p99_abs` (exact up to 128).
    pub p99_ulp: Figure,
    /// Largest distance in ULP of the output's type, the reference rounded to that type first (+0 and -0 are 0 apart;
    /// a reference beyond the type's range is one step beyond its largest value).
    pub max_ulp: u64,
    /// Cosine of the angle between output and reference; 1 where both are all zero (or nothing was compared), 0 where
    /// one is.
    pub cosine: Figure,
    /// The pair with the largest absolute error, the first of equals; none where no pair differs.
    pub worst_abs: Option<Element>,
    /// The pair that asks for the largest `atol`; none where `rtol` alone is enough.
    pub worst_required: Option<Element>,
    /// The pair that is the most ULP apart; none where none are.
    pub worst_ulp: Option<Element>,
    /// The smallest `atol` with which every pair would just have passed, given [`Measure::rtol`].
    pub required_atol: Figure,
    /// Pairs beyond [`Measure::rtol`] and [`Measure::atol`].
    pub beyond_tolerance: u64,
    /// Pairs further apart than [`Measure::ulp`]; 0 where that is not set.
    pub beyond_ulp: u64,
    /// Errors of the same-precision baseline on the same rows; none where the case has no baseline.
    pub baseline: Option<BaselineErrors>,
}

/// Errors of a same-precision baseline against the same reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineErrors {
    /// Name of the baseline's element type.
    pub dtype: String,
    /// Pairs that are finite on both sides.
    pub compared: u64,
    /// Pairs with a non-finite value that the other side has not: the errors say nothing about them.
    pub nonfinite_mismatched: u64,
    /// Largest `|baseline - reference|`.
    pub max_abs: Figure,
    /// Mean of `|baseline - reference|`.
    pub mean_abs: Figure,
}

/// Non-finite values by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NonFinite {
    /// Not a number.
    pub nan: Tally,
    /// Positive infinity.
    pub pos_inf: Tally,
    /// Negative infinity.
    pub neg_inf: Tally,
}

impl NonFinite {
    /// Non-finite values of any kind.
    pub fn count(&self) -> u64 {
        self.nan.count + self.pos_inf.count + self.neg_inf.count
    }
}

/// How many there are, and where the first is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// Coordinates of the first.
    pub first: Option<Vec<usize>>,
}

/// A pair of floats and its coordinates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Element {
    /// Coordinates, outermost axis first (complex numbers: then 0 for the real part, 1 for the imaginary).
    pub at: Vec<usize>,
    /// The output's value.
    pub got: Figure,
    /// The reference's value.
    pub reference: Figure,
}

/// Equality of an output of integers, bools, strings or bits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exact {
    /// On valid rows: all rows where there is no mask.
    pub valid: ExactFigures,
    /// On masked rows; none where there is no mask.
    pub masked: Option<ExactFigures>,
}

/// Figures over some rows of an output that is compared for equality.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExactFigures {
    /// Pairs on these rows.
    pub elements: u64,
    /// Pairs that differ.
    pub differing: u64,
    /// The first pair that differs.
    pub first: Option<Difference>,
    /// Largest absolute difference, for integers only (rounded to f64 above 2^53).
    pub max_abs: Option<Figure>,
}

/// A pair that differs, with its values as text (long strings are cut, bits are hexadecimal).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Coordinates, outermost axis first.
    pub at: Vec<usize>,
    /// The output's value.
    pub got: String,
    /// The reference's value.
    pub reference: String,
}
