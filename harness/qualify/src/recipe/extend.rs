//! `extends`: a recipe that says only what it has otherwise than another.
//!
//! Tables are merged key by key and artifacts by name, the extending file last; everything else is replaced.

use super::description::names;
use super::{FOLDER, Recipe, RecipeError};
use crate::{nearest, toml_file};
use camino::Utf8Path;
use toml::{Table, Value};

/// The key.
const EXTENDS: &str = "extends";

/// The recipe `name` with all that it extends. The name must be one of the recipes'.
pub(super) fn read(root: &Utf8Path, name: &str) -> Result<Recipe, RecipeError> {
    let path = root.join(FOLDER).join(format!("{name}.toml"));
    let mut table: Table = toml_file::read(&path)?;
    if !table.contains_key(EXTENDS) {
        return Ok(toml_file::read(&path)?);
    }
    let mut line = vec![name.to_owned()];
    while let Some(parent) = take_parent(root, &line, &mut table)? {
        let mut base: Table = toml_file::read(&root.join(FOLDER).join(format!("{parent}.toml")))?;
        merge(&mut base, table);
        table = base;
        line.push(parent);
    }
    // Written out and read again, so that one reader refuses unknown fields; the message names the merged text's line.
    let text = toml::to_string(&table).map_err(|e| RecipeError::Field {
        path: path.clone(),
        field: EXTENDS.to_owned(),
        problem: e.to_string(),
    })?;
    Ok(toml_file::parse(&path, &text)?)
}

/// Takes the parent's name out of the table. `line` is the way from the recipe to here.
fn take_parent(root: &Utf8Path, line: &[String], table: &mut Table) -> Result<Option<String>, RecipeError> {
    let here = line.last().map_or("", String::as_str);
    let refuse = |problem: String| {
        let (path, field) = (root.join(FOLDER).join(format!("{here}.toml")), EXTENDS.to_owned());
        Err(RecipeError::Field { path, field, problem })
    };
    // A parent's own parent came in by the merge.
    match table.remove(EXTENDS) {
        None => Ok(None),
        Some(Value::String(parent)) => {
            let known = names(root)?;
            if !known.contains(&parent) {
                let hint = nearest::hint(&parent, known.iter().map(String::as_str));
                return refuse(format!("there is no recipe `{parent}`{hint}"));
            }
            if line.contains(&parent) {
                return refuse(format!("`{}` extends `{parent}`: a circle", line.join("` extends `")));
            }
            Ok(Some(parent))
        }
        Some(_) => refuse("must be the name of a recipe".to_owned()),
    }
}

/// Lays `over` over `base`.
fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (Some(Value::Array(below)), Value::Array(above)) if key == "artifact" => {
                for artifact in above {
                    match below.iter_mut().find(|b| b.get("name") == artifact.get("name")) {
                        Some(same) => *same = artifact,
                        None => below.push(artifact),
                    }
                }
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
