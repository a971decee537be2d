//! `ort-qualify recipe`: what the recipes are, and their prefixes in the store.

use super::{Failure, print};
use crate::recipe::{
    self, Disagreement, Lock, Options, Prefix, Progress, RealiseError, Recipe, RecipeError, Resolved, Store,
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
    let resolve = |name: &str| Ok::<_, Failure>(Recipe::load(root, name)?.resolve(&lock)?);
    match command {
        Command::Lock { check: true } => check_lock(&Disagreement::of(&lock, &Recipe::list(root)?), &lock, json),
        Command::Lock { check: false } => {
            let options = Options { offline, ..Options::new(root) };
            let made = recipe::lock(root, &options, &Progress::to_stderr())?;
            report_lock(&made, json, ["locked", "dropped"]).map(|()| ExitCode::SUCCESS)
        }
        Command::List => list(&Recipe::list(root)?, &lock, &store, json),
        Command::Show { name } => show(&resolve(name)?, &store, json),
        Command::Realise { name, repair } => {
            let options = Options { offline, repair: *repair, ..Options::new(root) };
            let prefix = store.realise(&resolve(name)?, &options, &Progress::to_stderr())?;
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
            prefix.verify(&Progress::to_stderr())?;
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
        Self::request(error)
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

fn show(resolved: &Resolved, store: &Store, json: bool) -> Result<ExitCode, Failure> {
    if json {
        print::json(resolved)?;
        return Ok(ExitCode::SUCCESS);
    }
    let recipe = &resolved.recipe;
    print::line(format!("{} ({}): {}", recipe.name, recipe.kind.word(), recipe.description))?;
    print::line(format!("platform {}, key {}", recipe.platform, resolved.key))?;
    let entry = store.entry(resolved);
    print::line(format!("{entry}{}", if entry.exists() { "" } else { " (not realised)" }))?;
    if let Some(library) = &recipe.library {
        print::line(format!("library  {} (ONNX Runtime {})", library.path, library.version))?;
    }
    if let Some(provider) = &recipe.provider {
        print::line(format!("provider {}", provider.name))?;
    }
    let options = recipe.provider.iter().flat_map(|p| &p.options).map(|setting| ("option", setting));
    let session = recipe.session.iter().map(|setting| ("session", setting));
    let env = recipe.env.iter().map(|setting| ("env", setting));
    for (word, (name, value)) in options.chain(session).chain(env) {
        print::line(format!("{word:8} {name} = {value}"))?;
    }
    for dir in &recipe.library_dirs {
        print::line(format!("{:8} {dir}", "dir"))?;
    }
    let mut table = print::table(&["artifact", "version", "index", "size", "sha256"]);
    for artifact in &resolved.artifacts {
        let size = artifact.size.map_or("-".to_owned(), |bytes| BinaryBytes(bytes).to_string());
        table.add_row([&artifact.name, &artifact.version, &artifact.index, &size, &artifact.sha256]);
    }
    print::line(table)?;
    Ok(ExitCode::SUCCESS)
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
