//! The golden cases as tests: one a case, on the recipe in `ORT_QUALIFY_RECIPE` (`cpu` if not set).
//!
//! Each case is run anew, judged, and held against its snapshot in `golden/snapshots/RECIPE`. A snapshot that is meant to
//! change is written with `INSTA_UPDATE=always cargo test --release --test golden`. Cases whose bundle cannot be had here
//! are listed as ignored, and why is said on standard error.

use camino::{Utf8Path, Utf8PathBuf};
use libtest_mimic::{Arguments, Failed, Trial};
use ort_qualify::case::{Case, expand};
use ort_qualify::report::{snapshot, table};
use ort_qualify::run::{CaseResult, Qualification, Seat, Settings};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

/// Workers that wait for the next case.
type Seats = Mutex<Vec<Seat>>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    match prepare(&arguments) {
        Ok((trials, seats)) => {
            let conclusion = libtest_mimic::run(&arguments, trials);
            let mut late = false;
            for seat in seats.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
                if let Err(how) = seat.close() {
                    eprintln!("a shared worker did not end cleanly after its last case: {how}");
                    late = true;
                }
            }
            if late { ExitCode::FAILURE } else { conclusion.exit_code() }
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn prepare(arguments: &Arguments) -> Result<(Vec<Trial>, Arc<Seats>), String> {
    let root =
        Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize_utf8().map_err(|e| e.to_string())?;
    // A runner that starts a process a test names it exactly: then the others need not be expanded.
    let only = arguments.filter.as_deref().filter(|_| arguments.exact);
    let cases = expand(&root, only).map_err(|e| e.to_string())?;
    let qualification = Arc::new(Qualification::new(settings(root)).map_err(|e| e.to_string())?);
    let seats = Arc::new(Seats::default());
    let mut skipped: BTreeMap<String, usize> = BTreeMap::new();
    let mut trials = Vec::new();
    for case in cases.into_iter().filter(|case| case.is_for(&qualification.settings().recipe)) {
        let skip = qualification.skip_reason(&case);
        let (qualification, seats) = (Arc::clone(&qualification), Arc::clone(&seats));
        let (name, ignored) = (case.name.clone(), skip.is_some());
        trials.push(Trial::test(name, move || qualify(&qualification, &case, &seats)).with_ignored_flag(ignored));
        if let Some(reason) = skip {
            *skipped.entry(reason).or_default() += 1;
        }
    }
    for (reason, n) in skipped {
        eprintln!("{n} ignored: {reason}");
    }
    Ok((trials, seats))
}

fn settings(root: Utf8PathBuf) -> Settings {
    let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    // Beside the repository, where this project's own machines keep the bundles that are not part of it.
    let beside = root.join("../shared/data/mlpf");
    Settings {
        recipe: var("ORT_QUALIFY_RECIPE").unwrap_or_else(|| "cpu".to_owned()),
        bundles: var("ORT_QUALIFY_BUNDLES").map(Into::into).or_else(|| beside.canonicalize_utf8().ok()),
        store: var("ORT_QUALIFY_STORE").map(Into::into),
        evidence: root.join("target/evidence"),
        program: env!("CARGO_BIN_EXE_ort-qualify").into(),
        offline: false,
        rerun: true,
        threads: 1,
        quiet: true,
        fault: None,
        root,
    }
}

fn qualify(qualification: &Qualification, case: &Case, seats: &Seats) -> Result<(), Failed> {
    let mut seat = seats.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
    let result = qualification.qualify(case, &mut seat);
    seats.lock().unwrap_or_else(PoisonError::into_inner).push(seat);
    let result = result.map_err(|e| e.to_string())?;
    if !result.judged.verdict.is_as_expected() {
        return Err(table::failures(std::slice::from_ref(&result)).into());
    }
    compare_with_snapshot(&qualification.settings().root, &qualification.settings().recipe, &result);
    Ok(())
}

/// Panics where the snapshot differs, which the harness turns into a failed test.
fn compare_with_snapshot(root: &Utf8Path, recipe: &str, result: &CaseResult) {
    let Some(observation) = &result.observation else { return };
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(root.join("golden/snapshots").join(recipe));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let text = snapshot::text(&result.case, observation, &result.judged);
    settings.bind(|| insta::assert_snapshot!(result.case.name.replace('/', "__"), text));
}
