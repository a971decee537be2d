//! Running cases on a recipe: prefix and bundle in, worker in the middle, verdict and evidence out.

mod pool;
mod seat;

pub use pool::{Late, Progress, run_all};
pub use seat::Seat;

use crate::bundle::{Bundle, BundleError, FileRecord, OpenOptions};
use crate::case::{Case, Fallback, SourceKind};
use crate::digest;
use crate::evidence::{self, EvidenceError, Inputs};
use crate::observation::{End, FORMAT, Facts, Observation, Stage};
use crate::recipe::{Lock, Prefix, RealiseError, RealiseOptions, Recipe, RecipeError, Resolved, Store};
use crate::verdict::{self, Judged};
use crate::worker::launch::{Launch, LaunchError};
use crate::worker::{NamedArray, OutputRequest, Provider, Request};
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The largest array that a worker reads, in bytes: beyond any case's need, below what would exhaust a machine.
const ARRAY_CAP_BYTES: u64 = 8 << 30;

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
    /// The recipe is no stack that cases can run on.
    #[error("recipe `{recipe}` is no stack: it has no [library] and no [provider] to run cases on")]
    NoStack {
        /// Its name.
        recipe: String,
    },
    /// The worker cannot be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Evidence cannot be written.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
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
            Self::Recipe(_) | Self::NoStack { .. } => false,
            Self::Realise(e) => e.is_environment(),
            Self::Launch(_) | Self::Evidence(_) | Self::Program { .. } => true,
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

/// A bundle with its files' hashes, opened once for all its cases.
type Opened = Arc<Result<(Bundle, Vec<FileRecord>), BundleError>>;

/// A recipe made ready, against which cases are qualified from any number of threads.
#[derive(Debug)]
pub struct Qualification {
    settings: Settings,
    recipe: Recipe,
    resolved: Resolved,
    lock: Lock,
    store: Store,
    evidence: evidence::Store,
    binary_sha256: String,
    prefix: OnceLock<Prefix>,
    /// Held while prefixes are realised, so that it happens once.
    realising: Mutex<HashMap<String, Prefix>>,
    bundles: Mutex<HashMap<(Utf8PathBuf, Option<String>), Opened>>,
}

impl Qualification {
    /// Reads recipe and lock. Nothing is fetched before the first case needs it.
    pub fn new(settings: Settings) -> Result<Self, RunError> {
        let recipe = Recipe::load(&settings.root, &settings.recipe)?;
        let lock = Lock::load(&settings.root)?;
        let resolved = recipe.resolve(&lock)?;
        if recipe.library.is_none() || recipe.provider.is_none() {
            return Err(RunError::NoStack { recipe: settings.recipe });
        }
        let store = Store::locate(settings.store.as_deref())?;
        let (_, binary_sha256) = digest::of_file(&settings.program)
            .map_err(|source| RunError::Program { path: settings.program.clone(), source })?;
        Ok(Self {
            evidence: evidence::Store::new(settings.evidence.clone()),
            settings,
            recipe,
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

    /// Why a case cannot run on this machine, if it cannot.
    pub fn skip_reason(&self, case: &Case) -> Option<String> {
        skip_reason(case, self.settings.bundles.as_deref())
    }

    /// Qualifies one case: runs it in `seat`'s worker or in one of its own, judges it, writes its evidence.
    pub fn qualify(&self, case: &Case, seat: &mut Seat) -> Result<CaseResult, RunError> {
        if let Some(reason) = self.skip_reason(case) {
            let judged = verdict::skipped(reason);
            return Ok(CaseResult { case: case.clone(), judged, observation: None, evidence: None, kept: false });
        }
        let dir = self.bundle_dir(case)?;
        let opened = self.open(case, &dir);
        let (bundle, files) = match &*opened {
            Ok((bundle, files)) => (Some(bundle), files.as_slice()),
            Err(_) => (None, &[][..]),
        };
        let files = files.iter().map(|f| (f.path.clone(), f.sha256.clone())).collect();
        let inputs = Inputs::new(&self.binary_sha256, &self.settings.recipe, &self.resolved.key, case, files);
        if !self.settings.rerun
            && let Some(kept) = self.evidence.kept(&case.name, &inputs)
        {
            return Ok(CaseResult {
                case: case.clone(),
                judged: kept.judged,
                observation: Some(kept.observation),
                evidence: Some(self.evidence.place(&self.settings.recipe, &case.name)),
                kept: true,
            });
        }
        let draft = self.evidence.draft(&self.settings.recipe, &case.name)?;
        let request = match (bundle, &*opened) {
            (Some(bundle), _) => self.request(case, bundle, draft.path()),
            (None, Err(e)) => Err(e.to_string()),
            (None, Ok(_)) => unreachable!("a bundle is there when it was opened"),
        };
        let (observation, request, exit) = match request {
            Ok(request) => {
                let launch = self.launch()?;
                let (observation, exit) = seat.replay(case, &request, &launch)?;
                (observation, Some(request), exit)
            }
            // What is wrong with a bundle is a verdict on its cases, not the end of the run.
            Err(message) => (refused(message), None, "no worker was started".to_owned()),
        };
        let judged = verdict::judge(case, &self.settings.recipe, &observation);
        let place = draft.finish(&inputs, request.as_ref(), &observation, &judged, &exit)?;
        Ok(CaseResult {
            case: case.clone(),
            judged,
            observation: Some(observation),
            evidence: Some(place),
            kept: false,
        })
    }

    /// The recipe's prefix, realised and verified on the first call.
    pub fn prefix(&self) -> Result<&Prefix, RunError> {
        if let Some(prefix) = self.prefix.get() {
            return Ok(prefix);
        }
        let prefix = self.realise(&self.settings.recipe, &self.resolved)?;
        Ok(self.prefix.get_or_init(|| prefix))
    }

    fn realise(&self, name: &str, resolved: &Resolved) -> Result<Prefix, RunError> {
        let mut realised = self.realising.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prefix) = realised.get(name) {
            return Ok(prefix.clone());
        }
        let options = RealiseOptions { offline: self.settings.offline, ..RealiseOptions::default() };
        let prefix = self.store.realise(resolved, &options)?;
        // A file that changed in the store is noticed before anything is loaded from it.
        prefix.verify()?;
        realised.insert(name.to_owned(), prefix.clone());
        Ok(prefix)
    }

    fn launch(&self) -> Result<Launch, RunError> {
        Ok(Launch {
            program: self.settings.program.clone(),
            prefix: Vec::new(),
            env: self.prefix()?.env(),
            memory_limit_mib: self.recipe.worker.memory_limit_mib,
        })
    }

    fn bundle_dir(&self, case: &Case) -> Result<Utf8PathBuf, RunError> {
        let source = match &case.source {
            SourceKind::Folder(path) => self.settings.root.join(path),
            SourceKind::External { .. } => self.settings.bundles.clone().unwrap_or_default(),
            SourceKind::Recipe { name, path } => {
                let recipe = Recipe::load(&self.settings.root, name)?;
                let resolved = recipe.resolve(&self.lock)?;
                self.realise(name, &resolved)?.tree().join(path)
            }
        };
        Ok(source.join(&case.bundle))
    }

    fn open(&self, case: &Case, dir: &Utf8Path) -> Opened {
        let key = (dir.to_owned(), case.model.clone());
        let mut bundles = self.bundles.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(bundles.entry(key).or_insert_with(|| {
            let options = OpenOptions { model: case.model.clone().map(Into::into), ..OpenOptions::default() };
            Arc::new(Bundle::open_with(dir, &options).and_then(|bundle| {
                let files = bundle.check_files()?;
                Ok((bundle, files))
            }))
        }))
    }

    fn request(&self, case: &Case, bundle: &Bundle, logs: &Utf8Path) -> Result<Request, String> {
        check_pins(case, bundle)?;
        let replayed = bundle.case(&case.batch).map_err(|e| e.to_string())?;
        let (Some(library), Some(provider)) = (&self.recipe.library, &self.recipe.provider) else {
            return Err("the recipe is no stack".to_owned());
        };
        let prefix = self.prefix.get().ok_or("the recipe is not realised yet")?;
        let own = replayed.probes.iter().map(|p| NamedArray { name: p.tensor.clone(), array: p.array.clone() });
        let added = case.probes.iter().map(|p| NamedArray { name: p.tensor.clone(), array: p.array.clone() });
        let outputs = replayed.outputs.iter().map(|output| OutputRequest {
            name: output.name.clone(),
            reference: output.array.clone(),
            baseline: output.baseline.clone(),
            mask_axes: bundle.mask_axes(&output.name),
            measure: case.output_limits.get(&output.name).unwrap_or(&case.limits).measure(),
        });
        let inputs = replayed.inputs.iter().map(|i| NamedArray { name: i.name.clone(), array: i.array.clone() });
        Ok(Request {
            case: case.name.clone(),
            library: prefix.library(),
            library_version: library.version.clone(),
            provider: Provider { name: provider.name.clone(), options: provider.options.clone() },
            session: self.recipe.session.clone(),
            threads: self.settings.threads,
            fallback_allowed: case.fallback == Fallback::Allowed,
            dir: bundle.dir.clone(),
            model: bundle.dir.join(&bundle.model),
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            mask: bundle.mask_array(replayed),
            probes: own.chain(added).collect(),
            logs: logs.to_owned(),
            array_cap_bytes: ARRAY_CAP_BYTES,
            fault: self.settings.fault,
        })
    }
}

/// Why a case cannot run where `bundles` is the folder of external bundles, if it cannot.
pub fn skip_reason(case: &Case, bundles: Option<&Utf8Path>) -> Option<String> {
    let SourceKind::External { about } = &case.source else { return None };
    match bundles {
        None => Some(format!("{about}: name their folder with --bundles or ORT_QUALIFY_BUNDLES")),
        Some(folder) if !folder.join(&case.bundle).is_dir() => Some(format!("{about}: {folder} has no {}", case.bundle)),
        Some(_) => None,
    }
}

/// A bundle whose files are not what the case file pins is refused, naming file and both hashes.
fn check_pins(case: &Case, bundle: &Bundle) -> Result<(), String> {
    for (path, pinned) in &case.pins {
        let file = bundle.dir.join(path);
        let (_, found) = digest::of_file(&file).map_err(|e| format!("cannot read {file}: {e}"))?;
        if found != *pinned {
            return Err(format!("{file}: sha256 is {found}, and {} pins {pinned}", case.file));
        }
    }
    Ok(())
}

fn refused(message: String) -> Observation {
    Observation {
        format: FORMAT,
        stage: Stage::Load,
        end: End::Refused { message },
        facts: Facts::default(),
        stderr_tail: Vec::new(),
        elapsed_ms: 0.0,
    }
}
