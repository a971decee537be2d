//! Arrays in files: `.npy`, `.npz`, `.safetensors` and ONNX's tensor files (`.pb`), read into [`Tensor`].
//!
//! A header is parsed and the elements are read in one go; only big-endian, Fortran-ordered and string arrays are
//! rearranged. Nothing is allocated that the file's own length does not justify.

mod error;
mod layout;
mod npy;
mod npy_header;
mod npz;
mod npz_write;
mod safetensors_file;
mod strings;

pub use error::{ArrayError, ArrayProblem};
pub use npz_write::{needs_dtype, write_npz};

use super::inside;
use camino::{Utf8Path, Utf8PathBuf};
use onnx_graph::{DataType, Tensor};
use serde::{Deserialize, Serialize};

/// The largest array that is read unless the caller says otherwise, in bytes once inflated.
pub const DEFAULT_CAP_BYTES: u64 = 8 << 30;

/// Where an array lies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayRef {
    /// The file, relative to the bundle's folder and inside it; its ending says the format.
    pub file: Utf8PathBuf,
    /// Which array of an `.npz` or `.safetensors` file; needless if it holds only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// What the bits are, for types that numpy has no name for (bfloat16, float8): the file then holds `V2`, `u2`, ...
    #[serde(default, skip_serializing_if = "Option::is_none", with = "dtype_name")]
    pub dtype: Option<DataType>,
}

/// What an array's header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayInfo {
    /// Element type.
    pub dtype: DataType,
    /// Extents in elements, outermost first.
    pub shape: Vec<usize>,
}

/// Whether an array's elements are wanted, only looked at, or not at all.
#[derive(Clone, Copy)]
enum Depth {
    Header,
    /// Read to the end and thrown away, so that an archive's checksum is held against it.
    Stream,
    Elements,
}

/// A header, and the elements if they were asked for.
struct Found {
    info: ArrayInfo,
    tensor: Option<Tensor>,
}

/// The formats, by the file's ending.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Npy,
    Npz,
    Safetensors,
    OnnxTensor,
}

impl ArrayRef {
    /// The only array of `file`.
    pub fn file(file: impl Into<Utf8PathBuf>) -> Self {
        Self { file: file.into(), array: None, dtype: None }
    }

    /// The array `array` of `file`.
    pub fn named(file: impl Into<Utf8PathBuf>, array: impl Into<String>) -> Self {
        Self { file: file.into(), array: Some(array.into()), dtype: None }
    }

    /// Reads the array. `dir` is the bundle's folder, which links may not lead out of; `cap` is the most bytes that the
    /// elements may take ([`DEFAULT_CAP_BYTES`]).
    pub fn read(&self, dir: &Utf8Path, cap: u64) -> Result<Tensor, ArrayError> {
        let found = self.find(dir, cap, Depth::Elements)?;
        Ok(found.tensor.expect("Depth::Elements was asked for"))
    }

    /// Reads only the header. That the file is long enough for the elements is checked, their bytes are not.
    pub fn info(&self, dir: &Utf8Path, cap: u64) -> Result<ArrayInfo, ArrayError> {
        self.find(dir, cap, Depth::Header).map(|found| found.info)
    }

    /// As [`ArrayRef::info`], and the elements are read to the end without being kept.
    pub fn check(&self, dir: &Utf8Path, cap: u64) -> Result<ArrayInfo, ArrayError> {
        self.find(dir, cap, Depth::Stream).map(|found| found.info)
    }

    fn find(&self, dir: &Utf8Path, cap: u64, depth: Depth) -> Result<Found, ArrayError> {
        let fail =
            |problem| ArrayError { file: self.file.clone(), array: self.array.clone(), problem: Box::new(problem) };
        let path = inside::resolve(dir, &self.file).map_err(|e| fail(ArrayProblem::Path(e)))?;
        let format = Format::of(&self.file).ok_or_else(|| fail(ArrayProblem::UnknownFormat))?;
        if let (Format::Npy | Format::OnnxTensor, Some(_)) = (format, &self.array) {
            return Err(fail(ArrayProblem::NotAnArchive));
        }
        let name = self.array.as_deref();
        let found = match format {
            Format::Npy => npy::open(&path, self.dtype, cap, depth),
            Format::Npz => npz::open(&path, name, self.dtype, cap, depth),
            Format::Safetensors => safetensors_file::open(&path, name, self.dtype, cap, depth),
            Format::OnnxTensor => open_tensor_file(&path, self.dtype, cap),
        };
        found.map_err(fail)
    }
}

/// The names of the arrays in an `.npz` or `.safetensors` file, in the order of the file.
pub fn names(path: &Utf8Path) -> Result<Vec<String>, ArrayError> {
    let names = match Format::of(path) {
        Some(Format::Npz) => npz::names(path),
        Some(Format::Safetensors) => safetensors_file::names(path),
        Some(Format::Npy | Format::OnnxTensor) => Err(ArrayProblem::NotAnArchive),
        None => Err(ArrayProblem::UnknownFormat),
    };
    names.map_err(|problem| ArrayError { file: path.to_owned(), array: None, problem: Box::new(problem) })
}

impl Format {
    fn of(file: &Utf8Path) -> Option<Self> {
        match file.extension()? {
            "npy" => Some(Self::Npy),
            "npz" => Some(Self::Npz),
            "safetensors" => Some(Self::Safetensors),
            "pb" => Some(Self::OnnxTensor),
            _ => None,
        }
    }
}

/// ONNX's tensor file: one message, mapped, so there is no header to read apart.
fn open_tensor_file(path: &Utf8Path, wanted: Option<DataType>, cap: u64) -> Result<Found, ArrayProblem> {
    let length = std::fs::metadata(path)?.len();
    if length > cap {
        return Err(ArrayProblem::TooLarge { bytes: u128::from(length), cap });
    }
    let (_, tensor) = onnx_graph::read_tensor_pb(path.as_std_path()).map_err(Box::new)?;
    match wanted {
        Some(wanted) if wanted != tensor.dtype => Err(ArrayProblem::Cast { stored: tensor.dtype.to_string(), wanted }),
        _ => {
            let info = ArrayInfo { dtype: tensor.dtype, shape: tensor.shape.clone() };
            Ok(Found { info, tensor: Some(tensor) })
        }
    }
}

/// Element types in JSON and TOML: by name.
pub(super) mod dtype_name {
    use onnx_graph::DataType;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    // The signature is serde's.
    #[allow(clippy::ref_option, clippy::trivially_copy_pass_by_ref)]
    pub(in super::super) fn serialize<S: Serializer>(dtype: &Option<DataType>, s: S) -> Result<S::Ok, S::Error> {
        dtype.map(DataType::name).serialize(s)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<DataType>, D::Error> {
        let name = Option::<String>::deserialize(d)?;
        name.map(|n| DataType::from_name(&n).ok_or_else(|| D::Error::custom(super::unknown_dtype(&n)))).transpose()
    }
}

/// What is said of a name that is no element type.
fn unknown_dtype(name: &str) -> String {
    let known = (1..=26).filter_map(DataType::from_onnx).map(DataType::name);
    format!("`{name}` is no element type{}", crate::nearest::hint(name, known))
}

#[cfg(test)]
mod tests;
