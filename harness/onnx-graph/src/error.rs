//! What can be wrong with a model, each with the tensor, file or node it is about and what to do.

use std::path::PathBuf;

/// A model that cannot be read, trusted, changed or written.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file cannot be opened or mapped.
    #[error("{path}: cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The path is a folder, a pipe or a device.
    #[error("{path}: is not a regular file, so no model is read from it; name the .onnx file itself")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The bytes are not a protobuf message of the expected type.
    #[error("{subject}: is not a readable ONNX file ({hint}): {source}")]
    Decode {
        /// The file, or `model` when it came from memory.
        subject: String,
        /// What it looks like instead.
        hint: &'static str,
        /// Where decoding stopped.
        source: prost::DecodeError,
    },
    /// Decodable, yet no model: fields that every model has are absent.
    #[error("{subject}: is not an ONNX model, it has no {missing} ({hint})")]
    NotAModel {
        /// The file, or `model` when it came from memory.
        subject: String,
        /// The absent field.
        missing: &'static str,
        /// What it looks like instead.
        hint: &'static str,
    },
    /// Protobuf messages end at 2 GiB.
    #[error(
        "the model takes {bytes} bytes in one file and protobuf ends at 2147483647; \
         keep the large initialisers as external data beside the model"
    )]
    TooLarge {
        /// Encoded size in bytes.
        bytes: usize,
    },
    /// External data that may not or cannot be used.
    #[error("tensor `{tensor}`: external data `{location}` {problem}")]
    External {
        /// The tensor that refers to the file.
        tensor: String,
        /// The file as the model names it.
        location: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A tensor whose data do not fit what it says of itself.
    #[error("tensor `{tensor}` {problem}")]
    Tensor {
        /// The tensor, `?` when unnamed.
        tensor: String,
        /// What is wrong.
        problem: String,
    },
    /// A tensor file that holds something else.
    #[error(
        "{path}: does not hold one tensor ({problem}); test files also hold sequences and optionals, which the model's \
         input and output types tell apart"
    )]
    NotATensor {
        /// The file.
        path: PathBuf,
        /// What was seen.
        problem: String,
    },
    /// A cut that leaves out what it needs.
    #[error(
        "`{to}` cannot be computed from the tensors given: it also needs `{missing}`; name those with --from too, or none \
         to begin at the model's inputs"
    )]
    Cut {
        /// The wanted tensors.
        to: String,
        /// What is missing.
        missing: String,
    },
    /// A file that cannot be written.
    #[error("{path}: cannot be written: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A tensor to be exposed that the main graph does not have.
    #[error("the main graph has no tensor `{name}`{hint}; tensors of subgraphs cannot be named")]
    UnknownTensor {
        /// The wanted name.
        name: String,
        /// ` (did you mean ..?)` or nothing.
        hint: String,
    },
}

impl ModelError {
    pub(crate) fn tensor(tensor: &str, problem: impl Into<String>) -> Self {
        let tensor = if tensor.is_empty() { "?" } else { tensor };
        Self::Tensor { tensor: tensor.to_owned(), problem: problem.into() }
    }
}
