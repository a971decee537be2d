//! The recipe as it is written: one TOML file, one type.

use super::{FOLDER, RecipeError, host};
use crate::{nearest, toml_file};
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
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
}

impl Kind {
    /// The word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            Self::Tool => "tool",
            Self::Data => "data",
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
    /// What the machine must offer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Limits of the worker process (stacks).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<Worker>,
    /// The program (tools).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<Tool>,
    /// The files to read (data).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
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
    /// The Python whose tag the file must fit, `MAJOR.MINOR`; none needs to run.
    pub python: String,
    /// The platform whose tag the file must fit, in uv's words.
    pub platform: String,
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
    /// Options, passed as they stand.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// `[host]`: what the machine must offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Oldest GNU C library, `MAJOR.MINOR`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
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
        let recipe = Self { name: name.to_owned(), ..toml_file::read(&path)? };
        recipe.check().map_err(|(field, problem)| RecipeError::Field { path, field, problem })?;
        Ok(recipe)
    }

    /// Every recipe of the project at `root`, by name.
    pub fn list(root: &Utf8Path) -> Result<Vec<Self>, RecipeError> {
        names(root)?.iter().map(|name| Self::load(root, name)).collect()
    }

    /// What the types cannot say: which tables a kind has, and which texts are sane. Gives field and problem.
    fn check(&self) -> Result<(), (String, String)> {
        let fail = |field: &str, problem: String| Err((field.to_owned(), problem));
        let tables = [
            ("library", self.library.is_some(), Kind::Stack),
            ("provider", self.provider.is_some(), Kind::Stack),
            ("tool", self.tool.is_some(), Kind::Tool),
            ("data", self.data.is_some(), Kind::Data),
        ];
        for (table, present, kind) in tables {
            match (present, kind == self.kind) {
                (false, true) => return fail(table, format!("a recipe of kind `{}` needs this table", kind.word())),
                (true, false) => return fail(table, format!("only recipes of kind `{}` have it", kind.word())),
                _ => {}
            }
        }
        if self.artifact.is_empty() {
            return fail("artifact", "a recipe installs at least one artifact".to_owned());
        }
        for (i, wanted) in self.artifact.iter().enumerate() {
            wanted.check().map_err(|(field, problem)| (format!("artifact[{i}].{field}"), problem))?;
            if self.artifact[..i].iter().any(|other| other.name == wanted.name) {
                return fail(&format!("artifact[{i}].name"), format!("`{}` is named twice", wanted.name));
            }
        }
        let paths = [
            ("library.path", self.library.as_ref().map(|t| &t.path)),
            ("tool.path", self.tool.as_ref().map(|t| &t.path)),
            ("data.path", self.data.as_ref().map(|t| &t.path)),
        ];
        let dirs = self.library_dirs.iter().map(|dir| ("library_dirs", Some(dir)));
        for (field, path) in paths.into_iter().chain(dirs) {
            if let Some(path) = path.filter(|p| !stays_inside(p)) {
                return fail(
                    field,
                    format!("`{path}` must be a relative path below the installed files, without `..`"),
                );
            }
        }
        if self.env.contains_key("LD_LIBRARY_PATH") {
            return fail("env.LD_LIBRARY_PATH", "name the directories in `library_dirs` instead".to_owned());
        }
        if let Some((name, value)) = self.env.iter().find(|(_, v)| v.replace(PREFIX_VARIABLE, "").contains("${")) {
            return fail(&format!("env.{name}"), format!("`{value}`: only {PREFIX_VARIABLE} is known here"));
        }
        if let Some(text) = self.host.as_ref().and_then(|h| h.glibc.as_ref()).filter(|t| host::version(t).is_none()) {
            return fail("host.glibc", format!("`{text}` is not a version such as \"2.28\""));
        }
        Ok(())
    }
}

impl Wanted {
    /// Texts end on the command line of uv and in its requirements file: only plain words pass. Gives field and problem.
    fn check(&self) -> Result<(), (&'static str, String)> {
        for (field, text) in [("name", &self.name), ("version", &self.version), ("platform", &self.platform)] {
            let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
            if !starts_well || !text.chars().all(|c| c.is_ascii_alphanumeric() || "._-+".contains(c)) {
                return Err((field, format!("`{text}` must be letters, digits and `._-+`, a letter or digit first")));
            }
        }
        if host::version(&self.python).is_none() {
            return Err(("python", format!("`{}` is not a version such as \"3.12\"", self.python)));
        }
        if self.index != "pypi" {
            return Err(("index", format!("`{}` is not known; known are: pypi", self.index)));
        }
        Ok(())
    }
}

/// Is `path` relative, not empty and free of `..`?
pub(super) fn stays_inside(path: &Utf8Path) -> bool {
    !path.as_str().is_empty() && path.components().all(|c| matches!(c, Utf8Component::Normal(_)))
}

/// Names of the recipe files, sorted.
fn names(root: &Utf8Path) -> Result<Vec<String>, RecipeError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: &str = include_str!("../../../../env-recipes/cpu.toml");

    fn problem_after(find: &str, replace: &str) -> String {
        assert!(CPU.contains(find), "the recipe no longer holds `{find}`");
        let recipe: Recipe = toml_file::parse("cpu.toml".into(), &CPU.replace(find, replace)).unwrap();
        recipe.check().map_or_else(|(field, problem)| format!("{field}: {problem}"), |()| "accepted".to_owned())
    }

    #[test]
    fn what_the_types_cannot_refuse_is_refused_by_field() {
        for (find, replace, told) in [
            ("[provider]\nname = \"cpu\"", "", "provider: a recipe of kind `stack` needs this table"),
            ("kind = \"stack\"", "kind = \"tool\"", "library: only recipes of kind `stack` have it"),
            (
                "\"onnxruntime/capi/",
                "\"../capi/",
                "library.path: `../capi/libonnxruntime.so.1.32.0` must be a relative",
            ),
            ("\"onnxruntime/capi/", "\"/capi/", "library.path: `/capi/libonnxruntime.so.1.32.0` must be a relative"),
            ("[host]", "[env]\nX = \"${HOME}/x\"\n[host]", "env.X: `${HOME}/x`: only ${PREFIX} is known"),
            ("[host]", "[env]\nLD_LIBRARY_PATH = \"x\"\n[host]", "env.LD_LIBRARY_PATH: name the directories in"),
            ("index = \"pypi\"", "index = \"pipy\"", "artifact[0].index: `pipy` is not known; known are: pypi"),
            ("name = \"onnxruntime\"", "name = \"-r evil\"", "artifact[0].name: `-r evil` must be"),
            ("python = \"3.12\"", "python = \"three\"", "artifact[0].python: `three` is not a version"),
            ("glibc = \"2.28\"", "glibc = \"new\"", "host.glibc: `new` is not a version"),
        ] {
            let found = problem_after(find, replace);
            assert!(found.starts_with(told), "{found}");
        }
        assert_eq!(problem_after("cpu\"", "cpu\""), "accepted");
    }
}
