//! A comparison held against limits.

use super::{Limits, NonFinitePolicy};
use crate::observation::compare::{
    BaselineErrors, Comparison, Element, Exact, ExactFigures, FloatFigures, Floats, Measure, Mismatch, NonFinite,
    Outcome, Tally,
};
use crate::observation::figure::Figure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether an output is within its limits, and how far from them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judgement {
    /// Do all limits hold?
    pub passed: bool,
    /// Why not: one sentence for every limit that does not hold, with figure, limit, element and kind of rows.
    pub reasons: Vec<String>,
    /// The figure that is nearest to its limit, or furthest beyond; none where nothing could be measured.
    pub worst: Option<Margin>,
    /// The smallest `atol` that would just have passed, given the limits' `rtol`; `inf` where no tolerance would
    /// (mismatched non-finite values), none for outputs without error figures.
    pub would_pass: Option<Figure>,
}

/// A figure beside its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Margin {
    /// Which limit (`max_abs`, `baseline_factor`, ...); `nonfinite` for values that are NaN or infinite and must not be,
    /// `exact` for outputs that must be equal: both count elements, and none may be there.
    pub limit: String,
    /// On `valid` or `masked` rows, or on `all` where there is no mask.
    pub rows: String,
    /// The figure (for `min_cosine` the distance from 1, so that larger is worse for every limit).
    pub figure: Figure,
    /// Its limit, in the same unit.
    pub bound: Figure,
}

/// Holds a comparison against limits. The comparison must have been measured with [`Limits::measure`].
pub fn judge(comparison: &Comparison, limits: &Limits) -> Judgement {
    let mut judge = Judge { limits, reasons: Vec::new(), worst: None };
    let mut would_pass = None;
    match &comparison.outcome {
        Outcome::Mismatch(mismatch) => judge.reasons.push(mismatch_reason(comparison, *mismatch)),
        Outcome::Exact(exact) => judge.exact(comparison, exact),
        Outcome::Floats(floats) => {
            let asked = limits.measure();
            if comparison.measure == asked {
                judge.floats(floats);
            } else {
                judge.reasons.push(format!(
                    "the comparison counted elements beyond {} and the limits ask for {}: compare again with these limits",
                    measure_text(&comparison.measure),
                    measure_text(&asked)
                ));
            }
            would_pass = Some(tolerance_that_passes(floats, limits));
        }
    }
    Judgement { passed: judge.reasons.is_empty(), reasons: judge.reasons, worst: judge.worst, would_pass }
}

struct Judge<'a> {
    limits: &'a Limits,
    reasons: Vec<String>,
    worst: Option<Margin>,
}

impl Judge<'_> {
    fn exact(&mut self, comparison: &Comparison, exact: &Exact) {
        for (rows, figures) in kinds(&exact.valid, exact.masked.as_ref()) {
            if !self.margin("exact", rows, figures.differing as f64, 0.0) {
                self.reasons.push(exact_reason(comparison, rows, figures));
            }
        }
    }

    fn floats(&mut self, floats: &Floats) {
        for (rows, figures) in kinds(&floats.valid, floats.masked.as_ref()) {
            self.nonfinite(rows, figures);
            // Where nothing was compared a perfect figure would be no figure.
            if figures.compared == 0 {
                continue;
            }
            self.errors(rows, figures);
            self.elements(rows, figures);
            self.baseline(rows, figures);
        }
    }

    fn nonfinite(&mut self, rows: &str, f: &FloatFigures) {
        if f.nonfinite_mismatched > 0 {
            self.margin("nonfinite", rows, f.nonfinite_mismatched as f64, 0.0);
            let first =
                f.first_nonfinite_mismatch.as_ref().map_or_else(String::new, |e| format!(", first at {}", pair(e)));
            self.reasons.push(format!(
                "NaN or infinity on {rows} rows is on one side only, or of another kind, at {}{first}",
                count(f.nonfinite_mismatched, f.elements),
            ));
        }
        if self.limits.nonfinite() == NonFinitePolicy::Forbid {
            for (side, found) in [("output", &f.nonfinite_got), ("reference", &f.nonfinite_reference)] {
                if found.count() > 0 {
                    self.margin("nonfinite", rows, found.count() as f64, 0.0);
                    self.reasons.push(format!(
                        "the {side} has {} on {rows} rows, and the limits forbid non-finite values",
                        kinds_found(found)
                    ));
                }
            }
        }
    }

    /// Limits of figures over all pairs.
    fn errors(&mut self, rows: &str, f: &FloatFigures) {
        let t = self.limits.table();
        let worst = f.worst_abs.as_ref().map_or_else(String::new, |e| format!(" (at {})", pair(e)));
        if let Some(limit) = t.max_abs
            && !self.margin("max_abs", rows, f.max_abs.0, limit)
        {
            self.reasons.push(above("the largest absolute error", rows, f.max_abs, limit, &worst));
        }
        if let Some(limit) = t.mean_abs
            && !self.margin("mean_abs", rows, f.mean_abs.0, limit)
        {
            self.reasons.push(above(
                "the mean absolute error",
                rows,
                f.mean_abs,
                limit,
                &format!("; the largest is {}{worst}", f.max_abs),
            ));
        }
        if let Some(limit) = t.min_cosine
            && f.compared > 0
            // As a distance from 1, so that larger is worse as everywhere.
            && !self.margin("min_cosine", rows, 1.0 - f.cosine.0, 1.0 - limit)
        {
            self.reasons.push(format!("the cosine on {rows} rows is {:?}, below the limit {limit:?}", f.cosine.0));
        }
    }

    /// Limits of every pair, but for outliers where they are allowed.
    fn elements(&mut self, rows: &str, f: &FloatFigures) {
        let t = self.limits.table();
        if self.limits.is_allclose() {
            let Figure(atol) = self.limits.measure().atol;
            let rtol = t.rtol.unwrap_or(0.0);
            let bound = format!("atol {atol:?} + rtol {rtol:?} x |reference|");
            let advice = format!("; with atol {} none would be", f.required_atol);
            self.few_beyond(
                "atol",
                &bound,
                rows,
                f,
                (f.required_atol.0, atol, f.beyond_tolerance),
                (f.worst_required.as_ref(), &advice),
            );
        }
        if let Some(limit) = t.max_ulp {
            let bound = format!("{limit} ULP");
            let advice = format!("; the furthest is {} ULP apart", f.max_ulp);
            self.few_beyond(
                "max_ulp",
                &bound,
                rows,
                f,
                (f.max_ulp as f64, limit as f64, f.beyond_ulp),
                (f.worst_ulp.as_ref(), &advice),
            );
        }
    }

    /// `figure` against `limit` where none may be beyond, or the part of pairs beyond against the outlier fraction.
    fn few_beyond(
        &mut self,
        name: &str,
        bound: &str,
        rows: &str,
        f: &FloatFigures,
        (figure, limit, beyond): (f64, f64, u64),
        (worst, advice): (Option<&Element>, &str),
    ) {
        let (holds, allowed) = match self.limits.table().outlier_fraction {
            None => (self.margin(name, rows, figure, limit), "none may be".to_owned()),
            Some(fraction) => {
                let part = if f.compared == 0 { 0.0 } else { beyond as f64 / f.compared as f64 };
                let holds = self.margin("outlier_fraction", rows, part, fraction);
                (holds, format!("the fraction allowed is {fraction:?} and this is {part:.2e}"))
            }
        };
        if !holds {
            let worst = worst.map_or_else(String::new, |e| format!(" (worst at {})", pair(e)));
            self.reasons.push(format!(
                "{} on {rows} rows {} beyond {bound}: {allowed}{worst}{advice}",
                count(beyond, f.compared),
                if beyond == 1 { "is" } else { "are" },
            ));
        }
    }

    fn baseline(&mut self, rows: &str, f: &FloatFigures) {
        let Some(factor) = self.limits.table().baseline_factor else { return };
        let Some(baseline) = &f.baseline else {
            self.reasons.push(format!(
                "the limit on {rows} rows is {factor:?} x the error of a same-precision baseline and the case has none: give the output a baseline, or limits that need none"
            ));
            return;
        };
        let limit = factor * baseline.max_abs.0;
        if !self.margin("baseline_factor", rows, f.max_abs.0, limit) {
            let worst = f.worst_abs.as_ref().map_or_else(String::new, |e| format!(" (at {})", pair(e)));
            self.reasons.push(format!(
                "the largest absolute error on {rows} rows is {}, above the limit {}, {factor:?} x the {} of the {} baseline{}{worst}",
                f.max_abs, Figure(limit), baseline.max_abs, baseline.dtype, blind_spots(baseline)
            ));
        }
    }

    /// Does the figure hold? Keeps the worst margin of all. A NaN figure never holds.
    fn margin(&mut self, limit: &str, rows: &str, figure: f64, bound: f64) -> bool {
        let margin =
            Margin { limit: limit.to_owned(), rows: rows.to_owned(), figure: Figure(figure), bound: Figure(bound) };
        if self.worst.as_ref().is_none_or(|w| margin.exhaustion() > w.exhaustion()) {
            self.worst = Some(margin);
        }
        figure <= bound
    }
}

impl fmt::Display for Margin {
    /// `max_abs 3.10e-6 of 1.00e-5 (masked rows)`, `equal (valid rows)`, `3 elements differ (valid rows)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, rows, figure, bound } = self;
        match (limit.as_str(), figure.0) {
            ("exact", 0.0) => write!(f, "equal ({rows} rows)"),
            ("exact", n) => write!(f, "{n} elements differ ({rows} rows)"),
            ("nonfinite", n) => write!(f, "{n} elements NaN or infinite ({rows} rows)"),
            _ => write!(f, "{limit} {figure} of {bound} ({rows} rows)"),
        }
    }
}

impl Margin {
    /// How much of its limit the figure uses: above 1 it does not hold.
    fn exhaustion(&self) -> f64 {
        match (self.figure.0, self.bound.0) {
            (figure, _) if figure.is_nan() => f64::INFINITY,
            (0.0, 0.0) => 0.0,
            (figure, bound) => figure / bound,
        }
    }
}

/// The figures of valid and masked rows, or of all where there is no mask.
fn kinds<'a, F>(valid: &'a F, masked: Option<&'a F>) -> impl Iterator<Item = (&'static str, &'a F)> {
    let first = if masked.is_some() { "valid" } else { "all" };
    std::iter::once((first, valid)).chain(masked.map(|f| ("masked", f)))
}

fn tolerance_that_passes(floats: &Floats, limits: &Limits) -> Figure {
    let forbidden = |f: &FloatFigures| {
        limits.nonfinite() == NonFinitePolicy::Forbid && f.nonfinite_got.count() + f.nonfinite_reference.count() > 0
    };
    let of = |f: &FloatFigures| match f.nonfinite_mismatched {
        0 if !forbidden(f) => f.required_atol.0,
        _ => f64::INFINITY,
    };
    Figure(kinds(&floats.valid, floats.masked.as_ref()).map(|(_, f)| of(f)).fold(0.0, f64::max))
}

fn mismatch_reason(comparison: &Comparison, mismatch: Mismatch) -> String {
    let what = match mismatch {
        Mismatch::Shape => "the shapes differ",
        Mismatch::Dtype => "the types cannot be compared",
        Mismatch::ShapeAndDtype => "the shapes differ and the types cannot be compared",
    };
    format!("the output is {} and the reference {}: {what}", comparison.got, comparison.reference)
}

fn exact_reason(comparison: &Comparison, rows: &str, figures: &ExactFigures) -> String {
    let first = figures
        .first
        .as_ref()
        .map_or_else(String::new, |d| format!(", first at {:?}: got {}, reference {}", d.at, d.got, d.reference));
    let size = figures.max_abs.map_or_else(String::new, |m| format!("; the largest difference is {}", m.0));
    let dtypes = if comparison.got.dtype == comparison.reference.dtype {
        comparison.got.dtype.clone()
    } else {
        format!("{} against {}", comparison.got.dtype, comparison.reference.dtype)
    };
    let differ = if figures.differing == 1 { "differs" } else { "differ" };
    format!("{} ({dtypes}) on {rows} rows {differ}{first}{size}", count(figures.differing, figures.elements))
}

fn above(what: &str, rows: &str, figure: Figure, limit: f64, detail: &str) -> String {
    format!("{what} on {rows} rows is {figure}, above the limit {limit:?}{detail}")
}

/// `2 of 6 elements`.
fn count(n: u64, of: u64) -> String {
    format!("{n} of {of} element{}", if of == 1 { "" } else { "s" })
}

/// `[0, 3]: got 1.0, reference NaN`.
fn pair(e: &Element) -> String {
    format!("{:?}: got {}, reference {}", e.at, value(e.got), value(e.reference))
}

/// A value with nine significant digits, so that neighbours in fp32 look different.
fn value(Figure(v): Figure) -> String {
    format!("{v:.8e}").parse().map_or_else(|_| v.to_string(), |rounded: f64| format!("{rounded:?}"))
}

fn kinds_found(found: &NonFinite) -> String {
    let kinds = [("NaN", &found.nan), ("+inf", &found.pos_inf), ("-inf", &found.neg_inf)];
    let of = |(name, tally): &(&str, &Tally)| {
        tally.first.as_ref().map(|at| format!("{} {name} (first at {at:?})", tally.count))
    };
    kinds.iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

fn blind_spots(baseline: &BaselineErrors) -> String {
    match baseline.nonfinite_mismatched {
        0 => String::new(),
        n => format!(" (NaN or infinity on one side only left out: {n})"),
    }
}

fn measure_text(measure: &Measure) -> String {
    let ulp = measure.ulp.map_or_else(String::new, |n| format!(", {n} ULP"));
    format!("rtol {:?}, atol {:?}{ulp}", measure.rtol.0, measure.atol.0)
}
