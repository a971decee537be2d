//! Writing a bundle: whole or not at all, and the same bytes every time.

use super::array::{self, ArrayError, ArrayProblem, write_npz};
use super::{ArrayRef, Bundle, BundleCase, BundleError, BundleFile, FileDigest, Layout, Mask, NamedArray};
use super::{OutputSpec, Provenance, Reference, manifest};
use camino::{Utf8Path, Utf8PathBuf};
use onnx_graph::{Model, Tensor};
use std::fs::File;
use std::io::BufWriter;

const MODEL: &str = "model.onnx";
const INPUTS: &str = "inputs.npz";
const OUTPUTS: &str = "outputs.npz";
const BASELINES: &str = "baselines.npz";
const PROBES: &str = "probes.npz";

/// What a bundle is made of. The model must hold its weights itself.
#[derive(Clone, Debug)]
pub struct BundleParts {
    /// Short name: letters, digits, `.`, `_`, `-`.
    pub name: String,
    /// One sentence.
    pub description: String,
    /// The model.
    pub model: Model,
    /// Which input says which rows are valid.
    pub mask: Option<Mask>,
    /// Mask axes and limits of outputs.
    pub outputs: Vec<OutputSpec>,
    /// The cases.
    pub cases: Vec<CaseParts>,
    /// Who made it, with what.
    pub provenance: Provenance,
}

/// A case with its arrays.
#[derive(Clone, Debug)]
pub struct CaseParts {
    /// Name, unique in the bundle.
    pub name: String,
    /// One sentence, may be empty.
    pub description: String,
    /// Inputs by name.
    pub inputs: Vec<(String, Tensor)>,
    /// Reference outputs.
    pub outputs: Vec<OutputParts>,
    /// Intermediate tensors by name, compared exactly.
    pub probes: Vec<(String, Tensor)>,
}

/// A reference output with its values.
#[derive(Clone, Debug)]
pub struct OutputParts {
    /// The output's name.
    pub name: String,
    /// The reference.
    pub reference: Tensor,
    /// The same in the model's own precision.
    pub baseline: Option<Tensor>,
}

/// Writes a bundle into the new folder `dest` and verifies it. The same parts give the same bytes.
pub fn write(dest: &Utf8Path, parts: &BundleParts) -> Result<Bundle, BundleError> {
    build(dest, |dir| {
        let model = dir.join(MODEL);
        let bytes = parts.model.encode().map_err(BundleError::model(&model))?;
        std::fs::write(&model, bytes).map_err(BundleError::io("write", &model))?;
        let mut archives = [INPUTS, OUTPUTS, BASELINES, PROBES].map(|file| Archive { file, arrays: Vec::new() });
        let [inputs, outputs, baselines, probes] = &mut archives;
        let mut cases = Vec::new();
        for case in &parts.cases {
            cases.push(BundleCase {
                name: case.name.clone(),
                description: case.description.clone(),
                inputs: inputs.add_all(&case.name, &case.inputs),
                outputs: case
                    .outputs
                    .iter()
                    .map(|o| Reference {
                        name: o.name.clone(),
                        array: outputs.add(&case.name, &o.name, &o.reference),
                        baseline: o.baseline.as_ref().map(|b| baselines.add(&case.name, &o.name, b)),
                    })
                    .collect(),
                probes: probes.add_all(&case.name, &case.probes),
            });
        }
        let mut files: Vec<Utf8PathBuf> = vec![MODEL.into()];
        for archive in archives.iter().filter(|a| !a.arrays.is_empty()) {
            archive.save(dir)?;
            files.push(archive.file.into());
        }
        Ok(Bundle {
            name: parts.name.clone(),
            description: parts.description.clone(),
            dir: dir.to_owned(),
            model: MODEL.into(),
            mask: parts.mask.clone(),
            outputs: parts.outputs.clone(),
            cases,
            files: files.into_iter().map(|path| BundleFile { path, recorded: None }).collect(),
            provenance: parts.provenance.clone(),
            layout: Layout::Own,
        })
    })
}

/// Makes a bundle in a folder of its own beside `dest`, records every file's hash, verifies and renames it. `fill` puts
/// the files there.
pub(super) fn build(
    dest: &Utf8Path,
    fill: impl FnOnce(&Utf8Path) -> Result<Bundle, BundleError>,
) -> Result<Bundle, BundleError> {
    if dest.symlink_metadata().is_ok() {
        return Err(BundleError::Exists { path: dest.to_owned() });
    }
    let parent = dest.parent().filter(|p| !p.as_str().is_empty()).unwrap_or(".".into());
    std::fs::create_dir_all(parent).map_err(BundleError::io("make", parent))?;
    let temp =
        tempfile::Builder::new().prefix(".part-").tempdir_in(parent).map_err(BundleError::io("write in", parent))?;
    let dir = Utf8Path::from_path(temp.path()).expect("a plain name below a path that is UTF-8");
    let mut bundle = fill(dir)?;
    bundle.files.sort_by(|a, b| a.path.cmp(&b.path));
    for file in &mut bundle.files {
        file.recorded = Some(FileDigest::of(&dir.join(&file.path))?);
    }
    manifest::save(&bundle)?;
    Bundle::open(dir)?.verify()?;
    // A temporary folder is private to its owner; a bundle is for everyone.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir, mode).map_err(BundleError::io("open up", dir))?;
    std::fs::rename(dir, dest).map_err(BundleError::io("rename the finished bundle to", dest))?;
    Bundle::open(dest)
}

/// An `.npz` file to be.
struct Archive<'a> {
    file: &'static str,
    arrays: Vec<(String, &'a Tensor)>,
}

impl<'a> Archive<'a> {
    fn add(&mut self, case: &str, name: &str, tensor: &'a Tensor) -> ArrayRef {
        // A case's name has no slash, so these keys are as unique as the names.
        let array = format!("{case}/{name}");
        self.arrays.push((array.clone(), tensor));
        let dtype = array::needs_dtype(tensor.dtype).then_some(tensor.dtype);
        ArrayRef { file: self.file.into(), array: Some(array), dtype }
    }

    fn add_all(&mut self, case: &str, arrays: &'a [(String, Tensor)]) -> Vec<NamedArray> {
        let named = |(name, tensor): &'a (String, Tensor)| NamedArray {
            name: name.clone(),
            array: self.add(case, name, tensor),
        };
        arrays.iter().map(named).collect()
    }

    fn save(&self, dir: &Utf8Path) -> Result<(), BundleError> {
        let path = dir.join(self.file);
        let out = BufWriter::new(File::create(&path).map_err(BundleError::io("write", &path))?);
        write_npz(out, self.arrays.iter().map(|(name, tensor)| (name.as_str(), *tensor))).map_err(|problem| {
            match problem {
                ArrayProblem::Io(source) => BundleError::Io { action: "write", path, source },
                problem => {
                    BundleError::Archive { error: ArrayError { file: path, array: None, problem: Box::new(problem) } }
                }
            }
        })
    }
}
