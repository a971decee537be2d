//! What the command line prints. A reader that left early (`| head`) is no error.

use super::Failure;
use crate::report::table;
use comfy_table::Table;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// Prints text and a last newline on standard output.
pub fn line(text: impl Display) -> Result<(), Failure> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::environment(anyhow::anyhow!("cannot write to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// Prints a value as JSON on standard output.
pub fn json(value: &(impl Serialize + ?Sized)) -> Result<(), Failure> {
    line(serde_json::to_string_pretty(value).map_err(Failure::environment)?)
}

/// An empty table with this project's look, for standard output.
pub fn table(header: &[&str]) -> Table {
    table::new(header, color())
}

/// Are colours wanted on standard output? (The `NO_COLOR` convention.)
pub fn color() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}
