//! Runs whose tensors are kept instead of compared: what tools that hold models against each other see of a stack.

use super::replay::{self, Refusal};
use super::runtime::{Runtime, Seen, Source};
use super::{Capture, Request};
use crate::bundle::array::{needs_dtype, write_npz};
use crate::bundle::{ArrayRef, NamedArray};
use crate::observation::memory::peak_rss_mib;
use crate::observation::{Facts, Stage};
use bytes::Bytes;
use onnx_graph::{Model, Tensor};
use std::fs::File;
use std::io::{self, BufWriter};

/// Runs the sets one after the other and writes what is wanted of them; `enter` is told each stage before it begins.
pub(super) fn capture(
    request: &Request,
    capture: &Capture,
    runtime: &mut Runtime,
    facts: &mut Facts,
    enter: &mut dyn FnMut(Stage) -> io::Result<()>,
) -> Result<(), Refusal> {
    enter(Stage::Load)?;
    let model = replay::load(request, runtime, facts)?;
    let wanted: Vec<String> = match capture.tensors.as_slice() {
        [] => model.outputs().into_iter().map(|o| o.name).collect(),
        some => some.to_vec(),
    };
    let sets = capture.sets.iter().map(|set| replay::feeds(request, set)).collect::<Result<Vec<_>, _>>()?;

    enter(Stage::Session)?;
    let exposed = exposed(&model, &capture.tensors)?;
    let source = exposed.as_deref().map_or(Source::File(&request.model), Source::Bytes);
    let mut session = runtime.session(&source, &replay::plan(request))?;

    if let Some(feeds) = sets.first().filter(|_| capture.placement) {
        enter(Stage::Placement)?;
        facts.placement =
            Some(replay::observe_placement(request, runtime, &model, feeds, request.fallback_allowed, facts)?);
    }

    enter(Stage::Run)?;
    let mut kept: Vec<(String, String, Tensor)> = Vec::new();
    for (i, feeds) in sets.iter().enumerate() {
        let outputs = replay::run(&mut session, feeds).map_err(|Refusal(e)| format!("input set {i}: {e}"))?;
        for name in &wanted {
            kept.push((format!("{i}/{name}"), name.clone(), owned(replay::output(&outputs, name)?)?));
        }
    }
    let out = File::create(&capture.into).map_err(|e| format!("cannot write {}: {e}", capture.into))?;
    write_npz(BufWriter::new(out), kept.iter().map(|(key, _, tensor)| (key.as_str(), tensor)))
        .map_err(|e| format!("cannot write {}: {e}", capture.into))?;
    let file = capture.into.strip_prefix(&request.dir).unwrap_or(&capture.into);
    facts.captured = (kept.into_iter())
        .map(|(key, name, tensor)| {
            let dtype = needs_dtype(tensor.dtype).then_some(tensor.dtype);
            NamedArray { name, array: ArrayRef { dtype, ..ArrayRef::named(file, key) } }
        })
        .collect();
    facts.peak_rss_mib = peak_rss_mib();
    Ok(())
}

/// The model with inner tensors as outputs; nothing where none is wanted.
fn exposed(model: &Model, tensors: &[String]) -> Result<Option<Vec<u8>>, Refusal> {
    if tensors.is_empty() {
        return Ok(None);
    }
    let mut model = model.clone();
    model.expose_outputs(tensors).map_err(|e| e.to_string())?;
    Ok(Some(model.encode().map_err(|e| e.to_string())?))
}

fn owned(seen: Seen<'_>) -> Result<Tensor, Refusal> {
    let tensor = match seen {
        Seen::Bytes(dtype, shape, bytes) => Tensor::from_bytes(dtype, shape, Bytes::copy_from_slice(bytes)),
        Seen::Strings(shape, strings) => Tensor::from_strings(shape, strings),
    };
    tensor.map_err(|e| Refusal(e.to_string()))
}
