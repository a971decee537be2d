//! Why an array could not be had.

use super::super::inside::OutsideError;
use camino::Utf8PathBuf;
use onnx_graph::{DataType, ModelError, tensor::SizeMismatch};
use std::fmt;

/// An array that could not be read, with its file and name.
#[derive(Debug)]
pub struct ArrayError {
    /// The file as it was named.
    pub file: Utf8PathBuf,
    /// The array's name in it, if one was given.
    pub array: Option<String>,
    /// What is wrong.
    pub problem: Box<ArrayProblem>,
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.array {
            Some(array) => write!(f, "{}, array `{array}`: {}", self.file, self.problem),
            None => write!(f, "{}: {}", self.file, self.problem),
        }
    }
}

impl std::error::Error for ArrayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The problem's own text is part of this error's; only what lies behind it is left to tell.
        std::error::Error::source(&self.problem)
    }
}

/// What is wrong with an array or its file.
#[derive(Debug, thiserror::Error)]
pub enum ArrayProblem {
    /// The file may not be used.
    #[error("{0}")]
    Path(OutsideError),
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// The ending is none of the known ones.
    #[error("is no array file: the ending must be .npy, .npz, .safetensors or .pb")]
    UnknownFormat,
    /// A named array was asked of a file that holds only one, without a name.
    #[error("holds a single array without a name, so none can be chosen by name")]
    NotAnArchive,
    /// No such array.
    #[error("is not in the file{hint}; it holds {known}")]
    Missing {
        /// ` (did you mean ..?)` or nothing.
        hint: String,
        /// The arrays that are there.
        known: String,
    },
    /// No name was given and the file does not hold exactly one array.
    #[error("an array must be named, since the file holds {known}")]
    Unnamed {
        /// The arrays that are there.
        known: String,
    },
    /// Python objects.
    #[error("holds Python objects (pickled), which are not read: they can run code; save it with a plain dtype")]
    Object,
    /// A record dtype.
    #[error("has a structured dtype (named fields), which no tensor has; save each field as an array of its own")]
    Structured,
    /// A type that tensors do not have.
    #[error("has the dtype `{dtype}`, which is not supported{advice}")]
    Unsupported {
        /// As the file names it.
        dtype: String,
        /// What to do, or nothing.
        advice: &'static str,
    },
    /// `dtype` in the reference does not fit what is stored.
    #[error("is stored as `{stored}`, whose bits cannot be read as {wanted}")]
    Cast {
        /// As the file names it.
        stored: String,
        /// As the reference names it.
        wanted: DataType,
    },
    /// The header is not one.
    #[error("has no readable header: {0}")]
    Header(String),
    /// Fewer bytes than declared.
    #[error("is cut short: {declared} bytes of elements are declared and {found} are there")]
    Truncated {
        /// What dtype and shape need.
        declared: u64,
        /// What is there.
        found: u64,
    },
    /// More bytes than declared.
    #[error("is longer than declared: {declared} bytes of elements are declared and {found} are there")]
    TooLong {
        /// What dtype and shape need.
        declared: u64,
        /// What is there, at least.
        found: u64,
    },
    /// A size that the cap or the file's own length rules out.
    #[error("would take {bytes} bytes, above the cap of {cap} bytes for one array")]
    TooLarge {
        /// Declared.
        bytes: u128,
        /// Allowed.
        cap: u64,
    },
    /// A declared size that the compressed data cannot inflate to.
    #[error(
        "claims to inflate {packed} bytes to {declared}, more than the compression can: the file is damaged or a zip bomb"
    )]
    Bomb {
        /// Compressed size.
        packed: u64,
        /// Declared size.
        declared: u64,
    },
    /// The archive is damaged or uses what is not supported.
    #[error("is not a usable zip archive: {0}")]
    Zip(String),
    /// Two arrays of one name.
    #[error("holds two entries of the same name, so it is not clear which one is meant")]
    Duplicate,
    /// A safetensors header that contradicts itself or the file.
    #[error("is not a usable safetensors file: {0}")]
    Safetensors(String),
    /// An ONNX tensor file that is not one.
    #[error(transparent)]
    OnnxTensor(#[from] Box<ModelError>),
    /// A bool that is neither 0 nor 1.
    #[error("is bool and holds the byte {0} which is neither 0 nor 1")]
    Bool(u8),
    /// A string that is not one.
    #[error("element {index} is not a valid string: {problem}")]
    Text {
        /// Which element, counted row-major.
        index: usize,
        /// Why.
        problem: String,
    },
    /// A tensor that cannot be written in this format.
    #[error("cannot be written as .npy: {0}")]
    Unwritable(String),
    /// Type, shape and bytes do not belong together.
    #[error(transparent)]
    Size(#[from] Box<SizeMismatch>),
}

/// Names for a message: the first of them, and how many more there are.
pub(super) fn list(names: &[String]) -> String {
    const SHOWN: usize = 12;
    if names.is_empty() {
        return "no arrays".to_owned();
    }
    let shown: Vec<String> = names.iter().take(SHOWN).map(|n| format!("`{n}`")).collect();
    let more = names.len().saturating_sub(SHOWN);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}
