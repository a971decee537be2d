//! ONNX backend test directories: `model.onnx` and `test_data_set_*/{input,output}_*.pb`, by position.

use super::super::array::ArrayRef;
use super::super::{Bundle, BundleCase, BundleError, BundleFile, Layout, NamedArray, Provenance, Reference};
use super::{OpenOptions, choose_model, load_model, model_files, name_of};
use camino::{Utf8Path, Utf8PathBuf};
use onnx_graph::{ValueInfo, ValueKind};
use std::collections::BTreeMap;

const DATA_SET: &str = "test_data_set_";

pub(super) fn open(dir: &Utf8Path, options: &OpenOptions) -> Result<Bundle, BundleError> {
    let sets = data_sets(dir)?;
    if sets.is_empty() {
        return Err(BundleError::NoBundle { dir: dir.to_owned() });
    }
    let model_name = choose_model(dir, options)?;
    let model = load_model(&dir.join(&model_name))?;
    let (inputs, outputs) = (model.inputs(), model.outputs());
    let mut files = model_files(dir, &model_name, &model)?;
    let mut cases = Vec::new();
    for set in sets {
        let fed = numbered(dir, &set, "input", &inputs)?;
        let wanted = numbered(dir, &set, "output", &outputs)?;
        files.extend(fed.iter().chain(&wanted).map(|(_, file)| file.clone()));
        let wanted = wanted.into_iter();
        cases.push(BundleCase {
            name: set,
            description: String::new(),
            inputs: fed.into_iter().map(|(name, file)| NamedArray { name, array: ArrayRef::file(file) }).collect(),
            outputs: wanted
                .map(|(name, file)| Reference { name, array: ArrayRef::file(file), baseline: None })
                .collect(),
            probes: Vec::new(),
        });
    }
    Ok(Bundle {
        name: name_of(dir, options),
        description: String::new(),
        dir: dir.to_owned(),
        model: model_name,
        mask: None,
        outputs: Vec::new(),
        cases,
        files: files.into_iter().map(|path| BundleFile { path, recorded: None }).collect(),
        provenance: Provenance { source: Some("ONNX backend test directory".to_owned()), ..Provenance::default() },
        layout: Layout::BackendTest,
    })
}

/// The data sets in the order of their numbers.
fn data_sets(dir: &Utf8Path) -> Result<Vec<String>, BundleError> {
    let entries = dir.read_dir_utf8().map_err(BundleError::io("list", dir))?;
    let names = entries.filter_map(Result::ok).map(|e| e.file_name().to_owned());
    let number = |name: &str| name.strip_prefix(DATA_SET)?.parse::<u64>().ok();
    let mut sets: Vec<(u64, String)> = names.filter_map(|n| Some((number(&n)?, n))).collect();
    sets.sort();
    Ok(sets.into_iter().map(|(_, name)| name).collect())
}

/// The files `KIND_N.pb` of a data set, each with the name of the model's Nth input or output.
fn numbered(
    dir: &Utf8Path,
    set: &str,
    kind: &str,
    values: &[ValueInfo],
) -> Result<Vec<(String, Utf8PathBuf)>, BundleError> {
    let folder = dir.join(set);
    let entries = folder.read_dir_utf8().map_err(BundleError::io("list", &folder))?;
    let mut files = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(BundleError::io("list", &folder))?;
        let name = entry.file_name();
        let number = name.strip_prefix(kind).and_then(|n| n.strip_prefix('_')?.strip_suffix(".pb"));
        if let Some(number) = number.and_then(|n| n.parse::<usize>().ok()) {
            files.insert(number, Utf8PathBuf::from(set).join(name));
        }
    }
    let named = files.into_iter().map(|(number, file)| {
        let fail = |problem: String| BundleError::Field { file: dir.to_owned(), field: file.to_string(), problem };
        let value = values.get(number).ok_or_else(|| {
            fail(format!("is {kind} number {number} (counted from 0) of a model that has {}", values.len()))
        })?;
        match value.kind {
            ValueKind::Tensor => Ok((value.name.clone(), file)),
            _ => Err(fail(format!("is for `{value}`; only tensors are fed and compared so far"))),
        }
    });
    named.collect()
}
