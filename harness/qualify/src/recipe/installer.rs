//! uv (or, to fetch uv itself, pip): found, run through xshell, and understood when it fails.

use super::package::Format;
use super::{Cause, Options, Pinned, RealiseError, Resolved, Wanted, index};
use camino::Utf8Path;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use xshell::{Cmd, Shell, cmd};

/// The oldest uv that is known to understand every flag used here (tried: this one, 0.7.22 and 0.11.8; 0.4.30 fails).
const OLDEST_UV: [u32; 3] = [0, 5, 31];

/// Lines of an installer's messages that are kept in an error.
const SAID_LINES: usize = 12;

/// Variables that would make uv or pip install something else than what is asked for here.
const MEDDLING: [&str; 11] = [
    "PIP_CONSTRAINT",
    "PIP_NO_BINARY",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_TARGET",
    "UV_COMPILE_BYTECODE",
    "UV_CONSTRAINT",
    "UV_EXCLUDE_NEWER",
    "UV_NO_BINARY",
    "UV_NO_BINARY_PACKAGE",
    "UV_OVERRIDE",
];

/// A program that installs pinned wheels into a directory.
pub(super) enum Installer {
    /// uv at this path.
    Uv { program: PathBuf, version: String },
    /// pip as a module of this Python.
    Pip { python: PathBuf, version: String },
}

impl Installer {
    /// uv as the options name it, or the first on the search path that runs and is new enough; else why there is none.
    pub(super) fn uv(options: &Options) -> Result<Self, String> {
        if let Some(named) = &options.uv {
            return uv_at(options, named.as_std_path()).map_err(|why| format!("ORT_QUALIFY_UV names {named}, {why}"));
        }
        first_usable(options, "uv", |program| uv_at(options, program))
    }

    /// The uv that was fetched into the store.
    pub(super) fn fetched(options: &Options, program: &Utf8Path) -> Result<Self, String> {
        uv_at(options, program.as_std_path()).map_err(|why| format!("the store has {program}, {why}"))
    }

    /// pip of the first `python3` on the search path that has it; else why there is none.
    pub(super) fn pip(options: &Options) -> Result<Self, String> {
        first_usable(options, "python3", |python| {
            let said = say(options, |shell| cmd!(shell, "{python} -m pip --version"))?;
            match said.split_whitespace().collect::<Vec<_>>()[..] {
                ["pip", version, ..] => Ok(Self::Pip { python: python.to_owned(), version: version.to_owned() }),
                _ => Err(format!("which does not have pip: {said}")),
            }
        })
    }

    /// Program and version.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Uv { version, .. } => format!("uv {version}"),
            Self::Pip { version, .. } => format!("pip {version}"),
        }
    }

    /// Installs the wheels among the recipe's artifacts into `tree`, with `scratch` for what the installer has to be told
    /// in files.
    pub(super) fn install(
        &self,
        options: &Options,
        resolved: &Resolved,
        tree: &Utf8Path,
        scratch: &Utf8Path,
    ) -> Result<(), RealiseError> {
        // One run for each Python and platform that a file must fit: nearly always one.
        let mut runs: BTreeMap<(&str, &str), String> = BTreeMap::new();
        for (wanted, pinned) in std::iter::zip(&resolved.recipe.artifact, &resolved.artifacts) {
            if Format::of(&pinned.filename) != Ok(Format::Wheel) {
                continue;
            }
            // A wheel's tags were held against these when the recipe was resolved.
            let (Some(python), Some(platform)) = (&wanted.python, &wanted.platform) else { continue };
            runs.entry((python, platform)).or_default().push_str(&requirement(pinned));
        }
        for ((python, platform), lines) in runs {
            let requirements = scratch.join("requirements.txt");
            write(&requirements, &lines)?;
            let output = run(options, |shell| self.command(shell, options, [python, platform], tree, &requirements));
            self.judge(resolved, output)?;
        }
        Ok(())
    }

    /// What came of a run for these artifacts.
    pub(super) fn judge(&self, resolved: &Resolved, output: Result<Output, String>) -> Result<Output, RealiseError> {
        let (cause, said) = match output {
            Ok(output) if output.status.success() => return Ok(output),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                (output.status.signal().map_or_else(|| Cause::of_message(&said), Cause::of_signal), said)
            }
            Err(e) => (Cause::Other, e),
        };
        Err(RealiseError::Installer {
            recipe: resolved.recipe.name.clone(),
            tool: self.label(),
            artifacts: resolved.labels(),
            cause,
            said: last_lines(&said),
        })
    }

    /// What an index, or the user's own, has of one artifact, as a `pylock.toml`; else why that cannot be known. uv only.
    pub(super) fn compile(
        &self,
        options: &Options,
        wanted: &Wanted,
        index: Option<&str>,
        scratch: &Utf8Path,
    ) -> Result<String, String> {
        let Self::Uv { program, .. } = self else { return Err("uv is needed for this".to_owned()) };
        let (input, output) = (scratch.join("wanted.in"), scratch.join("pylock.wanted.toml"));
        let Wanted { name, version, python: Some(python), platform: Some(platform), .. } = wanted else {
            return Err("only wheels are looked up by uv".to_owned());
        };
        std::fs::write(&input, format!("{name}=={version}\n")).map_err(|e| format!("cannot write {input}: {e}"))?;
        let ran = run(options, |shell| {
            let uv = cmd!(
                shell,
                "{program} pip compile --no-deps --format pylock.toml --only-binary :all: --quiet --color never
                 --python-version {python} --python-platform {platform} --output-file {output} {input}"
            )
            // Nothing is run: any Python will do, and none need be fetched.
            .env("UV_PYTHON_DOWNLOADS", "never");
            match index.map(str::to_owned).or_else(|| index::from_pip(options)) {
                Some(index) => uv.env("UV_DEFAULT_INDEX", index),
                None => uv,
            }
        })?;
        if !ran.status.success() {
            return Err(last_lines(&String::from_utf8_lossy(&ran.stderr)));
        }
        std::fs::read_to_string(&output).map_err(|e| format!("cannot read {output}: {e}"))
    }

    fn command<'a>(
        &self,
        shell: &'a Shell,
        options: &Options,
        [python, platform]: [&str; 2],
        tree: &Utf8Path,
        requirements: &Utf8Path,
    ) -> Cmd<'a> {
        match self {
            Self::Uv { program, .. } => {
                let offline = options.offline.then_some("--offline");
                // Copies: by default the files are hard links into uv's cache, and would change with it.
                let uv = cmd!(
                    shell,
                    "{program} pip install --target {tree} --no-deps --require-hashes --only-binary :all:
                     --python-version {python} --python-platform {platform} --link-mode copy
                     --no-progress --color never {offline...} -r {requirements}"
                );
                match index::from_pip(options) {
                    Some(index) => uv.env("UV_DEFAULT_INDEX", index),
                    None => uv,
                }
            }
            // pip takes the tags of the Python that runs it: right for uv, whose wheel fits any.
            Self::Pip { python, .. } => cmd!(
                shell,
                "{python} -m pip install --target {tree} --no-deps --require-hashes --only-binary :all:
                 --no-compile --no-input --disable-pip-version-check -r {requirements}"
            )
            .env("PIP_USER", "0"),
        }
    }
}

/// The line of a requirements file that admits this very file and no other.
pub(super) fn requirement(pinned: &Pinned) -> String {
    let Pinned { name, version, sha256, url, .. } = pinned;
    let what = url.as_ref().map_or_else(|| format!("{name}=={version}"), |url| format!("{name} @ {url}"));
    format!("{what} --hash=sha256:{sha256}\n")
}

/// Writes a file that an installer is to read.
pub(super) fn write(path: &Utf8Path, text: &str) -> Result<(), RealiseError> {
    std::fs::write(path, text).map_err(|why| RealiseError::Disk { action: "write", path: path.to_owned(), why })
}

/// The uv at `program`, if it runs and is new enough; else why not, as "which ...".
fn uv_at(options: &Options, program: &Path) -> Result<Installer, String> {
    let said = say(options, |shell| cmd!(shell, "{program} --version"))?;
    let version = said.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let parts: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    if !said.starts_with("uv ") || parts.len() != OLDEST_UV.len() {
        return Err(format!("which does not say a version of uv but: {said}"));
    }
    if parts[..] < OLDEST_UV[..] {
        let [major, minor, patch] = OLDEST_UV;
        return Err(format!("which is uv {version}, and {major}.{minor}.{patch} or newer is needed"));
    }
    Ok(Installer::Uv { program: program.to_owned(), version })
}

/// The first executable `name` on the search path that `usable` takes. Some are shims of version managers that only fail.
fn first_usable(
    options: &Options,
    name: &str,
    usable: impl Fn(&Path) -> Result<Installer, String>,
) -> Result<Installer, String> {
    let mut why = format!("there is no `{name}` on the PATH");
    for folder in std::env::split_paths(&search_path(options)) {
        let program = folder.join(name);
        let executable = program.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
        if executable {
            match usable(&program) {
                Ok(installer) => return Ok(installer),
                Err(problem) => why = format!("the PATH has {}, {problem}", program.display()),
            }
        }
    }
    Err(why)
}

fn search_path(options: &Options) -> OsString {
    options.search_path.clone().or_else(|| std::env::var_os("PATH")).unwrap_or_default()
}

/// What a short command prints on success, trimmed; else why it failed, as "which ...".
pub(super) fn say(options: &Options, build: impl FnOnce(&Shell) -> Cmd<'_>) -> Result<String, String> {
    let output = run(options, build).map_err(|e| format!("which cannot be run: {e}"))?;
    if !output.status.success() {
        return Err(format!("which fails: {}", last_lines(&String::from_utf8_lossy(&output.stderr))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Is there such a program on the search path?
pub(super) fn search(options: &Options, name: &str) -> bool {
    std::env::split_paths(&search_path(options)).any(|folder| folder.join(name).is_file())
}

/// Runs a command in the options' environment, capturing what it prints.
pub(super) fn run(options: &Options, build: impl FnOnce(&Shell) -> Cmd<'_>) -> Result<Output, String> {
    let shell = Shell::new().map_err(|e| e.to_string())?;
    shell.set_var("PATH", search_path(options));
    for (name, value) in &options.tool_env {
        shell.set_var(name, value);
    }
    let command = MEDDLING.into_iter().fold(build(&shell), Cmd::env_remove);
    command.ignore_status().quiet().output().map_err(|e| e.to_string())
}

fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(SAID_LINES)..].join("\n")
}
