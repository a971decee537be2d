//! Seeded inputs, the same for ever on every machine: integer arithmetic and one exact multiplication, no library functions.

use super::{Pattern, SdpaSpec};
use crate::random::SplitMix64;
use ndarray::{Array2, Array4};

/// Inputs in f64, already rounded to the graph's precision.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    /// `[B,H,S,D]`
    pub query: Array4<f64>,
    /// `[B,H,S,D]`
    pub key: Array4<f64>,
    /// `[B,H,S,D]`
    pub value: Array4<f64>,
    /// `[B,S]`, true where a key is attended to; absent without a mask.
    pub valid: Option<Array2<bool>>,
}

impl Inputs {
    pub(super) fn draw(spec: &SdpaSpec, seed: u64, pattern: Option<Pattern>) -> Self {
        let mut random = SplitMix64(seed);
        let mut tensor = || spec.precision.round(&Array4::from_shape_simple_fn(spec.shape(), || random.bell()));
        let (query, key, value) = (tensor(), tensor(), tensor());
        let valid = pattern.map(|pattern| {
            Array2::from_shape_fn((spec.batch, spec.sequence), |(event, i)| {
                let within = i < length(event, spec.batch, spec.sequence);
                match pattern {
                    Pattern::Full => true,
                    Pattern::Padded => within,
                    // A quarter of the keys, never the first, so that no event is wholly masked.
                    Pattern::Holes => i == 0 || random.next() >> 62 != 0,
                    Pattern::AllMasked => event != 0 && within,
                }
            })
        });
        Self { query, key, value, valid }
    }
}

/// Valid elements of an event: evenly spaced lengths below the whole sequence, at least 1.
fn length(event: usize, events: usize, sequence: usize) -> usize {
    (sequence - sequence * (event + 1) / (events + 1)).max(1)
}
