//! Bundles: a model with reference inputs and outputs, hashed and self-contained.
//!
//! Three kinds of folder are understood as they lie ([`Bundle::open`]): this project's own, with a `bundle.toml`; ONNX
//! backend test directories; and folders of a model with `inputs.npz` and `outputs*.npz`. [`import`] turns any of them
//! into the first. Opening reads headers and manifests only; every file is hashed as a stream.

pub mod array;
mod error;
mod files;
mod import;
mod inside;
mod manifest;
pub mod sdpa;
mod source;
mod verify;
mod write;

pub use array::{ArrayError, ArrayInfo, ArrayRef};
pub use error::BundleError;
pub use files::FileDigest;
pub use import::{Arrays, ImportOptions, import};
pub use source::OpenOptions;
pub use verify::Fact;
pub use write::{BundleParts, CaseParts, OutputParts, write};

use crate::nearest;
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A model with reference inputs and outputs. All paths are relative to `dir`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bundle {
    /// Short name: letters, digits, `.`, `_`, `-`.
    pub name: String,
    /// One sentence, may be empty.
    pub description: String,
    /// The folder that holds everything.
    pub dir: Utf8PathBuf,
    /// The model.
    pub model: Utf8PathBuf,
    /// Which case input says which rows are valid, if any does.
    pub mask: Option<Mask>,
    /// What is said of single outputs; those that nothing is said of are missing.
    pub outputs: Vec<OutputSpec>,
    /// The cases, names unique.
    pub cases: Vec<BundleCase>,
    /// Every file that belongs to the bundle, but `bundle.toml` and its hash.
    pub files: Vec<BundleFile>,
    /// Who made it, with what.
    pub provenance: Provenance,
    /// What kind of folder it is.
    pub layout: Layout,
}

/// The kinds of folder that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// This project's own: `bundle.toml` with the hash of every file.
    Own,
    /// An ONNX backend test directory: `model.onnx`, `test_data_set_*/{input,output}_*.pb`. No hashes.
    BackendTest,
    /// A model, `inputs.npz` and `outputs*.npz` with arrays named `BATCH_TENSOR`. No hashes.
    ArrayDirectory,
}

/// Row validity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mask {
    /// A model input; where it is non-zero (true), the row is valid.
    pub input: String,
}

/// What is said of one output of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// The output.
    pub name: String,
    /// Which of its axes the mask's axes are. Without: the leading ones, if the extents agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask_axes: Option<Vec<usize>>,
    /// The profile of limits that it is judged by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<String>,
}

/// One set of inputs with what must come out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BundleCase {
    /// Name, unique in the bundle: letters, digits, `.`, `_`, `-`.
    pub name: String,
    /// One sentence, may be empty.
    pub description: String,
    /// Every input of the model that must be fed.
    pub inputs: Vec<NamedArray>,
    /// Reference outputs.
    pub outputs: Vec<Reference>,
    /// Intermediate tensors that are compared exactly.
    pub probes: Vec<NamedArray>,
}

/// A tensor of the model and where its values lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedArray {
    /// The tensor's name in the model.
    pub name: String,
    /// Its values.
    pub array: ArrayRef,
}

/// A reference output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reference {
    /// The output's name in the model.
    pub name: String,
    /// The reference, as exact as there is one: of the output's type or a wider float.
    pub array: ArrayRef,
    /// The same computed in the model's own precision by other means: what precision alone costs.
    pub baseline: Option<ArrayRef>,
}

/// A file of the bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BundleFile {
    /// Relative to the bundle.
    pub path: Utf8PathBuf,
    /// What the manifest says of it; nothing in the layouts without hashes.
    pub recorded: Option<FileDigest>,
}

/// Where a bundle comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The program or person that made it.
    #[serde(default)]
    pub producer: String,
    /// What it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The seed of random inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// What a reader should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Versions of what made it, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
}

impl Bundle {
    /// Opens a folder of any known layout. Cheap: manifests, the model's inputs and outputs, archives' directories.
    pub fn open(dir: &Utf8Path) -> Result<Self, BundleError> {
        Self::open_with(dir, &OpenOptions::default())
    }

    /// The model's path.
    pub fn model_path(&self) -> Utf8PathBuf {
        self.dir.join(&self.model)
    }

    /// The model, mapped.
    pub fn load_model(&self) -> Result<onnx_graph::Model, BundleError> {
        inside::resolve(&self.dir, &self.model).map_err(|e| BundleError::Field {
            file: self.dir.clone(),
            field: "model".into(),
            problem: e.to_string(),
        })?;
        source::load_model(&self.model_path())
    }

    /// The case of that name.
    pub fn case(&self, name: &str) -> Result<&BundleCase, BundleError> {
        self.cases.iter().find(|c| c.name == name).ok_or_else(|| self.no_case(name))
    }

    /// Attaches an intermediate tensor that is compared exactly. Its file must lie in the bundle's folder; in the
    /// project's own layout it must be one that the manifest lists.
    pub fn add_probe(&mut self, case: &str, tensor: &str, array: ArrayRef) -> Result<(), BundleError> {
        let unknown = self.no_case(case);
        inside::resolve(&self.dir, &array.file).map_err(|e| BundleError::Field {
            file: self.dir.clone(),
            field: format!("probe `{tensor}` of case `{case}`"),
            problem: e.to_string(),
        })?;
        let probes = &mut self.cases.iter_mut().find(|c| c.name == case).ok_or(unknown)?.probes;
        if !self.files.iter().any(|f| f.path == array.file) {
            if self.layout == Layout::Own {
                return Err(BundleError::Field {
                    file: self.dir.clone(),
                    field: format!("probe `{tensor}` of case `{case}`"),
                    problem: format!("the file {} is not listed in the manifest", array.file),
                });
            }
            self.files.push(BundleFile { path: array.file.clone(), recorded: None });
        }
        probes.push(NamedArray { name: tensor.to_owned(), array });
        Ok(())
    }

    /// The axes of output `name` that the mask's axes are: as stated, or the leading ones if the extents agree, or none.
    /// Stated axes that do not fit the shapes are an error.
    pub fn mask_axes(
        &self,
        name: &str,
        mask_shape: &[usize],
        output_shape: &[usize],
    ) -> Result<Option<Vec<usize>>, BundleError> {
        let stated = self.outputs.iter().find(|o| o.name == name).and_then(|o| o.mask_axes.as_ref());
        let Some(axes) = stated else {
            return Ok(output_shape.starts_with(mask_shape).then(|| (0..mask_shape.len()).collect()));
        };
        let extents: Option<Vec<usize>> = axes.iter().map(|&axis| output_shape.get(axis).copied()).collect();
        let rising = axes.windows(2).all(|pair| pair[0] < pair[1]);
        if rising && extents.as_deref() == Some(mask_shape) {
            return Ok(Some(axes.clone()));
        }
        Err(BundleError::Field {
            file: self.dir.clone(),
            field: format!("mask_axes of output `{name}`"),
            problem: format!(
                "{axes:?} do not pick the mask's shape {mask_shape:?} out of the output's {output_shape:?}; name one \
                 axis of the output, in rising order, for each axis of the mask"
            ),
        })
    }

    fn no_case(&self, name: &str) -> BundleError {
        let hint = nearest::hint(name, self.cases.iter().map(|c| c.name.as_str()));
        BundleError::NoCase { bundle: self.name.clone(), case: name.to_owned(), hint }
    }
}
