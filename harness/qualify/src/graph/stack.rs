//! A stack to try models on: one recipe, one worker at a time, tensors in and tensors out.

use crate::bundle::array::{ArrayProblem, needs_dtype, write_npz};
use crate::bundle::{ArrayError, ArrayRef, NamedArray};
use crate::observation::placement::Placement;
use crate::observation::{End, Observation};
use crate::run::{Qualification, RunError, Settings};
use crate::worker::Capture;
use crate::worker::launch::{Launch, Worker};
use camino::{Utf8Path, Utf8PathBuf};
use onnx_graph::{Model, ModelError, Tensor, Weights};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Tensors by name: what a model is fed, and what is kept of a run.
pub type Tensors = BTreeMap<String, Tensor>;

/// The largest array that is read back, in bytes.
const ARRAY_CAP_BYTES: u64 = 8 << 30;

/// A recipe with a worker that models are tried in.
#[derive(Debug)]
pub struct Stack {
    qualification: Qualification,
    launch: Launch,
    folder: TempDir,
    worker: Option<Worker>,
    limit: Duration,
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The model.
    pub model: &'a Model,
    /// Where its external data lie.
    pub base_dir: &'a Path,
    /// Sets of inputs, run one after the other.
    pub sets: &'a [Tensors],
    /// Tensors to keep; none: the outputs.
    pub tensors: &'a [String],
    /// May the library optimise the graph?
    pub optimise: bool,
    /// Look where the nodes run.
    pub placement: bool,
}

/// What came of a trial. That a model is refused or kills its worker is one of the things that are looked for.
#[derive(Debug)]
pub enum Outcome {
    /// The tensors of each set.
    Ran(Vec<Tensors>, Option<Placement>),
    /// No tensors: what was observed instead.
    Broke(Box<Observation>),
}

/// A trial that could not be made at all.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The recipe cannot be had.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The recipe cannot exist here.
    #[error("recipe `{recipe}` cannot run on this machine: {reason}")]
    Host {
        /// Which.
        recipe: String,
        /// Why.
        reason: String,
    },
    /// The model cannot be written for the worker.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Inputs cannot be written, or tensors not be read back.
    #[error("cannot hand arrays to the worker: {0}")]
    Arrays(#[from] ArrayProblem),
    /// What the worker wrote cannot be read.
    #[error(transparent)]
    Kept(#[from] ArrayError),
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Io {
        /// Which.
        path: Utf8PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The worker gave no tensors where that is no finding but a failure of the tool's own step.
    #[error("{what} gave no result on recipe `{recipe}`: {how}")]
    Broke {
        /// Which step.
        what: String,
        /// Where.
        recipe: String,
        /// What the worker said, or how it died.
        how: String,
    },
}

impl StackError {
    /// Is it the environment that could not be had (exit code 3), rather than a wrong request (2)?
    pub fn is_environment(&self) -> bool {
        match self {
            Self::Run(e) => e.is_environment(),
            Self::Host { .. } | Self::Io { .. } => true,
            Self::Model(_) | Self::Arrays(_) | Self::Kept(_) | Self::Broke { .. } => false,
        }
    }
}

impl Stack {
    /// Realises the recipe. `settings.evidence` is not used: trials leave none. A trial is ended after `limit`.
    pub fn open(settings: Settings, limit: Duration) -> Result<Self, StackError> {
        let io = |path: &Path| {
            let path = Utf8PathBuf::from(path.to_string_lossy().into_owned());
            move |source| StackError::Io { path, source }
        };
        let folder = tempfile::Builder::new().prefix("ort-qualify-").tempdir().map_err(io(&std::env::temp_dir()))?;
        let place = Utf8PathBuf::from_path_buf(folder.path().to_owned()).map_err(|path| StackError::Io {
            path: path.to_string_lossy().into_owned().into(),
            source: std::io::Error::other("the folder for temporary files has a name that is not UTF-8"),
        })?;
        let qualification = Qualification::new(Settings { evidence: place, ..settings })?;
        if let Some(mismatch) = qualification.host_mismatch() {
            let recipe = qualification.settings().recipe.clone();
            return Err(StackError::Host { recipe, reason: mismatch.to_string() });
        }
        let launch = qualification.launch()?;
        Ok(Self { qualification, launch, folder, worker: None, limit })
    }

    /// The recipe's name.
    pub fn recipe(&self) -> &str {
        &self.qualification.settings().recipe
    }

    /// Runs a model. One worker serves all trials until it dies of one.
    pub fn run(&mut self, trial: &Trial<'_>) -> Result<Outcome, StackError> {
        let dir = Utf8Path::from_path(self.folder.path()).expect("checked when it was made").to_owned();
        let model = dir.join("model.onnx");
        // Small models stay in one piece; large ones would not fit the protobuf.
        let heavy = trial.model.weight_bytes() > 64 << 20;
        trial.model.save(
            model.as_std_path(),
            trial.base_dir,
            if heavy { Weights::OneFile } else { Weights::Inline },
        )?;
        let feeds = dir.join("feeds.npz");
        let keyed: Vec<(String, &Tensor)> = (trial.sets.iter().enumerate())
            .flat_map(|(i, set)| set.iter().map(move |(name, tensor)| (format!("{i}/{name}"), tensor)))
            .collect();
        write_npz(
            BufWriter::new(File::create(&feeds).map_err(|source| StackError::Io { path: feeds.clone(), source })?),
            keyed.iter().map(|(key, tensor)| (key.as_str(), *tensor)),
        )?;
        let array = |i: usize, (name, tensor): (&String, &Tensor)| NamedArray {
            name: name.clone(),
            array: ArrayRef {
                dtype: needs_dtype(tensor.dtype).then_some(tensor.dtype),
                ..ArrayRef::named("feeds.npz", format!("{i}/{name}"))
            },
        };
        let capture = Capture {
            sets: trial.sets.iter().enumerate().map(|(i, set)| set.iter().map(|t| array(i, t)).collect()).collect(),
            tensors: trial.tensors.to_vec(),
            into: dir.join("kept.npz"),
            optimise: trial.optimise,
            placement: trial.placement,
        };
        let request = self.qualification.capture_request(&model, &dir, capture)?;
        let started = Instant::now();
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start(&self.launch, &dir).map_err(RunError::from)?,
        };
        let (observation, lives) = worker.replay(&request, self.limit, started);
        if lives {
            self.worker = Some(worker);
        }
        if observation.end != End::Finished {
            return Ok(Outcome::Broke(Box::new(observation)));
        }
        let mut kept = vec![Tensors::new(); trial.sets.len()];
        let per_set = observation.facts.captured.len() / trial.sets.len().max(1);
        for (i, named) in observation.facts.captured.iter().enumerate() {
            if let Some(set) = kept.get_mut(i / per_set.max(1)) {
                set.insert(named.name.clone(), named.array.read(&dir, ARRAY_CAP_BYTES)?);
            }
        }
        Ok(Outcome::Ran(kept, observation.facts.placement))
    }

    /// Runs a model that must run: for a tool's own steps. `what` names the step.
    pub fn must_run(&mut self, what: &str, trial: &Trial<'_>) -> Result<Vec<Tensors>, StackError> {
        match self.run(trial)? {
            Outcome::Ran(kept, _) => Ok(kept),
            Outcome::Broke(observation) => {
                let (what, recipe) = (what.to_owned(), self.recipe().to_owned());
                Err(StackError::Broke { what, recipe, how: how(&observation) })
            }
        }
    }
}

/// How a trial ended without tensors, in words.
pub fn how(observation: &Observation) -> String {
    let stage = observation.stage;
    match &observation.end {
        End::Finished => format!("it finished, stage {stage}"),
        End::Refused { message } | End::NotStarted { message } => format!("refused at stage {stage}: {message}"),
        End::Died { how, .. } => {
            let last = observation.stderr_tail.last().map_or_else(String::new, |l| format!(", its last words: {l}"));
            format!("the worker died at stage {stage}: {how}{last}")
        }
        End::TimedOut { limit_s, .. } => format!("no end within {limit_s} s at stage {stage}"),
    }
}
