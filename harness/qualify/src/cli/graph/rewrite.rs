//! `graph rewrite`.

use super::super::{Failure, print};
use super::lint::target;
use super::{BundleArgs, Extent, Surroundings, failed, folder, load};
use crate::atomic;
use crate::graph::inputs;
use crate::graph::proof::{PassProof, Proof};
use crate::graph::rewriting::{Plan, rewrite as prove};
use crate::nearest;
use camino::{Utf8Path, Utf8PathBuf};
use clap::{ArgGroup, Args, ValueEnum};
use onnx_graph::rewrite::{PASSES, Pass, pass};
use onnx_graph::{Model, Weights, lint};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Which model, by which passes, proven on what.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).multiple(true).args(["pass", "for_recipe", "list"])))]
pub struct RewriteArgs {
    /// The model's file; not needed with --list.
    #[arg(required_unless_present = "list")]
    model: Option<Utf8PathBuf>,
    /// A pass to apply; several are applied in their own best order.
    #[arg(long, value_name = "NAME", value_parser = known)]
    pass: Vec<String>,
    /// The passes that `graph lint --recipe` asks for.
    #[arg(long = "for", value_name = "RECIPE")]
    for_recipe: Option<String>,
    /// Print what each pass does, and rewrite nothing.
    #[arg(long)]
    list: bool,
    /// The rewritten model; MODEL.rewritten.onnx beside the model if not given. The proof goes beside it.
    #[arg(long, short)]
    output: Option<Utf8PathBuf>,
    #[command(flatten)]
    bundle: BundleArgs,
    /// A named extent's value (`batch=4`) for the proof; may be given several times.
    #[arg(long, value_name = "NAME=N")]
    set: Vec<Extent>,
    /// Seed of the values that the proof draws.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The recipe that the proof runs on.
    #[arg(long, default_value = "cpu")]
    recipe: String,
    /// Where the weights go.
    #[arg(long, value_enum, default_value_t = Place::Auto)]
    weights: Place,
}

/// Where weights go.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Place {
    /// Into the model's file, or beside it where they are external now.
    Auto,
    /// Into the model's file.
    Inline,
    /// Into one file beside it.
    OneFile,
    /// Into a file each.
    FileEach,
}

fn known(text: &str) -> Result<String, String> {
    if pass(text).is_some() {
        return Ok(text.to_owned());
    }
    let hint = nearest::hint(text, PASSES.iter().map(|p| p.name));
    let names: Vec<&str> = PASSES.iter().map(|p| p.name).collect();
    Err(format!("no pass has that name{hint}; there are {}", names.join(", ")))
}

/// Rewrites and proves; 1 if the proof fails, and then no model is written.
pub fn rewrite(args: &RewriteArgs, around: &Surroundings<'_>) -> Result<ExitCode, Failure> {
    if args.list {
        return list(around.json);
    }
    let path = args.model.as_ref().ok_or_else(|| Failure::request(anyhow::anyhow!("name a model")))?;
    let model = load(path)?;
    let passes = passes(args, path, &model, around)?;
    if passes.is_empty() {
        print::line(format!("nothing to do: lint asks for no pass on {path} (`graph lint` says what it found)"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let bundle = args.bundle.open()?;
    let fed = bundle.as_ref().map_or(Ok(Vec::new()), inputs::of_bundle).map_err(Failure::request)?;
    let given: BTreeMap<String, usize> = args.set.iter().map(|e| (e.name.clone(), e.extent)).collect();
    let extents = inputs::extents(&model, &given, &fed);
    let mask = args.bundle.mask(bundle.as_ref());
    let mut sets = fed;
    match inputs::generate(&model, mask, &extents, args.seed) {
        Ok(generated) => sets.extend(generated),
        // Inputs of a bundle are proof enough where none can be generated; that they are the only ones, the proof shows.
        Err(e) if sets.is_empty() => return Err(Failure::request(e)),
        Err(_) => {}
    }
    let mut stack = around.stack(&args.recipe)?;
    let plan = Plan {
        model: &model,
        base_dir: folder(path),
        passes: &passes,
        extents: &extents,
        sets: &sets,
        seed: args.seed,
    };
    let (mut rewritten, proof) = prove(&plan, &mut stack).map_err(failed)?;
    let output = args.output.clone().unwrap_or_else(|| path.with_extension("rewritten.onnx"));
    let beside = |ending: &str| Utf8PathBuf::from(format!("{output}.{ending}"));
    let io = |e: std::io::Error| Failure::environment(anyhow::anyhow!("cannot write beside {output}: {e}"));
    if !proof.holds {
        let kept = beside("failed-proof.json");
        atomic::write_json(&kept, &proof).map_err(io)?;
        report(&proof, &output, around.json)?;
        if !around.json {
            print::line(format!("FAILED: no model was written; the proof is in {kept}"))?;
        }
        return Ok(ExitCode::FAILURE);
    }
    let names: Vec<&str> = passes.iter().map(|p| p.name).collect();
    rewritten.set_metadata("ort-qualify.passes", &names.join(","));
    let weights = match args.weights {
        Place::Auto if model.external_files().is_ok_and(|f| f.is_empty()) => Weights::Inline,
        Place::Auto | Place::OneFile => Weights::OneFile,
        Place::Inline => Weights::Inline,
        Place::FileEach => Weights::FileEach,
    };
    rewritten.save(output.as_std_path(), folder(path), weights).map_err(Failure::request)?;
    atomic::write_json(&beside("proof.json"), &proof).map_err(io)?;
    report(&proof, &output, around.json)?;
    if !around.json {
        print::line(format!("{output} written, its proof beside it"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn passes(args: &RewriteArgs, path: &Utf8Path, model: &Model, around: &Surroundings<'_>) -> Result<Vec<Pass>, Failure> {
    let mut wanted: Vec<&str> = args.pass.iter().map(String::as_str).collect();
    if let Some(recipe) = &args.for_recipe {
        let target = target(Some(recipe), around)?;
        wanted.extend(lint::passes_for(&lint::lint(model, Some(folder(path)), &target)));
    }
    Ok(PASSES.iter().filter(|p| wanted.contains(&p.name)).copied().collect())
}

fn list(as_json: bool) -> Result<ExitCode, Failure> {
    if as_json {
        let all: Vec<_> = PASSES.iter().map(|p| json!({ "pass": p.name, "about": p.about })).collect();
        print::json(&all)?;
    } else {
        PASSES.iter().try_for_each(|p| print::line(format!("{}\n    {}", p.name, p.about)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn report(proof: &Proof, output: &Utf8Path, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return print::json(&json!({ "output": output, "proof": proof }));
    }
    for pass in &proof.passes {
        print::line(pass_line(pass))?;
        for (node, why) in &pass.skipped {
            print::line(format!("    left alone: {node}: {why}"))?;
        }
    }
    let sets: std::collections::BTreeSet<&str> = proof.whole.iter().map(|w| w.inputs.as_str()).collect();
    let worst = proof.whole.iter().map(|w| w.max_abs.0).fold(0.0, f64::max);
    print::line(format!("whole model: {} input sets, largest difference {worst:e}", sets.len()))?;
    for repaired in &proof.repaired {
        let (inputs, output, original) = (&repaired.inputs, &repaired.output, &repaired.original);
        print::line(format!("    repaired: on {inputs} the original's `{output}` is {original}"))?;
    }
    proof.disagreements().into_iter().try_for_each(|d| print::line(format!("disagrees: {d}")))
}

fn pass_line(pass: &PassProof) -> String {
    let elements: u64 = pass.sites.iter().map(|s| s.elements).sum();
    let worst = pass.sites.iter().map(|s| s.worst_ulp).max().unwrap_or(0);
    let places = match pass.sites.len() {
        1 => "1 place".to_owned(),
        n => format!("{n} places"),
    };
    let name = &pass.pass;
    let bound = &pass.bound;
    format!("{name}: {places}, {elements} hostile elements compared, worst {worst} ulp (bound: {bound})")
}
