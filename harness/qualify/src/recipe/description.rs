//! The recipe as it is written: one TOML file, one type.

use super::container::Container;
use super::python::Python;
use super::{FOLDER, RecipeError, extend};
use crate::nearest;
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What `${PREFIX}` stands for in `[env]`: the root of the installed files, the same that `library.path` starts from.
pub(super) const PREFIX_VARIABLE: &str = "${PREFIX}";

/// What a recipe is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An ONNX Runtime library and a provider: cases run on it.
    Stack,
    /// A program that this project runs.
    Tool,
    /// Files that are only read.
    Data,
    /// A Python environment: the reference side.
    Python,
}

impl Kind {
    /// The word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            Self::Tool => "tool",
            Self::Data => "data",
            Self::Python => "python",
        }
    }
}

/// One `env-recipes/NAME.toml`. Unknown fields are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The file's name without `.toml`; not a field of the file.
    #[serde(skip_deserializing)]
    pub name: String,
    /// What the recipe is good for.
    pub kind: Kind,
    /// One line for people.
    pub description: String,
    /// The machine it runs on, as `ARCH-OS`.
    pub platform: String,
    /// Which artifacts to install, all without their dependencies.
    pub artifact: Vec<Wanted>,
    /// C++ runtimes that stand before the system's, the best first: the first that the machine's glibc can load is
    /// installed. A resolved recipe has none left (stacks).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlay: Vec<Overlay>,
    /// The ONNX Runtime library to load (stacks).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<Library>,
    /// The execution provider (stacks).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// Session configuration entries of ONNX Runtime (stacks).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub session: BTreeMap<String, String>,
    /// Directories of shared libraries in search order, below the installed files (stacks).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub library_dirs: Vec<Utf8PathBuf>,
    /// Environment variables of the worker; `${PREFIX}` is the root of the installed files (stacks).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables to which the recipe adds, keeping what the caller's environment has (stacks).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub append: BTreeMap<String, Append>,
    /// Variables that the worker must not inherit; a last `*` stands for any rest (stacks).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// What the machine must offer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Cases that the stack is declared unfit for; they are skipped with the reason (stacks).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfit: Vec<Unfit>,
    /// Limits of the worker process (stacks).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<Worker>,
    /// The program (tools).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<Tool>,
    /// The files to read (data).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// The interpreter of a Python environment (Python environments, and stacks in an image).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<Python>,
    /// The image that workers run in (stacks).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
}

/// One `[[artifact]]`: what is wanted. Which file that is, the lock says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// The distribution's name on its index.
    pub name: String,
    /// Exactly this version.
    pub version: String,
    /// Where it comes from, by word: `pypi` is whatever index the user's uv or pip uses.
    pub index: String,
    /// The Python whose tag the file must fit, `MAJOR.MINOR`; none needs to run. Wheels only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// The platform whose tag the file must fit, in uv's words. Wheels only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
}

/// `[[overlay]]`: a C++ runtime to stand before the system's, and the machines on which it loads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// Oldest GNU C library that can load it, `MAJOR.MINOR`.
    pub glibc: String,
    /// Where its libraries are, below the installed files: searched before every other directory.
    pub library_dir: Utf8PathBuf,
    /// The package.
    pub artifact: Wanted,
}

/// `[library]`: the ONNX Runtime library to load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    /// Path below the installed files.
    pub path: Utf8PathBuf,
    /// The version that the loaded library must name.
    pub version: String,
}

/// `[provider]`: the execution provider and its options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Provider by name, such as `cpu`.
    pub name: String,
    /// The library of a plugin provider, below the installed files: registered before the session is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Utf8PathBuf>,
    /// Options, passed as they stand.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// A word added to a variable's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Append {
    /// The word; `${PREFIX}` is the root of the installed files.
    pub value: String,
    /// What stands between it and what is there already.
    pub separator: String,
}

/// `[host]`: what the machine must offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Oldest GNU C library, `MAJOR.MINOR`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
    /// The kind of accelerator that must be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
    /// Libraries that may come from the host though they decide numbers or speed: file names, as globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
}

/// Kinds of accelerator that a machine may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// An AMD GPU with its kernel driver.
    Amd,
    /// An NVIDIA GPU with its kernel driver.
    Nvidia,
}

impl Device {
    /// The file by which the kernel driver shows that it is there.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Amd => "/dev/kfd",
            Self::Nvidia => "/proc/driver/nvidia/version",
        }
    }
}

/// Cases that a recipe is declared unfit for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unfit {
    /// Cases with this tag are skipped.
    pub tag: String,
    /// Why.
    pub reason: String,
}

/// `[worker]`: limits of the worker process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// Address space or memory that a worker may use, MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit_mib: Option<u64>,
}

/// `[tool]`: the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Path below the installed files.
    pub path: Utf8PathBuf,
}

/// `[data]`: the files to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Directory below the installed files.
    pub path: Utf8PathBuf,
}

impl Provider {
    /// The name under which the library registers the provider and writes it into profiles.
    pub fn registered(&self) -> String {
        // A plugin says its own name.
        if self.plugin.is_some() {
            return self.name.clone();
        }
        let stem = match self.name.as_str() {
            "cpu" => "CPU",
            "cuda" => "CUDA",
            "openvino" => "OpenVINO",
            "migraphx" => "MIGraphX",
            "webgpu" => "WebGpu",
            other => other,
        };
        format!("{stem}ExecutionProvider")
    }

    /// Is it the CPU provider, which is there without being asked for?
    pub fn is_cpu(&self) -> bool {
        self.name == "cpu"
    }
}

impl Recipe {
    /// Reads the recipe `name` of the project at `root`. An unknown name is refused with the nearest and all known ones.
    pub fn load(root: &Utf8Path, name: &str) -> Result<Self, RecipeError> {
        // The name is looked up, never joined onto a path unseen.
        let known = names(root)?;
        if !known.iter().any(|n| n == name) {
            return Err(RecipeError::Unknown {
                name: name.to_owned(),
                hint: nearest::hint(name, known.iter().map(String::as_str)),
                folder: root.join(FOLDER),
                known: known.join(", "),
            });
        }
        let path = root.join(FOLDER).join(format!("{name}.toml"));
        let recipe = Self { name: name.to_owned(), ..extend::read(root, name)? };
        recipe.check().map_err(|(field, problem)| RecipeError::Field { path, field, problem })?;
        Ok(recipe)
    }

    /// Everything that it may install: its artifacts, then the packages of its overlays.
    pub fn wants(&self) -> impl Iterator<Item = &Wanted> {
        self.artifact.iter().chain(self.overlay.iter().map(|o| &o.artifact))
    }

    /// Names of the variables that it sets.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let dirs = (!self.library_dirs.is_empty()).then_some("LD_LIBRARY_PATH");
        self.env.keys().chain(self.append.keys()).map(String::as_str).chain(dirs)
    }

    /// Every recipe of the project at `root`, by name.
    pub fn list(root: &Utf8Path) -> Result<Vec<Self>, RecipeError> {
        names(root)?.iter().map(|name| Self::load(root, name)).collect()
    }
}

/// Names of the recipe files, sorted.
pub fn names(root: &Utf8Path) -> Result<Vec<String>, RecipeError> {
    let folder = root.join(FOLDER);
    let entries = folder
        .read_dir_utf8()
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|why| RecipeError::Folder { path: folder.clone(), why })?;
    let mut names: Vec<String> = entries
        .iter()
        .filter(|e| e.path().extension() == Some("toml"))
        .filter_map(|e| e.path().file_stem().map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}
