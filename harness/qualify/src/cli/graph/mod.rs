//! `ort-qualify graph`: what is in a model, what is known to go wrong with it, and models made of it.

mod lint;
mod rewrite;
mod show;

use super::Failure;
use crate::bundle::Bundle;
use crate::graph::Stack;
use crate::graph::stack::StackError;
use crate::run::Settings;
use anyhow::Context as _;
use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, Subcommand};
use onnx_graph::Model;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

/// How long a single trial of a model may take.
const TRIAL_LIMIT: Duration = Duration::from_mins(5);

/// What to do with a model's graph.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What is in a model: inputs, outputs, operators, weights, external files, attention. Weights are not read.
    Show(show::ShowArgs),
    /// Known hazards, with the nodes where they stand; 1 if there is an error.
    Lint(lint::LintArgs),
    /// A model without its hazards, and the proof that it computes the same; 1 and no model if the proof fails.
    Rewrite(Box<rewrite::RewriteArgs>),
}

/// Inputs from a bundle.
#[derive(Debug, Args)]
struct BundleArgs {
    /// A bundle whose cases' inputs are fed too.
    #[arg(long, value_name = "DIR")]
    bundle: Option<Utf8PathBuf>,
    /// The input whose nonzero elements mark valid rows, where no bundle says it.
    #[arg(long, value_name = "INPUT")]
    mask: Option<String>,
}

impl BundleArgs {
    fn open(&self) -> Result<Option<Bundle>, Failure> {
        let dir = self.bundle.as_ref().map(|dir| camino::absolute_utf8(dir).with_context(|| format!("--bundle {dir}")));
        let dir = dir.transpose().map_err(Failure::request)?;
        dir.map(|dir| Bundle::open(&dir)).transpose().map_err(Failure::request)
    }

    fn mask<'a>(&'a self, bundle: Option<&'a Bundle>) -> Option<&'a str> {
        self.mask.as_deref().or_else(|| bundle?.mask.as_ref().map(|m| m.input.as_str()))
    }
}

/// `NAME=N`.
#[derive(Clone, Debug)]
struct Extent {
    name: String,
    extent: usize,
}

impl FromStr for Extent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, extent) = text.split_once('=').ok_or("write NAME=N, as batch=4")?;
        let extent = extent.parse().ok().filter(|n| *n > 0 && !name.is_empty());
        extent.map(|extent| Self { name: name.to_owned(), extent }).ok_or_else(|| "N is a number above 0".to_owned())
    }
}

/// What a `graph` command may need of the rest of the program.
pub struct Surroundings<'a> {
    /// The project's root; looked for only where a recipe is named.
    pub root: &'a dyn Fn() -> Result<Utf8PathBuf, Failure>,
    /// Where realised recipes are kept; `None` for the user's cache.
    pub store: Option<&'a Utf8Path>,
    /// Use no network.
    pub offline: bool,
    /// Print JSON.
    pub json: bool,
}

impl Surroundings<'_> {
    /// A recipe to try models on.
    fn stack(&self, recipe: &str) -> Result<Stack, Failure> {
        let program =
            std::env::current_exe().context("this program's own file cannot be found").map_err(Failure::environment)?;
        let settings = Settings {
            root: (self.root)()?,
            recipe: recipe.to_owned(),
            bundles: None,
            store: self.store.map(Utf8Path::to_owned),
            evidence: Utf8PathBuf::new(),
            program: Utf8PathBuf::try_from(program).map_err(Failure::environment)?,
            offline: self.offline,
            rerun: true,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            quiet: false,
            fault: None,
        };
        Stack::open(settings, TRIAL_LIMIT).map_err(failed)
    }
}

fn failed(error: StackError) -> Failure {
    if error.is_environment() { Failure::environment(error) } else { Failure::request(error) }
}

/// Runs a `graph` command.
pub fn run(command: &Command, around: &Surroundings<'_>) -> Result<ExitCode, Failure> {
    match command {
        Command::Show(args) => show::show(args, around.json),
        Command::Lint(args) => lint::lint(args, around),
        Command::Rewrite(args) => rewrite::rewrite(args, around),
    }
}

/// A model that was named on the command line.
fn load(path: &Utf8Path) -> Result<Model, Failure> {
    Model::load(path.as_std_path()).map_err(Failure::request)
}

/// Where the external data of a model lie.
fn folder(path: &Utf8Path) -> &Path {
    path.parent().filter(|p| !p.as_str().is_empty()).unwrap_or(Utf8Path::new(".")).as_std_path()
}
