//! The table that `run` prints, and its one-line summary.

use crate::run::CaseResult;
use crate::verdict::{OutputMargin, Verdict};
use camino::Utf8Path;
use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, LineStyle, Table, TableStyle};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How wide a table is where the terminal does not say.
const WIDTH: u16 = 160;

/// A line under the header and none between rows: long tables stay readable and can be searched line by line.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// A table with this project's look.
pub fn new(header: &[&str], color: bool) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    if table.width().is_none() {
        table.set_width(WIDTH);
    }
    if color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}

/// Case, verdict, worst error against its limit per output, placement, time.
pub fn results(results: &[CaseResult], color: bool) -> String {
    let mut table = new(&["case", "verdict", "worst error of its limit", "placement", "time"], color);
    // Skipped cases are counted by reason below the table: rows of them would hide those that ran.
    for result in results.iter().filter(|r| r.judged.verdict != Verdict::Skipped) {
        let time = result.observation.as_ref().map_or_else(String::new, |o| format!("{:.0} ms", o.elapsed_ms));
        let time = if result.kept { format!("{time} (kept)") } else { time };
        table.add_row([
            Cell::new(&result.case.name),
            Cell::new(result.judged.verdict).fg(color_of(result.judged.verdict)),
            Cell::new(margins(result)),
            Cell::new(placement(result)),
            Cell::new(time).set_alignment(CellAlignment::Right),
        ]);
    }
    table.to_string()
}

/// What does not stand as expected, a paragraph each.
pub fn failures(results: &[CaseResult]) -> String {
    let mut text = String::new();
    for result in results.iter().filter(|r| !r.judged.verdict.is_as_expected()) {
        let stage = result.judged.stage.map_or_else(String::new, |s| format!(" at stage {s}"));
        let _ = writeln!(text, "{}: {}{stage}", result.case.name, result.judged.verdict);
        for reason in &result.judged.reasons {
            let _ = writeln!(text, "    {}", reason.replace('\n', "\n    "));
        }
        if let Some(known) = &result.judged.known {
            let _ = writeln!(text, "    known because: {known}");
        }
        if let Some(evidence) = &result.evidence {
            let _ = writeln!(text, "    evidence: {evidence}");
        }
    }
    text
}

/// `239 cases on recipe cpu in 6.2 s: 210 pass, 29 known-failure; evidence in target/evidence/cpu`.
pub fn summary(results: &[CaseResult], recipe: &str, wall_s: f64, evidence: &Utf8Path) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for result in results {
        *counts.entry(result.judged.verdict.to_string()).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(verdict, n)| format!("{n} {verdict}")).collect();
    let kept = results.iter().filter(|r| r.kept).count();
    let kept =
        if kept == 0 { String::new() } else { format!(" ({kept} kept from an earlier run; --rerun runs them again)") };
    let (total, counts) = (results.len(), counts.join(", "));
    format!("{total} cases on recipe {recipe} in {wall_s:.1} s: {counts}{kept}; evidence in {evidence}")
}

/// What should be looked at, each once.
pub fn warnings(results: &[CaseResult]) -> String {
    let mut warnings: BTreeMap<&str, usize> = BTreeMap::new();
    for warning in results.iter().flat_map(|r| &r.judged.warnings) {
        *warnings.entry(warning).or_default() += 1;
    }
    warnings.iter().fold(String::new(), |mut text, (warning, n)| {
        let _ = writeln!(text, "warning, {n} cases: {warning}");
        text
    })
}

/// Why cases were skipped, each reason once.
pub fn skips(results: &[CaseResult]) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for result in results.iter().filter(|r| r.judged.verdict == Verdict::Skipped) {
        for reason in &result.judged.reasons {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    reasons.iter().fold(String::new(), |mut text, (reason, n)| {
        let _ = writeln!(text, "{n} skipped: {reason}");
        text
    })
}

fn margins(result: &CaseResult) -> String {
    match result.judged.outputs.as_slice() {
        [] => result.judged.reasons.first().map_or_else(String::new, |r| shorten(r, 100)),
        outputs => outputs.iter().map(margin).collect::<Vec<_>>().join("\n"),
    }
}

/// `momentum: max_abs 3.10e-6 of 1.00e-5 (valid rows), passes from atol 3.10e-6`.
fn margin(output: &OutputMargin) -> String {
    let worst = output.worst.as_ref().map_or_else(|| "no finite element to compare".to_owned(), ToString::to_string);
    let passes = match output.would_pass {
        Some(atol) if atol.0.is_finite() => format!(", passes from atol {atol}"),
        Some(_) => ", passes with no atol".to_owned(),
        None => String::new(),
    };
    format!("{}: {worst}{passes}", output.name)
}

fn placement(result: &CaseResult) -> String {
    let placement = result.observation.as_ref().and_then(|o| o.facts.placement.as_ref());
    placement.map_or_else(String::new, crate::observation::placement::Placement::summary)
}

fn shorten(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= most {
        return line.to_owned();
    }
    line.chars().take(most - 1).chain(['…']).collect()
}

fn color_of(verdict: Verdict) -> Color {
    match verdict {
        Verdict::Pass => Color::Green,
        Verdict::Fail | Verdict::UnexpectedPass => Color::Red,
        Verdict::KnownFailure | Verdict::Skipped => Color::Yellow,
    }
}
