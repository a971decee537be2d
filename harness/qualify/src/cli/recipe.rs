//! `ort-qualify recipe`: what the recipes are, and their prefixes in the store.

use super::{Failure, print};
use crate::recipe::{
    self, Artifact, Disagreement, Lock, Options, Prefix, Progress, RealiseError, Recipe, RecipeError, Store,
};
use camino::{Utf8Path, Utf8PathBuf};
use clap::Subcommand;
use indicatif::BinaryBytes;
use serde::Serialize;
use std::process::ExitCode;

/// What to do with recipes.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Every recipe, and whether it is in the store.
    List,
    /// One recipe: its pins, and what it sets.
    Show {
        /// The recipe.
        name: String,
    },
    /// Fetch a recipe into the store and say where it is; nothing is done if it is there.
    Realise {
        /// The recipe.
        name: String,
        /// Make the entry anew even if it is there.
        #[arg(long)]
        repair: bool,
        /// Write hashes that nobody recorded into the lock, as the files have them that are served now, with your name.
        #[arg(long)]
        record_on_first_use: bool,
    },
    /// Could this machine load a recipe's libraries? Says what is missing, with symbol versions; loads nothing.
    Doctor {
        /// The recipe.
        name: String,
    },
    /// Start a shell, or a command, in the environment of a worker.
    Shell {
        /// The recipe.
        name: String,
        /// The command with its arguments; the user's shell if not given.
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Look up what recipes want and the lock has not, and drop from it what none wants.
    Lock {
        /// Change nothing; 1 if lock and recipes disagree.
        #[arg(long)]
        check: bool,
    },
    /// Hold every installed file of a recipe against its record.
    Verify {
        /// The recipe.
        name: String,
    },
}

/// Runs a `recipe` command on the project at `root`.
pub fn run(
    command: &Command,
    root: &Utf8Path,
    store: Option<&Utf8Path>,
    offline: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let store = Store::locate(store)?;
    let lock = Lock::load(root)?;
    let (options, progress) = (Options { offline, ..Options::new(root) }, Progress::to_stderr());
    let resolve = |name: &str| Ok::<_, Failure>(Recipe::load(root, name)?.resolve(&lock)?);
    match command {
        Command::Lock { check: true } => check_lock(&Disagreement::of(&lock, &Recipe::list(root)?), &lock, json),
        Command::Lock { check: false } => {
            let made = recipe::lock(&store, &options, &progress)?;
            report_lock(&made, json, ["locked", "dropped"]).map(|()| ExitCode::SUCCESS)
        }
        Command::List => list(&Recipe::list(root)?, &lock, &store, json),
        Command::Show { name } => show(&Recipe::load(root, name)?, &lock, &store, json),
        Command::Doctor { name } => doctor(&store.realise(&resolve(name)?, &options, &progress)?, json),
        Command::Shell { name, command } => {
            let prefix = store.realise(&resolve(name)?, &options, &progress)?;
            prefix.verify(&progress)?;
            Err(shell(&prefix, command))
        }
        Command::Realise { name, repair, record_on_first_use } => {
            let resolved = if *record_on_first_use {
                for artifact in recipe::record_on_first_use(name, &store, &options, &progress)? {
                    let (label, sha256) = (artifact.label(), artifact.sha256.unwrap_or_default());
                    // Not on stdout, where the directory is told.
                    eprintln!("{label}: {sha256}, {} in {}", artifact.hash_source, lock.path);
                }
                Recipe::load(root, name)?.resolve(&Lock::load(root)?)?
            } else {
                resolve(name)?
            };
            let prefix = store.realise(&resolved, &Options { repair: *repair, ..options }, &progress)?;
            report(&prefix, json, &format!("{}", prefix.dir))
        }
        Command::Verify { name } => {
            let resolved = resolve(name)?;
            let prefix = store.find(&resolved)?.ok_or_else(|| {
                Failure::environment(anyhow::anyhow!(
                    "recipe `{name}` is not in the store {}; `ort-qualify recipe realise {name}` puts it there",
                    store.dir()
                ))
            })?;
            prefix.verify(&progress)?;
            let size = BinaryBytes(prefix.total_bytes());
            report(&prefix, json, &format!("{}: {} files, {size}, all as installed", prefix.dir, prefix.files.len()))
        }
    }
}

fn check_lock(found: &Disagreement, lock: &Lock, json: bool) -> Result<ExitCode, Failure> {
    report_lock(found, json, ["not locked", "wanted by no recipe"])?;
    if found.is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    if !json {
        print::line(format!("{} disagrees with the recipes; `ort-qualify recipe lock` mends it", lock.path))?;
    }
    Ok(ExitCode::FAILURE)
}

/// Says what was missing from the lock and what too much, each under its word.
fn report_lock(found: &Disagreement, json: bool, [missing, unused]: [&str; 2]) -> Result<(), Failure> {
    if json {
        return print::json(found);
    }
    for (recipe, wanted) in &found.missing {
        print::line(format!("{missing}: {} {} of `{}`, for {recipe}", wanted.name, wanted.version, wanted.index))?;
    }
    for label in &found.unused {
        print::line(format!("{unused}: {label}"))?;
    }
    if found.is_none() {
        print::line("the lock and the recipes agree")?;
    }
    Ok(())
}

impl From<RecipeError> for Failure {
    fn from(error: RecipeError) -> Self {
        if error.is_environment() { Self::environment(error) } else { Self::request(error) }
    }
}

impl From<RealiseError> for Failure {
    fn from(error: RealiseError) -> Self {
        if error.is_environment() { Self::environment(error) } else { Self::request(error) }
    }
}

/// One line of `recipe list`.
#[derive(Serialize)]
struct Line<'a> {
    recipe: &'a str,
    kind: &'static str,
    provider: Option<&'a str>,
    description: &'a str,
    /// `null` where an artifact is not in the lock or has no hash; `refusal` says so.
    key: Option<String>,
    refusal: Option<String>,
    dir: Option<Utf8PathBuf>,
}

fn list(recipes: &[Recipe], lock: &Lock, store: &Store, json: bool) -> Result<ExitCode, Failure> {
    let lines: Vec<Line> = recipes
        .iter()
        .map(|recipe| {
            let resolved = recipe.resolve(lock);
            let dir = resolved.as_ref().ok().map(|r| store.entry(r)).filter(|dir| dir.exists());
            Line {
                recipe: &recipe.name,
                kind: recipe.kind.word(),
                provider: recipe.provider.as_ref().map(|p| p.name.as_str()),
                description: &recipe.description,
                refusal: resolved.as_ref().err().map(ToString::to_string),
                key: resolved.ok().map(|r| r.key),
                dir,
            }
        })
        .collect();
    if json {
        print::json(&lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = print::table(&["recipe", "kind", "provider", "in the store", "description"]);
    for line in &lines {
        let here = match (&line.dir, &line.refusal) {
            (Some(_), _) => "yes",
            (None, None) => "no",
            (None, Some(_)) => "cannot be",
        };
        table.add_row([line.recipe, line.kind, line.provider.unwrap_or("-"), here, line.description]);
    }
    print::line(table)?;
    for line in &lines {
        if let Some(refusal) = &line.refusal {
            print::line(refusal)?;
        }
    }
    for unused in lock.unused(recipes) {
        print::line(format!("{}: no recipe wants {}", lock.path, unused.label()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What `show` prints; everything that is known, also of a recipe that cannot be realised.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    recipe: &'a Recipe,
    artifacts: Vec<&'a Artifact>,
    /// `null` where it cannot be realised; `refusal` says why.
    key: Option<&'a str>,
    refusal: Option<String>,
    entry: Option<Utf8PathBuf>,
}

fn show(recipe: &Recipe, lock: &Lock, store: &Store, json: bool) -> Result<ExitCode, Failure> {
    let resolved = recipe.resolve(lock);
    let artifacts: Vec<&Artifact> = recipe.wants().filter_map(|wanted| lock.find(wanted)).collect();
    if json {
        let (key, entry) =
            (resolved.as_ref().ok().map(|r| r.key.as_str()), resolved.as_ref().ok().map(|r| store.entry(r)));
        let refusal = resolved.as_ref().err().map(ToString::to_string);
        print::json(&Shown { recipe, artifacts, key, refusal, entry })?;
        return Ok(ExitCode::SUCCESS);
    }
    print::line(format!("{} ({}): {}", recipe.name, recipe.kind.word(), recipe.description))?;
    match &resolved {
        Ok(resolved) => {
            let entry = store.entry(resolved);
            let there = if entry.exists() { "" } else { " (not realised)" };
            print::line(format!("platform {}, key {}\n{entry}{there}", recipe.platform, resolved.key))?;
        }
        Err(refusal) => print::line(format!("platform {}\n{refusal}", recipe.platform))?,
    }
    for (word, text) in settings(recipe) {
        print::line(format!("{word:8} {text}"))?;
    }
    let mut table = print::table(&["artifact", "version", "index", "size", "sha256", "hash"]);
    for artifact in artifacts {
        let size = artifact.size.map_or("-".to_owned(), |bytes| BinaryBytes(bytes).to_string());
        let sha256 = artifact.sha256.as_deref().unwrap_or("not recorded");
        let source = artifact.hash_source.to_string();
        table.add_row([&artifact.name, &artifact.version, &artifact.index, &size, sha256, &source]);
    }
    print::line(table)?;
    Ok(ExitCode::SUCCESS)
}

/// Everything that a recipe sets or asks for, each under its word.
fn settings(recipe: &Recipe) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(library) = &recipe.library {
        lines.push(("library", format!("{} (ONNX Runtime {})", library.path, library.version)));
    }
    if let Some(provider) = &recipe.provider {
        let plugin = provider.plugin.as_ref().map_or_else(String::new, |p| format!(", the plugin {p}"));
        lines.push(("provider", format!("{}{plugin}", provider.name)));
        lines.extend(provider.options.iter().map(|(name, value)| ("option", format!("{name} = {value}"))));
    }
    lines.extend(recipe.session.iter().map(|(name, value)| ("session", format!("{name} = {value}"))));
    lines.extend(recipe.env.iter().map(|(name, value)| ("env", format!("{name} = {value}"))));
    let appended = recipe.append.iter();
    lines.extend(appended.map(|(name, a)| ("append", format!("{name}: {:?} behind {:?}", a.value, a.separator))));
    lines.extend(recipe.unset.iter().map(|name| ("unset", name.clone())));
    lines.extend(recipe.overlay.iter().map(|o| {
        (
            "overlay",
            format!("{} {} on glibc {} or newer: {}", o.artifact.name, o.artifact.version, o.glibc, o.library_dir),
        )
    }));
    lines.extend(recipe.library_dirs.iter().map(|dir| ("dir", dir.to_string())));
    lines.extend(recipe.python.iter().map(|p| ("python", p.version.clone())));
    if let Some(container) = &recipe.container {
        let or_none = |text: Option<&str>| text.unwrap_or("not given").to_owned();
        lines.push(("image", or_none(container.image.as_ref().map(|i| i.as_str()))));
        lines.push(("image", format!("SHA-256 {}", or_none(container.sha256.as_deref()))));
        lines.push(("inside", container.words(&[]).join(" ")));
        lines.extend(container.library_dirs.iter().map(|dir| ("dir", format!("{dir} of the image"))));
    }
    lines.extend(recipe.unfit.iter().map(|u| ("unfit", format!("{}: {}", u.tag, u.reason))));
    if let Some(host) = &recipe.host {
        lines.extend(host.glibc.iter().map(|v| ("host", format!("glibc {v} or newer"))));
        lines.extend(host.device.iter().map(|d| ("host", format!("an accelerator that shows {}", d.sign()))));
        lines.extend(host.allowed.iter().map(|name| ("host", format!("may have {name}"))));
    }
    lines
}

/// 1 if something is missing.
fn doctor(prefix: &Prefix, json: bool) -> Result<ExitCode, Failure> {
    if prefix.resolved.recipe.container.is_some() {
        return Err(Failure::request(anyhow::anyhow!(
            "not available: recipe `{}` runs in an image, and this machine's libraries say nothing of that; \
             `ort-qualify recipe shell {0} -- ldd FILE` asks inside",
            prefix.recipe()
        )));
    }
    let inherited = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let search: Vec<Utf8PathBuf> = inherited.split(':').filter(|d| !d.is_empty()).map(Utf8PathBuf::from).collect();
    let found = prefix.diagnose(&search);
    if json {
        print::json(&found)?;
    } else {
        for (name, path) in &found.from_host {
            print::line(format!("{name}: this machine's {path}"))?;
        }
        if let Some(device) = &found.device {
            print::line(format!("accelerator: {device}"))?;
        }
        for supplied in &found.supplied {
            print::line(format!("supplied: {supplied}"))?;
        }
        for missing in &found.missing {
            print::line(format!("missing: {missing}"))?;
        }
        let sum = if found.missing.is_empty() {
            "nothing is missing".to_owned()
        } else {
            format!("{} missing", found.missing.len())
        };
        print::line(format!("{}: {sum}", found.recipe))?;
    }
    Ok(if found.missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Becomes a shell, or the command, in the environment of a worker. Comes back only if that fails.
fn shell(prefix: &Prefix, words: &[String]) -> Failure {
    use std::os::unix::process::CommandExt as _;
    let own = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
    let (program, arguments) = words.split_first().map_or((&own, &[][..]), |(program, rest)| (program, rest));
    let here = std::env::current_dir().ok().and_then(|dir| Utf8PathBuf::from_path_buf(dir).ok());
    let mut words = prefix.command_words(&here.iter().map(Utf8PathBuf::as_path).collect::<Vec<_>>());
    words.push(program.clone());
    let mut command = std::process::Command::new(&words[0]);
    command.args(&words[1..]).args(arguments);
    for name in prefix.unset(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())) {
        command.env_remove(name);
    }
    command.envs(prefix.env(|name| std::env::var(name).ok())).env("ORT_QUALIFY_RECIPE", prefix.recipe());
    if let Ok(library) = prefix.library() {
        command.env("ORT_DYLIB_PATH", library);
    }
    let error = command.exec();
    Failure::request(anyhow::anyhow!("cannot run {program}: {error}"))
}

/// What `realise` and `verify` print.
#[derive(Serialize)]
struct Report<'a> {
    recipe: &'a str,
    key: &'a str,
    dir: &'a Utf8Path,
    installer: &'a str,
    files: usize,
    total_bytes: u64,
}

fn report(prefix: &Prefix, json: bool, text: &str) -> Result<ExitCode, Failure> {
    if json {
        print::json(&Report {
            recipe: prefix.recipe(),
            key: prefix.key(),
            dir: &prefix.dir,
            installer: &prefix.installer,
            files: prefix.files.len(),
            total_bytes: prefix.total_bytes(),
        })?;
    } else {
        print::line(text)?;
    }
    Ok(ExitCode::SUCCESS)
}
