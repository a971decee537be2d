//! Proofs of rewrites: old and new nodes are run beside each other on hostile tensors, and the whole models on inputs.

use super::hostile::{self, KINDS, Wanted};
use super::stack::{Outcome, Stack, StackError, Tensors, Trial, how};
use crate::observation::compare::{Measure, Outcome as Compared, TensorView, compare};
use crate::observation::figure::Figure;
use crate::random::SplitMix64;
use onnx_graph::rewrite::{Bound, Kind, Pass, Site};
use onnx_graph::{Model, Tensor, Types, View};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// How far whole models may be apart where a pass is not exact: times the larger of 1 and the reference's largest size.
pub const WHOLE_LIMIT: f64 = 1e-5;

/// What was run, and whether it holds.
#[derive(Clone, Debug, Serialize)]
pub struct Proof {
    /// Version of this form.
    pub format: u32,
    /// Do all parts agree?
    pub holds: bool,
    /// The recipe that ran both, and its library's version.
    pub recipe: String,
    /// The seed of everything drawn.
    pub seed: u64,
    /// The passes in the order in which they were applied.
    pub passes: Vec<PassProof>,
    /// The whole models on inputs.
    pub whole: Vec<WholeProof>,
    /// Inputs on which the original departs from what its nodes are meant to compute: what the rewrite repairs.
    pub repaired: Vec<Repaired>,
}

/// One pass.
#[derive(Clone, Debug, Serialize)]
pub struct PassProof {
    /// Its name.
    pub pass: String,
    /// How far old and new may be apart.
    pub bound: String,
    /// Where the old nodes fail at what they are for: what the new ones were held against instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<String>,
    /// What was not tried, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub outside: BTreeMap<String, String>,
    /// Every replaced place.
    pub sites: Vec<SiteProof>,
    /// Places of its kind that were left alone, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<(String, String)>,
}

/// One replaced place.
#[derive(Clone, Debug, Serialize)]
pub struct SiteProof {
    /// The old node.
    pub node: String,
    /// The kinds of values that were fed.
    pub kinds: Vec<String>,
    /// Input sets, and elements compared in all.
    pub sets: usize,
    /// Elements compared in all.
    pub elements: u64,
    /// The largest distance in steps of the float type.
    pub worst_ulp: u64,
    /// Where that was, if it was not zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_at: Option<String>,
    /// The first disagreement beyond the bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disagrees: Option<String>,
}

/// The whole models on one set of inputs.
#[derive(Clone, Debug, Serialize)]
pub struct WholeProof {
    /// What was fed.
    pub inputs: String,
    /// The output.
    pub output: String,
    /// The largest absolute difference, and how large it may be.
    pub max_abs: Figure,
    /// How large it may be.
    pub limit: Figure,
    /// What disagrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disagrees: Option<String>,
}

/// An output of the original that is not what its nodes are meant to compute.
#[derive(Clone, Debug, Serialize)]
pub struct Repaired {
    /// What was fed.
    pub inputs: String,
    /// The output.
    pub output: String,
    /// How the original departs.
    pub original: String,
}

/// A model before and after a pass.
pub(super) struct Step<'a> {
    pub pass: &'a Pass,
    pub before: Model,
    pub after: Model,
    pub sites: Vec<Site>,
    pub skipped: Vec<(String, String)>,
}

/// What proofs are made with.
pub(super) struct Prover<'a> {
    pub stack: &'a mut Stack,
    pub base_dir: &'a Path,
    /// Values of named extents.
    pub extents: &'a BTreeMap<String, usize>,
    pub seed: u64,
}

impl Prover<'_> {
    /// Runs old and new nodes of every site of a pass.
    pub fn pass(&mut self, step: &Step<'_>) -> Result<PassProof, StackError> {
        let Step { pass, before, after, sites, skipped } = step;
        let meant = pass.meaning_of(before);
        let types = Types::with(&View::new(&meant), self.extents);
        let mut proofs = Vec::new();
        for (i, site) in sites.iter().enumerate() {
            proofs.push(self.site(pass, site, (&meant, after), &types, i)?);
        }
        let outside = pass.outside.iter().map(|(kind, why)| (kind_name(*kind), (*why).to_owned())).collect();
        Ok(PassProof {
            pass: pass.name.to_owned(),
            bound: bound_text(pass.bound),
            meaning: pass.meaning.map(|m| m.about.to_owned()).filter(|_| !sites.is_empty()),
            outside,
            sites: proofs,
            skipped: skipped.clone(),
        })
    }

    fn site(
        &mut self,
        pass: &Pass,
        site: &Site,
        (old, new): (&Model, &Model),
        types: &Types,
        place: usize,
    ) -> Result<SiteProof, StackError> {
        let mut proof = SiteProof {
            node: site.node.clone(),
            kinds: Vec::new(),
            sets: 0,
            elements: 0,
            worst_ulp: 0,
            worst_at: None,
            disagrees: None,
        };
        let mut names: Vec<String> = Vec::new();
        let mut wanted = Vec::new();
        for input in &site.inputs {
            if names.contains(&input.tensor) {
                continue;
            }
            let known = types.get(&input.tensor);
            let (Some(dtype), Some(shape)) = (known.dtype, known.fixed()) else {
                let is = types.shape_text(&input.tensor);
                proof.disagrees = Some(format!(
                    "not tried: of `{}` only {is} is known; give named extents a value with --set NAME=N",
                    input.tensor
                ));
                return Ok(proof);
            };
            names.push(input.tensor.clone());
            wanted.push(Wanted { dtype, shape, permutation_along: input.permutation_along });
        }
        let (sets, kinds) = draw(pass, &names, &wanted, self.seed ^ (place as u64) << 32);
        proof.kinds = kinds.iter().map(|(kind, _)| kind_name(*kind)).collect();
        proof.kinds.dedup();
        proof.sets = sets.len();
        if sets.is_empty() {
            proof.disagrees = Some(format!("not tried: no values can be drawn for {}", names.join(", ")));
            return Ok(proof);
        }
        let run = |stack: &mut Stack, model: &Model| -> Result<Result<Vec<Tensors>, String>, StackError> {
            let model = match model.cut(&names, &site.outputs, types) {
                Ok(model) => model,
                Err(e) => return Ok(Err(e.to_string())),
            };
            let trial = Trial {
                model: &model,
                base_dir: self.base_dir,
                sets: &sets,
                tensors: &[],
                optimise: false,
                placement: false,
            };
            Ok(match stack.run(&trial)? {
                Outcome::Ran(kept, _) => Ok(kept),
                Outcome::Broke(observation) => Err(how(&observation)),
            })
        };
        let (old, new) = match (run(self.stack, old)?, run(self.stack, new)?) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(e), _) => {
                proof.disagrees = Some(format!("the old nodes cannot be run by themselves: {e}"));
                return Ok(proof);
            }
            (_, Err(e)) => {
                proof.disagrees = Some(format!("the new nodes cannot be run by themselves: {e}"));
                return Ok(proof);
            }
        };
        for (i, (old, new)) in old.iter().zip(&new).enumerate() {
            for output in &site.outputs {
                let (Some(old), Some(new)) = (old.get(output), new.get(output)) else { continue };
                let distance = Distance::between(new, old);
                let at =
                    || format!("`{output}`, set {} of kind {}: {}", kinds[i].1, kind_name(kinds[i].0), distance.text);
                proof.elements += old.len() as u64;
                if distance.ulp > proof.worst_ulp {
                    proof.worst_ulp = distance.ulp;
                    proof.worst_at = Some(at());
                }
                let within = !distance.apart && distance.ulp <= most_ulp(pass.bound);
                if !within && proof.disagrees.is_none() {
                    proof.disagrees = Some(at());
                }
            }
        }
        Ok(proof)
    }

    /// Runs the whole models on every input set: what the original is meant to compute, the original, the new one.
    pub fn whole(
        &mut self,
        models: [&Model; 3],
        sets: &[(String, Tensors)],
        exact: bool,
    ) -> Result<(Vec<WholeProof>, Vec<Repaired>), StackError> {
        let feeds: Vec<Tensors> = sets.iter().map(|(_, feeds)| feeds.clone()).collect();
        let mut ran = Vec::new();
        for (model, what) in models.iter().zip(["the meant model", "the original model", "the rewritten model"]) {
            let trial =
                Trial { model, base_dir: self.base_dir, sets: &feeds, tensors: &[], optimise: false, placement: false };
            ran.push(self.stack.must_run(what, &trial)?);
        }
        let (mut whole, mut repaired) = (Vec::new(), Vec::new());
        for (i, (inputs, _)) in sets.iter().enumerate() {
            for (output, meant) in &ran[0][i] {
                let (Some(original), Some(new)) = (ran[1][i].get(output), ran[2][i].get(output)) else { continue };
                let limit = if exact { 0.0 } else { WHOLE_LIMIT * size(meant).max(1.0) };
                let is = Distance::between(new, meant);
                let agrees = !is.apart && is.max_abs <= limit;
                whole.push(WholeProof {
                    inputs: inputs.clone(),
                    output: output.clone(),
                    max_abs: Figure(is.max_abs),
                    limit: Figure(limit),
                    disagrees: (!agrees).then_some(is.text),
                });
                let was = Distance::between(original, meant);
                if was.apart || was.max_abs > WHOLE_LIMIT * size(meant).max(1.0) {
                    repaired.push(Repaired { inputs: inputs.clone(), output: output.clone(), original: was.text });
                }
            }
        }
        Ok((whole, repaired))
    }
}

impl Proof {
    /// Puts the parts together.
    pub(super) fn new(
        recipe: String,
        seed: u64,
        passes: Vec<PassProof>,
        (whole, repaired): (Vec<WholeProof>, Vec<Repaired>),
    ) -> Self {
        let sites = passes.iter().flat_map(|p| &p.sites).all(|s| s.disagrees.is_none());
        let holds = sites && whole.iter().all(|w| w.disagrees.is_none());
        Self { format: 1, holds, recipe, seed, passes, whole, repaired }
    }

    /// The disagreements, one sentence each.
    pub fn disagreements(&self) -> Vec<String> {
        let sites = self.passes.iter().flat_map(|p| {
            p.sites
                .iter()
                .filter_map(move |s| Some(format!("pass {} at {}: {}", p.pass, s.node, s.disagrees.as_ref()?)))
        });
        let whole = self.whole.iter().filter_map(|w| {
            Some(format!("the whole model on {}, output `{}`: {}", w.inputs, w.output, w.disagrees.as_ref()?))
        });
        sites.chain(whole).collect()
    }
}

/// Input sets of every kind that the pass answers for, with the kind and number of each.
fn draw(pass: &Pass, names: &[String], wanted: &[Wanted], seed: u64) -> (Vec<Tensors>, Vec<(Kind, usize)>) {
    let mut random = SplitMix64(seed);
    let (mut sets, mut kinds) = (Vec::new(), Vec::new());
    for &kind in KINDS.iter().filter(|k| !pass.outside.iter().any(|(outside, _)| outside == *k)) {
        for set in 0..hostile::sets_of(kind, wanted) {
            if let Some(drawn) = hostile::draw(kind, wanted, set, &mut random) {
                sets.push(names.iter().cloned().zip(drawn).collect());
                kinds.push((kind, set));
            }
        }
    }
    (sets, kinds)
}

/// How far two tensors are apart.
struct Distance {
    /// Shape, type, integers or non-finite values differ.
    apart: bool,
    ulp: u64,
    max_abs: f64,
    text: String,
}

impl Distance {
    fn between(got: &Tensor, reference: &Tensor) -> Self {
        let fault = |text: String| Self { apart: true, ulp: 0, max_abs: f64::INFINITY, text };
        let comparison =
            match compare(&TensorView::from(got), &TensorView::from(reference), None, None, &Measure::default()) {
                Ok(comparison) => comparison,
                Err(e) => return fault(e.to_string()),
            };
        match comparison.outcome {
            Compared::Mismatch(_) => fault(format!("{} instead of {}", comparison.got, comparison.reference)),
            Compared::Exact(exact) => match exact.valid.first {
                None => Self { apart: false, ulp: 0, max_abs: 0.0, text: "equal".to_owned() },
                Some(d) => fault(format!(
                    "{} of {} differ, first at {:?}: {} instead of {}",
                    exact.valid.differing, exact.valid.elements, d.at, d.got, d.reference
                )),
            },
            Compared::Floats(floats) => {
                let f = floats.valid;
                let (apart, pair) = match &f.first_nonfinite_mismatch {
                    Some(pair) => (true, Some(pair)),
                    None => (false, f.worst_ulp.as_ref()),
                };
                let text = pair.map_or_else(
                    || "equal".to_owned(),
                    |p| {
                        let (got, reference) = (p.got.0, p.reference.0);
                        format!("{got:e} instead of {reference:e} at {:?}, {} ulp at most", p.at, f.max_ulp)
                    },
                );
                Self { apart, ulp: f.max_ulp, max_abs: f.max_abs.0, text }
            }
        }
    }
}

/// The largest finite size in a float tensor; 0 for others.
fn size(tensor: &Tensor) -> f64 {
    let values = onnx_graph::view::floats(tensor).unwrap_or_default();
    values.iter().filter(|v| v.is_finite()).fold(0.0, |most, v| v.abs().max(most))
}

fn most_ulp(bound: Bound) -> u64 {
    match bound {
        Bound::Exact => 0,
        Bound::Ulp(n) => n,
    }
}

fn bound_text(bound: Bound) -> String {
    match bound {
        Bound::Exact => "exact".to_owned(),
        Bound::Ulp(n) => format!("{n} ulp"),
    }
}

/// `empty-rows`.
fn kind_name(kind: Kind) -> String {
    match kind {
        Kind::Plain => "plain",
        Kind::Ties => "ties",
        Kind::Zeros => "zeros",
        Kind::Infinities => "infinities",
        Kind::Nan => "nan",
        Kind::Denormals => "denormals",
        Kind::Largest => "largest",
        Kind::Axes => "axes",
        Kind::EmptyRows => "empty-rows",
    }
    .to_owned()
}
