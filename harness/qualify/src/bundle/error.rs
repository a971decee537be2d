//! What can be wrong with a bundle.

use super::array::{ArrayError, ArrayProblem};
use crate::toml_file::TomlFileError;
use camino::Utf8PathBuf;
use onnx_graph::ModelError;
use std::io;

/// A bundle that cannot be opened, trusted or written. Messages name the file and the field, case or array.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The folder is of no known layout.
    #[error(
        "{dir}: is no bundle: there is no bundle.toml, no test_data_set_* folder beside a model, and no inputs.npz \
         beside a model"
    )]
    NoBundle {
        /// The folder.
        dir: Utf8PathBuf,
    },
    /// A file cannot be read, written, made or renamed.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// `read`, `write`, ...
        action: &'static str,
        /// The file or folder.
        path: Utf8PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The manifest is not the TOML that is wanted.
    #[error(transparent)]
    Toml(#[from] TomlFileError),
    /// A field of the manifest, or what takes its place in the other layouts.
    #[error("{file}: {field}: {problem}")]
    Field {
        /// The manifest, or the folder of a bundle without one.
        file: Utf8PathBuf,
        /// Which field.
        field: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// An array.
    #[error("{dir}: {place}: {source}")]
    Array {
        /// The bundle's folder.
        dir: Utf8PathBuf,
        /// Which input, output, baseline or probe of which case.
        place: String,
        /// What is wrong.
        source: ArrayError,
    },
    /// An archive of arrays, as a whole.
    #[error(transparent)]
    Archive {
        /// What is wrong.
        error: ArrayError,
    },
    /// The model.
    #[error("{path}: {source}")]
    Model {
        /// The model.
        path: Utf8PathBuf,
        /// What is wrong.
        source: Box<ModelError>,
    },
    /// A file is not what the manifest says.
    #[error("{path}: {problem}; the bundle is damaged or was changed: get it again, or make it anew")]
    Changed {
        /// The file.
        path: Utf8PathBuf,
        /// Size or hash, recorded and found.
        problem: String,
    },
    /// No case of that name.
    #[error("bundle `{bundle}` has no case `{case}`{hint}")]
    NoCase {
        /// The bundle.
        bundle: String,
        /// The name asked for.
        case: String,
        /// ` (did you mean ..?)` or nothing.
        hint: String,
    },
    /// Nothing is overwritten.
    #[error("{path}: is there already, and bundles are never overwritten; remove it or choose another destination")]
    Exists {
        /// The destination.
        path: Utf8PathBuf,
    },
}

impl BundleError {
    /// Is it the machine that failed (no space, a read-only file system, no permission to write) and not the request?
    pub fn is_environment(&self) -> bool {
        let source = match self {
            Self::Io { source, .. } => source,
            Self::Array { source: error, .. } | Self::Archive { error } => match error.problem.as_ref() {
                ArrayProblem::Io(source) => source,
                _ => return false,
            },
            _ => return false,
        };
        matches!(
            source.kind(),
            io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::OutOfMemory
        )
    }

    pub(super) fn model(path: impl Into<Utf8PathBuf>) -> impl FnOnce(ModelError) -> Self {
        let path = path.into();
        move |source| Self::Model { path, source: Box::new(source) }
    }

    pub(super) fn io(action: &'static str, path: impl Into<Utf8PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
