//! What an audit finds.

use camino::Utf8PathBuf;
use serde::Serialize;
use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// To be known.
    Note,
    /// To be looked at; the audit stands.
    Warning,
    /// The audit fails.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One thing found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file it is about.
    pub file: Utf8PathBuf,
    /// One sentence with both values where two disagree.
    pub message: String,
}

impl Finding {
    pub(super) fn new(severity: Severity, file: impl Into<Utf8PathBuf>, message: impl Into<String>) -> Self {
        Self { severity, file: file.into(), message: message.into() }
    }

    pub(super) fn error(file: impl Into<Utf8PathBuf>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, file, message)
    }
}

impl fmt::Display for Finding {
    /// `error: FILE: MESSAGE`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity, self.file, self.message)
    }
}

/// The findings as GitHub's workflow commands, a line each, which show them at the files.
pub fn annotations(findings: &[Finding]) -> String {
    let escaped = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let line = |f: &Finding| {
        let command = match f.severity {
            Severity::Note => "notice",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let file = escaped(f.file.as_str()).replace(':', "%3A").replace(',', "%2C");
        format!("::{command} file={file}::{}\n", escaped(&f.message))
    };
    findings.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_one_line_each_whatever_the_text() {
        let findings = [Finding::error("a,b:c.toml", "50 % off\nand more"), Finding::new(Severity::Note, "d", "fine")];
        assert_eq!(
            annotations(&findings),
            "::error file=a%2Cb%3Ac.toml::50 %25 off%0Aand more\n::notice file=d::fine\n"
        );
    }
}
