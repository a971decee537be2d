//! The command line: parse, call one function, print. One file a verb.

pub mod recipe;

use std::process::ExitCode;

/// Exit codes of every verb: 0 all as expected, 1 a verdict failed, 2 the request was wrong, 3 no environment.
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
    ExitCode::SUCCESS
}
