//! ONNX Runtime inside the worker: one library, one environment, sessions as cases ask for them.

use super::{Request, raw};
use crate::observation::Library;
use crate::recipe::Provider;
use camino::{Utf8Path, Utf8PathBuf};
use onnx_graph::{DataType, Tensor, TensorData};
use ort::LoadDynamicError;
use ort::environment::Environment;
use ort::ep::ArbitrarilyConfigurableExecutionProvider as _;
use ort::logging::LogLevel;
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::value::{DynTensorValueType, DynValue, TensorElementType};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The library once it is loaded.
#[derive(Default)]
pub(super) struct Runtime {
    loaded: Option<(Environment, Library)>,
    /// Plugin libraries that are registered, by provider.
    plugins: BTreeMap<String, Utf8PathBuf>,
}

/// How a session is made.
pub(super) struct SessionPlan<'a> {
    /// Whose provider, options, entries and threads.
    pub request: &'a Request,
    /// May nodes fall back to the CPU in this session?
    pub fallback_allowed: bool,
    /// Where the profile goes (a path's beginning), if one is wanted.
    pub profile: Option<&'a Utf8Path>,
    /// Where the optimised model goes, if it is wanted.
    pub optimised: Option<&'a Utf8Path>,
    /// May the library optimise the graph?
    pub optimise: bool,
}

/// Where a session's model comes from.
pub(super) enum Source<'a> {
    /// A file, external data beside it.
    File(&'a Utf8Path),
    /// Bytes; external data in the working directory.
    Bytes(&'a [u8]),
}

impl Runtime {
    /// Loads the library on the first call; later calls must name the same one.
    pub fn library(&mut self, path: &Utf8Path, version: &str) -> Result<&Library, String> {
        if self.loaded.is_none() {
            self.loaded = Some(load(path)?);
        }
        let (_, library) = self.loaded.as_ref().expect("loaded above");
        if library.path != path {
            let loaded = &library.path;
            return Err(format!("this process has {loaded} loaded and cannot load {path}: one library a process"));
        }
        if library.version != version {
            let found = &library.version;
            return Err(format!(
                "pin mismatch: the recipe pins ONNX Runtime {version}, and {path} says that it is {found}"
            ));
        }
        Ok(library)
    }

    /// Registers a plugin provider's library under the provider's name, once.
    pub fn register(&mut self, name: &str, path: &Utf8Path) -> Result<(), String> {
        let (environment, _) = self.loaded.as_ref().ok_or("no library is loaded")?;
        match self.plugins.get(name) {
            Some(registered) if registered == path => return Ok(()),
            Some(registered) => {
                return Err(format!("provider `{name}` is registered from {registered} and cannot be from {path}"));
            }
            None => {}
        }
        environment
            .register_ep_library(name, path)
            .map_err(|e| format!("cannot register the provider library {path}: {}", e.message()))?;
        self.plugins.insert(name.to_owned(), path.to_owned());
        Ok(())
    }

    /// Makes a session.
    pub fn session(&self, source: &Source<'_>, plan: &SessionPlan<'_>) -> Result<Session, String> {
        let (environment, _) = self.loaded.as_ref().ok_or("no library is loaded")?;
        let message = |e: ort::Error| e.message().to_owned();
        let mut builder = builder(environment, plan).map_err(message)?;
        let session = match source {
            Source::File(path) => builder.commit_from_file(path),
            Source::Bytes(bytes) => builder.commit_from_memory(bytes),
        };
        session.map_err(message)
    }
}

fn builder(environment: &Environment, plan: &SessionPlan<'_>) -> ort::Result<SessionBuilder> {
    let request = plan.request;
    let mut builder = SessionBuilder::new(environment)?;
    if request.threads > 0 {
        builder = builder.with_intra_threads(request.threads)?.with_inter_threads(1)?;
    }
    if !plan.optimise {
        builder = builder.with_optimization_level(GraphOptimizationLevel::Disable)?;
    }
    for (key, value) in &request.session {
        builder = builder.with_config_entry(key, value)?;
    }
    if let Some(path) = plan.profile {
        builder = builder.with_profiling(path)?;
    }
    if let Some(path) = plan.optimised {
        builder = builder.with_optimized_model_path(path)?;
    }
    let provider = &request.provider;
    if provider.is_cpu() {
        // The default policy of newer libraries may pick a plugin provider: no automatic choice is wanted.
        return Ok(builder);
    }
    if request.plugin.is_some() {
        builder = append_plugin(builder, environment, provider)?;
    } else {
        append(&mut builder, provider)?;
    }
    if !plan.fallback_allowed {
        builder = builder.with_disable_cpu_fallback()?;
    }
    Ok(builder)
}

/// The devices that a registered plugin provider offers, with options under its name.
fn append_plugin(
    builder: SessionBuilder,
    environment: &Environment,
    provider: &Provider,
) -> ort::Result<SessionBuilder> {
    let name = provider.registered();
    let devices: Vec<_> = environment.devices().filter(|device| device.ep().is_ok_and(|ep| ep == name)).collect();
    // An empty list would silently give a CPU session.
    if devices.is_empty() {
        let offered: Vec<_> = environment.devices().filter_map(|d| d.ep().ok()).collect();
        return Err(ort::Error::new(format!(
            "the plugin offers no device of provider `{name}`; there are devices of {}",
            offered.join(", ")
        )));
    }
    let options: Vec<_> =
        provider.options.iter().map(|(key, value)| (format!("{name}.{key}"), value.clone())).collect();
    Ok(builder.with_devices(devices, Some(&options))?)
}

/// CUDA is not reachable by name; everything else is, and with options that the crate does not know of.
fn append(builder: &mut SessionBuilder, provider: &Provider) -> ort::Result<()> {
    if provider.name == "cuda" {
        let mut cuda = ort::ep::CUDA::default();
        for (key, value) in &provider.options {
            cuda = cuda.with_arbitrary_config(key, value);
        }
        let added =
            std::mem::replace(builder, builder.clone()).with_execution_providers([cuda.build().error_on_failure()])?;
        *builder = added;
        return Ok(());
    }
    let registered = provider.registered();
    let name = match provider.name.as_str() {
        // The one provider whose short name is not its registered name's beginning.
        "webgpu" => "WebGPU",
        _ => registered.strip_suffix("ExecutionProvider").unwrap_or(&registered),
    };
    raw::append_provider(builder, name, &provider.options)
}

fn load(path: &Utf8Path) -> Result<(Environment, Library), String> {
    let builder = ort::init_from(path).map_err(|e| match e {
        // The crate's own text hides what the loader said.
        LoadDynamicError::Dlopen { error, .. } => {
            let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            format!("cannot load {path}: {cause}")
        }
        other => format!("cannot load {path}: {other}"),
    })?;
    let environment = builder
        .with_name("ort-qualify")
        .with_telemetry(false)
        .with_logger(Arc::new(|level, _category, _id, location, message| {
            let letter = match level {
                // Said while the environment is made, before its level can be set.
                LogLevel::Verbose | LogLevel::Info => return,
                LogLevel::Warning => 'W',
                LogLevel::Error => 'E',
                LogLevel::Fatal => 'F',
            };
            eprintln!("[{letter}:onnxruntime, {location}] {message}");
        }))
        .build()
        .map_err(|e| e.message().to_owned())?;
    environment.set_log_level(LogLevel::Warning);
    let version = raw::library_version(path)?;
    let library = Library { path: path.to_owned(), version, build: ort::info().to_owned() };
    Ok((environment, library))
}

/// An input for the library; the data is copied into its memory.
pub(super) fn value(tensor: &Tensor) -> Result<DynValue, String> {
    match &tensor.data {
        TensorData::Bytes(bytes) => {
            raw::tensor_from_bytes(tensor.dtype, &tensor.shape, bytes).map_err(|e| e.message().to_owned())
        }
        TensorData::Strings(strings) => {
            let shape: Vec<i64> = tensor.shape.iter().map(|&d| d as i64).collect();
            ort::value::Tensor::from_string_array((shape, strings.as_slice()))
                .map(ort::value::Value::into_dyn)
                .map_err(|e| e.message().to_owned())
        }
    }
}

/// What an output holds, borrowed from the library where that is possible.
pub(super) enum Seen<'a> {
    /// Little-endian bytes, in place.
    Bytes(DataType, Vec<usize>, &'a [u8]),
    /// Strings, copied.
    Strings(Vec<usize>, Vec<String>),
}

/// Reads an output.
pub(super) fn see(value: &DynValue) -> Result<Seen<'_>, String> {
    let Ok(tensor) = value.view().downcast::<DynTensorValueType>() else {
        return Err(format!("it is a {}, not a tensor", value.dtype()));
    };
    let shape: Vec<usize> = tensor.shape().iter().map(|&d| d as usize).collect();
    if *tensor.data_type() == TensorElementType::String {
        let (_, strings) = tensor.try_extract_strings().map_err(|e| e.message().to_owned())?;
        return Ok(Seen::Strings(shape, strings));
    }
    let dtype =
        data_type(*tensor.data_type()).ok_or_else(|| format!("its type {} is not known here", tensor.data_type()))?;
    let bytes = raw::tensor_bytes(value).ok_or("its memory cannot be read by the CPU")?;
    Ok(Seen::Bytes(dtype, shape, bytes))
}

fn data_type(element: TensorElementType) -> Option<DataType> {
    use TensorElementType as E;
    Some(match element {
        E::Float32 => DataType::Float32,
        E::Uint8 => DataType::Uint8,
        E::Int8 => DataType::Int8,
        E::Uint16 => DataType::Uint16,
        E::Int16 => DataType::Int16,
        E::Int32 => DataType::Int32,
        E::Int64 => DataType::Int64,
        E::String => DataType::String,
        E::Bool => DataType::Bool,
        E::Float16 => DataType::Float16,
        E::Float64 => DataType::Float64,
        E::Uint32 => DataType::Uint32,
        E::Uint64 => DataType::Uint64,
        E::Bfloat16 => DataType::Bfloat16,
        E::Complex64 => DataType::Complex64,
        E::Complex128 => DataType::Complex128,
        E::Float8E4M3FN => DataType::Float8E4M3Fn,
        E::Float8E4M3FNUZ => DataType::Float8E4M3Fnuz,
        E::Float8E5M2 => DataType::Float8E5M2,
        E::Float8E5M2FNUZ => DataType::Float8E5M2Fnuz,
        E::Float8E8M0 => DataType::Float8E8M0,
        E::Uint4 => DataType::Uint4,
        E::Int4 => DataType::Int4,
        E::Float4E2M1 => DataType::Float4E2M1,
        E::Uint2 => DataType::Uint2,
        E::Int2 => DataType::Int2,
        // An element type that this version of the crate does not know of, or none at all.
        _ => return None,
    })
}

/// Ends profiling and gives the file that the library wrote: newer ones add to the name that was asked for.
pub(super) fn end_profiling(session: &mut Session) -> Result<Utf8PathBuf, String> {
    session.end_profiling().map(Utf8PathBuf::from).map_err(|e| e.message().to_owned())
}
