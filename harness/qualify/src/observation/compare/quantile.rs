//! Quantiles of non-negative numbers without keeping the numbers: a histogram over the leading bits of their `f64`s.

/// A quantile that is read from a histogram is at most this part of itself above the exact one. (Below 2^-1022, where
/// f64 itself loses digits, it is at most 2^-1028 above.)
pub const RELATIVE_RESOLUTION: f64 = 1.0 / 64.0;

/// Bits of the mantissa that tell buckets apart: 64 buckets for every power of two.
const KEPT: u32 = 6;
const DROPPED: u32 = 52 - KEPT;

/// Counts of numbers in buckets `(upper edge of the last, upper edge]`; numbers of at most seven leading bits, so 0 and
/// the integers to 128, are edges themselves.
pub(super) struct Histogram {
    counts: Vec<u64>,
    /// Bits of the lowest edge that is told apart from 0.
    lowest: u64,
}

impl Histogram {
    /// For any number: 1 MiB, of which only the pages with counts are ever touched.
    pub fn of_floats() -> Self {
        Self { counts: vec![0; (2047 << KEPT) + 1], lowest: 0 }
    }

    /// For whole numbers: 33 KiB.
    pub fn of_integers() -> Self {
        // The edge 1.0 is bucket 1; 2^64 is the largest distance of two 64-bit numbers.
        Self { counts: vec![0; (65 << KEPT) + 1], lowest: (1023 << KEPT) - 1 }
    }

    /// Counts numbers that are neither negative nor NaN.
    #[inline]
    pub fn add(&mut self, values: &[f64]) {
        let last = self.counts.len() - 1;
        for value in values {
            // Rounded up, so that a bucket holds its own upper edge.
            let edge = (value.to_bits() + ((1 << DROPPED) - 1)) >> DROPPED;
            self.counts[(edge.saturating_sub(self.lowest) as usize).min(last)] += 1;
        }
    }

    /// The upper edge of the bucket that holds the 99th percentile (the smallest number that at least 99 % of them are
    /// not above), but not above `max`, the largest number that was counted. Of `count` numbers those that were not counted are zeros.
    pub fn p99(&self, count: u64, max: f64) -> f64 {
        let mut above = count / 100;
        for (i, &n) in self.counts.iter().enumerate().rev() {
            if n > above {
                let edge = if i == 0 { 0 } else { i as u64 + self.lowest };
                return f64::from_bits(edge << DROPPED).min(max);
            }
            above -= n;
        }
        0.0
    }
}
