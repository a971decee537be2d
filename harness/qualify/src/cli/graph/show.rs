//! `graph show`.

use super::super::{Failure, print};
use super::load;
use camino::Utf8PathBuf;
use clap::Args;
use onnx_graph::attention::Site;
use onnx_graph::{Summary, ValueInfo};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Which model.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The model's file.
    model: Utf8PathBuf,
    /// How many initialisers to list, the largest first.
    #[arg(long, default_value_t = 5)]
    largest: usize,
}

/// Prints what is in a model.
pub fn show(args: &ShowArgs, as_json: bool) -> Result<ExitCode, Failure> {
    let summary = load(&args.model)?.summary();
    if as_json {
        print::json(&value(&summary, args.largest))?;
    } else {
        print::line(text(&summary, args.largest).trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn info(info: &ValueInfo) -> Value {
    json!({
        "name": info.name,
        "type": info.dtype.map(onnx_graph::DataType::name),
        "shape": info.shape.as_ref().map(|s| s.iter().map(ToString::to_string).collect::<Vec<_>>()),
    })
}

fn site(site: &Site) -> Value {
    json!({
        "form": site.form.to_string(), "node": site.node, "scores": site.scores, "guard": site.guard, "mask": site.mask,
    })
}

fn value(s: &Summary, largest: usize) -> Value {
    let external: Vec<Value> = (s.external.iter())
        .map(|(file, (bytes, tensors))| json!({ "file": file, "bytes": bytes, "tensors": tensors }))
        .collect();
    let initialisers: Vec<Value> = (s.initialisers.iter().take(largest))
        .map(|i| json!({ "name": i.name, "type": i.text, "bytes": i.bytes }))
        .collect();
    json!({
        "ir": s.ir,
        "opsets": s.opsets,
        "producer": s.producer,
        "inputs": s.inputs.iter().map(info).collect::<Vec<_>>(),
        "outputs": s.outputs.iter().map(info).collect::<Vec<_>>(),
        "dynamic": s.dynamic,
        "nodes": s.nodes,
        "operators": s.operators,
        "functions": s.functions,
        "parameters": s.parameters,
        "weight_bytes": s.weight_bytes,
        "initialisers": { "count": s.initialisers.len(), "largest": initialisers },
        "external": external,
        "attention": s.attention.iter().map(site).collect::<Vec<_>>(),
        "metadata": s.metadata,
    })
}

/// Bytes in words, `15.7 MiB`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut amount = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if amount < 1024.0 {
            break;
        }
        amount /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{amount:.1} {unit}") }
}

fn text(s: &Summary, largest: usize) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    let opsets: Vec<String> = s
        .opsets
        .iter()
        .map(|(domain, version)| format!("{} {version}", if domain.is_empty() { "ai.onnx" } else { domain }))
        .collect();
    line(format!(
        "IR {}, opset {}, made by {}",
        s.ir,
        opsets.join(", "),
        if s.producer.is_empty() { "?" } else { &s.producer }
    ));
    for (kind, infos) in [("input ", &s.inputs), ("output", &s.outputs)] {
        for info in infos {
            line(format!("{kind} {info}"));
        }
    }
    if !s.dynamic.is_empty() {
        line(format!("varying extents: {}", s.dynamic.iter().cloned().collect::<Vec<_>>().join(", ")));
    }
    line(format!(
        "{} parameters, {} of weights in {} initialisers",
        s.parameters,
        size(s.weight_bytes),
        s.initialisers.len()
    ));
    for i in s.initialisers.iter().take(largest) {
        line(format!("  {:>10}  {}  {}", size(i.bytes), i.name, i.text));
    }
    for (file, (bytes, tensors)) in &s.external {
        line(format!("external file {file}: {} for {tensors} tensors", size(*bytes)));
    }
    let mut operators: Vec<(&String, &usize)> = s.operators.iter().collect();
    operators.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let operators: Vec<String> = operators.iter().map(|(op, n)| format!("{op} {n}")).collect();
    line(format!("{} nodes: {}", s.nodes, operators.join(", ")));
    if s.functions > 0 {
        line(format!("{} functions of the model's own", s.functions));
    }
    for site in &s.attention {
        let scores = site.scores.as_ref().map_or_else(String::new, |n| format!(", scores by {n}"));
        let mask = site.mask.as_ref().map_or_else(String::new, |m| format!(", masked by {m}"));
        let guard = site.guard.as_ref().map_or("", |_| ", guarded against rows without keys");
        line(format!("attention, {}: {}{scores}{mask}{guard}", site.form, site.node));
    }
    for (key, value) in &s.metadata {
        line(format!("metadata {key} = {value}"));
    }
    out
}
