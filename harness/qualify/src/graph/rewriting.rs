//! Rewriting with proof: passes one after the other, and nothing given out that its proof does not carry.

use super::proof::{Proof, Prover, Step};
use super::stack::{Stack, StackError, Tensors};
use onnx_graph::Model;
use onnx_graph::rewrite::{Bound, Pass};
use std::collections::BTreeMap;
use std::path::Path;

/// What to rewrite.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The model.
    pub model: &'a Model,
    /// Where its external data lie.
    pub base_dir: &'a Path,
    /// The passes in their order.
    pub passes: &'a [Pass],
    /// Values of named extents.
    pub extents: &'a BTreeMap<String, usize>,
    /// Inputs of the whole model to prove it on, with names.
    pub sets: &'a [(String, Tensors)],
    /// The seed of what is drawn for single sites.
    pub seed: u64,
}

/// Applies the passes and proves them on the stack. The model is to be used only if the proof holds.
pub fn rewrite(plan: &Plan<'_>, stack: &mut Stack) -> Result<(Model, Proof), StackError> {
    let (mut model, mut meant) = (plan.model.clone(), plan.model.clone());
    let mut steps = Vec::new();
    for pass in plan.passes {
        let rewritten = pass.run(&model);
        let before = std::mem::replace(&mut model, rewritten.model.clone());
        meant = pass.meaning_of(&meant);
        let (sites, skipped) = (rewritten.sites, rewritten.skipped);
        steps.push(Step { pass, before, after: rewritten.model, sites, skipped });
    }
    let recipe = stack.recipe().to_owned();
    let mut prover = Prover { stack, base_dir: plan.base_dir, extents: plan.extents, seed: plan.seed };
    let passes = steps.iter().map(|step| prover.pass(step)).collect::<Result<Vec<_>, _>>()?;
    let exact = plan.passes.iter().all(|p| p.bound == Bound::Exact);
    let whole = prover.whole([&meant, plan.model, &model], plan.sets, exact)?;
    let proof = Proof::new(recipe, plan.seed, passes, whole);
    Ok((model, proof))
}
