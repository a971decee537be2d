//! Are the names of session entries and provider options ones that the pinned library knows?
//!
//! Libraries accept any session entry silently, and some any option: a slip of the keyboard would change nothing and look
//! as if it did. The names that a library knows stand in its file as C strings, so the file itself is the table, and it is
//! always that of the pinned version.

use super::{Prefix, RecipeError};
use crate::nearest;
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};

/// Bytes read at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// The longest text that can be a name.
const LONGEST_NAME: usize = 128;

impl Prefix {
    /// Refuses session entries and provider options that the libraries of this prefix do not know, with the nearest.
    pub fn check_options(&self) -> Result<(), RecipeError> {
        let provider = self.provider()?;
        self.check_names("session", self.session(), &self.library()?)?;
        self.check_names("provider.options", &provider.options, &self.provider_library(&provider.name)?)
    }

    /// Where a provider's code is: its plugin, its own library, or else ONNX Runtime's.
    fn provider_library(&self, provider: &str) -> Result<Utf8PathBuf, RecipeError> {
        if let Some(plugin) = self.plugin() {
            return Ok(plugin);
        }
        let library = self.library()?;
        let own = library.with_file_name(format!("libonnxruntime_providers_{provider}.so"));
        Ok(if own.is_file() { own } else { library })
    }

    fn check_names(
        &self,
        field: &str,
        settings: &BTreeMap<String, String>,
        library: &Utf8Path,
    ) -> Result<(), RecipeError> {
        // Libraries are large: one is read only where there is something to look for.
        if settings.is_empty() {
            return Ok(());
        }
        let mut unknown: BTreeSet<&str> = settings.keys().map(String::as_str).collect();
        // What cannot be read is found by whoever loads it.
        let _ = strings(library, &mut |text| _ = unknown.remove(text));
        let Some(name) = unknown.first() else { return Ok(()) };
        let mut alike = BTreeSet::new();
        let _ = strings(library, &mut |text| {
            if nearest::nearest(name, [text]).is_some() {
                alike.insert(text.to_owned());
            }
        });
        let hint = nearest::hint(name, alike.iter().map(String::as_str));
        let library = library.file_name().unwrap_or_default();
        Err(RecipeError::Field {
            path: Utf8Path::new(super::FOLDER).join(format!("{}.toml", self.recipe())),
            field: format!("{field}.{name}"),
            problem: format!("{library} does not know such a name{hint}, and would ignore it or fail on it"),
        })
    }
}

/// Calls `found` with every text of letters, digits, `_` and `.` that ends in a NUL, as a stream.
fn strings(path: &Utf8Path, found: &mut dyn FnMut(&str)) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut block = vec![0; BLOCK_BYTES];
    let mut text = String::new();
    loop {
        let n = file.read(&mut block)?;
        if n == 0 {
            return Ok(());
        }
        for &byte in &block[..n] {
            match byte {
                0 => {
                    if !text.is_empty() && text.len() <= LONGEST_NAME {
                        found(&text);
                    }
                    text.clear();
                }
                _ if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.' => {
                    if text.len() <= LONGEST_NAME {
                        text.push(byte.into());
                    }
                }
                _ => text.clear(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_in_a_nul_and_hold_no_other_characters() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let long = "x".repeat(200);
        std::fs::write(file.path(), format!("\0use_tf32\0a-b.c\0session.x\0tail{long}\0end")).unwrap();
        let mut seen = Vec::new();
        strings(Utf8Path::from_path(file.path()).unwrap(), &mut |text| seen.push(text.to_owned())).unwrap();
        assert_eq!(seen, ["use_tf32", "b.c", "session.x"]);
    }
}
