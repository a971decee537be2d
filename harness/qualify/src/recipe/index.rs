//! `pypi` is the user's index, whichever of uv and pip they told about it.

use super::Options;
use super::installer::{Installer, say};
use std::path::{Path, PathBuf};
use xshell::cmd;

/// The index that pip is configured with, where uv is configured with none: to be passed on to uv.
pub(super) fn from_pip(options: &Options) -> Option<String> {
    if uv_has_one(options) {
        return None;
    }
    let Ok(Installer::Pip { python, .. }) = Installer::pip(options) else { return None };
    let settings = say(options, |shell| cmd!(shell, "{python} -m pip config list")).ok()?;
    in_settings(&settings)
}

/// Do variables or files tell uv of an index?
fn uv_has_one(options: &Options) -> bool {
    let set = |name: &str| options.tool_env.contains_key(name) || std::env::var_os(name).is_some();
    let variables = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_NO_INDEX", "UV_CONFIG_FILE"];
    variables.into_iter().any(set) || uv_files().iter().any(|file| speaks_of_an_index(file))
}

/// Files in which uv, run from here, finds its settings.
fn uv_files() -> Vec<PathBuf> {
    let here = std::env::current_dir().unwrap_or_default();
    let mut files: Vec<PathBuf> =
        here.ancestors().flat_map(|f| [f.join("uv.toml"), f.join("pyproject.toml")]).collect();
    if let Ok(base) = etcetera::choose_base_strategy() {
        files.push(etcetera::BaseStrategy::config_dir(&base).join("uv/uv.toml"));
    }
    files.push(PathBuf::from("/etc/uv/uv.toml"));
    files
}

fn speaks_of_an_index(file: &Path) -> bool {
    let is_uvs = |text: &str| file.ends_with("uv.toml") || text.contains("[tool.uv");
    std::fs::read_to_string(file).is_ok_and(|text| is_uvs(&text) && text.contains("index"))
}

/// The index in the output of `pip config list`; the environment's comes before the files'.
fn in_settings(settings: &str) -> Option<String> {
    let value = |key: &str| {
        let found = settings.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(found.trim_matches(['\'', '"']).to_owned())
    };
    [":env:.index-url", "install.index-url", "global.index-url"].into_iter().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_pip_is_its_environments_before_its_files() {
        let files = "global.cert='/x'\nglobal.index-url='https://a.example/simple'\n";
        assert_eq!(in_settings(files).as_deref(), Some("https://a.example/simple"));
        let both = format!(":env:.index-url='https://b.example/simple'\n{files}");
        assert_eq!(in_settings(&both).as_deref(), Some("https://b.example/simple"));
        assert_eq!(in_settings("global.cert='/x'"), None);
    }

    #[test]
    fn an_index_in_pips_environment_reaches_uv_unless_uv_has_its_own() {
        let url = "https://index.example/simple";
        let mut options = Options::new("/".into());
        options.tool_env.insert("PIP_INDEX_URL".into(), url.into());
        let reaches = Installer::pip(&options).is_ok() && !uv_has_one(&options);
        assert_eq!(from_pip(&options).as_deref(), reaches.then_some(url));
        options.tool_env.insert("UV_DEFAULT_INDEX".into(), "https://own.example/simple".into());
        assert_eq!(from_pip(&options), None);
    }
}
