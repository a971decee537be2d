//! Observations: what one worker process saw. Raw facts only; judging is [`crate::verdict`]'s work.

pub mod compare;
pub mod figure;
pub mod memory;
pub mod placement;
pub mod process;
pub mod profile;

use crate::bundle::NamedArray;
use camino::Utf8PathBuf;
use compare::Comparison;
use figure::Figure;
use placement::Placement;
use process::Process;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Version of the observation's JSON form.
pub const FORMAT: u32 = 1;

/// The stages that a worker goes through, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The library is loaded; model and arrays are read.
    Load,
    /// The session is made: the library parses, optimises and partitions the model.
    Session,
    /// A separate profiled session shows where each node runs.
    Placement,
    /// Inference.
    Run,
    /// Outputs are held against references.
    Compare,
    /// The worker process ends.
    Exit,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::Session => "session",
            Self::Placement => "placement",
            Self::Run => "run",
            Self::Compare => "compare",
            Self::Exit => "exit",
        })
    }
}

/// What one worker process saw of one case.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// [`FORMAT`].
    pub format: u32,
    /// The last stage that the worker entered.
    pub stage: Stage,
    /// How it ended.
    pub end: End,
    /// What was seen before the end.
    pub facts: Facts,
    /// The last lines that the worker wrote to standard error, oldest first.
    pub stderr_tail: Vec<String>,
    /// Wall time that the case took, seen from the parent: process start, if any, to the last answer, in milliseconds.
    pub elapsed_ms: f64,
}

/// How a worker ended with a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum End {
    /// No worker was started: the case or its bundle is wrong.
    NotStarted {
        /// What is wrong, and where.
        message: String,
    },
    /// All stages were gone through.
    Finished,
    /// A stage reported an error.
    Refused {
        /// The error's text, that of the library where it came from there.
        message: String,
    },
    /// The process died or left without an answer.
    Died {
        /// `SIGSEGV (11)`, `exit status 3`, ...
        how: String,
        /// Did the kernel's out-of-memory killer act while the case ran?
        out_of_memory: bool,
    },
    /// The time limit was reached and the process was ended by us.
    TimedOut {
        /// The limit in seconds.
        limit_s: f64,
        /// The signal that it took: `SIGTERM`, or `SIGKILL` where it did not heed the first.
        by: String,
    },
}

/// Everything that a worker saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// The library that was loaded.
    pub library: Option<Library>,
    /// The worker's process after its last stage: what was loaded, with which variables, on what machine.
    pub process: Option<Process>,
    /// What the model is.
    pub graph: Option<Graph>,
    /// Where the nodes ran.
    pub placement: Option<Placement>,
    /// Probes, compared before the outputs, from an instrumented copy of the model.
    pub probes: Vec<Probe>,
    /// Outputs in the bundle's order.
    pub outputs: Vec<Output>,
    /// Outputs of the model that have no reference and were not compared.
    pub not_compared: Vec<String>,
    /// Tensors that were kept, where the request asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub captured: Vec<NamedArray>,
    /// Durations of the stages in milliseconds, one value each (no statistic: the first and only time).
    pub timings: Timings,
    /// Peak resident memory of the worker process so far, in MiB. A shared worker's figure includes earlier cases.
    pub peak_rss_mib: Option<f64>,
}

/// The library that was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    /// The file given to the loader.
    pub path: Utf8PathBuf,
    /// What it says of its version.
    pub version: String,
    /// What it says of its build.
    pub build: String,
}

/// What a model is, as read from its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// IR version.
    pub ir: i64,
    /// Operator set versions by domain (empty for the default one).
    pub opsets: BTreeMap<String, i64>,
    /// Number of nodes by operator, subgraphs and functions included.
    pub op_histogram: BTreeMap<String, usize>,
}

/// One probe: an intermediate tensor, compared exactly.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// The tensor's name in the model.
    pub tensor: String,
    /// How it compares with its reference.
    pub comparison: Comparison,
}

/// One output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Its name in the model.
    pub name: String,
    /// Has the case a mask that does not lie on this output's leading axes, so that all rows were compared alike?
    pub mask_left_out: bool,
    /// How it compares with its reference.
    pub comparison: Comparison,
}

/// Durations of stages in milliseconds; `None` for a stage that was not reached or is not asked for.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timings {
    /// Loading the library: once a process, 0 when it was there already.
    pub library_ms: Option<f64>,
    /// Reading the model's structure and the arrays.
    pub load_ms: Option<f64>,
    /// Making the session.
    pub session_ms: Option<f64>,
    /// Making the profiled session of the placement stage.
    pub placement_session_ms: Option<f64>,
    /// The profiled inference.
    pub placement_run_ms: Option<f64>,
    /// Making the instrumented session and running it, where there are probes.
    pub probe_ms: Option<f64>,
    /// The first inference: host inputs to host outputs, no warm-up.
    pub first_run_ms: Option<f64>,
    /// Comparing.
    pub compare_ms: Option<f64>,
}

impl Timings {
    /// Milliseconds spent inside the library on session creation and inference: what no harness can avoid.
    pub fn library_work_ms(&self) -> Figure {
        let parts =
            [self.session_ms, self.placement_session_ms, self.placement_run_ms, self.probe_ms, self.first_run_ms];
        Figure(parts.iter().flatten().sum())
    }
}
