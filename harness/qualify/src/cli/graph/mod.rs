//! `ort-qualify graph`: what is in a model, what is known to go wrong with it, and models made of it.

mod lint;
mod show;

use super::Failure;
use camino::{Utf8Path, Utf8PathBuf};
use clap::Subcommand;
use onnx_graph::Model;
use std::path::Path;
use std::process::ExitCode;

/// What to do with a model's graph.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What is in a model: inputs, outputs, operators, weights, external files, attention. Weights are not read.
    Show(show::ShowArgs),
    /// Known hazards, with the nodes where they stand; 1 if there is an error.
    Lint(lint::LintArgs),
}

/// What a `graph` command may need of the rest of the program.
pub struct Surroundings<'a> {
    /// The project's root; looked for only where a recipe is named.
    pub root: &'a dyn Fn() -> Result<Utf8PathBuf, Failure>,
    /// Print JSON.
    pub json: bool,
}

/// Runs a `graph` command.
pub fn run(command: &Command, around: &Surroundings<'_>) -> Result<ExitCode, Failure> {
    match command {
        Command::Show(args) => show::show(args, around.json),
        Command::Lint(args) => lint::lint(args, around),
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
