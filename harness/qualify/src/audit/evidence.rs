//! The dynamic part: every library that a worker loaded is the pinned file, and nothing of the host stood in for one.

use super::{Finding, Severity};
use crate::case::any_matches;
use crate::digest;
use crate::evidence::Inputs;
use crate::observation::Observation;
use crate::observation::process::Machine;
use crate::recipe::{Lock, Prefix, RealiseError, Recipe, RecipeError, Resolved, Store};
use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Files that decide numbers or speed: they come from the prefix, or the recipe says that the host may have them.
const DECIDING: [&str; 17] = [
    "libonnxruntime*",
    "libopenvino*",
    "libggml*",
    "libmigraphx*",
    "libroc*",
    "libhip*",
    "libamdhip*",
    "libhsa*",
    "libMIOpen*",
    "libcuda*",
    "libcu[bfrs]*",
    "libcudnn*",
    "libnv*",
    "libstdc++*",
    "libtbb*",
    "libgomp*",
    "libvk*",
];

/// What the workers of one recipe ran on.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The recipe.
    pub recipe: String,
    /// Number of cases whose evidence was read.
    pub cases: usize,
    /// What the library said of its version.
    pub library_version: Option<String>,
    /// Deciding libraries by path.
    pub libraries: BTreeMap<Utf8PathBuf, Loaded>,
    /// The machine.
    pub machine: Option<Machine>,
}

/// A library that was loaded, and what brought it: the version of a provider is that of its artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loaded {
    /// Its SHA-256.
    pub sha256: String,
    /// The artifact's name and version, where the prefix says so.
    pub artifact: Option<String>,
}

/// Audits every evidence folder at or below `folder` against the recipes of `root` and the prefixes of `store`.
pub fn evidence(root: &Utf8Path, store: &Store, folder: &Utf8Path) -> Result<(Vec<Run>, Vec<Finding>), RealiseError> {
    let lock = Lock::load(root)?;
    let mut audit = Audit {
        root,
        lock,
        store,
        runs: BTreeMap::new(),
        resolved: HashMap::new(),
        prefixes: HashMap::new(),
        hashes: HashMap::new(),
        findings: Vec::new(),
    };
    let disk = |why| RealiseError::Disk { action: "read evidence below", path: folder.to_owned(), why };
    for case in cases(folder).map_err(disk)? {
        audit.case(&case)?;
    }
    let Audit { runs, mut findings, .. } = audit;
    findings
        .sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| (&a.file, &a.message).cmp(&(&b.file, &b.message))));
    findings.dedup();
    Ok((runs.into_values().collect(), findings))
}

/// Folders that hold an observation, half-filled ones left out.
fn cases(folder: &Utf8Path) -> std::io::Result<Vec<Utf8PathBuf>> {
    if folder.join("observation.json").is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in folder.read_dir_utf8()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && !entry.file_name().starts_with('.') {
            found.extend(cases(entry.path())?);
        }
    }
    found.sort();
    Ok(found)
}

struct Audit<'a> {
    root: &'a Utf8Path,
    lock: Lock,
    store: &'a Store,
    runs: BTreeMap<String, Run>,
    /// By recipe, as are the prefixes: read once, however many cases ran on it.
    resolved: HashMap<String, Result<Resolved, String>>,
    prefixes: HashMap<String, Option<Rc<Prefix>>>,
    hashes: HashMap<Utf8PathBuf, String>,
    findings: Vec<Finding>,
}

impl Audit<'_> {
    fn case(&mut self, folder: &Utf8Path) -> Result<(), RealiseError> {
        let (inputs, observation) =
            match (read::<Inputs>(folder, "inputs.json"), read::<Observation>(folder, "observation.json")) {
                (Ok(inputs), Ok(observation)) => (inputs, observation),
                (inputs, observation) => {
                    self.findings.extend(inputs.err().into_iter().chain(observation.err()));
                    return Ok(());
                }
            };
        let Some(process) = &observation.facts.process else {
            let message = "the worker left no word of what it loaded, so nothing of it is proven";
            self.findings.push(Finding::new(Severity::Warning, folder, message));
            return Ok(());
        };
        let Some(prefix) = self.prefix(&inputs, folder)? else { return Ok(()) };
        let run = self.runs.entry(inputs.recipe.clone()).or_insert_with(|| Run {
            recipe: inputs.recipe.clone(),
            cases: 0,
            library_version: None,
            libraries: BTreeMap::new(),
            machine: None,
        });
        run.cases += 1;
        let mut differ = |what: &str, pinned: &str, found: &str| {
            if pinned != found {
                self.findings.push(Finding::error(
                    folder,
                    format!("{what}: pinned or seen before is {pinned}, and this case ran on {found}"),
                ));
            }
        };
        if let Some(library) = &observation.facts.library {
            differ("ONNX Runtime's version", prefix.library_version()?, &library.version);
            differ("the ONNX Runtime library", prefix.library()?.as_str(), library.path.as_str());
            run.library_version = Some(library.version.clone());
        }
        let machine = run.machine.get_or_insert_with(|| process.machine.clone());
        differ("the kernel", &machine.kernel, &process.machine.kernel);
        differ(
            "the C library",
            machine.glibc.as_deref().unwrap_or("none"),
            process.machine.glibc.as_deref().unwrap_or("none"),
        );
        differ("the processor", &machine.cpu, &process.machine.cpu);
        differ(
            "the NVIDIA driver",
            machine.nvidia_driver.as_deref().unwrap_or("none"),
            process.machine.nvidia_driver.as_deref().unwrap_or("none"),
        );
        differ("the devices", &machine.devices.join(", "), &process.machine.devices.join(", "));
        differ("the accelerators", &machine.accelerators.join(", "), &process.machine.accelerators.join(", "));
        for path in &process.libraries {
            match judge(path, &prefix, &mut self.hashes) {
                Ok(Some(loaded)) => _ = run.libraries.insert(path.clone(), loaded),
                Ok(None) => {}
                Err(message) => self.findings.push(Finding::error(folder, message)),
            }
        }
        Ok(())
    }

    /// The prefix that the case ran on, if it is still the one that recipe and lock describe.
    fn prefix(&mut self, inputs: &Inputs, folder: &Utf8Path) -> Result<Option<Rc<Prefix>>, RealiseError> {
        let recipe = &inputs.recipe;
        if !self.resolved.contains_key(recipe) {
            self.resolved.insert(recipe.clone(), self.resolve(recipe)?);
        }
        let resolved = match &self.resolved[recipe] {
            Ok(resolved) if resolved.key == inputs.recipe_key => resolved,
            Ok(resolved) => {
                let (now, then) = (&resolved.key[..16], inputs.recipe_key.get(..16).unwrap_or(&inputs.recipe_key));
                let message =
                    format!("recipe `{recipe}` has the key {now} now, and this case ran on {then}: run it again");
                self.findings.push(Finding::error(folder, message));
                return Ok(None);
            }
            Err(refusal) => {
                self.findings.push(Finding::error(folder, refusal.clone()));
                return Ok(None);
            }
        };
        if !self.prefixes.contains_key(recipe) {
            let found = self.store.find(resolved)?.map(Rc::new);
            if found.is_none() {
                let store = self.store.dir();
                let message = format!(
                    "recipe `{recipe}` is not in the store {store}, so the files that ran cannot be held against their record"
                );
                self.findings.push(Finding::error(folder, message));
            }
            self.prefixes.insert(recipe.clone(), found);
        }
        Ok(self.prefixes[recipe].clone())
    }

    /// What recipe and lock say of a recipe; inside, why they say nothing of it, which is a finding on its cases.
    fn resolve(&self, recipe: &str) -> Result<Result<Resolved, String>, RealiseError> {
        match Recipe::load(self.root, recipe).and_then(|r| r.resolve(&self.lock)) {
            Ok(resolved) => Ok(Ok(resolved)),
            Err(e @ (RecipeError::Unknown { .. } | RecipeError::NotLocked { .. })) => Ok(Err(e.to_string())),
            Err(e) => Err(e.into()),
        }
    }
}

/// A deciding library that is as pinned; none for one that decides nothing or that the host may have.
fn judge(
    path: &Utf8Path,
    prefix: &Prefix,
    hashes: &mut HashMap<Utf8PathBuf, String>,
) -> Result<Option<Loaded>, String> {
    let name = path.file_name().unwrap_or_default();
    let Ok(inside) = path.strip_prefix(prefix.tree()) else {
        let deciding = any_matches(&DECIDING.map(str::to_owned), name);
        if !deciding || any_matches(prefix.host_allowed(), name) {
            return Ok(None);
        }
        let stem = name.split(".so").next().unwrap_or(name);
        let named =
            |wanted: &dyn Fn(&str) -> bool| prefix.files.iter().find(|f| f.path.file_name().is_some_and(wanted));
        let own = named(&|n| n == name).or_else(|| named(&|n| n.split(".so").next() == Some(stem)));
        return Err(match own {
            Some(own) => {
                format!("{path} was loaded, and {} of the prefix should have been", prefix.tree().join(&own.path))
            }
            None => format!(
                "{path} was loaded from the host, and neither the prefix has it nor does the recipe's host.allowed name it"
            ),
        });
    };
    let Some(recorded) = prefix.files.iter().find(|f| f.path == inside) else {
        return Err(format!("{path} was loaded, and it is not among the files that were installed"));
    };
    if !hashes.contains_key(path) {
        let (_, sha256) =
            digest::of_file(path).map_err(|e| format!("{path} was loaded and cannot be read any more: {e}"))?;
        hashes.insert(path.to_owned(), sha256);
    }
    match hashes.get(path) {
        Some(found) if *found != recorded.sha256 => {
            Err(format!("{path} has the SHA-256 {found}, and {} was installed", recorded.sha256))
        }
        found => {
            let artifact = recorded.artifact.as_deref().and_then(|name| prefix.artifact(name));
            let artifact = artifact.map(|pinned| format!("{} {}", pinned.name, pinned.version));
            Ok(found.map(|sha256| Loaded { sha256: sha256.clone(), artifact }))
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(folder: &Utf8Path, name: &str) -> Result<T, Finding> {
    let path = folder.join(name);
    let bytes = std::fs::read(&path).map_err(|e| Finding::error(&*path, format!("cannot be read: {e}")))?;
    serde_json::from_slice(&bytes).map_err(|e| Finding::error(&*path, format!("is no evidence of this version: {e}")))
}
