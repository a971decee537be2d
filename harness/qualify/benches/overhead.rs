//! What the harness costs: time a case beyond session creation and inference, and the parent's peak memory.
//!
//! Runs the whole matrix on the recipe `cpu` one case at a time, with the bundles of `ORT_QUALIFY_BUNDLES` where that is
//! set, and prints means and worst cases of that one run.

use serde_json::Value;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    // `cargo test --benches` starts this too, and wants no measurement.
    if !std::env::args().any(|word| word == "--bench") {
        return ExitCode::SUCCESS;
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let evidence = concat!(env!("CARGO_TARGET_TMPDIR"), "/overhead");
    let words = ["run", "--json", "--rerun", "--jobs", "1", "--root", root, "--evidence", evidence];
    let output =
        Command::new(env!("CARGO_BIN_EXE_ort-qualify")).args(words).output().expect("the binary was just built");
    let Ok(run) = serde_json::from_slice::<Value>(&output.stdout) else {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        return ExitCode::FAILURE;
    };
    let ms = |case: &Value, field: &str| case[field].as_f64();
    let mut cases: Vec<(f64, f64, &str)> = run["cases"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|c| {
            Some((ms(c, "elapsed_ms")? - ms(c, "library_work_ms")?, ms(c, "elapsed_ms")?, c["case"].as_str()?))
        })
        .collect();
    cases.sort_by(|a, b| b.0.total_cmp(&a.0));
    let n = cases.len() as f64;
    let overhead: f64 = cases.iter().map(|c| c.0).sum();
    let elapsed: f64 = cases.iter().map(|c| c.1).sum();
    println!("{} cases, verdicts {}", cases.len(), run["verdicts"]);
    println!(
        "overhead beyond session creation and inference: mean {:.1} ms a case, {:.0} % of all time",
        overhead / n,
        100.0 * overhead / elapsed
    );
    println!("median {:.1} ms; the worst:", cases.get(cases.len() / 2).map_or(0.0, |c| c.0));
    for (overhead, elapsed, name) in cases.iter().take(3) {
        println!("  {overhead:.1} ms of {elapsed:.0} ms: {name}");
    }
    println!("peak resident memory of the parent: {:.1} MiB", run["harness_peak_rss_mib"].as_f64().unwrap_or(f64::NAN));
    ExitCode::SUCCESS
}
