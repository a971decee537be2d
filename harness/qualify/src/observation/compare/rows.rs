//! Which rows of an output are valid and which are masked, walked as runs of consecutive elements.

use super::widen::Widen;
use super::{CompareError, TensorView, exact};
use onnx_graph::DataType;
use std::ops::Range;

/// A mask laid on some axes of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    shape: Vec<usize>,
    axes: Vec<usize>,
    valid: Vec<bool>,
}

/// Consecutive elements of an output that are all valid or all masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub valid: bool,
    pub elements: Range<usize>,
}

impl Rows {
    /// `mask` (bool or numeric, nonzero is valid) lies on the output's axes `axes`, one for each of its own: a mask
    /// `[B, S]` on an output `[B, H, S, D]` has axes `[0, 2]`.
    ///
    /// # Errors
    /// A mask of another type, one that holds NaN, or axes that are not one for each of the mask's.
    pub fn new(mask: &TensorView<'_>, axes: &[usize]) -> Result<Self, CompareError> {
        let refuse =
            |reason: String| Err(CompareError::Mask { dtype: mask.dtype(), shape: mask.shape().to_vec(), reason });
        if axes.len() != mask.shape().len() {
            return refuse(format!("it has {} axes and {axes:?} names {}", mask.shape().len(), axes.len()));
        }
        let valid = if mask.dtype().is_float() {
            let mut values = vec![0.0; mask.len()];
            Widen::of(mask).block(0..mask.len(), &mut values);
            if let Some(at) = values.iter().position(|v| v.is_nan()) {
                return refuse(format!("its element {at} (row-major) is NaN, which is neither valid nor masked"));
            }
            values.iter().map(|&v| v != 0.0).collect()
        } else if mask.dtype() == DataType::Bool || exact::is_integer(mask.dtype()) {
            (0..mask.len()).map(|i| exact::integer(mask.dtype(), mask.bytes(), i) != 0).collect()
        } else {
            return refuse("a mask is bool, integer or float, nonzero for valid rows".to_owned());
        };
        Ok(Self { shape: mask.shape().to_vec(), axes: axes.to_vec(), valid })
    }

    /// The runs of an output of that shape, in row-major order and without gaps.
    pub(super) fn runs(&self, output: &[usize]) -> Result<Runs<'_>, CompareError> {
        let refuse = |reason: String| {
            Err(CompareError::MaskAxes {
                mask: self.shape.clone(),
                axes: self.axes.clone(),
                output: output.to_vec(),
                reason,
            })
        };
        let walked = self.axes.iter().map(|a| a.saturating_add(1)).max().unwrap_or(0);
        if walked > output.len() {
            return refuse(format!("the output has {} axes, counted from 0", output.len()));
        }
        let mut strides = vec![0; walked];
        let mut stride = 1;
        for (&axis, &extent) in self.axes.iter().zip(&self.shape).rev() {
            if output[axis] != extent {
                return refuse(format!("axis {axis} has {} elements and the mask has {extent}", output[axis]));
            }
            if strides[axis] != 0 {
                return refuse(format!("axis {axis} is named twice"));
            }
            strides[axis] = stride;
            // An empty mask has no elements to address; its strides must only not be 0.
            stride *= extent.max(1);
        }
        Ok(Runs {
            valid: &self.valid,
            extents: output[..walked].to_vec(),
            strides,
            inner: product(&output[walked..]),
            at: vec![0; walked],
            mask_index: 0,
            next: 0,
            end: product(output),
        })
    }
}

/// See [`Rows::runs`].
pub(super) struct Runs<'a> {
    valid: &'a [bool],
    /// Extents of the output up to its last masked axis.
    extents: Vec<usize>,
    /// Strides in the mask along those axes; 0 where the mask has no such axis.
    strides: Vec<usize>,
    /// Elements behind one place of those axes: they share its validity.
    inner: usize,
    at: Vec<usize>,
    mask_index: usize,
    next: usize,
    end: usize,
}

impl Runs<'_> {
    fn advance(&mut self) {
        self.next += self.inner;
        for axis in (0..self.extents.len()).rev() {
            self.at[axis] += 1;
            self.mask_index += self.strides[axis];
            if self.at[axis] < self.extents[axis] {
                return;
            }
            self.mask_index -= self.strides[axis] * self.extents[axis];
            self.at[axis] = 0;
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let start = self.next;
        if start >= self.end {
            return None;
        }
        let valid = self.valid[self.mask_index];
        while self.next < self.end && self.valid[self.mask_index] == valid {
            self.advance();
        }
        Some(Run { valid, elements: start..self.next })
    }
}

/// The runs of an output with or without a mask, for arrays whose elements have `parts` parts each.
pub(super) fn walk<'a>(
    rows: Option<&'a Rows>,
    shape: &[usize],
    parts: usize,
) -> Result<Box<dyn Iterator<Item = Run> + 'a>, CompareError> {
    let widen = move |run: Run| Run { elements: run.elements.start * parts..run.elements.end * parts, ..run };
    Ok(match rows {
        Some(rows) => Box::new(rows.runs(shape)?.map(widen)),
        None => Box::new(std::iter::once(widen(Run { valid: true, elements: 0..product(shape) }))),
    })
}

/// Saturates: an array without elements may have extents whose product does not fit.
fn product(extents: &[usize]) -> usize {
    if extents.contains(&0) { 0 } else { extents.iter().fold(1, |n, &d| n.saturating_mul(d)) }
}
