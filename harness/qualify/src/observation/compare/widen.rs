//! Float arrays widened to `f64`, a block at a time: the only copy a comparison makes.

use super::{TensorView, parts_of};
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use onnx_graph::DataType;
use std::ops::Range;

/// Elements widened at a time: output, reference and error of a block fit the first-level cache together.
pub(super) const BLOCK: usize = 1024;

/// A float array (complex numbers as pairs) to be read in blocks.
#[derive(Clone, Copy)]
pub(super) struct Widen<'a> {
    dtype: DataType,
    bytes: &'a [u8],
}

impl<'a> Widen<'a> {
    /// The floats of `view`; its type is a float or complex one.
    pub fn of(view: &TensorView<'a>) -> Self {
        Self { dtype: parts_of(view.dtype()).0, bytes: view.bytes() }
    }

    /// Writes the floats of `range` to the front of `out`, which is at least as long.
    pub fn block(self, range: Range<usize>, out: &mut [f64]) {
        let size = self.dtype.bits().unwrap_or(0) / 8;
        let bytes = &self.bytes[range.start * size..range.end * size];
        match self.dtype {
            DataType::Float64 => {
                for (out, b) in out.iter_mut().zip(bytes.as_chunks().0) {
                    *out = f64::from_le_bytes(*b);
                }
            }
            DataType::Float32 => {
                for (out, b) in out.iter_mut().zip(bytes.as_chunks().0) {
                    *out = f64::from(f32::from_le_bytes(*b));
                }
            }
            DataType::Bfloat16 => {
                for (out, b) in out.iter_mut().zip(bytes.as_chunks().0) {
                    *out = f64::from(f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16));
                }
            }
            _ => widen_f16(bytes, out),
        }
    }
}

/// f16 goes through aligned memory, so that the processor's own conversion can be used where it has one.
fn widen_f16(bytes: &[u8], out: &mut [f64]) {
    let mut bits = [0u16; BLOCK];
    for (bytes, out) in bytes.chunks(2 * BLOCK).zip(out.chunks_mut(BLOCK)) {
        let n = bytes.len() / 2;
        for (bits, b) in bits.iter_mut().zip(bytes.as_chunks().0) {
            *bits = u16::from_le_bytes(*b);
        }
        bits[..n].reinterpret_cast::<half::f16>().convert_to_f64_slice(&mut out[..n]);
    }
}
