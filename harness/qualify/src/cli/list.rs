//! `ort-qualify list`: the cases, without running anything.

use super::{Failure, given, print};
use crate::case::{Case, Filter, expand};
use crate::recipe::Recipe;
use crate::run::{skip_reason, unfit};
use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

/// Which cases to list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// A part of the cases' names, or a glob over them; all cases if not given.
    filter: Option<String>,
    /// Only cases with this tag; may be given several times.
    #[arg(long)]
    tag: Vec<String>,
    /// Only cases for this recipe.
    #[arg(long)]
    recipe: Option<String>,
    /// The folder of external bundles.
    #[arg(long, env = "ORT_QUALIFY_BUNDLES")]
    bundles: Option<Utf8PathBuf>,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    case: &'a Case,
    skipped: Option<String>,
}

/// Prints the cases with limits, tags, known failures and why they would be skipped here.
pub fn list(args: &ListArgs, root: &Utf8Path, as_json: bool) -> Result<ExitCode, Failure> {
    let cases = expand(root, None).map_err(Failure::request)?;
    let filter = Filter { text: args.filter.clone(), tags: args.tag.clone(), recipe: args.recipe.clone() };
    let cases = filter.select(cases).map_err(Failure::request)?;
    let recipe = args.recipe.as_ref().map(|name| Recipe::load(root, name)).transpose()?;
    let host = recipe.as_ref().and_then(|r| r.check_host().err()).map(|mismatch| mismatch.to_string());
    let skipped = |case: &Case| {
        let unfit = recipe.as_ref().and_then(|recipe| unfit(recipe, case));
        host.clone().or(unfit).or_else(|| skip_reason(case, given(args.bundles.as_ref())))
    };
    if as_json {
        let rows: Vec<_> = cases.iter().map(|case| Row { case, skipped: skipped(case) }).collect();
        print::json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = print::table(&["case", "limits", "tags", "notes"]);
    for case in &cases {
        let known = case
            .known_failures
            .iter()
            .map(|k| format!("known to fail at {} on {}: {}", k.stage, k.recipes.join(", "), k.reason));
        let notes: Vec<_> = skipped(case).map(|why| format!("skipped here: {why}")).into_iter().chain(known).collect();
        table.add_row([
            case.name.clone(),
            case.limits.as_ref().map_or_else(|| "the bundle's".to_owned(), ToString::to_string),
            case.tags.join(", "),
            notes.join("\n"),
        ]);
    }
    print::line(format!("{table}\n{} cases", cases.len()))?;
    Ok(ExitCode::SUCCESS)
}
