//! `ort-qualify limits`: the named profiles of limits, as one table.

use super::{Failure, print};
use crate::verdict::limits::profiles_table;
use std::process::ExitCode;

/// Prints every profile with its limits and what it is for.
pub fn limits(as_json: bool) -> Result<ExitCode, Failure> {
    let rows = profiles_table();
    if as_json {
        print::json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = print::table(&["profile", "limits", "NaN and infinities", "for"]);
    for row in rows {
        table.add_row([row.name, &row.limits, row.nonfinite, row.purpose]);
    }
    print::line(table)?;
    Ok(ExitCode::SUCCESS)
}
