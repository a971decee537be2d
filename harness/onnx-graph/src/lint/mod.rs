//! Hazards: what in a model is known to go wrong on some stack, with the nodes where it stands.
//!
//! Lint reads the graph only. What it knows of a stack comes in as a [`Target`]; without one, hazards have their general severity.

mod hazard;
mod numeric;
mod range;
mod stack;
mod structure;

pub use hazard::{HAZARDS, Hazard, hazard};

use crate::infer::Types;
use crate::model::Model;
use crate::view::View;
use std::collections::BTreeMap;
use std::path::Path;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// It can give wrong or different results on some input or stack.
    Warning,
    /// It fails, or is wrong, on the stack that was named.
    Error,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A hazard found in a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Which.
    pub hazard: &'static Hazard,
    /// How bad it is here.
    pub severity: Severity,
    /// What is special about this case.
    pub detail: String,
    /// Where: nodes, or tensors where the hazard is about those; in the graph's order.
    pub at: Vec<String>,
}

/// What lint knows of the stack that a model is for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    /// The stack's name, for messages.
    pub name: String,
    /// The provider (`cuda`, `migraphx`, ...); empty where no stack is named.
    pub provider: String,
    /// The newest IR version that the library reads.
    pub max_ir: Option<i64>,
    /// The newest opset of ONNX's own domain that the library has.
    pub max_opset: Option<i64>,
    /// Does the provider round the factors of float32 products to TF32?
    pub tf32: bool,
    /// Which operators the provider takes.
    pub claims: Option<Claims>,
}

/// Which operators a provider takes, from runs or from its published list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Where this is known from, for messages.
    pub source: String,
    /// Element types by operator that are taken (`Op`, or `domain::Op`); an empty list stands for every type.
    pub taken: BTreeMap<String, Vec<String>>,
    /// Element types by operator that are not taken; an empty list stands for every type.
    pub refused: BTreeMap<String, Vec<String>>,
    /// Is what stands in neither list refused?
    pub complete: bool,
}

impl Claims {
    /// Does the provider take the operator with that element type? `None`: not known.
    pub fn takes(&self, operator: &str, dtype: Option<&str>) -> Option<bool> {
        let lists = |types: &Vec<String>| types.is_empty() || dtype.is_some_and(|d| types.iter().any(|t| t == d));
        if self.refused.get(operator).is_some_and(lists) {
            return Some(false);
        }
        match self.taken.get(operator) {
            Some(types) if lists(types) => Some(true),
            Some(_) => None,
            None => self.complete.then_some(false),
        }
    }
}

/// Looks for every hazard. `dir` is where external data lie; without it they are not looked for on disk.
/// The worst come first, and findings of one severity in the order of [`HAZARDS`].
pub fn lint(model: &Model, dir: Option<&Path>, target: &Target) -> Vec<Finding> {
    let view = View::new(model);
    let types = Types::of(&view);
    let mut found = Findings { all: Vec::new() };
    structure::look(model, &view, dir, &mut found);
    numeric::look(&view, &types, target, &mut found);
    range::look(&view, &types, target, &mut found);
    stack::look(model, &view, &types, target, &mut found);
    let mut all = found.all;
    let place = |f: &Finding| HAZARDS.iter().position(|h| h.id == f.hazard.id);
    all.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| place(a).cmp(&place(b))));
    all
}

/// Names of the passes that would remove warnings and errors among the findings, in the order to apply them.
pub fn passes_for(findings: &[Finding]) -> Vec<&'static str> {
    let wanted = |name: &str| findings.iter().any(|f| f.severity >= Severity::Warning && f.hazard.pass == Some(name));
    crate::rewrite::PASSES.iter().map(|p| p.name).filter(|name| wanted(name)).collect()
}

/// Findings on their way.
struct Findings {
    all: Vec<Finding>,
}

impl Findings {
    /// Adds a finding, if it is anywhere.
    fn add(&mut self, id: &str, severity: Severity, detail: impl Into<String>, at: Vec<String>) {
        if let Some(hazard) = hazard(id).filter(|_| !at.is_empty()) {
            self.all.push(Finding { hazard, severity, detail: detail.into(), at });
        }
    }
}
