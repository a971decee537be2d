//! `graph lint`.

use super::super::{Failure, print};
use super::{Surroundings, folder, load};
use crate::graph;
use crate::nearest;
use crate::recipe::Recipe;
use camino::Utf8PathBuf;
use clap::Args;
use onnx_graph::lint::{self, Finding, HAZARDS, Severity, Target};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Most nodes that a line of text names.
const SHOWN: usize = 4;

/// Which model, for which stack.
#[derive(Debug, Args)]
pub struct LintArgs {
    /// The model's file; not needed with --explain.
    #[arg(required_unless_present = "explain")]
    model: Option<Utf8PathBuf>,
    /// The recipe that the model is for; without one, hazards have their general severity.
    #[arg(long)]
    recipe: Option<String>,
    /// Leave a hazard out, by its name; may be given several times.
    #[arg(long, value_name = "HAZARD", value_parser = known)]
    allow: Vec<String>,
    /// Print what a hazard is, or all of them (`--explain all`), and look at no model.
    #[arg(long, value_name = "HAZARD", value_parser = known_or_all)]
    explain: Option<String>,
    /// Name every node.
    #[arg(long)]
    all_nodes: bool,
    /// Fail on warnings too.
    #[arg(long)]
    deny_warnings: bool,
}

fn known(text: &str) -> Result<String, String> {
    if lint::hazard(text).is_some() {
        return Ok(text.to_owned());
    }
    Err(format!(
        "no hazard has that name{}; `--explain all` lists them",
        nearest::hint(text, HAZARDS.iter().map(|h| h.id))
    ))
}

fn known_or_all(text: &str) -> Result<String, String> {
    if text == "all" { Ok(text.to_owned()) } else { known(text) }
}

/// Lints and prints; 1 if there is an error (or a warning, where those are denied).
pub fn lint(args: &LintArgs, around: &Surroundings<'_>) -> Result<ExitCode, Failure> {
    if let Some(id) = &args.explain {
        return explain(id, around.json);
    }
    let path = args.model.as_ref().ok_or_else(|| Failure::request(anyhow::anyhow!("name a model")))?;
    let target = target(args.recipe.as_deref(), around)?;
    let model = load(path)?;
    let mut findings = lint::lint(&model, Some(folder(path)), &target);
    findings.retain(|f| !args.allow.iter().any(|id| id == f.hazard.id));
    if around.json {
        print::json(
            &json!({ "model": path, "recipe": args.recipe, "findings": findings.iter().map(value).collect::<Vec<_>>() }),
        )?;
    } else {
        findings.iter().try_for_each(|f| print::line(text(f, args.all_nodes)))?;
        print::line(summary(&findings))?;
    }
    let least = if args.deny_warnings { Severity::Warning } else { Severity::Error };
    let fails = findings.iter().any(|f| f.severity >= least);
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What lint knows of a recipe; nothing without one.
pub fn target(recipe: Option<&str>, around: &Surroundings<'_>) -> Result<Target, Failure> {
    let Some(name) = recipe else { return Ok(Target::default()) };
    let root = (around.root)()?;
    let recipe = Recipe::load(&root, name).map_err(Failure::request)?;
    graph::target(&root, &recipe).map_err(Failure::request)
}

fn explain(id: &str, as_json: bool) -> Result<ExitCode, Failure> {
    let wanted = HAZARDS.iter().filter(|h| id == "all" || h.id == id);
    if as_json {
        let all: Vec<Value> = wanted.map(|h| json!({ "id": h.id, "about": h.about, "pass": h.pass })).collect();
        print::json(&all)?;
    } else {
        for hazard in wanted {
            let pass = hazard.pass.map_or_else(String::new, |p| format!(" (removed by the pass {p})"));
            print::line(format!("{}{pass}\n    {}", hazard.id, hazard.about))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn value(f: &Finding) -> Value {
    json!({
        "hazard": f.hazard.id, "severity": f.severity.to_string(), "detail": f.detail, "at": f.at,
        "pass": f.hazard.pass, "about": f.hazard.about,
    })
}

fn text(f: &Finding, all_nodes: bool) -> String {
    let shown = if all_nodes { f.at.len() } else { SHOWN.min(f.at.len()) };
    let more = match f.at.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let detail = if f.detail.is_empty() { String::new() } else { format!("{}: ", f.detail) };
    format!("{}[{}] {detail}{}{more}\n    {}", f.severity, f.hazard.id, f.at[..shown].join(", "), f.hazard.about)
}

fn summary(findings: &[Finding]) -> String {
    let count = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let passes = lint::passes_for(findings);
    let advice = if passes.is_empty() {
        String::new()
    } else {
        let passes: Vec<String> = passes.iter().map(|p| format!("--pass {p}")).collect();
        format!("; `ort-qualify graph rewrite {}` removes what a pass can", passes.join(" "))
    };
    let (errors, warnings, notes) = (count(Severity::Error), count(Severity::Warning), count(Severity::Note));
    format!("{errors} errors, {warnings} warnings, {notes} notes{advice}")
}
