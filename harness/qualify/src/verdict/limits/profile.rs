//! The named profiles.

use super::{Limits, LimitsTable, NonFinitePolicy};

/// Limits that have a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name that cases and bundles use.
    pub name: &'static str,
    /// What it is for, one line.
    pub purpose: &'static str,
    /// The limits.
    pub limits: LimitsTable,
}

/// No limit at all: what the profiles below start from.
const NONE: LimitsTable = LimitsTable {
    profile: None,
    max_abs: None,
    mean_abs: None,
    rtol: None,
    atol: None,
    max_ulp: None,
    outlier_fraction: None,
    baseline_factor: None,
    min_cosine: None,
    nonfinite: None,
};

/// All profiles. They are chosen by the precision that a model computes in, which is not always its outputs' type.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "exact",
        purpose: "the reference itself, rounded to the output's type; integers, bools and strings always",
        limits: LimitsTable { max_ulp: Some(0), ..NONE },
    },
    Profile {
        name: "fp32",
        purpose: "models that compute in fp32, against an f64 reference",
        limits: LimitsTable { max_abs: Some(1e-5), ..NONE },
    },
    Profile {
        name: "fp16",
        purpose: "models that compute in fp16 or bf16, against an f64 or fp32 reference and a same-precision baseline",
        // The rule of flash-attention's tests: twice the error that the plain computation makes at the same precision.
        limits: LimitsTable { baseline_factor: Some(2.0), ..NONE },
    },
    Profile {
        name: "onnx-node",
        purpose: "the ONNX backend suite's own tolerance",
        limits: LimitsTable { rtol: Some(1e-3), atol: Some(1e-7), ..NONE },
    },
    Profile {
        name: "ulp",
        purpose: "single operators, whatever the size of their values",
        limits: LimitsTable { max_ulp: Some(4), ..NONE },
    },
    Profile {
        name: "outliers",
        purpose: "models that amplify rounding at a few places (ties, thresholds): close but for one element in a thousand",
        limits: LimitsTable { rtol: Some(1e-3), atol: Some(1e-5), outlier_fraction: Some(1e-3), ..NONE },
    },
];

/// A profile as a row of a table to be printed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ProfileRow {
    /// Name.
    pub name: &'static str,
    /// Its limits in one line.
    pub limits: String,
    /// What is asked of NaN and infinities.
    pub nonfinite: &'static str,
    /// What it is for.
    pub purpose: &'static str,
}

/// All profiles as rows.
pub fn profiles_table() -> Vec<ProfileRow> {
    let row = |p: &Profile| ProfileRow {
        name: p.name,
        limits: p.limits.bounds(),
        nonfinite: match p.limits.nonfinite.unwrap_or_default() {
            NonFinitePolicy::Match => "match",
            NonFinitePolicy::Forbid => "forbid",
        },
        purpose: p.purpose,
    };
    PROFILES.iter().map(row).collect()
}

pub(super) fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|p| p.name == name)
}

impl LimitsTable {
    /// The limits that are set, in one line.
    pub(super) fn bounds(&self) -> String {
        let mut bounds = Vec::new();
        let mut bound = |name: &str, value: Option<f64>| bounds.extend(value.map(|v| format!("{name} {v:?}")));
        bound("max_abs", self.max_abs);
        bound("mean_abs", self.mean_abs);
        bound("rtol", self.rtol);
        bound("atol", self.atol);
        bound("min_cosine", self.min_cosine);
        bounds.extend(self.max_ulp.map(|v| format!("max_ulp {v}")));
        bounds.extend(self.outlier_fraction.map(|v| format!("but for {v:?} of the elements")));
        bounds.extend(self.baseline_factor.map(|v| format!("max_abs {v:?} x the same-precision baseline's")));
        bounds.join(", ")
    }
}

impl Profile {
    /// The limits, checked.
    ///
    /// # Errors
    /// None for the profiles of [`PROFILES`].
    pub fn limits(&self) -> Result<Limits, super::LimitsError> {
        Limits::profile(self.name)
    }
}
