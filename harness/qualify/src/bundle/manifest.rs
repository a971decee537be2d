//! `bundle.toml`: the types that mirror it, and its hash in `bundle.sha256`.
//!
//! The manifest records every file but itself; `bundle.sha256` holds the manifest's own hash in the form of
//! `sha256sum bundle.toml`, compared to the byte. So no bit of a bundle can change unnoticed.

use super::array::{ArrayRef, dtype_name};
use super::{Bundle, BundleCase, BundleError, BundleFile, FileDigest, Layout, Mask, NamedArray, OutputSpec};
use super::{Provenance, Reference, inside};
use crate::{digest, toml_file};
use camino::{Utf8Path, Utf8PathBuf};
use onnx_graph::DataType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The manifest.
pub(super) const MANIFEST: &str = "bundle.toml";

/// The manifest's hash.
pub(super) const MANIFEST_HASH: &str = "bundle.sha256";

/// The version of the format that is written, and the only one read.
const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: u32,
    name: String,
    #[serde(default)]
    description: String,
    model: Utf8PathBuf,
    provenance: Provenance,
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<Mask>,
    #[serde(default, rename = "output", skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<OutputSpec>,
    #[serde(default, rename = "case")]
    cases: Vec<CaseEntry>,
    #[serde(default, rename = "file")]
    files: Vec<FileEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseEntry {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    inputs: Vec<InputEntry>,
    outputs: Vec<OutputEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    probes: Vec<ProbeEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InputEntry {
    name: String,
    file: Utf8PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "dtype_name")]
    dtype: Option<DataType>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputEntry {
    name: String,
    file: Utf8PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "dtype_name")]
    dtype: Option<DataType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<ArrayRef>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeEntry {
    tensor: String,
    file: Utf8PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "dtype_name")]
    dtype: Option<DataType>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    path: Utf8PathBuf,
    size: u64,
    sha256: String,
}

/// The format alone, so that a newer one is called newer and not full of unknown fields.
#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

/// Opens a bundle of the project's own layout: its manifest is hashed, parsed and checked in itself.
pub(super) fn open(dir: &Utf8Path) -> Result<Bundle, BundleError> {
    let path = dir.join(MANIFEST);
    let text = read_hashed(dir, &path)?;
    let FormatOnly { format } = toml_file::parse(&path, &text)?;
    if format != FORMAT {
        let problem = format!("{format} is not known to this version, which reads {FORMAT}");
        return Err(BundleError::Field { file: path, field: "format".to_owned(), problem });
    }
    let bundle = toml_file::parse::<Manifest>(&path, &text)?.into_bundle(dir);
    bundle.check_manifest().map_err(|(field, problem)| BundleError::Field { file: path, field, problem })?;
    Ok(bundle)
}

/// The manifest's text, held against `bundle.sha256`.
fn read_hashed(dir: &Utf8Path, path: &Utf8Path) -> Result<String, BundleError> {
    let bytes = std::fs::read(path).map_err(BundleError::io("read", path))?;
    let sidecar = dir.join(MANIFEST_HASH);
    let recorded = std::fs::read(&sidecar).map_err(BundleError::io("read", &sidecar))?;
    if recorded != hash_line(&bytes).as_bytes() {
        let problem = format!(
            "its SHA-256 is not the one in {MANIFEST_HASH} (after a change on purpose: `sha256sum {MANIFEST} > {MANIFEST_HASH}`)"
        );
        return Err(BundleError::Changed { path: path.to_owned(), problem });
    }
    String::from_utf8(bytes).map_err(|_| BundleError::Field {
        file: path.to_owned(),
        field: "text".to_owned(),
        problem: "is not UTF-8".to_owned(),
    })
}

/// Writes the manifest and its hash into the bundle's folder.
pub(super) fn save(bundle: &Bundle) -> Result<(), BundleError> {
    let path = bundle.dir.join(MANIFEST);
    let field = |(field, problem)| BundleError::Field { file: path.clone(), field, problem };
    bundle.check_manifest().map_err(field)?;
    let text = toml::to_string(&Manifest::from_bundle(bundle)).map_err(|e| BundleError::Field {
        file: path.clone(),
        field: "text".into(),
        problem: e.to_string(),
    })?;
    std::fs::write(&path, &text).map_err(BundleError::io("write", &path))?;
    let sidecar = bundle.dir.join(MANIFEST_HASH);
    std::fs::write(&sidecar, hash_line(text.as_bytes())).map_err(BundleError::io("write", &sidecar))
}

/// What `sha256sum bundle.toml` prints.
fn hash_line(manifest: &[u8]) -> String {
    format!("{}  {MANIFEST}\n", digest::of_bytes(manifest))
}

impl Manifest {
    fn into_bundle(self, dir: &Utf8Path) -> Bundle {
        let record =
            |f: FileEntry| BundleFile { path: f.path, recorded: Some(FileDigest { size: f.size, sha256: f.sha256 }) };
        Bundle {
            name: self.name,
            description: self.description,
            dir: dir.to_owned(),
            model: self.model,
            mask: self.mask,
            outputs: self.outputs,
            cases: self.cases.into_iter().map(CaseEntry::into_case).collect(),
            files: self.files.into_iter().map(record).collect(),
            provenance: self.provenance,
            layout: Layout::Own,
        }
    }

    fn from_bundle(bundle: &Bundle) -> Self {
        let entry = |f: &BundleFile| {
            let digest = f.recorded.clone().expect("write and import hash every file before they save");
            FileEntry { path: f.path.clone(), size: digest.size, sha256: digest.sha256 }
        };
        Self {
            format: FORMAT,
            name: bundle.name.clone(),
            description: bundle.description.clone(),
            model: bundle.model.clone(),
            provenance: bundle.provenance.clone(),
            mask: bundle.mask.clone(),
            outputs: bundle.outputs.clone(),
            cases: bundle.cases.iter().map(CaseEntry::from_case).collect(),
            files: bundle.files.iter().map(entry).collect(),
        }
    }
}

impl CaseEntry {
    fn into_case(self) -> BundleCase {
        let input = |e: InputEntry| NamedArray {
            name: e.name,
            array: ArrayRef { file: e.file, array: e.array, dtype: e.dtype },
        };
        let output = |e: OutputEntry| Reference {
            name: e.name,
            array: ArrayRef { file: e.file, array: e.array, dtype: e.dtype },
            baseline: e.baseline,
        };
        let probe = |e: ProbeEntry| NamedArray {
            name: e.tensor,
            array: ArrayRef { file: e.file, array: e.array, dtype: e.dtype },
        };
        BundleCase {
            name: self.name,
            description: self.description,
            inputs: self.inputs.into_iter().map(input).collect(),
            outputs: self.outputs.into_iter().map(output).collect(),
            probes: self.probes.into_iter().map(probe).collect(),
        }
    }

    fn from_case(case: &BundleCase) -> Self {
        let input = |i: &NamedArray| {
            let ArrayRef { file, array, dtype } = i.array.clone();
            InputEntry { name: i.name.clone(), file, array, dtype }
        };
        let output = |o: &Reference| {
            let ArrayRef { file, array, dtype } = o.array.clone();
            OutputEntry { name: o.name.clone(), file, array, dtype, baseline: o.baseline.clone() }
        };
        let probe = |p: &NamedArray| {
            let ArrayRef { file, array, dtype } = p.array.clone();
            ProbeEntry { tensor: p.name.clone(), file, array, dtype }
        };
        Self {
            name: case.name.clone(),
            description: case.description.clone(),
            inputs: case.inputs.iter().map(input).collect(),
            outputs: case.outputs.iter().map(output).collect(),
            probes: case.probes.iter().map(probe).collect(),
        }
    }
}

/// A field and what is wrong with it.
type Fault = (String, String);

impl Bundle {
    /// What can be seen to be wrong without touching a file.
    pub(super) fn check_manifest(&self) -> Result<(), Fault> {
        check_name(&self.name).map_err(|e| ("name".to_owned(), e))?;
        let mut listed = BTreeSet::new();
        for file in &self.files {
            let fault = |problem: String| (format!("file `{}`", file.path), problem);
            inside::check(&file.path).map_err(|e| fault(e.to_string()))?;
            if [MANIFEST, MANIFEST_HASH].contains(&file.path.as_str()) {
                return Err(fault("the manifest and its hash are not listed in the manifest".to_owned()));
            }
            if file.recorded.as_ref().is_some_and(|r| !digest::is_sha256(&r.sha256)) {
                return Err(fault("sha256 must be 64 lower-case hex digits".to_owned()));
            }
            if !listed.insert(file.path.as_path()) {
                return Err(fault("is listed twice".to_owned()));
            }
        }
        if !listed.contains(self.model.as_path()) {
            return Err(("model".to_owned(), not_listed(&self.model)));
        }
        unique(self.outputs.iter().map(|o| o.name.as_str()))
            .map_err(|name| (format!("output `{name}`"), "is there twice".to_owned()))?;
        if self.cases.is_empty() {
            return Err(("case".to_owned(), "there is none; a bundle needs at least one".to_owned()));
        }
        unique(self.cases.iter().map(|c| c.name.as_str()))
            .map_err(|name| (format!("case `{name}`"), "is there twice; case names are unique".to_owned()))?;
        self.cases.iter().try_for_each(|case| {
            case.check(&listed).map_err(|(field, problem)| (format!("case `{}`{field}", case.name), problem))
        })
    }
}

impl BundleCase {
    fn check(&self, listed: &BTreeSet<&Utf8Path>) -> Result<(), Fault> {
        check_name(&self.name).map_err(|e| (String::new(), e))?;
        if self.outputs.is_empty() {
            return Err((", outputs".to_owned(), "there are none, so the case could not fail".to_owned()));
        }
        let twice = |kind: &str, name: String| (format!(", {kind} `{name}`"), "is there twice".to_owned());
        unique(self.inputs.iter().map(|i| i.name.as_str())).map_err(|n| twice("input", n))?;
        unique(self.outputs.iter().map(|o| o.name.as_str())).map_err(|n| twice("output", n))?;
        unique(self.probes.iter().map(|p| p.name.as_str())).map_err(|n| twice("probe", n))?;
        for (place, array) in self.arrays() {
            inside::check(&array.file).map_err(|e| (format!(", {place}"), e.to_string()))?;
            if !listed.contains(array.file.as_path()) {
                return Err((format!(", {place}"), not_listed(&array.file)));
            }
        }
        Ok(())
    }

    /// Every array of the case with a word for its place.
    pub(super) fn arrays(&self) -> Vec<(String, &ArrayRef)> {
        let inputs = self.inputs.iter().map(|i| (format!("input `{}`", i.name), &i.array));
        let outputs = self.outputs.iter().map(|o| (format!("output `{}`", o.name), &o.array));
        let baselines =
            self.outputs.iter().filter_map(|o| Some((format!("baseline of `{}`", o.name), o.baseline.as_ref()?)));
        let probes = self.probes.iter().map(|p| (format!("probe `{}`", p.name), &p.array));
        inputs.chain(outputs).chain(baselines).chain(probes).collect()
    }
}

/// Names become test names and folders of evidence.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.is_empty() && name.chars().all(plain) && !name.starts_with('.') {
        return Ok(());
    }
    Err(format!("`{name}` is no usable name: letters, digits, `_`, `-` and, not at its beginning, `.`"))
}

fn not_listed(path: &Utf8Path) -> String {
    format!("`{path}` is not among the [[file]] entries, so nothing is known of its content")
}

/// The first name that is there twice, as the error.
fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(name.to_owned());
        }
    }
    Ok(())
}
