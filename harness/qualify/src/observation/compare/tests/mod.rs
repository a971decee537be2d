//! Comparisons as their callers meet them: hand cases here, all figures against a naive implementation in `naive`.

// Equality of floats is the subject here.
#![allow(clippy::float_cmp)]

mod exact;
mod floats;
mod masks;
mod naive;

use super::*;
use crate::observation::figure::Figure;

/// A tensor of any type from `f64` values, its bytes at an odd address.
struct Array {
    dtype: DataType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Array {
    fn of(dtype: DataType, shape: &[usize], values: &[f64]) -> Self {
        let mut bytes = vec![0xee];
        for &v in values {
            match dtype {
                DataType::Float64 | DataType::Complex128 => bytes.extend(v.to_le_bytes()),
                DataType::Float32 | DataType::Complex64 => bytes.extend((v as f32).to_le_bytes()),
                DataType::Float16 => bytes.extend(half::f16::from_f64(v).to_le_bytes()),
                DataType::Bfloat16 => bytes.extend(half::bf16::from_f64(v).to_le_bytes()),
                DataType::Int64 => bytes.extend((v as i64).to_le_bytes()),
                DataType::Int32 => bytes.extend((v as i32).to_le_bytes()),
                _ => bytes.push(v as u8),
            }
        }
        Self { dtype, shape: shape.to_vec(), bytes }
    }

    fn view(&self) -> TensorView<'_> {
        TensorView::new(self.dtype, &self.shape, Elements::Bytes(&self.bytes[1..])).unwrap()
    }
}

fn floats_of(comparison: Comparison) -> Floats {
    match comparison.outcome {
        Outcome::Floats(floats) => *floats,
        other => panic!("not floats: {other:?}"),
    }
}

fn exact_of(comparison: Comparison) -> Exact {
    match comparison.outcome {
        Outcome::Exact(exact) => exact,
        other => panic!("not exact: {other:?}"),
    }
}

/// Figures of a vector of `got` against one of `reference`, without mask.
fn figures(got: (DataType, &[f64]), reference: (DataType, &[f64])) -> FloatFigures {
    let got = Array::of(got.0, &[got.1.len()], got.1);
    let reference = Array::of(reference.0, &[reference.1.len()], reference.1);
    floats_of(compare(&got.view(), &reference.view(), None, None, &Measure::default()).unwrap()).valid
}
