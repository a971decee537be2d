//! Limits: how far an output may be from its reference. Named profiles as data, or a table of one's own.

mod decade;
mod judgement;
mod profile;

#[cfg(test)]
mod tests;

pub use decade::{Decade, decades};
pub use judgement::{Judgement, Margin, judge};
pub use profile::{PROFILES, Profile, ProfileRow, profiles_table};

use crate::nearest;
use crate::observation::compare::Measure;
use crate::observation::figure::Figure;
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::fmt;

/// Limits of the error of an output, checked: at least one of them can fail. Every limit that is set must hold, on
/// valid and on masked rows. Outputs of integers, bools and strings must be equal whatever the limits.
///
/// In TOML either the name of a profile (`limits = "fp32"`) or a table, which may start from a profile and override
/// single limits (`limits = { profile = "fp32", max_abs = 2e-5 }`).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "LimitsTable")]
pub struct Limits {
    table: LimitsTable,
}

/// Limits as they are written. See [`Limits`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsTable {
    /// Name of the profile whose limits hold where this table sets none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Largest `|got - reference|`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_abs: Option<f64>,
    /// Mean of `|got - reference|`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_abs: Option<f64>,
    /// With `atol`: `|got - reference| <= atol + rtol * |reference|` for every element. 0 if only `atol` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtol: Option<f64>,
    /// See `rtol`. 0 if only `rtol` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atol: Option<f64>,
    /// Distance in ULP of the output's type, the reference rounded to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ulp: Option<u64>,
    /// Part of the compared elements (0.001 for one in a thousand) that may be beyond `rtol` and `atol`, or beyond
    /// `max_ulp`, whichever are set. `max_abs` holds for these elements too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlier_fraction: Option<f64>,
    /// Largest absolute error, in multiples of that of a same-precision baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_factor: Option<f64>,
    /// Cosine of the angle between output and reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_cosine: Option<f64>,
    /// What is asked of NaN and infinities; `match` if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonfinite: Option<NonFinitePolicy>,
}

/// What is asked of NaN and infinities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonFinitePolicy {
    /// The output has them exactly where the reference has the same kind.
    #[default]
    Match,
    /// The output has none, and neither has the reference.
    Forbid,
}

/// Limits that make no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LimitsError {
    /// A profile that does not exist.
    #[error("there is no limits profile `{name}`{hint}: the profiles are {known}")]
    UnknownProfile {
        /// The name.
        name: String,
        /// The nearest known name.
        hint: String,
        /// All names.
        known: String,
    },
    /// A value that is not a limit.
    #[error("limit `{field}` is {value}: {reason}")]
    Value {
        /// Which limit.
        field: &'static str,
        /// Its value, as text since it may be NaN.
        value: String,
        /// What it must be.
        reason: &'static str,
    },
    /// Nothing that could fail.
    #[error(
        "the limits do not bound the error: set at least one of max_abs, mean_abs, rtol, atol, max_ulp, baseline_factor, min_cosine, or start from a profile"
    )]
    Unbounded,
    /// An outlier fraction of nothing.
    #[error(
        "limit `outlier_fraction` says how many elements may be beyond rtol and atol, or beyond max_ulp, and none of these is set: set one"
    )]
    OutliersOfNothing,
}

impl Limits {
    /// The limits of that profile.
    ///
    /// # Errors
    /// A name that is not in [`PROFILES`].
    pub fn profile(name: &str) -> Result<Self, LimitsError> {
        Self::new(&LimitsTable { profile: Some(name.to_owned()), ..LimitsTable::default() })
    }

    /// The limits that a table describes.
    ///
    /// # Errors
    /// An unknown profile, values that are not limits, or limits that cannot fail.
    pub fn new(table: &LimitsTable) -> Result<Self, LimitsError> {
        let base = match &table.profile {
            Some(name) => profile::find(name).map(|p| p.limits.clone()).ok_or_else(|| LimitsError::UnknownProfile {
                name: name.clone(),
                hint: nearest::hint(name, PROFILES.iter().map(|p| p.name)),
                known: PROFILES.iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
            })?,
            None => LimitsTable::default(),
        };
        let table = LimitsTable {
            profile: table.profile.clone(),
            max_abs: table.max_abs.or(base.max_abs),
            mean_abs: table.mean_abs.or(base.mean_abs),
            rtol: table.rtol.or(base.rtol),
            atol: table.atol.or(base.atol),
            max_ulp: table.max_ulp.or(base.max_ulp),
            outlier_fraction: table.outlier_fraction.or(base.outlier_fraction),
            baseline_factor: table.baseline_factor.or(base.baseline_factor),
            min_cosine: table.min_cosine.or(base.min_cosine),
            nonfinite: table.nonfinite.or(base.nonfinite),
        };
        table.check()?;
        Ok(Self { table })
    }

    /// The limits, those of the profile filled in.
    pub fn table(&self) -> &LimitsTable {
        &self.table
    }

    /// What is asked of NaN and infinities.
    pub fn nonfinite(&self) -> NonFinitePolicy {
        self.table.nonfinite.unwrap_or_default()
    }

    /// Do they need a same-precision baseline?
    pub fn needs_baseline(&self) -> bool {
        self.table.baseline_factor.is_some()
    }

    /// The tolerances with which a comparison must count elements, so that it can be judged by these limits.
    pub fn measure(&self) -> Measure {
        let t = &self.table;
        Measure {
            rtol: Figure(t.rtol.unwrap_or(0.0)),
            // Without rtol and atol, elements beyond max_abs are the ones worth counting.
            atol: Figure(if self.is_allclose() { t.atol.unwrap_or(0.0) } else { t.max_abs.unwrap_or(0.0) }),
            ulp: t.max_ulp,
        }
    }

    /// Are elements held to `rtol` and `atol`?
    fn is_allclose(&self) -> bool {
        self.table.rtol.is_some() || self.table.atol.is_some()
    }
}

impl LimitsTable {
    fn check(&self) -> Result<(), LimitsError> {
        let sizes = [
            ("max_abs", self.max_abs),
            ("mean_abs", self.mean_abs),
            ("rtol", self.rtol),
            ("atol", self.atol),
            ("baseline_factor", self.baseline_factor),
        ];
        let part = |v: f64| (0.0..1.0).contains(&v);
        let cosine = |v: f64| v > -1.0 && v <= 1.0;
        let size = |v: f64| v >= 0.0 && v.is_finite();
        for (field, value) in sizes {
            refuse_unless(size, field, value, "a limit is a finite number and not negative")?;
        }
        refuse_unless(part, "outlier_fraction", self.outlier_fraction, "a part of all elements is from 0 to below 1")?;
        refuse_unless(cosine, "min_cosine", self.min_cosine, "a cosine that can be missed is above -1 and at most 1")?;
        let bounds_elements = self.rtol.is_some() || self.atol.is_some() || self.max_ulp.is_some();
        let bounds_all =
            [self.max_abs, self.mean_abs, self.baseline_factor, self.min_cosine].iter().any(Option::is_some);
        if self.outlier_fraction.is_some() && !bounds_elements {
            return Err(LimitsError::OutliersOfNothing);
        }
        if bounds_elements || bounds_all { Ok(()) } else { Err(LimitsError::Unbounded) }
    }
}

fn refuse_unless(
    holds: impl Fn(f64) -> bool,
    field: &'static str,
    value: Option<f64>,
    reason: &'static str,
) -> Result<(), LimitsError> {
    match value {
        Some(v) if !holds(v) => Err(LimitsError::Value { field, value: v.to_string(), reason }),
        _ => Ok(()),
    }
}

impl From<Limits> for LimitsTable {
    fn from(limits: Limits) -> Self {
        limits.table
    }
}

impl fmt::Display for Limits {
    /// `max_abs 1e-5`, `rtol 1e-3 + atol 1e-7`: all limits that are set, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table.bounds())
    }
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Limits;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a limits profile or a table of limits")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Limits, E> {
                Limits::profile(name).map_err(E::custom)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Limits, A::Error> {
                let table = LimitsTable::deserialize(MapAccessDeserializer::new(map))?;
                Limits::new(&table).map_err(de::Error::custom)
            }
        }
        d.deserialize_any(Visitor)
    }
}
