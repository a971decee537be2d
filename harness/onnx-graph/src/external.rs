//! External data: which files a model refers to, whether they may be used, and the bytes behind a tensor.

use crate::error::ModelError;
use crate::mapped;
use crate::model::Model;
use crate::proto::{TensorProto, tensor_proto::DataLocation};
use crate::tensor::{DataType, element_count};
use crate::walk;
use bytes::Bytes;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// One tensor whose data lie in another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalFile {
    /// The tensor.
    pub tensor: String,
    /// The file, relative to the model's folder and inside it.
    pub location: String,
    /// Where the data begin, in bytes.
    pub offset: u64,
    /// How many bytes the model says there are; to the end of the data type's need if it does not.
    pub length: Option<u64>,
    /// How many bytes type and shape need.
    pub needed: u64,
}

impl Model {
    /// Every tensor with external data, those of subgraphs, functions and attributes included, in no particular order.
    /// A location that could lead out of the model's folder is refused; the disk is not touched.
    pub fn external_files(&self) -> Result<Vec<ExternalFile>, ModelError> {
        let mut found = Vec::new();
        walk::every_tensor(&self.proto, &mut |tensor| {
            if is_external(tensor) {
                found.push(ExternalFile::from_proto(tensor));
            }
        });
        found.into_iter().collect()
    }

    /// As [`Model::external_files`], and each file exists inside `dir`, symbolic links resolved, and is long enough.
    pub fn check_external(&self, dir: &Path) -> Result<Vec<ExternalFile>, ModelError> {
        let files = self.external_files()?;
        for file in &files {
            file.resolve(dir)?;
        }
        Ok(files)
    }
}

/// Does the tensor say that its data lie elsewhere?
pub(crate) fn is_external(tensor: &TensorProto) -> bool {
    tensor.data_location == Some(DataLocation::External as i32)
}

impl ExternalFile {
    /// Reads the entries of a tensor's `external_data`.
    pub(crate) fn from_proto(tensor: &TensorProto) -> Result<Self, ModelError> {
        let entry = |key| tensor.external_data.iter().find(|e| e.key() == key).map(|e| e.value().to_owned());
        let location = entry("location").unwrap_or_default();
        let refuse = |problem: String| ModelError::External {
            tensor: tensor.name().to_owned(),
            location: location.clone(),
            problem,
        };
        if let Some(why) = location_fault(&location) {
            return Err(refuse(format!("{why}; it must name a file inside the model's folder, relative and with `/`")));
        }
        let number = |key| {
            let parsed = entry(key).map(|text| text.parse::<u64>().map_err(|_| text));
            parsed.transpose().map_err(|text| refuse(format!("has the {key} `{text}`, which is no number of bytes")))
        };
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
        let (dtype, shape) = type_and_shape(tensor)?;
        let needed = element_count(&shape).and_then(|n| dtype.byte_len(n)).map(|n| n as u64);
        let Some(needed) = needed else {
            return Err(refuse(format!(
                "is to hold a {dtype} tensor of shape {shape:?}, which has no fixed size in bytes"
            )));
        };
        if let Some(stated) = length.filter(|&stated| stated != needed) {
            return Err(refuse(format!(
                "is said to hold {stated} bytes and a {dtype} tensor of shape {shape:?} needs {needed}: export the model again"
            )));
        }
        Ok(Self { tensor: tensor.name().to_owned(), location, offset, length, needed })
    }

    /// The file on disk, checked to lie inside `dir` and to be long enough.
    fn resolve(&self, dir: &Path) -> Result<PathBuf, ModelError> {
        let refuse = |problem: String| ModelError::External {
            tensor: self.tensor.clone(),
            location: self.location.clone(),
            problem,
        };
        let root = dir.canonicalize().map_err(|source| ModelError::Read { path: dir.to_owned(), source })?;
        let path = root.join(&self.location).canonicalize().map_err(|e| {
            refuse(format!("is not there below {}: {e}; copy the data files together with the model", dir.display()))
        })?;
        if !path.starts_with(&root) {
            return Err(refuse(format!("is a link that leads out of {}; put the file itself there", dir.display())));
        }
        let metadata = fs::metadata(&path).map_err(|e| refuse(format!("cannot be read: {e}")))?;
        if !metadata.is_file() {
            return Err(refuse("is not a regular file".to_owned()));
        }
        let end = self.offset.checked_add(self.needed);
        if end.is_none_or(|end| end > metadata.len()) {
            return Err(refuse(format!(
                "has {} bytes and {} are wanted from byte {} on: it is cut short or belongs to another export",
                metadata.len(),
                self.needed,
                self.offset
            )));
        }
        Ok(path)
    }

    /// The tensor's bytes, mapped.
    pub(crate) fn bytes(&self, dir: &Path) -> Result<Bytes, ModelError> {
        let all = mapped::map(&self.resolve(dir)?)?;
        let range = usize::try_from(self.offset).ok().zip(usize::try_from(self.needed).ok());
        let range = range.and_then(|(start, n)| Some(start..start.checked_add(n)?));
        match range {
            // Looked at again: the file may have changed since `resolve` asked for its length.
            Some(range) if range.end <= all.len() => Ok(all.slice(range)),
            _ => Err(ModelError::External {
                tensor: self.tensor.clone(),
                location: self.location.clone(),
                problem: "became shorter while it was read".to_owned(),
            }),
        }
    }
}

/// Element type and extents that a tensor states.
pub(crate) fn type_and_shape(tensor: &TensorProto) -> Result<(DataType, Vec<usize>), ModelError> {
    let number = tensor.data_type();
    let dtype = DataType::from_onnx(number).ok_or_else(|| {
        let problem =
            format!("has the element type {number}, which is not one of the numbers 1 to 26 that ONNX defines");
        ModelError::tensor(tensor.name(), problem)
    })?;
    let shape: Result<_, _> = tensor.dims.iter().map(|&d| usize::try_from(d)).collect();
    let shape = shape.map_err(|_| {
        ModelError::tensor(tensor.name(), format!("has a negative extent in its shape {:?}", tensor.dims))
    })?;
    Ok((dtype, shape))
}

/// Why a location may not be used, if it may not.
fn location_fault(location: &str) -> Option<&'static str> {
    let path = Path::new(location);
    let has = |wanted: fn(&Component<'_>) -> bool| path.components().any(|c| wanted(&c));
    if location.is_empty() {
        Some("names no location")
    } else if location.contains('\0') {
        Some("has a NUL character in its name")
    } else if location.contains('\\') {
        Some("has a backslash in its name")
    } else if path.is_absolute() {
        Some("is an absolute path")
    } else if has(|c| matches!(c, Component::ParentDir)) {
        Some("climbs out with `..`")
    } else if !has(|c| matches!(c, Component::Normal(_))) {
        Some("names a folder")
    } else {
        None
    }
}
