//! Expansion: case files become cases. Nothing but the case files is read, so listing needs no network and no library.

use super::Case;
use super::file::{CaseFile, CaseFileError, Group};
use crate::bundle::NamedArray;
use camino::{Utf8Path, Utf8PathBuf};
use globset::{Glob, GlobSet, GlobSetBuilder};
use std::collections::HashMap;

/// Expands every case file of the project, in file order; names are unique.
///
/// `only` builds the one case of that name: a test runner that starts a process a test would else expand all each time.
pub fn expand(root: &Utf8Path, only: Option<&str>) -> Result<Vec<Case>, CaseFileError> {
    let mut cases = Vec::new();
    let mut files: HashMap<String, Utf8PathBuf> = HashMap::new();
    for (path, file) in CaseFile::read_all(root)? {
        for group in &file.group {
            check_recipes(&path, group)?;
            let known = known_failures(&path, group)?;
            for bundle in &group.bundles {
                for batch in &group.batches {
                    let name = name(group, bundle, batch);
                    check_name(&path, &name)?;
                    if let Some(other) = files.insert(name.clone(), path.clone()) {
                        return Err(CaseFileError::Duplicate { file: path, name, other });
                    }
                    if only.is_none_or(|wanted| wanted == name) {
                        cases.push(case(&path, &file, group, &known, name, bundle, batch));
                    }
                }
            }
        }
    }
    Ok(cases)
}

/// A group's known failures with their globs made ready.
type Known<'a> = Vec<(&'a super::file::GroupKnownFailure, GlobSet, GlobSet)>;

fn known_failures<'a>(path: &Utf8Path, group: &'a Group) -> Result<Known<'a>, CaseFileError> {
    let field = |message: String| CaseFileError::Field {
        file: path.to_owned(),
        field: format!("known_failure of group `{}`", group.name),
        message,
    };
    let globs = |patterns: &[String]| glob_set(patterns).map_err(|e| field(e.to_string()));
    let mut ready = Vec::new();
    for known in &group.known_failure {
        regex::Regex::new(&known.pattern).map_err(|e| field(format!("pattern: {e}")))?;
        if known.reason.trim().is_empty() {
            return Err(field("reason is empty: say why this failure is known and accepted".to_owned()));
        }
        globs(&known.recipes)?;
        let (bundles, batches) = (globs(&known.bundles)?, globs(&known.batches)?);
        if !group.bundles.iter().any(|b| bundles.is_match(b)) || !group.batches.iter().any(|b| batches.is_match(b)) {
            let (bundles, batches) = (&known.bundles, &known.batches);
            return Err(field(format!("bundles {bundles:?} with batches {batches:?} name no case of the group")));
        }
        ready.push((known, bundles, batches));
    }
    Ok(ready)
}

fn check_recipes(path: &Utf8Path, group: &Group) -> Result<(), CaseFileError> {
    glob_set(&group.recipes).map(drop).map_err(|e| CaseFileError::Field {
        file: path.to_owned(),
        field: format!("recipes of group `{}`", group.name),
        message: e.to_string(),
    })
}

/// Does one of the globs, which were checked when the case file was read, match?
pub(crate) fn any_matches(patterns: &[String], text: &str) -> bool {
    glob_set(patterns).is_ok_and(|set| set.is_match(text))
}

/// One matcher for several globs.
fn glob_set(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern)?);
    }
    set.build()
}

fn name(group: &Group, bundle: &str, batch: &str) -> String {
    let model = group.model.as_deref().unwrap_or("model.onnx");
    let model = model.strip_suffix(".onnx").unwrap_or(model);
    group.name.replace("{bundle}", bundle).replace("{model}", model).replace("{batch}", batch)
}

/// A name becomes a folder's name and a test's name: no surprises in either.
fn check_name(path: &Utf8Path, name: &str) -> Result<(), CaseFileError> {
    let word = |w: &str| {
        !w.is_empty() && !w.starts_with('.') && w.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    if name.split('/').all(word) {
        return Ok(());
    }
    Err(CaseFileError::Field {
        file: path.to_owned(),
        field: "name".to_owned(),
        message: format!("`{name}` is no case name: words of letters, digits, `.`, `_` and `-`, joined by `/`"),
    })
}

fn case(
    path: &Utf8Path,
    file: &CaseFile,
    group: &Group,
    known: &Known<'_>,
    name: String,
    bundle: &str,
    batch: &str,
) -> Case {
    let probes = group.probe.iter().map(|probe| {
        let mut array = probe.array.clone();
        array.array = array.array.map(|a| a.replace("{batch}", batch));
        NamedArray { name: probe.tensor.clone(), array }
    });
    let known_failures = known
        .iter()
        .filter(|(_, bundles, batches)| bundles.is_match(bundle) && batches.is_match(batch))
        .map(|(known, _, _)| known.of_case());
    Case {
        name,
        file: path.to_owned(),
        source: file.source.clone(),
        bundle: bundle.to_owned(),
        model: group.model.clone(),
        batch: batch.to_owned(),
        recipes: group.recipes.clone(),
        limits: group.limits.clone(),
        output_limits: group.output_limits.clone(),
        placement: group.placement,
        fallback: group.fallback,
        isolation: group.isolation,
        timeout_s: group.timeout_s,
        tags: group.tags.clone(),
        probes: probes.collect(),
        pins: file.pins.get(bundle).cloned().unwrap_or_default(),
        known_failures: known_failures.collect(),
    }
}
