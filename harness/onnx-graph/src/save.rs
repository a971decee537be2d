//! Writing a model: whole or not at all, with weights inside the file or in files beside it.

use crate::error::ModelError;
use crate::external::{self, ExternalFile};
use crate::model::Model;
use crate::proto::tensor_proto::DataLocation;
use crate::proto::{StringStringEntryProto, TensorProto};
use crate::walk;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Tensors up to this many bytes stay in the model's file: shapes and scales are wanted at hand by every reader.
const INLINE_MAX: usize = 1024;
/// Alignment of tensors in a data file, in bytes: a page, as ONNX's own writer aligns them, so that they can be mapped.
const ALIGNMENT: u64 = 4096;

/// Where the weights go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Into the model's file, which ends at 2 GiB.
    Inline,
    /// Into one file beside it, named after the model with `.data` at the end.
    OneFile,
    /// Into one file each, named after the model and numbered.
    FileEach,
}

impl Model {
    /// Writes the model into a file that replaces another of that name at the end. `base_dir` is where the external data
    /// of the model lie now.
    pub fn save(&self, path: &Path, base_dir: &Path, weights: Weights) -> Result<(), ModelError> {
        let failed = |source| ModelError::Write { path: path.to_owned(), source };
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut model = self.clone();
        let mut data = DataFiles { folder, name, weights, open: None, files: 0 };
        let mut outcome = Ok(());
        if let Some(graph) = &mut model.proto.graph {
            walk::every_tensor_mut(graph, &mut |tensor| {
                if outcome.is_ok() {
                    outcome = data.place(tensor, base_dir);
                }
            });
        }
        outcome?;
        data.finish()?;
        let part = folder.join(format!(".{}.part", data.name));
        let bytes = model.encode()?;
        let written = std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, path));
        written.map_err(|e| {
            let _ = std::fs::remove_file(&part);
            failed(e)
        })
    }

    /// Takes external data into the model itself, as far as tensors of the main graph and its subgraphs have any.
    pub fn take_in(&mut self, base_dir: &Path) -> Result<(), ModelError> {
        let mut outcome = Ok(());
        if let Some(graph) = &mut self.proto.graph {
            walk::every_tensor_mut(graph, &mut |tensor| {
                if outcome.is_ok() {
                    outcome = take_in(tensor, base_dir);
                }
            });
        }
        outcome
    }

    /// Bytes of the weights of the main graph, wherever they lie.
    pub fn weight_bytes(&self) -> u64 {
        let size = |t: &TensorProto| {
            let (dtype, shape) = external::type_and_shape(t).ok()?;
            dtype.byte_len(crate::tensor::element_count(&shape)?)
        };
        self.graph().initializer.iter().filter_map(size).map(|n| n as u64).sum()
    }
}

fn take_in(tensor: &mut TensorProto, base_dir: &Path) -> Result<(), ModelError> {
    if external::is_external(tensor) {
        tensor.raw_data = Some(ExternalFile::from_proto(tensor)?.bytes(base_dir)?);
        tensor.data_location = None;
        tensor.external_data.clear();
    }
    Ok(())
}

/// The data files of a model that is being written.
struct DataFiles<'a> {
    folder: &'a Path,
    name: String,
    weights: Weights,
    open: Option<(String, BufWriter<File>, u64)>,
    files: usize,
}

impl DataFiles<'_> {
    /// Brings a tensor's data to where they are to lie.
    fn place(&mut self, tensor: &mut TensorProto, base_dir: &Path) -> Result<(), ModelError> {
        take_in(tensor, base_dir)?;
        let Some(raw) = tensor.raw_data.as_ref().filter(|raw| raw.len() > INLINE_MAX) else { return Ok(()) };
        if self.weights == Weights::Inline {
            return Ok(());
        }
        if self.weights == Weights::FileEach || self.open.is_none() {
            self.finish()?;
            let suffix =
                if self.weights == Weights::FileEach { format!(".{}.data", self.files) } else { ".data".to_owned() };
            let location = format!("{}{suffix}", self.name);
            let file = File::create(self.part(&location)).map_err(self.failed(&location))?;
            self.open = Some((location, BufWriter::new(file), 0));
            self.files += 1;
        }
        let Some((location, file, at)) = &mut self.open else { return Ok(()) };
        let offset = at.next_multiple_of(ALIGNMENT);
        let gap = vec![0; (offset - *at) as usize];
        let written = file.write_all(&gap).and_then(|()| file.write_all(raw));
        let entries =
            [("location", location.clone()), ("offset", offset.to_string()), ("length", raw.len().to_string())];
        *at = offset + raw.len() as u64;
        let location = location.clone();
        written.map_err(self.failed(&location))?;
        tensor.external_data =
            entries.map(|(key, value)| StringStringEntryProto { key: Some(key.to_owned()), value: Some(value) }).into();
        tensor.data_location = Some(DataLocation::External as i32);
        tensor.raw_data = None;
        Ok(())
    }

    /// Ends the file that is open and gives it its name.
    fn finish(&mut self) -> Result<(), ModelError> {
        let Some((location, file, _)) = self.open.take() else { return Ok(()) };
        let ended = file.into_inner().map_err(std::io::IntoInnerError::into_error).and_then(|f| f.sync_all());
        ended
            .and_then(|()| std::fs::rename(self.part(&location), self.folder.join(&location)))
            .map_err(self.failed(&location))
    }

    fn part(&self, location: &str) -> std::path::PathBuf {
        self.folder.join(format!(".{location}.part"))
    }

    fn failed(&self, location: &str) -> impl FnOnce(std::io::Error) -> ModelError + use<> {
        let path = self.folder.join(location);
        |source| ModelError::Write { path, source }
    }
}
