//! The command line: parse, call one function, print. One file a verb.

mod audit;
mod bundle;
mod graph;
mod limits;
mod list;
mod print;
mod recipe;
mod run;

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, Parser, Subcommand};
use std::process::ExitCode;

/// Qualify ONNX models on pinned ONNX Runtime stacks.
///
/// Exit codes: 0 all as expected, 1 a verdict failed, 2 the request was wrong, 3 the environment could not be had.
#[derive(Debug, Parser)]
#[command(name = "ort-qualify", version, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

/// What every verb understands.
#[derive(Debug, Args)]
struct Common {
    /// The project's root, with env-recipes/ and golden/; found upwards from the working directory if not given.
    #[arg(long, global = true, env = "ORT_QUALIFY_ROOT")]
    root: Option<Utf8PathBuf>,
    /// Where realised recipes are kept; the user's cache folder if not given.
    #[arg(long, global = true, env = "ORT_QUALIFY_STORE")]
    store: Option<Utf8PathBuf>,
    /// Use no network: what is not in the store or in uv's cache is not to be had.
    #[arg(long, global = true)]
    offline: bool,
    /// Print JSON instead of tables.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Qualify: replay cases on a recipe and judge them.
    Run(run::RunArgs),
    /// List the cases.
    List(list::ListArgs),
    /// The named profiles of limits.
    Limits,
    /// Pinned software environments.
    #[command(subcommand)]
    Recipe(recipe::Command),
    /// Hold pins against each other, and evidence against pins.
    Audit(audit::AuditArgs),
    /// Models with reference inputs and outputs.
    #[command(subcommand)]
    Bundle(bundle::Command),
    /// Models' graphs: what is in them, known hazards, rewrites with proof, parts, faults.
    #[command(subcommand)]
    Graph(graph::Command),
    /// Serve cases on standard input (started by `run`).
    #[command(hide = true)]
    Worker {
        /// Limit of the address space.
        #[arg(long)]
        memory_limit_mib: Option<u64>,
    },
}

/// What ends a verb early, with its exit code.
#[derive(Debug)]
pub struct Failure {
    /// 2 or 3.
    pub code: u8,
    /// What failed, where, and what to do.
    pub error: anyhow::Error,
}

impl Failure {
    /// The request was wrong: a bad flag, name or file (exit code 2).
    pub fn request(error: impl Into<anyhow::Error>) -> Self {
        Self { code: 2, error: error.into() }
    }

    /// The environment could not be had: no network, no disk, no library (exit code 3).
    pub fn environment(error: impl Into<anyhow::Error>) -> Self {
        Self { code: 3, error: error.into() }
    }
}

/// Parses the command line and runs the verb.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let Common { root, store, offline, json } = &cli.common;
    let (root, store) = (given(root.as_ref()), given(store.as_ref()));
    let root = || find_root(root);
    let outcome = match cli.verb {
        Verb::Worker { memory_limit_mib } => {
            crate::worker::serve::serve(memory_limit_mib).map(|()| ExitCode::SUCCESS).map_err(Failure::environment)
        }
        Verb::Run(args) => root().and_then(|root| run::run(args, root, store.map(Utf8Path::to_owned), *offline, *json)),
        Verb::List(args) => root().and_then(|root| list::list(&args, &root, *json)),
        Verb::Limits => limits::limits(*json),
        Verb::Recipe(command) => root().and_then(|root| recipe::run(&command, &root, store, *offline, *json)),
        Verb::Audit(args) => root().and_then(|root| audit::audit(&args, &root, store, *json)),
        Verb::Bundle(command) => bundle::run(&command, *json),
        Verb::Graph(command) => {
            let around = graph::Surroundings { root: &root, store, offline: *offline, json: *json };
            graph::run(&command, &around)
        }
    };
    outcome.unwrap_or_else(|failure| {
        eprintln!("error: {}", paragraph(&failure.error));
        ExitCode::from(failure.code)
    })
}

/// A path that was given: an empty one, as of a variable that is set to nothing, counts as none.
fn given(path: Option<&Utf8PathBuf>) -> Option<&Utf8Path> {
    path.map(Utf8PathBuf::as_path).filter(|p| !p.as_str().is_empty())
}

/// An error with its causes; one whose text stands in its effect's text already is not said again.
fn paragraph(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        said if said.contains(&cause) => text,
        _ => format!("{text}: {cause}"),
    })
}

/// The project's root: the nearest folder upwards that has both `env-recipes` and `golden/cases`.
fn find_root(given: Option<&Utf8Path>) -> Result<Utf8PathBuf, Failure> {
    let is_root = |folder: &Utf8Path| folder.join("env-recipes").is_dir() && folder.join("golden/cases").is_dir();
    if let Some(given) = given {
        let given = camino::absolute_utf8(given).map_err(Failure::request)?;
        if is_root(&given) {
            return Ok(given);
        }
        return Err(Failure::request(anyhow::anyhow!("--root {given} has no env-recipes/ and golden/cases/")));
    }
    let here = std::env::current_dir().map_err(Failure::environment)?;
    let here = Utf8PathBuf::from_path_buf(here)
        .map_err(|p| Failure::request(anyhow::anyhow!("the working directory's name is not UTF-8: {}", p.display())))?;
    here.ancestors().find(|a| is_root(a)).map(Utf8Path::to_owned).ok_or_else(|| {
        let advice = "run inside a checkout of ort-qualify, or name one with --root";
        Failure::request(anyhow::anyhow!("no folder upwards from {here} has env-recipes/ and golden/cases/: {advice}"))
    })
}
