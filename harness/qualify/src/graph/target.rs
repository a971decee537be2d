//! A recipe as lint sees it: what its library reads and what its provider takes, from tables in `env-recipes/claims`.

use crate::recipe::{FOLDER, Recipe};
use crate::toml_file::{self, TomlFileError};
use camino::Utf8Path;
use onnx_graph::lint::{Claims, Target};
use serde::Deserialize;
use std::collections::BTreeMap;

/// `env-recipes/claims/onnxruntime.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Releases {
    release: Vec<Release>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    version: String,
    ir: i64,
    opset: i64,
}

/// `env-recipes/claims/PROVIDER-VERSION.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderClaims {
    provider: String,
    onnxruntime: String,
    /// Is what stands in no row refused?
    complete: bool,
    row: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    source: Source,
    about: String,
    /// Types that were tried.
    #[serde(default)]
    tried: Vec<String>,
    /// Operators that are taken in these types, and refused in the others that were tried.
    #[serde(default)]
    types: BTreeMap<String, Vec<String>>,
    /// Operators that are taken in any type.
    #[serde(default)]
    any: Vec<String>,
    /// Operators that are refused in every type.
    #[serde(default)]
    none: Vec<String>,
}

/// Where a row is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Source {
    Measured,
    Published,
}

/// What lint needs to know of a recipe. Releases and providers that no table names stay unknown.
pub fn target(root: &Utf8Path, recipe: &Recipe) -> Result<Target, TomlFileError> {
    let folder = root.join(FOLDER).join("claims");
    let version = recipe.library.as_ref().map_or("", |l| l.version.as_str());
    let provider = recipe.provider.as_ref().map_or("", |p| p.name.as_str());
    let releases: Releases = toml_file::read(&folder.join("onnxruntime.toml"))?;
    let release =
        releases.release.iter().filter(|r| order(&r.version) <= order(version)).max_by_key(|r| order(&r.version));
    let claims = claims(&folder, provider, version)?;
    let options = recipe.provider.as_ref().map(|p| &p.options);
    Ok(Target {
        name: format!("recipe `{}`", recipe.name),
        provider: provider.to_owned(),
        max_ir: release.map(|r| r.ir),
        max_opset: release.map(|r| r.opset),
        tf32: provider == "cuda" && options.and_then(|o| o.get("use_tf32")).is_none_or(|v| v != "0"),
        claims,
    })
}

/// The table of that provider for that release, or else for the newest release before it, or the oldest there is.
fn claims(folder: &Utf8Path, provider: &str, version: &str) -> Result<Option<Claims>, TomlFileError> {
    let unreadable = |source| TomlFileError::Read { path: folder.to_owned(), source };
    let mut tables: Vec<ProviderClaims> = Vec::new();
    let entries = folder.read_dir_utf8().and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(unreadable)?;
    for entry in entries.iter().filter(|e| e.file_name().starts_with(&format!("{provider}-")) && !provider.is_empty()) {
        let table: ProviderClaims = toml_file::read(entry.path())?;
        if table.provider == provider {
            tables.push(table);
        }
    }
    tables.sort_by_key(|t| order(&t.onnxruntime));
    let at = tables.iter().rposition(|t| order(&t.onnxruntime) <= order(version)).unwrap_or(0);
    let Some(table) = tables.into_iter().nth(at) else { return Ok(None) };
    Ok(Some(merge(table, version)))
}

fn merge(table: ProviderClaims, version: &str) -> Claims {
    let measured = table.row.iter().any(|r| r.source == Source::Measured);
    let word = if measured { "measured" } else { "published" };
    let about = table.row.first().map_or("", |r| r.about.as_str());
    let other = if table.onnxruntime == version { "" } else { ", the nearest that is known" };
    let mut claims = Claims {
        source: format!("{word} for ONNX Runtime {}{other}: {about}", table.onnxruntime),
        complete: table.complete,
        ..Claims::default()
    };
    for row in table.row {
        for (operator, types) in row.types {
            let refused: Vec<String> = row.tried.iter().filter(|t| !types.contains(t)).cloned().collect();
            if !refused.is_empty() {
                claims.refused.insert(operator.clone(), refused);
            }
            claims.taken.insert(operator, types);
        }
        claims.taken.extend(row.any.into_iter().map(|operator| (operator, Vec::new())));
        claims.refused.extend(row.none.into_iter().map(|operator| (operator, Vec::new())));
    }
    claims
}

/// A version as numbers, for comparison.
fn order(version: &str) -> Vec<u64> {
    version.split(['.', '+', '-']).map_while(|part| part.parse().ok()).collect()
}
