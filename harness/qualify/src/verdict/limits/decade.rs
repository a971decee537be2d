//! Decades: the part of an error that is the same on every processor, for golden snapshots.

use crate::observation::compare::{Comparison, Outcome};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A power of ten and whether the largest absolute error is at most that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decade {
    /// The power of ten: -3 for 1e-3.
    pub exponent: i32,
    /// Is the error at most that, on valid and masked rows, with no mismatched non-finite value?
    pub holds: bool,
}

impl fmt::Display for Decade {
    /// `1e-3 holds`, `1e-4 broken`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1e{} {}", self.exponent, if self.holds { "holds" } else { "broken" })
    }
}

/// Which of 1, 0.1, ... down to the last power of ten that is not below `limit` hold. Below the limit errors differ from
/// processor to processor, so nothing is said there. Empty for outputs without error figures, and for limits that are
/// not positive.
pub fn decades(comparison: &Comparison, limit: f64) -> Vec<Decade> {
    let Outcome::Floats(floats) = &comparison.outcome else { return Vec::new() };
    if limit.is_nan() || limit <= 0.0 {
        return Vec::new();
    }
    let holds = |decade: f64| {
        std::iter::once(&floats.valid)
            .chain(&floats.masked)
            .all(|f| f.nonfinite_mismatched == 0 && f.max_abs.0 <= decade)
    };
    (0..=307)
        .map(|k| (-k, format!("1e-{k}").parse::<f64>().expect("a decimal number")))
        .take_while(|&(_, decade)| decade >= limit)
        .map(|(exponent, decade)| Decade { exponent, holds: holds(decade) })
        .collect()
}
