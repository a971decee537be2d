//! Expansion: case files become cases. Nothing but the case files is read, so listing needs no network and no library.

use super::Case;
use super::file::{CaseFile, CaseFileError, Group};
use crate::bundle::NamedArray;
use crate::{digest, nearest, recipe};
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use globset::{Glob, GlobSet, GlobSetBuilder};
use std::collections::HashMap;

/// Expands every case file of the project, in file order; names are unique.
///
/// `only` builds the one case of that name: a test runner that starts a process a test would else expand all each time.
pub fn expand(root: &Utf8Path, only: Option<&str>) -> Result<Vec<Case>, CaseFileError> {
    let recipes = recipe::names(root).map_err(|e| CaseFileError::Recipes(Box::new(e)))?;
    let mut cases = Vec::new();
    let mut files: HashMap<String, Utf8PathBuf> = HashMap::new();
    for (path, file) in CaseFile::read_all(root)? {
        check_pins(&path, &file)?;
        for group in &file.group {
            check_group(&path, group, &recipes)?;
            let known = known_failures(&path, group, &recipes)?;
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

fn known_failures<'a>(path: &Utf8Path, group: &'a Group, recipes: &[String]) -> Result<Known<'a>, CaseFileError> {
    let field = |message: String| CaseFileError::Field {
        file: path.to_owned(),
        field: format!("known_failure of group `{}`", group.name),
        message,
    };
    let globs = |patterns: &[String]| glob_set(patterns).map_err(|e| field(e.to_string()));
    let mut ready = Vec::new();
    for known in &group.known_failure {
        let pattern = regex::Regex::new(&known.pattern).map_err(|e| field(format!("pattern: {e}")))?;
        if pattern.is_match("") {
            return Err(field("pattern matches every text: quote the words of this very failure".to_owned()));
        }
        if known.reason.trim().is_empty() {
            return Err(field("reason is empty: say why this failure is known and accepted".to_owned()));
        }
        names_a_recipe(&known.recipes, recipes).map_err(field)?;
        let (bundles, batches) = (globs(&known.bundles)?, globs(&known.batches)?);
        if !group.bundles.iter().any(|b| bundles.is_match(b)) || !group.batches.iter().any(|b| batches.is_match(b)) {
            let (bundles, batches) = (&known.bundles, &known.batches);
            return Err(field(format!("bundles {bundles:?} with batches {batches:?} name no case of the group")));
        }
        ready.push((known, bundles, batches));
    }
    Ok(ready)
}

/// The longest time limit, in seconds: a day. Beyond that a limit is a slip, and clocks overflow.
const LONGEST_TIMEOUT_S: u64 = 86_400;

fn check_group(path: &Utf8Path, group: &Group, recipes: &[String]) -> Result<(), CaseFileError> {
    let refuse = |field: &str, message: String| {
        Err(CaseFileError::Field {
            file: path.to_owned(),
            field: format!("{field} of group `{}`", group.name),
            message,
        })
    };
    if !(1..=LONGEST_TIMEOUT_S).contains(&group.timeout_s) {
        return refuse(
            "timeout_s",
            format!("must be from 1 to {LONGEST_TIMEOUT_S} seconds, and is {}", group.timeout_s),
        );
    }
    for (field, list) in [("bundles", &group.bundles), ("batches", &group.batches)] {
        if list.is_empty() {
            return refuse(field, "is empty, so the group has no cases: name at least one".to_owned());
        }
    }
    names_a_recipe(&group.recipes, recipes).or_else(|message| refuse("recipes", message))
}

/// Globs that match no recipe are a slip of the keyboard.
fn names_a_recipe(globs: &[String], recipes: &[String]) -> Result<(), String> {
    for glob in globs {
        let matcher = glob_set(std::slice::from_ref(glob)).map_err(|e| e.to_string())?;
        if !recipes.iter().any(|r| matcher.is_match(r)) {
            let hint = nearest::hint(glob, recipes.iter().map(String::as_str));
            return Err(format!("`{glob}` matches no recipe{hint}; there are {}", recipes.join(", ")));
        }
    }
    if globs.is_empty() { Err("recipes is empty: leave it out for all".to_owned()) } else { Ok(()) }
}

/// Pins are of bundles that a group names, and of files inside them.
fn check_pins(path: &Utf8Path, file: &CaseFile) -> Result<(), CaseFileError> {
    let bundles: Vec<&str> = file.group.iter().flat_map(|g| &g.bundles).map(String::as_str).collect();
    let refuse = |field: String, message: String| Err(CaseFileError::Field { file: path.to_owned(), field, message });
    for (bundle, pins) in &file.pins {
        if !bundles.contains(&bundle.as_str()) {
            let hint = nearest::hint(bundle, bundles.iter().copied());
            return refuse(format!("pins.{bundle}"), format!("no group names such a bundle{hint}"));
        }
        for (pinned, sha256) in pins {
            let inside = pinned.components().all(|c| matches!(c, Utf8Component::Normal(_)));
            if !inside || pinned.as_str().is_empty() {
                return refuse(
                    format!("pins.{bundle}"),
                    format!("`{pinned}` must be a path below the bundle, without `..`"),
                );
            }
            if !digest::is_sha256(sha256) {
                return refuse(format!("pins.{bundle}"), format!("`{pinned}`: a pin is 64 lower-case hex digits"));
            }
        }
    }
    Ok(())
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

/// The longest name in bytes: with slashes as `__` it must still be a file's name.
const LONGEST_NAME: usize = 120;

/// A name becomes a folder's name and a test's name: no surprises in either.
fn check_name(path: &Utf8Path, name: &str) -> Result<(), CaseFileError> {
    let word = |w: &str| {
        w.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && w.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    // Slashes become `__` in a folder's name, which must tell all cases apart.
    if name.len() <= LONGEST_NAME && name.split('/').all(word) && !name.contains("__") {
        return Ok(());
    }
    Err(CaseFileError::Field {
        file: path.to_owned(),
        field: "name".to_owned(),
        message: format!(
            "`{name}` is no case name: words of letters, digits, `.`, `_` and `-`, a letter or digit first, joined by `/`; \
             no `__`, and {LONGEST_NAME} characters at most"
        ),
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
        without_reference: group.without_reference.clone(),
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
