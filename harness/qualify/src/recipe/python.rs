//! Python environments: made by the pinned uv from the pins, as a relocatable virtual environment with all its packages.
//!
//! Inside an image they are made by uv too, for the image's own Python, and a `.pth` file lets them see the image's packages.

use super::installer::{self, Installer};
use super::{Cause, Options, RealiseError, Resolved, index};
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::Output;
use xshell::cmd;

/// The file that lets an environment see an image's packages.
const PATH_FILE: &str = "image.pth";

/// Says what an interpreter is: one line of JSON. `distributions` are those of its own folders, not of a `.pth` file's.
const TELL: &str = "import json, platform, site, sys
from importlib.metadata import distributions
own = site.getsitepackages()
print(json.dumps({
    'executable': sys.executable,
    'base': getattr(sys, '_base_executable', sys.executable),
    'version': platform.python_version(),
    'folders': own,
    'packages': {d.metadata['Name']: d.version for d in distributions(path=own)},
}))";

/// `[python]`: the interpreter that an environment is made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Python {
    /// Its version, `MAJOR.MINOR`; which of the machine's (or image's) interpreters that is, `prefix.json` says.
    pub version: String,
}

/// A Python environment as it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// The machine's (or image's) interpreter that it was made for.
    pub interpreter: Utf8PathBuf,
    /// Its whole version.
    pub version: String,
    /// The environment's packages and their versions.
    pub packages: BTreeMap<String, String>,
    /// The packages of the image that it sees.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub image_packages: BTreeMap<String, String>,
}

/// What [`TELL`] says.
#[derive(Deserialize)]
struct Told {
    executable: Utf8PathBuf,
    base: Utf8PathBuf,
    version: String,
    folders: Vec<Utf8PathBuf>,
    packages: BTreeMap<String, String>,
}

impl Python {
    /// Where packages are, below the environment.
    pub(super) fn packages_dir(&self) -> Utf8PathBuf {
        format!("lib/python{}/site-packages", self.version).into()
    }
}

/// May this file of an environment be a link that leads out of it? Its interpreter is the machine's.
pub(super) fn is_interpreter(path: &Utf8Path) -> bool {
    path.parent().is_some_and(|folder| folder == "bin") && path.file_name().is_some_and(|n| n.starts_with("python"))
}

/// Makes the environment `tree` of a recipe that has a `[python]` table. `dir` is the entry, which keeps the requirements.
pub(super) fn make(
    uv: &Uv<'_>,
    options: &Options,
    resolved: &Resolved,
    python: &Python,
    dir: &Utf8Path,
    tree: &Utf8Path,
) -> Result<Environment, RealiseError> {
    let container = resolved.recipe.container.as_ref();
    let folders = [dir.parent(), uv.program.parent()];
    let folders: Vec<&Utf8Path> = folders.into_iter().flatten().collect();
    let place = Place { options, resolved, inside: container.map_or_else(Vec::new, |c| c.words(&folders)) };
    let requirements = dir.join("requirements.txt");
    let lines: String = resolved.artifacts.iter().map(installer::requirement).collect();
    installer::write(&requirements, &lines)?;

    let image = container.map(|_| place.tell("python3".into())).transpose()?;
    if let Some(image) = image.as_ref().filter(|image| !is_of(&image.version, &python.version)) {
        let (found, wanted) = (&image.version, &python.version);
        return Err(RealiseError::Container {
            recipe: resolved.recipe.name.clone(),
            problem: format!("its python3 is {found} ({}), and the recipe is for {wanted}", image.executable),
        });
    }
    let wanted = image.as_ref().map_or(python.version.as_str(), |image| image.executable.as_str());
    place.uv(uv, &["venv", "--relocatable", "--no-project", "--python", wanted, tree.as_str()])?;
    let own = tree.join("bin/python");
    let sync =
        ["pip", "sync", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy", "--compile-bytecode"];
    place.uv(uv, &[&sync[..], &["--python", own.as_str(), requirements.as_str()]].concat())?;
    if let Some(image) = &image {
        let folders: Vec<&str> = image.folders.iter().map(|folder| folder.as_str()).collect();
        installer::write(&tree.join(python.packages_dir()).join(PATH_FILE), &(folders.join("\n") + "\n"))?;
    } else {
        // Not where an image adds packages: uv does not see those, and would miss them.
        place.uv(uv, &["pip", "check", "--python", own.as_str()])?;
    }
    let made = place.tell(&own)?;
    Ok(Environment {
        interpreter: made.base,
        version: made.version,
        packages: made.packages,
        image_packages: image.map(|image| image.packages).unwrap_or_default(),
    })
}

/// The pinned uv.
pub(super) struct Uv<'a> {
    /// How its failures are told.
    pub installer: &'a Installer,
    /// The binary.
    pub program: &'a Utf8Path,
}

/// Where commands run: on this machine, or inside an image.
struct Place<'a> {
    options: &'a Options,
    resolved: &'a Resolved,
    /// The words before a command; none on this machine.
    inside: Vec<String>,
}

impl Place<'_> {
    fn run(&self, words: &[&str], variables: &[(&str, &str)]) -> Result<Output, String> {
        let words: Vec<&str> = self.inside.iter().map(String::as_str).chain(words.iter().copied()).collect();
        let (program, rest) = words.split_first().ok_or("there is nothing to run")?;
        installer::run(self.options, |shell| cmd!(shell, "{program} {rest...}").envs(variables.iter().copied()))
    }

    fn uv(&self, uv: &Uv<'_>, words: &[&str]) -> Result<(), RealiseError> {
        let offline = if self.options.offline { &["--offline"][..] } else { &[] };
        let index = index::from_pip(self.options);
        let variables: Vec<(&str, &str)> = index.iter().map(|index| ("UV_DEFAULT_INDEX", index.as_str())).collect();
        let words = [&[uv.program.as_str()], words, &["--no-progress", "--color", "never"], offline].concat();
        uv.installer.judge(self.resolved, self.run(&words, &variables)).map(drop).map_err(|e| match e {
            RealiseError::Installer { recipe, cause: Cause::NoPython, said, .. } => {
                let version = self.resolved.recipe.python.as_ref().map(|p| p.version.clone()).unwrap_or_default();
                RealiseError::NoPython { recipe, version, said }
            }
            other => other,
        })
    }

    fn tell(&self, python: &Utf8Path) -> Result<Told, RealiseError> {
        let told = self.run(&[python.as_str(), "-I", "-c", TELL], &[]).and_then(|output| {
            let said = String::from_utf8_lossy(&output.stderr);
            serde_json::from_slice(&output.stdout).map_err(|e| format!("{} ({e})", said.trim()))
        });
        told.map_err(|said| RealiseError::Interpreter {
            recipe: self.resolved.recipe.name.clone(),
            program: python.to_owned(),
            said,
        })
    }
}

/// Is `3.12.1` of `3.12`?
fn is_of(whole: &str, wanted: &str) -> bool {
    whole.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
