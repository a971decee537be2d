//! `ort-qualify run`: qualify.

use super::{Failure, given, print};
use crate::case::{Filter, expand};
use crate::report::{json, table};
use crate::run::{Qualification, Settings, run_all};
use crate::verdict::Verdict;
use crate::worker::fault::Fault;
use anyhow::Context as _;
use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::process::ExitCode;
use std::time::Instant;

/// What to qualify, and how.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A part of the cases' names, or a glob over them (`mlpf/*/padded`); all cases if not given.
    filter: Option<String>,
    /// The recipe to qualify on.
    #[arg(long, env = "ORT_QUALIFY_RECIPE", default_value = "cpu")]
    recipe: String,
    /// Only cases with this tag; may be given several times.
    #[arg(long)]
    tag: Vec<String>,
    /// The folder of external bundles.
    #[arg(long, env = "ORT_QUALIFY_BUNDLES")]
    bundles: Option<Utf8PathBuf>,
    /// Where evidence goes; `target/evidence` below the root if not given.
    #[arg(long, env = "ORT_QUALIFY_EVIDENCE")]
    evidence: Option<Utf8PathBuf>,
    /// Run cases again that finished with unchanged inputs.
    #[arg(long)]
    rerun: bool,
    /// Workers at a time; the number of cores if not given.
    #[arg(long)]
    jobs: Option<usize>,
    /// Make every worker commit a fault, KIND@STAGE (tests of the harness itself).
    #[arg(long, hide = true)]
    fault: Option<Fault>,
}

/// Qualifies and prints; 1 if something does not stand as expected.
pub fn run(
    args: RunArgs,
    root: Utf8PathBuf,
    store: Option<Utf8PathBuf>,
    offline: bool,
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let cases = expand(&root, None).map_err(Failure::request)?;
    let filter = Filter { text: args.filter, tags: args.tag, recipe: Some(args.recipe.clone()) };
    let cases = filter.select(cases).map_err(Failure::request)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or(cores);
    if jobs == 0 {
        return Err(Failure::request(anyhow::anyhow!("--jobs 0 would run nothing; give at least 1")));
    }
    let evidence = given(args.evidence.as_ref()).map_or_else(|| root.join("target/evidence"), Utf8Path::to_owned);
    let evidence = camino::absolute_utf8(&evidence).map_err(Failure::environment)?;
    let bundles =
        given(args.bundles.as_ref()).map(|b| camino::absolute_utf8(b).with_context(|| format!("--bundles {b}")));
    let bundles = bundles.transpose().map_err(Failure::request)?;
    if let Some(folder) = bundles.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::request(anyhow::anyhow!("the folder of external bundles, {folder}, is not there")));
    }
    let program =
        std::env::current_exe().context("this program's own file cannot be found").map_err(Failure::environment)?;
    let program = Utf8PathBuf::try_from(program).map_err(Failure::environment)?;
    let recipe = args.recipe.clone();
    let qualification = Qualification::new(Settings {
        root,
        recipe: args.recipe,
        bundles,
        store,
        evidence: evidence.clone(),
        program,
        offline,
        rerun: args.rerun,
        threads: (cores / jobs).max(1),
        quiet: false,
        fault: args.fault,
    })
    .map_err(failure)?;
    // Fetching has a bar of its own: this one comes after it.
    if cases.iter().any(|case| qualification.skip_reason(case).is_none()) {
        qualification.prefix().map_err(failure)?;
    }
    let bar = ProgressBar::new(cases.len() as u64).with_style(
        ProgressStyle::with_template("{pos}/{len} cases {wide_bar} {elapsed}").expect("the template is a constant"),
    );
    let outcome = run_all(&qualification, &cases, jobs, &mut |_| bar.inc(1));
    bar.finish_and_clear();
    let (results, late) = outcome.map_err(failure)?;
    let wall_s = started.elapsed().as_secs_f64();
    let folder = evidence.join(&recipe);
    if as_json {
        let value = json::Run::new(&recipe, wall_s, &folder, &results, &late);
        print::json(&value)?;
    } else {
        print::line(table::results(&results, print::color()))?;
        for death in &late {
            print::line(format!("a shared worker did not end cleanly after its last case: {}", death.0))?;
        }
        let (skips, warnings) = (table::skips(&results), table::warnings(&results));
        let failures = table::failures(&results);
        print::line(format!("{skips}{warnings}{failures}{}", table::summary(&results, &recipe, wall_s, &folder)))?;
    }
    // Nothing to run is never fine: either the request named what is not here, or this machine cannot hold the recipe.
    if results.iter().all(|r| r.judged.verdict == Verdict::Skipped) {
        let what = anyhow::anyhow!("nothing was run: all {} cases were skipped for the reasons above", results.len());
        let here = qualification.host_mismatch().is_none();
        return Err(if here { Failure::request(what) } else { Failure::environment(what) });
    }
    let fine = late.is_empty() && results.iter().all(|r| r.judged.verdict.is_as_expected());
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn failure(error: crate::run::RunError) -> Failure {
    if error.is_environment() { Failure::environment(error) } else { Failure::request(error) }
}
