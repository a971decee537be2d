//! One case, stage by stage: load, session, placement, run, compare. Raw facts come out; nothing is judged.

use super::runtime::{Runtime, Seen, SessionPlan, Source, end_profiling, see, value};
use super::{OutputRequest, Request};
use crate::bundle::{ArrayRef, NamedArray};
use crate::observation::compare::{CompareError, Elements, Rows, TensorView, compare, compare_exact_integers};
use crate::observation::memory::peak_rss_mib;
use crate::observation::placement::{GraphNode, Placement};
use crate::observation::profile::Profile;
use crate::observation::{Facts, Graph, Output, Probe, Stage};
use onnx_graph::{DataType, Model, Tensor};
use ort::session::{Session, SessionInputValue, SessionOutputs};
use ort::value::DynValue;
use std::borrow::Cow;
use std::io;
use std::time::Instant;

/// A stage's error, in words; the library's own where it comes from there.
pub(super) struct Refusal(pub String);

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self(message)
    }
}

/// The beginning of ONNX Runtime's refusal to leave nodes to the CPU provider.
const FALLBACK_REFUSAL: &str = "This session contains graph nodes that are assigned to the default CPU EP";

/// Feeds: names with values in the library's memory.
type Feeds = Vec<(String, DynValue)>;

/// Replays one case into `facts`; `enter` is told each stage before it begins.
pub(super) fn replay(
    request: &Request,
    runtime: &mut Runtime,
    facts: &mut Facts,
    enter: &mut dyn FnMut(Stage) -> io::Result<()>,
) -> Result<(), Refusal> {
    enter(Stage::Load)?;
    let model = load(request, runtime, facts)?;
    let clock = Instant::now();
    let feeds = feeds(request, &request.inputs)?;
    facts.timings.load_ms = facts.timings.load_ms.map(|load| load + ms(clock));

    enter(Stage::Session)?;
    let clock = Instant::now();
    let source = Source::File(&request.model);
    let made = runtime.session(&source, &plan(request));
    facts.timings.session_ms = Some(ms(clock));
    let mut session = match made {
        Ok(session) => session,
        Err(message) => {
            if message.contains(FALLBACK_REFUSAL) && !request.provider.is_cpu() {
                // The refusal names no node: a second session that may fall back shows which they are.
                let mut placement = observe_placement(request, runtime, &model, &feeds, true, facts)?;
                placement.refusal = Some(message.clone());
                facts.placement = Some(placement);
            }
            return Err(Refusal(message));
        }
    };

    enter(Stage::Placement)?;
    match observe_placement(request, runtime, &model, &feeds, request.fallback_allowed, facts) {
        Ok(placement) => facts.placement = Some(placement),
        Err(refusal) => {
            // An inference that fails without instruments too is a failure of inference.
            enter(Stage::Run)?;
            run(&mut session, &feeds)?;
            enter(Stage::Placement)?;
            return Err(refusal);
        }
    }

    enter(Stage::Run)?;
    if !request.probes.is_empty() {
        let clock = Instant::now();
        let probes = probe(request, runtime, model, &feeds)?;
        facts.timings.probe_ms = Some(ms(clock));
        facts.probes = probes;
    }
    let clock = Instant::now();
    let outputs = run(&mut session, &feeds)?;
    facts.timings.first_run_ms = Some(ms(clock));

    enter(Stage::Compare)?;
    let clock = Instant::now();
    let mask = request.mask.as_ref().map(|m| read(request, m)).transpose()?;
    for wanted in &request.outputs {
        facts.outputs.push(compare_output(request, wanted, &outputs, mask.as_ref())?);
    }
    let has_reference = |name: &str| request.outputs.iter().any(|o| o.name == name);
    facts.not_compared = outputs.keys().filter(|name| !has_reference(name)).map(str::to_owned).collect();
    facts.timings.compare_ms = Some(ms(clock));
    facts.peak_rss_mib = peak_rss_mib();
    Ok(())
}

/// Loads library and model, and registers the plugin.
pub(super) fn load(request: &Request, runtime: &mut Runtime, facts: &mut Facts) -> Result<Model, Refusal> {
    let clock = Instant::now();
    facts.library = Some(runtime.library(&request.library, &request.library_version)?.clone());
    if let Some(plugin) = &request.plugin {
        runtime.register(&request.provider.name, plugin)?;
    }
    facts.timings.library_ms = Some(ms(clock));
    let clock = Instant::now();
    // External data of a model given as bytes is looked for in the working directory.
    if let Some(folder) = request.model.parent() {
        std::env::set_current_dir(folder).map_err(|e| format!("cannot enter {folder}: {e}"))?;
    }
    let model = Model::load(request.model.as_std_path()).map_err(|e| e.to_string())?;
    let folder = request.model.parent().unwrap_or(&request.dir);
    model.check_external(folder.as_std_path()).map_err(|e| e.to_string())?;
    facts.graph = Some(graph(&model));
    facts.timings.load_ms = Some(ms(clock));
    Ok(model)
}

pub(super) fn plan(request: &Request) -> SessionPlan<'_> {
    let optimise = request.capture.as_ref().is_none_or(|c| c.optimise);
    SessionPlan { request, fallback_allowed: request.fallback_allowed, profile: None, optimised: None, optimise }
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn graph(model: &Model) -> Graph {
    Graph { ir: model.ir_version(), opsets: model.opsets(), op_histogram: model.op_histogram() }
}

pub(super) fn feeds(request: &Request, inputs: &[NamedArray]) -> Result<Feeds, Refusal> {
    let feed = |input: &NamedArray| {
        let tensor = read(request, &input.array)?;
        let value = value(&tensor).map_err(|e| format!("input `{}`: {e}", input.name))?;
        Ok((input.name.clone(), value))
    };
    inputs.iter().map(feed).collect()
}

pub(super) fn run<'s>(session: &'s mut Session, feeds: &Feeds) -> Result<SessionOutputs<'s>, Refusal> {
    let inputs: Vec<(Cow<'_, str>, SessionInputValue<'_>)> =
        feeds.iter().map(|(name, value)| (name.as_str().into(), value.into())).collect();
    session.run(inputs).map_err(|e| Refusal(e.message().to_owned()))
}

/// Where the nodes run, from the profile of a session of its own: an instrumented run never decides about numbers.
pub(super) fn observe_placement(
    request: &Request,
    runtime: &Runtime,
    model: &Model,
    feeds: &Feeds,
    fallback_allowed: bool,
    facts: &mut Facts,
) -> Result<Placement, Refusal> {
    let wanted = request.provider.registered();
    let ran = profiled_run(request, runtime, feeds, fallback_allowed, None, Some(facts))?;
    let own = edges(model);
    let placement = Placement::new(&wanted, &ran, &own);
    if placement.nodes.len() < 2 {
        return Ok(placement);
    }
    // Several providers: which tensors cross is best told along the optimised graph, whose names the profile uses.
    // A library cannot write a graph with compiled subgraphs; then the model's own graph has to do.
    let file = request.logs.join("optimised.onnx");
    let optimised = profiled_run(request, runtime, feeds, fallback_allowed, Some(&file), None)
        .ok()
        .and_then(|ran| Some((ran, Model::load(file.as_std_path()).ok()?)));
    // It may hold all weights again: it served its purpose.
    let _ = std::fs::remove_file(&file);
    Ok(optimised.map_or(placement, |(ran, graph)| Placement::new(&wanted, &ran, &edges(&graph))))
}

fn profiled_run(
    request: &Request,
    runtime: &Runtime,
    feeds: &Feeds,
    fallback_allowed: bool,
    optimised: Option<&camino::Utf8Path>,
    facts: Option<&mut Facts>,
) -> Result<Profile, Refusal> {
    let profile = request.logs.join("profile");
    let clock = Instant::now();
    let plan = SessionPlan { fallback_allowed, profile: Some(&profile), optimised, ..plan(request) };
    let mut session = runtime.session(&Source::File(&request.model), &plan)?;
    let session_ms = ms(clock);
    let clock = Instant::now();
    drop(run(&mut session, feeds)?);
    let run_ms = ms(clock);
    if let Some(facts) = facts {
        facts.timings.placement_session_ms = Some(session_ms);
        facts.timings.placement_run_ms = Some(run_ms);
    }
    let written = end_profiling(&mut session)?;
    let kept = request.logs.join("profile.json");
    std::fs::rename(&written, &kept).map_err(|e| format!("cannot move the profile {written} to {kept}: {e}"))?;
    let json = std::fs::read(&kept).map_err(|e| format!("cannot read the profile {kept}: {e}"))?;
    Profile::read(&json).map_err(|e| Refusal(e.to_string()))
}

fn edges(model: &Model) -> Vec<GraphNode> {
    model
        .nodes()
        .map(|node| GraphNode {
            name: node.name().to_owned(),
            inputs: node.inputs().iter().cloned().chain(node.captures().into_iter().map(str::to_owned)).collect(),
            outputs: node.outputs().to_vec(),
        })
        .collect()
}

/// Probes: intermediate tensors as extra outputs of an in-memory copy, in a session of its own.
fn probe(request: &Request, runtime: &Runtime, mut model: Model, feeds: &Feeds) -> Result<Vec<Probe>, Refusal> {
    let names: Vec<String> = request.probes.iter().map(|p| p.name.clone()).collect();
    model.expose_outputs(&names).map_err(|e| e.to_string())?;
    let bytes = model.encode().map_err(|e| e.to_string())?;
    let mut session = runtime.session(&Source::Bytes(&bytes), &plan(request))?;
    let outputs = run(&mut session, feeds)?;
    let mut probes = Vec::new();
    for wanted in &request.probes {
        let reference = read(request, &wanted.array)?;
        let got = output(&outputs, &wanted.name)?;
        let refuse = |e: CompareError| format!("probe `{}`: {e}", wanted.name);
        let got = view_seen(&got).map_err(refuse)?;
        let comparison = compare_exact_integers(&got, &TensorView::from(&reference), None).map_err(refuse)?;
        probes.push(Probe { tensor: wanted.name.clone(), comparison });
    }
    Ok(probes)
}

fn read(request: &Request, array: &ArrayRef) -> Result<Tensor, Refusal> {
    array.read(&request.dir, request.array_cap_bytes).map_err(|e| Refusal(e.to_string()))
}

fn compare_output(
    request: &Request,
    wanted: &OutputRequest,
    outputs: &SessionOutputs<'_>,
    mask: Option<&Tensor>,
) -> Result<Output, Refusal> {
    let reference = read(request, &wanted.reference)?;
    let baseline = wanted.baseline.as_ref().map(|b| read(request, b)).transpose()?;
    let got = output(outputs, &wanted.name)?;
    let refuse = |e: CompareError| format!("output `{}`: {e}", wanted.name);
    let got = view_seen(&got).map_err(refuse)?;
    let rows = mask.and_then(|mask| rows(mask, wanted, got.shape())).transpose().map_err(refuse)?;
    let baseline = baseline.as_ref().map(TensorView::from);
    let comparison = compare(&got, &TensorView::from(&reference), rows.as_ref(), baseline.as_ref(), &wanted.measure)
        .map_err(refuse)?;
    let mask_left_out = mask.is_some() && rows.is_none();
    Ok(Output { name: wanted.name.clone(), mask_left_out, comparison })
}

/// The mask's rows on an output; without a word from the bundle, only where the leading extents are the mask's.
fn rows(mask: &Tensor, wanted: &OutputRequest, shape: &[usize]) -> Option<Result<Rows, CompareError>> {
    let axes = match &wanted.mask_axes {
        Some(axes) => axes.clone(),
        None if shape.starts_with(&mask.shape) => (0..mask.shape.len()).collect(),
        None => return None,
    };
    Some(Rows::new(&TensorView::from(mask), &axes))
}

pub(super) fn output<'o>(outputs: &'o SessionOutputs<'_>, name: &str) -> Result<Seen<'o>, Refusal> {
    let value = outputs.get(name).ok_or_else(|| format!("the model gave no output `{name}`"))?;
    see(value).map_err(|e| Refusal(format!("output `{name}`: {e}")))
}

fn view_seen<'a>(seen: &'a Seen<'_>) -> Result<TensorView<'a>, CompareError> {
    match seen {
        Seen::Bytes(dtype, shape, bytes) => TensorView::new(*dtype, shape, Elements::Bytes(bytes)),
        Seen::Strings(shape, strings) => TensorView::new(DataType::String, shape, Elements::Strings(strings)),
    }
}
