//! `ort-qualify audit`: is what is pinned what is there, and was it what ran?

use super::{Failure, print};
use crate::audit::{self, Finding, PinRow, Run, Severity};
use crate::recipe::Store;
use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

/// What to audit, and how to say it.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Evidence to hold against the pins, as `run` leaves it; only recipes and locks are audited if not given.
    #[arg(long)]
    evidence: Option<Utf8PathBuf>,
    /// Print the findings as GitHub's workflow commands.
    #[arg(long, conflicts_with = "json")]
    github: bool,
}

#[derive(Serialize)]
struct Report {
    pins: Vec<PinRow>,
    runs: Vec<Run>,
    findings: Vec<Finding>,
}

/// Prints pins, runs and findings; 1 if one of them is an error.
pub fn audit(args: &AuditArgs, root: &Utf8Path, store: Option<&Utf8Path>, json: bool) -> Result<ExitCode, Failure> {
    let (pins, mut findings) = audit::pins(root)?;
    let mut runs = Vec::new();
    if let Some(folder) = &args.evidence {
        let (found, more) = audit::evidence(root, &Store::locate(store)?, folder)?;
        if found.is_empty() && more.is_empty() {
            return Err(Failure::request(anyhow::anyhow!(
                "{folder} holds no evidence: there is no observation.json at or below it"
            )));
        }
        runs = found;
        findings.extend(more);
    }
    let failed = findings.iter().any(|f| f.severity == Severity::Error);
    let report = Report { pins, runs, findings };
    if json {
        print::json(&report)?;
    } else if args.github {
        print::line(audit::annotations(&report.findings).trim_end())?;
    } else {
        say(&report)?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn say(report: &Report) -> Result<(), Failure> {
    let mut table = print::table(&["recipe", "artifact", "version", "index", "sha256", "hash"]);
    for pin in &report.pins {
        let sha256 = pin.sha256.as_deref().map_or("not recorded", |hash| &hash[..16]);
        table.add_row([&*pin.recipe, &*pin.artifact, &*pin.version, &*pin.index, sha256, &*pin.hash_source]);
    }
    print::line(table)?;
    for run in &report.runs {
        let version = run.library_version.as_deref().unwrap_or("(no library)");
        let cpu = run.machine.as_ref().map_or("", |m| &m.cpu);
        let kernel = run.machine.as_ref().map_or("", |m| &m.kernel);
        print::line(format!("{}: {} cases ran on ONNX Runtime {version}; {cpu}, {kernel}", run.recipe, run.cases))?;
        if let Some(machine) = run.machine.as_ref().filter(|m| !m.accelerators.is_empty()) {
            let driver = machine.nvidia_driver.as_ref().map_or_else(String::new, |v| format!(", NVIDIA driver {v}"));
            print::line(format!("    {}{driver}", machine.accelerators.join(", ")))?;
        }
        for (path, loaded) in &run.libraries {
            let artifact = loaded.artifact.as_ref().map_or_else(String::new, |artifact| format!(" ({artifact})"));
            print::line(format!("    {} {path}{artifact}", &loaded.sha256[..16]))?;
        }
    }
    for finding in &report.findings {
        print::line(finding)?;
    }
    let errors = report.findings.iter().filter(|f| f.severity == Severity::Error).count();
    print::line(format!("{} pins, {} runs, {errors} errors", report.pins.len(), report.runs.len()))
}
