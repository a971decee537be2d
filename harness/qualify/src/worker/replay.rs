//! One case, stage by stage: load, session, placement, run, compare. Raw facts come out; nothing is judged.

use super::runtime::{Runtime, Seen, SessionPlan, Source, end_profiling, see, value};
use super::{NamedArray, OutputRequest, Request};
use crate::bundle::read_array;
use crate::observation::compare::{Rows, TensorView, compare, compare_exact_integers};
use crate::observation::placement::{GraphNode, Placement};
use crate::observation::profile::{ProfiledNode, nodes};
use crate::observation::{Facts, Graph, Output, Probe, Stage};
use onnx_graph::{Model, Tensor};
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
    let clock = Instant::now();
    facts.library = Some(runtime.library(&request.library, &request.library_version)?.clone());
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
    let feeds = feeds(request)?;
    facts.timings.load_ms = Some(ms(clock));

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
    facts.placement = Some(observe_placement(request, runtime, &model, &feeds, request.fallback_allowed, facts)?);

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
    let mask = request.mask.as_ref().map(|m| read_array(&request.dir, m, request.array_cap_bytes));
    let mask = mask.transpose().map_err(|e| e.to_string())?;
    for wanted in &request.outputs {
        facts.outputs.push(compare_output(request, wanted, &outputs, mask.as_ref())?);
    }
    facts.timings.compare_ms = Some(ms(clock));
    facts.peak_rss_mib = peak_rss_mib();
    Ok(())
}

fn plan(request: &Request) -> SessionPlan<'_> {
    SessionPlan { request, fallback_allowed: request.fallback_allowed, profile: None, optimised: None }
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn graph(model: &Model) -> Graph {
    Graph { ir: model.ir_version(), opsets: model.opsets(), op_histogram: model.op_histogram() }
}

fn feeds(request: &Request) -> Result<Feeds, Refusal> {
    let feed = |input: &NamedArray| {
        let tensor = read_array(&request.dir, &input.array, request.array_cap_bytes).map_err(|e| e.to_string())?;
        let value = value(&tensor).map_err(|e| format!("input `{}`: {e}", input.name))?;
        Ok((input.name.clone(), value))
    };
    request.inputs.iter().map(feed).collect()
}

fn run<'s>(session: &'s mut Session, feeds: &Feeds) -> Result<SessionOutputs<'s>, Refusal> {
    let inputs: Vec<(Cow<'_, str>, SessionInputValue<'_>)> =
        feeds.iter().map(|(name, value)| (name.as_str().into(), value.into())).collect();
    session.run(inputs).map_err(|e| Refusal(e.message().to_owned()))
}

/// Where the nodes run, from the profile of a session of its own: an instrumented run never decides about numbers.
fn observe_placement(
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
) -> Result<Vec<ProfiledNode>, Refusal> {
    let profile = request.logs.join("profile");
    let clock = Instant::now();
    let plan = SessionPlan { request, fallback_allowed, profile: Some(&profile), optimised };
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
    nodes(&json).map_err(|e| Refusal(e.to_string()))
}

fn edges(model: &Model) -> Vec<GraphNode> {
    model
        .nodes()
        .map(|node| GraphNode {
            name: node.name.to_owned(),
            inputs: node.inputs.to_vec(),
            outputs: node.outputs.to_vec(),
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
        let reference = read_array(&request.dir, &wanted.array, request.array_cap_bytes).map_err(|e| e.to_string())?;
        let got = output(&outputs, &wanted.name)?;
        let comparison = compare_exact_integers(&view_seen(&got), &view(&reference));
        probes.push(Probe { tensor: wanted.name.clone(), comparison });
    }
    Ok(probes)
}

fn compare_output(
    request: &Request,
    wanted: &OutputRequest,
    outputs: &SessionOutputs<'_>,
    mask: Option<&Tensor>,
) -> Result<Output, Refusal> {
    let read = |array| read_array(&request.dir, array, request.array_cap_bytes).map_err(|e| Refusal(e.to_string()));
    let reference = read(&wanted.reference)?;
    let baseline = wanted.baseline.as_ref().map(read).transpose()?;
    let got = output(outputs, &wanted.name)?;
    let got = view_seen(&got);
    let rows = match mask {
        Some(mask) => rows(mask, wanted, got.shape).map_err(|e| format!("output `{}`: {e}", wanted.name))?,
        None => None,
    };
    let comparison =
        compare(&got, &view(&reference), rows.as_ref(), baseline.as_ref().map(view).as_ref(), &wanted.measure);
    Ok(Output { name: wanted.name.clone(), comparison })
}

/// The mask's rows on an output; without a word from the bundle, only where the leading extents are the mask's.
fn rows<'m>(mask: &'m Tensor, wanted: &OutputRequest, shape: &[usize]) -> Result<Option<Rows<'m>>, String> {
    let axes = match &wanted.mask_axes {
        Some(axes) => axes.clone(),
        None if shape.starts_with(&mask.shape) => (0..mask.shape.len()).collect(),
        None => return Ok(None),
    };
    Rows::new(&view(mask), axes, shape).map(Some).map_err(|e| e.to_string())
}

fn output<'o>(outputs: &'o SessionOutputs<'_>, name: &str) -> Result<Seen<'o>, Refusal> {
    let value = outputs.get(name).ok_or_else(|| format!("the model gave no output `{name}`"))?;
    see(value).map_err(|e| Refusal(format!("output `{name}`: {e}")))
}

fn view_seen<'a>(seen: &'a Seen<'_>) -> TensorView<'a> {
    match seen {
        Seen::Bytes(dtype, shape, bytes) => TensorView::bytes(*dtype, shape, bytes),
        Seen::Strings(shape, strings) => TensorView::strings(shape, strings),
    }
}

fn view(tensor: &Tensor) -> TensorView<'_> {
    TensorView::from(tensor)
}

/// The peak resident set of this process so far (`VmHWM`).
fn peak_rss_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}
