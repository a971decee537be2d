//! What attention must give: in f64, and as float16 gives it when every operator rounds.
//!
//! The same bits on every machine: sums run in order (matrix kernels reorder and fuse them by processor), and the
//! exponential is `libm`'s, not the platform's.

use super::inputs::Inputs;
use half::f16;
use ndarray::{Array2, Array4, ArrayView2, Axis, s};
use std::iter::Sum;
use std::ops::Mul;

/// Softmax(Q K^T * scale) V in f64, one head at a time; masked keys have no weight, a query without keys gives 0.
pub(super) fn exact(inputs: &Inputs, scale: f64) -> Array4<f64> {
    per_head(inputs, |q, k, v, valid| {
        let mut weights = product(&q, &k.reversed_axes()) * scale;
        for mut row in weights.rows_mut() {
            let kept = |key: usize| valid(key);
            let top =
                row.iter().enumerate().filter(|&(key, _)| kept(key)).fold(f64::NEG_INFINITY, |m, (_, &x)| m.max(x));
            for (key, x) in row.iter_mut().enumerate() {
                *x = if kept(key) { libm::exp(*x - top) } else { 0.0 };
            }
            let sum = row.sum();
            if sum > 0.0 {
                row /= sum;
            }
        }
        product(&weights.view(), &v)
    })
}

/// The graph's operators one by one, each result rounded to float16; products are summed in f32, as hardware does.
pub(super) fn rounded_to_f16(inputs: &Inputs, scale: f64) -> Array4<f16> {
    let root = f16::from_f64(scale.sqrt()).to_f32();
    let masked = inputs.valid.is_some();
    per_head(inputs, |q, k, v, valid| {
        let scaled = |m: ArrayView2<'_, f64>| m.mapv(|x| rounded(x as f32 * root));
        let mut weights = product(&scaled(q).view(), &scaled(k).t()).mapv_into(rounded);
        for mut row in weights.rows_mut() {
            for (key, x) in row.iter_mut().enumerate() {
                *x = rounded(*x + if valid(key) { 0.0 } else { f32::NEG_INFINITY });
            }
            let top = row.fold(f32::NEG_INFINITY, |m, &x| m.max(x));
            row.mapv_inplace(|x| libm::expf(x - top));
            let sum = row.sum();
            // A row without keys is -inf - -inf, NaN, which the graph's guard turns into 0.
            row.mapv_inplace(|x| if masked && (x / sum).is_nan() { 0.0 } else { rounded(x / sum) });
        }
        product(&weights.view(), &v.mapv(|x| x as f32).view()).mapv(f16::from_f32)
    })
}

/// Applies `attend(query, key, value, is_valid_key)`, all `[S,D]`, to each head of each event.
fn per_head<T: Clone + Default>(
    inputs: &Inputs,
    attend: impl Fn(ArrayView2<'_, f64>, ArrayView2<'_, f64>, ArrayView2<'_, f64>, &dyn Fn(usize) -> bool) -> Array2<T>,
) -> Array4<T> {
    let mut output = Array4::from_elem(inputs.query.raw_dim(), T::default());
    for (event, mut heads) in output.outer_iter_mut().enumerate() {
        let valid = |key: usize| inputs.valid.as_ref().is_none_or(|valid| valid[[event, key]]);
        for (head, mut target) in heads.axis_iter_mut(Axis(0)).enumerate() {
            let of = |tensor: &'_ Array4<f64>| tensor.slice(s![event, head, .., ..]).to_owned();
            let (q, k, v) = (of(&inputs.query), of(&inputs.key), of(&inputs.value));
            target.assign(&attend(q.view(), k.view(), v.view(), &valid));
        }
    }
    output
}

/// Matrix product, each sum in order and in the elements' own type.
fn product<T: Copy + Mul<Output = T> + Sum>(a: &ArrayView2<'_, T>, b: &ArrayView2<'_, T>) -> Array2<T> {
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| a.row(i).iter().zip(b.column(j)).map(|(&x, &y)| x * y).sum())
}

/// The float16 nearest to `x`.
fn rounded(x: f32) -> f32 {
    f16::from_f32(x).to_f32()
}
