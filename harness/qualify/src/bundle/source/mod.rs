//! Opening a folder, whatever its layout.

mod array_directory;
mod backend_test;

pub(super) use array_directory::{Archive, assemble, mask_of};

use super::{Bundle, BundleError, manifest};
use camino::{Utf8Path, Utf8PathBuf};
use onnx_graph::Model;
use std::collections::BTreeMap;

/// What the caller knows of a folder without a manifest.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The model's file name, for folders that hold several; `model.onnx` otherwise, or the only `*.onnx` there is.
    pub model: Option<Utf8PathBuf>,
    /// Tensor names in the arrays' names, to the model's (`X` -> `Xfeat_normed`), inputs as well as outputs.
    pub tensor_names: BTreeMap<String, String>,
    /// The bundle's name; the folder's otherwise.
    pub name: Option<String>,
}

impl Bundle {
    /// As [`Bundle::open`], with what the caller knows of the folder. For the project's own layout, whose manifest says
    /// all, options other than the default are refused.
    pub fn open_with(dir: &Utf8Path, options: &OpenOptions) -> Result<Self, BundleError> {
        if dir.join(manifest::MANIFEST).exists() {
            if options.model.is_some() || options.name.is_some() || !options.tensor_names.is_empty() {
                return Err(BundleError::Field {
                    file: dir.join(manifest::MANIFEST),
                    field: "model, name".to_owned(),
                    problem: "are stated by the manifest and cannot be chosen".to_owned(),
                });
            }
            return manifest::open(dir);
        }
        if !dir.is_dir() {
            let source = dir.metadata().err().unwrap_or_else(|| std::io::ErrorKind::NotADirectory.into());
            return Err(BundleError::Io { action: "open", path: dir.to_owned(), source });
        }
        let bundle = if dir.join(array_directory::INPUTS).exists() {
            array_directory::open(dir, options)
        } else {
            backend_test::open(dir, options)
        }?;
        bundle.check_manifest().map_err(|(field, problem)| BundleError::Field {
            file: dir.to_owned(),
            field,
            problem,
        })?;
        Ok(bundle)
    }
}

/// Maps a model.
pub(super) fn load_model(path: &Utf8Path) -> Result<Model, BundleError> {
    Model::load(path.as_std_path()).map_err(BundleError::model(path))
}

/// The model's file name in a folder without a manifest.
pub(super) fn choose_model(dir: &Utf8Path, options: &OpenOptions) -> Result<Utf8PathBuf, BundleError> {
    if let Some(model) = &options.model {
        super::inside::resolve(dir, model).map_err(|e| BundleError::Field {
            file: dir.to_owned(),
            field: "model".into(),
            problem: e.to_string(),
        })?;
        return Ok(model.clone());
    }
    if dir.join("model.onnx").exists() {
        return Ok("model.onnx".into());
    }
    let entries = dir.read_dir_utf8().map_err(BundleError::io("list", dir))?;
    let names = entries.filter_map(Result::ok).map(|e| Utf8PathBuf::from(e.file_name()));
    let mut models: Vec<_> = names.filter(|n| n.extension() == Some("onnx")).collect();
    models.sort();
    match <[_; 1]>::try_from(models) {
        Ok([only]) => Ok(only),
        Err(models) if models.is_empty() => Err(BundleError::NoBundle { dir: dir.to_owned() }),
        Err(models) => Err(BundleError::Field {
            file: dir.to_owned(),
            field: "model".to_owned(),
            problem: format!("there are {} models ({}); say which one", models.len(), join(&models)),
        }),
    }
}

/// The model's own files: itself and its external data, each once.
pub(super) fn model_files(dir: &Utf8Path, name: &Utf8Path, model: &Model) -> Result<Vec<Utf8PathBuf>, BundleError> {
    let folder = name.parent().unwrap_or("".into());
    let external = model.check_external(dir.join(folder).as_std_path()).map_err(BundleError::model(dir.join(name)))?;
    let mut files: Vec<Utf8PathBuf> = external.into_iter().map(|f| folder.join(f.location)).collect();
    files.sort();
    files.dedup();
    files.insert(0, name.to_owned());
    Ok(files)
}

/// The name of a bundle that lies in `dir`.
pub(super) fn name_of(dir: &Utf8Path, options: &OpenOptions) -> String {
    let folder = || {
        let whole = dir.canonicalize_utf8().unwrap_or_else(|_| dir.to_owned());
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' };
        whole.file_name().unwrap_or("bundle").chars().map(plain).collect()
    };
    options.name.clone().unwrap_or_else(folder)
}

fn join(names: &[impl AsRef<str>]) -> String {
    names.iter().map(|n| format!("`{}`", n.as_ref())).collect::<Vec<_>>().join(", ")
}
