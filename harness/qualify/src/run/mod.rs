//! Running cases on a recipe: prefix and bundle in, worker in the middle, verdict and evidence out.

mod pool;
mod prepare;
mod seat;

pub use pool::{Late, Progress, run_all};
pub use seat::Seat;

use prepare::{Opened, Prepared};

use crate::bundle::array::DEFAULT_CAP_BYTES;
use crate::bundle::{BundleError, OpenOptions};
use crate::case::{Case, Fallback, SourceKind};
use crate::digest;
use crate::evidence::{self, EvidenceError, Inputs};
use crate::observation::{End, FORMAT, Facts, Observation, Stage};
use crate::recipe::{
    HostMismatch, Kind, Lock, Options, Prefix, Progress as Fetching, RealiseError, Recipe, RecipeError, Resolved, Store,
};
use crate::verdict::{self, Judged};
use crate::worker::launch::{Launch, LaunchError};
use crate::worker::{Capture, Request};
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What a run needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The project's root, which holds `env-recipes` and `golden`.
    pub root: Utf8PathBuf,
    /// The recipe to qualify on.
    pub recipe: String,
    /// The folder of external bundles, if there is one.
    pub bundles: Option<Utf8PathBuf>,
    /// Where realised recipes are kept; `None` for the user's cache.
    pub store: Option<Utf8PathBuf>,
    /// Where evidence goes.
    pub evidence: Utf8PathBuf,
    /// The `ort-qualify` binary, which is also the worker.
    pub program: Utf8PathBuf,
    /// Use no network.
    pub offline: bool,
    /// Run cases again that finished with unchanged inputs.
    pub rerun: bool,
    /// Threads inside an operator; 0 leaves it to the library.
    pub threads: usize,
    /// Show no progress while fetching.
    pub quiet: bool,
    /// A fault that every worker commits, for tests of the harness itself.
    pub fault: Option<crate::worker::fault::Fault>,
}

/// A run that cannot go on. A case that goes wrong is a verdict, not one of these.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The recipe or the lock is wrong.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The recipe cannot be realised.
    #[error(transparent)]
    Realise(#[from] RealiseError),
    /// The worker cannot be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Evidence cannot be written.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// A fault of this program.
    #[error(
        "case `{case}` came to no result: a thread of this program panicked (its message stands above); please report it"
    )]
    Lost {
        /// The first such case.
        case: String,
    },
    /// This program's own file cannot be read.
    #[error("cannot read the program's own file {path} to record its hash: {source}")]
    Program {
        /// Which file.
        path: Utf8PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl RunError {
    /// Is it the environment that could not be had (exit code 3), rather than a wrong request (2)?
    pub fn is_environment(&self) -> bool {
        match self {
            Self::Recipe(_) => false,
            Self::Realise(e) => e.is_environment(),
            Self::Launch(_) | Self::Evidence(_) | Self::Lost { .. } | Self::Program { .. } => true,
        }
    }
}

/// What became of a case.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// The case.
    pub case: Case,
    /// How it was judged.
    pub judged: Judged,
    /// What was seen; `None` for a skipped case.
    pub observation: Option<Observation>,
    /// Where its evidence lies; `None` for a skipped case.
    pub evidence: Option<Utf8PathBuf>,
    /// Was it found finished from an earlier run?
    pub kept: bool,
}

impl CaseResult {
    fn new(case: &Case, judged: Judged, observation: Observation, evidence: Utf8PathBuf, kept: bool) -> Self {
        Self { case: case.clone(), judged, observation: Some(observation), evidence: Some(evidence), kept }
    }
}

/// A bundle's folder and the model in it, where the case names one.
type BundleKey = (Utf8PathBuf, Option<String>);

/// A recipe made ready, against which cases are qualified from any number of threads.
#[derive(Debug)]
pub struct Qualification {
    settings: Settings,
    resolved: Resolved,
    /// Why the recipe cannot exist on this machine, if it cannot; asked once, since the answer takes reading a library.
    host: Option<HostMismatch>,
    lock: Lock,
    store: Store,
    evidence: evidence::Store,
    binary_sha256: String,
    prefix: OnceLock<Arc<Prefix>>,
    /// Held while prefixes are realised, so that it happens once.
    realising: Mutex<HashMap<String, Arc<Prefix>>>,
    bundles: Mutex<HashMap<BundleKey, Arc<Result<Opened, BundleError>>>>,
}

impl Qualification {
    /// Reads recipe and lock. Nothing is fetched before the first case needs it.
    pub fn new(settings: Settings) -> Result<Self, RunError> {
        let recipe = Recipe::load(&settings.root, &settings.recipe)?;
        if recipe.kind != Kind::Stack {
            let (kind, wanted) = (recipe.kind.word(), Kind::Stack.word());
            return Err(RecipeError::WrongKind { recipe: settings.recipe, kind, wanted }.into());
        }
        let lock = Lock::load(&settings.root)?;
        let resolved = recipe.resolve(&lock)?;
        let store = Store::locate(settings.store.as_deref())?;
        let (_, binary_sha256) = digest::of_file(&settings.program)
            .map_err(|source| RunError::Program { path: settings.program.clone(), source })?;
        let evidence = evidence::Store::new(settings.evidence.clone());
        evidence.sweep(&settings.recipe);
        Ok(Self {
            evidence,
            settings,
            host: resolved.recipe.check_host().err(),
            resolved,
            lock,
            store,
            binary_sha256,
            prefix: OnceLock::new(),
            realising: Mutex::default(),
            bundles: Mutex::default(),
        })
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Why the recipe cannot exist on this machine, if it cannot.
    pub fn host_mismatch(&self) -> Option<&HostMismatch> {
        self.host.as_ref()
    }

    /// Why a case cannot run on this machine, if it cannot.
    pub fn skip_reason(&self, case: &Case) -> Option<String> {
        let host = self.host.as_ref().map(ToString::to_string);
        host.or_else(|| unfit(&self.resolved.recipe, case))
            .or_else(|| skip_reason(case, self.settings.bundles.as_deref()))
    }

    /// Qualifies one case: runs it in `seat`'s worker or in one of its own, judges it, writes its evidence.
    pub fn qualify(&self, case: &Case, seat: &mut Seat) -> Result<CaseResult, RunError> {
        if let Some(reason) = self.skip_reason(case) {
            let judged = verdict::skipped(reason);
            return Ok(CaseResult { case: case.clone(), judged, observation: None, evidence: None, kept: false });
        }
        let opened = self.open(case, &self.bundle_dir(case)?);
        let bundle = opened.as_ref().as_ref().map_err(ToString::to_string);
        // What is wrong with a bundle is a verdict on its cases, not the end of the run.
        let prepared = bundle.and_then(|opened| Prepared::new(case, opened));
        let (recipe, place) = (&self.settings.recipe, self.evidence.place(&self.settings.recipe, &case.name));
        let files = prepared.as_ref().map_or_else(|_| Vec::new(), |p| p.files.clone());
        let inputs = Inputs::new(&self.binary_sha256, recipe, &self.resolved.key, case, files);
        let kept = if self.settings.rerun { None } else { self.evidence.kept(&case.name, &inputs) };
        if let (Ok(prepared), Some(observation)) = (&prepared, kept) {
            // Judged again: the observation is what was seen, the verdict only what was made of it.
            let judged = verdict::judge(&prepared.case, &self.resolved.recipe, &observation);
            return Ok(CaseResult::new(case, judged, observation, place, true));
        }
        let draft = self.evidence.draft(recipe, &case.name)?;
        let request = match &prepared {
            Ok(prepared) => Ok(self.request(prepared, draft.path())?),
            Err(message) => Err(message.clone()),
        };
        let (observation, exit) = match &request {
            Ok(request) => seat.replay(case, request, &self.launch()?)?,
            Err(message) => (not_started(message.clone()), "no worker was started".to_owned()),
        };
        let case = prepared.as_ref().map_or(case, |p| &p.case);
        let judged = verdict::judge(case, &self.resolved.recipe, &observation);
        let place = draft.finish(&inputs, request.as_ref().ok(), &observation, &judged, &exit)?;
        Ok(CaseResult::new(case, judged, observation, place, false))
    }

    /// The recipe's prefix, realised and verified on the first call.
    pub fn prefix(&self) -> Result<&Arc<Prefix>, RunError> {
        if let Some(prefix) = self.prefix.get() {
            return Ok(prefix);
        }
        let prefix = self.realise(&self.settings.recipe, &self.resolved)?;
        prefix.check_options()?;
        Ok(self.prefix.get_or_init(|| prefix))
    }

    fn realise(&self, name: &str, resolved: &Resolved) -> Result<Arc<Prefix>, RunError> {
        let mut realised = self.realising.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prefix) = realised.get(name) {
            return Ok(Arc::clone(prefix));
        }
        let options = Options { offline: self.settings.offline, ..Options::new(&self.settings.root) };
        let progress = if self.settings.quiet { Fetching::silent() } else { Fetching::to_stderr() };
        let prefix = Arc::new(self.store.realise(resolved, &options, &progress)?);
        // A file that changed in the store is noticed before anything is loaded from it.
        prefix.verify(&progress)?;
        realised.insert(name.to_owned(), Arc::clone(&prefix));
        Ok(prefix)
    }

    /// How workers of the recipe are started.
    pub(crate) fn launch(&self) -> Result<Launch, RunError> {
        let prefix = self.prefix()?;
        let Settings { program, root, evidence, bundles, .. } = &self.settings;
        // What a worker reads and writes; a container shows it nothing else.
        let folders = [program.parent(), Some(root), Some(evidence), bundles.as_deref()];
        let folders: Vec<&Utf8Path> = folders.into_iter().flatten().collect();
        Ok(Launch {
            program: program.clone(),
            prefix: prefix.command_words(&folders),
            env: prefix.env(|name| std::env::var(name).ok()),
            unset: prefix.unset(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())),
            memory_limit_mib: prefix.memory_limit_mib(),
        })
    }

    fn bundle_dir(&self, case: &Case) -> Result<Utf8PathBuf, RunError> {
        let source = match &case.source {
            SourceKind::Folder(path) => self.settings.root.join(path),
            SourceKind::External { .. } => self.settings.bundles.clone().unwrap_or_default(),
            SourceKind::Recipe(name) => {
                let recipe = Recipe::load(&self.settings.root, name)?;
                let resolved = recipe.resolve(&self.lock)?;
                self.realise(name, &resolved)?.data()?
            }
        };
        Ok(source.join(&case.bundle))
    }

    fn open(&self, case: &Case, dir: &Utf8Path) -> Arc<Result<Opened, BundleError>> {
        let key = (dir.to_owned(), case.model.clone());
        let mut bundles = self.bundles.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(bundles.entry(key).or_insert_with(|| {
            let options = OpenOptions { model: case.model.clone().map(Into::into), ..OpenOptions::default() };
            Arc::new(Opened::new(dir, &options))
        }))
    }

    /// What the worker is told.
    fn request(&self, prepared: &Prepared<'_>, logs: &Utf8Path) -> Result<Request, RunError> {
        let prefix = self.prefix()?;
        let Prepared { case, bundle, replayed, .. } = prepared;
        Ok(Request {
            case: case.name.clone(),
            library: prefix.library()?,
            library_version: prefix.library_version()?.to_owned(),
            provider: prefix.provider()?.clone(),
            plugin: prefix.plugin(),
            session: prefix.session().clone(),
            threads: self.settings.threads,
            fallback_allowed: case.fallback == Fallback::Allowed,
            dir: bundle.dir.clone(),
            model: bundle.model_path(),
            inputs: replayed.inputs.clone(),
            outputs: prepared.outputs.clone(),
            mask: prepared.mask.clone(),
            probes: replayed.probes.iter().chain(&case.probes).cloned().collect(),
            logs: logs.to_owned(),
            array_cap_bytes: DEFAULT_CAP_BYTES,
            capture: None,
            fault: self.settings.fault,
        })
    }

    /// What a worker is told that keeps tensors of a model instead of judging a case. Paths are absolute.
    pub(crate) fn capture_request(
        &self,
        model: &Utf8Path,
        dir: &Utf8Path,
        capture: Capture,
    ) -> Result<Request, RunError> {
        let prefix = self.prefix()?;
        Ok(Request {
            case: String::new(),
            library: prefix.library()?,
            library_version: prefix.library_version()?.to_owned(),
            provider: prefix.provider()?.clone(),
            plugin: prefix.plugin(),
            session: prefix.session().clone(),
            threads: self.settings.threads,
            fallback_allowed: true,
            dir: dir.to_owned(),
            model: model.to_owned(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            mask: None,
            probes: Vec::new(),
            logs: dir.to_owned(),
            array_cap_bytes: DEFAULT_CAP_BYTES,
            capture: Some(capture),
            fault: self.settings.fault,
        })
    }
}

/// Why a recipe is declared unfit for a case, if it is.
pub fn unfit(recipe: &Recipe, case: &Case) -> Option<String> {
    let unfit = recipe.unfit.iter().find(|unfit| case.tags.contains(&unfit.tag))?;
    Some(format!("recipe `{}` is declared unfit for `{}`: {}", recipe.name, unfit.tag, unfit.reason))
}

/// Why a case cannot run where `bundles` is the folder of external bundles, if it cannot.
pub fn skip_reason(case: &Case, bundles: Option<&Utf8Path>) -> Option<String> {
    let SourceKind::External { about } = &case.source else { return None };
    match bundles {
        None => Some(format!("{about}: name their folder with --bundles or ORT_QUALIFY_BUNDLES")),
        Some(folder) if !folder.join(&case.bundle).is_dir() => {
            Some(format!("{about}: {folder} has no {}", case.bundle))
        }
        Some(_) => None,
    }
}

fn not_started(message: String) -> Observation {
    Observation {
        format: FORMAT,
        stage: Stage::Load,
        end: End::NotStarted { message },
        facts: Facts::default(),
        stderr_tail: Vec::new(),
        elapsed_ms: 0.0,
    }
}
