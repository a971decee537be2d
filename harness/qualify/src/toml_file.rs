//! Every TOML file of the project is read here: unknown fields are refused and the nearest known one is named.
//! The types that mirror the files say `#[serde(deny_unknown_fields)]`.

use crate::nearest;
use camino::{Utf8Path, Utf8PathBuf};
use serde::de::DeserializeOwned;

/// A TOML file that cannot be read or does not mirror its type. The message holds file, line, column and field.
#[derive(Debug, thiserror::Error)]
pub enum TomlFileError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: Utf8PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is not TOML, or not the TOML that is wanted.
    #[error("{path}: {message}{hint}")]
    Parse {
        /// Which file.
        path: Utf8PathBuf,
        /// The parser's message with line, column and the line itself.
        message: String,
        /// The nearest known field, where an unknown one was met.
        hint: String,
    },
}

/// Reads a TOML file into the type that mirrors it.
pub fn read<T: DeserializeOwned>(path: &Utf8Path) -> Result<T, TomlFileError> {
    let text = std::fs::read_to_string(path).map_err(|source| TomlFileError::Read { path: path.to_owned(), source })?;
    parse(path, &text)
}

/// Parses TOML text that came from `path`.
pub fn parse<T: DeserializeOwned>(path: &Utf8Path, text: &str) -> Result<T, TomlFileError> {
    toml::from_str(text).map_err(|e| TomlFileError::Parse {
        path: path.to_owned(),
        message: e.to_string().trim_end().to_owned(),
        hint: field_hint(e.message()),
    })
}

/// serde words an unknown field as "unknown field `x`, expected one of `a`, `b`" (variants likewise).
fn field_hint(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    match quoted.next() {
        Some(unknown) if message.starts_with("unknown ") => nearest::hint(unknown, quoted),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Mirror {
        #[allow(dead_code)]
        provider: String,
        #[serde(default)]
        #[allow(dead_code)]
        artifact: Vec<String>,
    }

    #[test]
    fn an_unknown_field_is_refused_with_file_line_and_the_nearest_name() {
        let e = parse::<Mirror>("x.toml".into(), "provider = \"cpu\"\nartefact = []\n").unwrap_err().to_string();
        assert!(e.starts_with("x.toml: ") && e.contains("line 2") && e.contains("did you mean `artifact`"), "{e}");
    }
}
