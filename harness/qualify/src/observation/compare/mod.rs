//! Comparison of an output with its reference: raw facts, no judgement (that is [`crate::verdict::limits`]'s).
//!
//! Arrays are read where they lie, in little-endian bytes of any alignment, and walked once in blocks that are widened
//! to `f64`; nothing larger than a block is copied. Valid and masked rows are kept apart from the first to the last
//! figure, and non-finite values are counted on both sides before anything else is made of them.

mod comparison;
mod exact;
mod floats;
mod kernel;
mod peak;
mod quantile;
mod rows;
mod scaled;
mod ulp;
mod view;
mod widen;

#[cfg(test)]
mod tests;

pub use comparison::{
    ArrayKind, BaselineErrors, Comparison, Difference, Element, Exact, ExactFigures, FloatFigures, Floats, Measure,
    Mismatch, NonFinite, Outcome, Tally,
};
pub use quantile::RELATIVE_RESOLUTION as QUANTILE_RESOLUTION;
pub use rows::Rows;
pub use view::{Elements, TensorView};

use onnx_graph::DataType;

/// A comparison that was asked for wrongly: nothing about the output is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// Bytes or strings that do not fit type and shape.
    #[error(
        "a {dtype} array of shape {shape:?} needs {expected} and has {found}: the array was cut short or is of another type"
    )]
    Size {
        /// Element type.
        dtype: DataType,
        /// Extents.
        shape: Vec<usize>,
        /// What type and shape ask for.
        expected: String,
        /// What there is.
        found: String,
    },
    /// A mask that does not say for every row whether it is valid.
    #[error("the mask is {dtype} of shape {shape:?} and cannot say which rows are valid: {reason}")]
    Mask {
        /// Element type of the mask.
        dtype: DataType,
        /// Extents of the mask.
        shape: Vec<usize>,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// A mask that does not lie on the output's axes.
    #[error("the mask of shape {mask:?} does not fit axes {axes:?} of an output of shape {output:?}: {reason}")]
    MaskAxes {
        /// Extents of the mask.
        mask: Vec<usize>,
        /// Which output axes the mask's axes are said to be.
        axes: Vec<usize>,
        /// Extents of the output.
        output: Vec<usize>,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A baseline that cannot be compared with the reference.
    #[error(
        "the same-precision baseline is {baseline} and the reference {reference}: a baseline needs the reference's shape and a float type that is not wider than the reference's"
    )]
    Baseline {
        /// What the baseline is.
        baseline: String,
        /// What the reference is.
        reference: String,
    },
    /// A tolerance that is negative or not a number.
    #[error("cannot measure with {name} = {value}: a tolerance is a number and not negative")]
    Tolerance {
        /// `rtol` or `atol`.
        name: &'static str,
        /// The value, as text since it may be NaN.
        value: String,
    },
}

/// Compares `got` with `reference`, on the valid and masked rows of `rows` separately (all rows are valid without it).
///
/// Float types are comparable when the reference has the same type or a wider one; every other type only with itself.
/// What cannot be compared (shape, type) is a fact of the result, [`Outcome::Mismatch`]. Complex numbers are compared
/// as pairs of floats: their elements have one more axis, `0` real and `1` imaginary. Integers, bools and strings are
/// compared for equality, types below 16 bits that are not integers (fp8, fp4) bit for bit.
///
/// `baseline` is what the same model gave at the same precision elsewhere (plain `PyTorch` in fp16, say); its errors
/// against the same reference are recorded beside those of `got`. It is read only where floats are compared.
///
/// # Errors
/// A mask, baseline or tolerance that does not fit: the request is wrong, whatever the output.
pub fn compare(
    got: &TensorView<'_>,
    reference: &TensorView<'_>,
    rows: Option<&Rows>,
    baseline: Option<&TensorView<'_>>,
    measure: &Measure,
) -> Result<Comparison, CompareError> {
    measure.check()?;
    let outcome = match mismatch(got, reference, |g, r| g == r || float_comparable(g, r)) {
        Some(mismatch) => Outcome::Mismatch(mismatch),
        None if parts_of(got.dtype()).0.is_float() => {
            if let Some(b) = baseline
                && (b.shape() != reference.shape() || !float_comparable(b.dtype(), reference.dtype()))
            {
                return Err(CompareError::Baseline { baseline: b.describe(), reference: reference.describe() });
            }
            Outcome::Floats(Box::new(floats::compare(got, reference, rows, baseline, measure)?))
        }
        None => Outcome::Exact(exact::compare(got, reference, rows)?),
    };
    Ok(Comparison { got: got.into(), reference: reference.into(), measure: *measure, outcome })
}

/// Compares integers by value across widths and signedness (an int64 output against an int32 reference): what probes
/// such as sort positions need. Any other type is a mismatch, bools included.
///
/// # Errors
/// A mask that does not fit the shape.
pub fn compare_exact_integers(
    got: &TensorView<'_>,
    reference: &TensorView<'_>,
    rows: Option<&Rows>,
) -> Result<Comparison, CompareError> {
    let outcome = match mismatch(got, reference, |g, r| exact::is_integer(g) && exact::is_integer(r)) {
        Some(mismatch) => Outcome::Mismatch(mismatch),
        None => Outcome::Exact(exact::compare(got, reference, rows)?),
    };
    Ok(Comparison { got: got.into(), reference: reference.into(), measure: Measure::default(), outcome })
}

/// What keeps two arrays from being compared element by element, if anything.
fn mismatch(
    got: &TensorView<'_>,
    reference: &TensorView<'_>,
    comparable: impl Fn(DataType, DataType) -> bool,
) -> Option<Mismatch> {
    match (got.shape() == reference.shape(), comparable(got.dtype(), reference.dtype())) {
        (true, true) => None,
        (false, true) => Some(Mismatch::Shape),
        (true, false) => Some(Mismatch::Dtype),
        (false, false) => Some(Mismatch::ShapeAndDtype),
    }
}

/// May errors of `got` be measured against a `reference` of that type?
fn float_comparable(got: DataType, reference: DataType) -> bool {
    let ((g, g_parts), (r, r_parts)) = (parts_of(got), parts_of(reference));
    g.is_float() && r.is_float() && g_parts == r_parts && (g == r || r.bits() > g.bits())
}

/// The float type of an element's parts, and how many parts it has: two for complex numbers.
fn parts_of(dtype: DataType) -> (DataType, usize) {
    match dtype {
        DataType::Complex64 => (DataType::Float32, 2),
        DataType::Complex128 => (DataType::Float64, 2),
        other => (other, 1),
    }
}

/// Coordinates of the element at `flat` in row-major order.
fn coordinates(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut at: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let i = flat % extent.max(1);
            flat /= extent.max(1);
            i
        })
        .collect();
    at.reverse();
    at
}
