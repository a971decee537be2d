//! Workers: a process that loads ONNX Runtime, replays cases and says what it saw.
//!
//! The parent writes one [`Request`] a line to the worker's standard input and reads one [`Event`] a line from a pipe
//! of its own ([`REPLY_FD`]), so that nothing that a library prints can come between. See `docs/flow.md`.

mod capture;
pub mod fault;
pub mod launch;
mod raw;
mod replay;
mod runtime;
pub mod serve;

use crate::bundle::{ArrayRef, NamedArray};
use crate::observation::compare::Measure;
use crate::observation::{Facts, Stage};
use crate::recipe::Provider;
use camino::Utf8PathBuf;
use fault::Fault;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The descriptor that a worker writes its events to.
pub const REPLY_FD: i32 = 3;

/// Everything that a worker needs to replay one case. All paths are absolute.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The case's name, for messages.
    pub case: String,
    /// The library to load. A worker loads one only; a second name is refused.
    pub library: Utf8PathBuf,
    /// The version that the library must say it has: a mismatch is refused before any number is computed.
    pub library_version: String,
    /// The provider to ask for.
    pub provider: Provider,
    /// The plugin provider's library, to be registered under the provider's name.
    pub plugin: Option<Utf8PathBuf>,
    /// Session configuration entries.
    pub session: BTreeMap<String, String>,
    /// Threads inside an operator; 0 leaves it to the library.
    pub threads: usize,
    /// May nodes fall back to the CPU?
    pub fallback_allowed: bool,
    /// The folder that the arrays' files are relative to.
    pub dir: Utf8PathBuf,
    /// The model's file.
    pub model: Utf8PathBuf,
    /// Arrays to feed, by input name.
    pub inputs: Vec<NamedArray>,
    /// Outputs to fetch and compare.
    pub outputs: Vec<OutputRequest>,
    /// Which rows are valid (nonzero), if the bundle says.
    pub mask: Option<ArrayRef>,
    /// Intermediate tensors to expose and compare exactly.
    pub probes: Vec<NamedArray>,
    /// Where `stdout.log`, `stderr.log` and `profile.json` go.
    pub logs: Utf8PathBuf,
    /// The largest array that is read, in bytes.
    pub array_cap_bytes: u64,
    /// Instead of comparing anything: sets of inputs to run, and tensors to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Capture>,
    /// A fault to commit, for tests of the harness itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}

/// Runs whose tensors are kept, for tools that hold models against each other. `inputs`, `outputs`, `mask` and `probes`
/// of the request are not looked at.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Sets of inputs, run one after the other in one session.
    pub sets: Vec<Vec<NamedArray>>,
    /// The tensors to keep of each run, inner ones exposed; none: the model's outputs.
    pub tensors: Vec<String>,
    /// The `.npz` file that they go to, as `SET/TENSOR` with sets counted from 0.
    pub into: Utf8PathBuf,
    /// May the library optimise the graph?
    pub optimise: bool,
    /// Observe also where the nodes run.
    pub placement: bool,
}

/// An output to fetch and what to hold it against.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputRequest {
    /// The output's name in the model.
    pub name: String,
    /// The reference.
    pub reference: ArrayRef,
    /// The same computed at the model's own precision elsewhere, if the bundle has it.
    pub baseline: Option<ArrayRef>,
    /// The output's axes that the mask's axes are; `None`: the leading ones, where the extents are equal.
    pub mask_axes: Option<Vec<usize>>,
    /// What to count against.
    pub measure: Measure,
}

/// What a worker says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Event {
    /// It enters a stage.
    Enters(Stage),
    /// The case is done.
    Finished(Box<Facts>),
    /// A stage reported an error; what was seen before it is kept.
    Refused {
        /// The error's text.
        message: String,
        /// What was seen.
        facts: Box<Facts>,
    },
}
