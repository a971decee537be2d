//! A bundle of the project's own layout from what others left: everything is copied, nothing is linked.

use super::source::{self, Archive, OpenOptions, assemble, load_model, mask_of, model_files};
use super::write::build;
use super::{Bundle, BundleError, BundleFile, Layout, Provenance, inside};
use camino::{Utf8Path, Utf8PathBuf};
use onnx_graph::Model;
use std::fs::{self, File};
use std::io;

/// How to read the source of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Which model, which tensor names, which name.
    pub open: OpenOptions,
    /// The arrays, if they are two files of their own.
    pub arrays: Option<Arrays>,
}

/// Two `.npz` files with arrays named `BATCH_TENSOR`, or `TENSOR` for a single case.
#[derive(Clone, Debug)]
pub struct Arrays {
    /// Inputs.
    pub inputs: Utf8PathBuf,
    /// Reference outputs.
    pub outputs: Utf8PathBuf,
}

/// Imports `source` into the new folder `dest`: an ONNX backend test directory, a folder with `inputs.npz` and
/// `outputs*.npz`, or a model with two `.npz` files. `source` may also be the model's file in such a folder.
pub fn import(source: &Utf8Path, dest: &Utf8Path, options: &ImportOptions) -> Result<Bundle, BundleError> {
    let mut open = options.open.clone();
    let mut dir = source.to_owned();
    if source.is_file() && source.extension() == Some("onnx") {
        dir = source.parent().filter(|p| !p.as_str().is_empty()).unwrap_or(".".into()).to_owned();
        open.model = source.file_name().map(Utf8PathBuf::from);
    }
    match &options.arrays {
        Some(arrays) => import_arrays(&dir, dest, &open, arrays),
        None => import_folder(&dir, dest, &open),
    }
}

fn import_folder(dir: &Utf8Path, dest: &Utf8Path, options: &OpenOptions) -> Result<Bundle, BundleError> {
    let source = Bundle::open_with(dir, options)?;
    if source.layout == Layout::Own {
        return Err(BundleError::Field {
            file: dir.to_owned(),
            field: "layout".to_owned(),
            problem: "is a bundle already; copy the folder instead of importing it".to_owned(),
        });
    }
    // Here rather than only at the end, so that the messages name the source's files.
    source.verify()?;
    build(dest, |into| {
        for file in &source.files {
            copy(&source.inside(&file.path)?, &into.join(&file.path))?;
        }
        let provenance = provenance(source.provenance.clone(), &source.load_model()?);
        Ok(Bundle { dir: into.to_owned(), layout: Layout::Own, provenance, ..source.clone() })
    })
}

fn import_arrays(
    dir: &Utf8Path,
    dest: &Utf8Path,
    options: &OpenOptions,
    arrays: &Arrays,
) -> Result<Bundle, BundleError> {
    let model_name = source::choose_model(dir, options)?;
    let model = load_model(&dir.join(&model_name))?;
    let inputs = Archive { path: arrays.inputs.clone(), file: "inputs.npz".into() };
    let outputs = Archive { path: arrays.outputs.clone(), file: "outputs.npz".into() };
    let cases = assemble(&inputs, &outputs, &model, options)?;
    let own = model_files(dir, &model_name, &model)?;
    if let Some(taken) = own.iter().find(|f| **f == inputs.file || **f == outputs.file) {
        return Err(BundleError::Field {
            file: dir.join(&model_name),
            field: "external data".to_owned(),
            problem: format!(
                "`{taken}` is where the bundle's arrays go; rename the file and the model's reference to it"
            ),
        });
    }
    build(dest, |into| {
        let mut files = own.clone();
        for file in &own {
            let from = inside::resolve(dir, file).map_err(|e| BundleError::Field {
                file: dir.to_owned(),
                field: "file".to_owned(),
                problem: e.to_string(),
            })?;
            copy(&from, &into.join(file))?;
        }
        for archive in [&inputs, &outputs] {
            copy(&archive.path, &into.join(&archive.file))?;
            files.push(archive.file.clone());
        }
        let from = Provenance { source: Some("a model and two .npz files".to_owned()), ..Provenance::default() };
        Ok(Bundle {
            name: source::name_of(dest, options),
            description: String::new(),
            dir: into.to_owned(),
            model: model_name.clone(),
            mask: mask_of(&cases),
            outputs: Vec::new(),
            cases,
            files: files.into_iter().map(|path| BundleFile { path, recorded: None }).collect(),
            provenance: provenance(from, &model),
            layout: Layout::Own,
        })
    })
}

/// The content alone: neither links nor permissions, which may be read-only.
fn copy(from: &Utf8Path, to: &Utf8Path) -> Result<(), BundleError> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(BundleError::io("make", folder))?;
    }
    let mut reader = File::open(from).map_err(BundleError::io("read", from))?;
    let mut writer = File::create(to).map_err(BundleError::io("write", to))?;
    io::copy(&mut reader, &mut writer).map_err(BundleError::io("copy", to))?;
    Ok(())
}

/// Adds who imported and what the model says of its maker.
fn provenance(from: Provenance, model: &Model) -> Provenance {
    let mut versions = from.versions;
    versions.insert("ort-qualify".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let (name, version) = (model.proto.producer_name(), model.proto.producer_version());
    if !name.is_empty() {
        versions.insert(name.to_owned(), version.to_owned());
    }
    Provenance { producer: "ort-qualify bundle import".to_owned(), versions, ..from }
}
