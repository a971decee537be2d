//! Folders of a model with `inputs.npz` and `outputs*.npz`, whose arrays are named `BATCH_TENSOR`.

use super::super::array::{self, ArrayRef};
use super::super::{Bundle, BundleCase, BundleError, BundleFile, Layout, Mask, NamedArray, Provenance, Reference};
use super::{OpenOptions, choose_model, join, load_model, model_files, name_of};
use crate::nearest;
use camino::{Utf8Path, Utf8PathBuf};
use onnx_graph::{Model, ValueInfo};
use std::collections::{BTreeMap, BTreeSet};

/// The inputs of all batches.
pub(super) const INPUTS: &str = "inputs.npz";

/// The reference outputs, the most exact first.
const OUTPUTS: [&str; 3] = ["outputs_fp64.npz", "outputs.npz", "outputs_fp32.npz"];

/// The input that says which rows are valid, by convention.
const MASK: &str = "mask";

/// The case of arrays that are named as the tensors are, without a batch.
const NO_BATCH: &str = "default";

pub(super) fn open(dir: &Utf8Path, options: &OpenOptions) -> Result<Bundle, BundleError> {
    let model_name = choose_model(dir, options)?;
    let outputs = OUTPUTS.iter().find(|name| dir.join(name).exists()).ok_or_else(|| BundleError::Field {
        file: dir.to_owned(),
        field: "outputs".to_owned(),
        problem: format!("beside {INPUTS} there is none of {}", join(&OUTPUTS)),
    })?;
    let mut notes = Vec::new();
    if *outputs != OUTPUTS[0] {
        notes.push(format!("the reference is {outputs}: there is no {}", OUTPUTS[0]));
    }
    let archive = |file: &str| Archive { path: dir.join(file), file: file.into() };
    let model = load_model(&dir.join(&model_name))?;
    let cases = assemble(&archive(INPUTS), &archive(outputs), &model, options)?;
    let mut listed = model_files(dir, &model_name, &model)?;
    listed.extend([INPUTS.into(), (*outputs).into()]);
    Ok(Bundle {
        name: name_of(dir, options),
        description: String::new(),
        dir: dir.to_owned(),
        model: model_name,
        mask: mask_of(&cases),
        outputs: Vec::new(),
        cases,
        files: listed.into_iter().map(|path| BundleFile { path, recorded: None }).collect(),
        provenance: Provenance { source: Some("array directory".to_owned()), notes, ..Provenance::default() },
        layout: Layout::ArrayDirectory,
    })
}

/// An `.npz` file.
pub(in super::super) struct Archive {
    /// Where it is now.
    pub path: Utf8PathBuf,
    /// Where it is in the bundle.
    pub file: Utf8PathBuf,
}

/// The input named `mask`, if the cases have one.
pub(in super::super) fn mask_of(cases: &[BundleCase]) -> Option<Mask> {
    let has = |case: &BundleCase| case.inputs.iter().any(|i| i.name == MASK);
    cases.iter().all(has).then(|| Mask { input: MASK.to_owned() })
}

/// The cases of two archives: one a batch, in the order of the inputs.
pub(in super::super) fn assemble(
    input_archive: &Archive,
    output_archive: &Archive,
    model: &Model,
    options: &OpenOptions,
) -> Result<Vec<BundleCase>, BundleError> {
    let fault = |archive: &Archive, problem| BundleError::Field {
        file: archive.path.clone(),
        field: "arrays".to_owned(),
        problem,
    };
    let outputs = Pairing::of(&output_archive.names()?, &model.outputs(), &BTreeSet::new(), &options.tensor_names)
        .map_err(|problem| fault(output_archive, problem))?;
    let batches = outputs.batches();
    let inputs = Pairing::of(&input_archive.names()?, &model.inputs(), &batches, &options.tensor_names)
        .map_err(|problem| fault(input_archive, problem))?;
    if let Some(batch) = batches.symmetric_difference(&inputs.batches()).next() {
        let mut archives = [output_archive, input_archive];
        if !batches.contains(batch) {
            archives.reverse();
        }
        return Err(fault(archives[0], format!("the batch `{batch}` has no arrays in {}", archives[1].path)));
    }
    let cases = inputs.order.iter().map(|batch| {
        let name = if batch.is_empty() { NO_BATCH } else { batch };
        let of = |pairing: &Pairing, archive: &Archive| -> Vec<NamedArray> {
            let mine = pairing.found.iter().filter(|f| f.batch == *batch);
            mine.map(|f| NamedArray { name: f.tensor.clone(), array: ArrayRef::named(&archive.file, &f.array) })
                .collect()
        };
        let outputs = of(&outputs, output_archive).into_iter();
        BundleCase {
            name: name.to_owned(),
            description: String::new(),
            inputs: of(&inputs, input_archive),
            outputs: outputs.map(|o| Reference { name: o.name, array: o.array, baseline: None }).collect(),
            probes: Vec::new(),
        }
    });
    Ok(cases.collect())
}

impl Archive {
    fn names(&self) -> Result<Vec<String>, BundleError> {
        array::names(&self.path).map_err(|error| BundleError::Archive { error })
    }
}

/// An array's name, taken apart.
struct Found {
    array: String,
    batch: String,
    tensor: String,
}

/// Arrays paired with tensors of the model.
struct Pairing {
    found: Vec<Found>,
    /// Batches in the order in which they are met.
    order: Vec<String>,
}

impl Pairing {
    /// Every name is `BATCH_TENSOR`, or `TENSOR` alone. A tensor goes by its name in the model or one of `aliases`. One
    /// suffix that is neither is the one tensor that nothing else is, if there is exactly one of each.
    fn of(
        arrays: &[String],
        values: &[ValueInfo],
        batches: &BTreeSet<String>,
        aliases: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let known = || values.iter().map(|v| v.name.as_str());
        let mut names: Vec<(&str, &str)> = known().map(|n| (n, n)).collect();
        for (alias, tensor) in aliases {
            // An alias of an output says nothing about inputs.
            names.extend(known().find(|n| n == tensor).map(|n| (alias.as_str(), n)));
        }
        // `attn_mask` before `mask`.
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut found = Vec::new();
        let mut left = Vec::new();
        for array in arrays {
            let split =
                |&(name, tensor): &(&str, &'_ str)| Some((batch_of(array.strip_suffix(name)?)?, tensor.to_owned()));
            match names.iter().find_map(split) {
                Some((batch, tensor)) => found.push(Found { array: array.clone(), batch, tensor }),
                None => left.push(array),
            }
        }
        let batches: BTreeSet<String> = batches.iter().cloned().chain(found.iter().map(|f| f.batch.clone())).collect();
        let paired: BTreeSet<&str> = found.iter().map(|f| f.tensor.as_str()).collect();
        let unpaired: Vec<&str> = known().filter(|n| !paired.contains(n)).collect();
        let split: Vec<(&String, String, String)> = left.into_iter().map(|array| split_off(array, &batches)).collect();
        let suffixes: BTreeSet<&str> = split.iter().map(|(_, _, suffix)| suffix.as_str()).collect();
        match (suffixes.len(), &unpaired[..]) {
            (0, _) => {}
            (1, [tensor]) => found.extend(split.iter().map(|(array, batch, _)| Found {
                array: (*array).clone(),
                batch: batch.clone(),
                tensor: (*tensor).to_owned(),
            })),
            _ => {
                let (array, _, suffix) = &split[0];
                let hint = nearest::hint(suffix, known());
                return Err(format!(
                    "array `{array}` is of no tensor of the model{hint}; not yet paired are {} with {}: name the pairs \
                     (--input-map NAME_IN_ARRAYS=NAME_IN_MODEL)",
                    join(&suffixes.iter().collect::<Vec<_>>()),
                    if unpaired.is_empty() { "nothing".to_owned() } else { join(&unpaired) },
                ));
            }
        }
        // Back into the order of the file, which is that of the batches.
        let place = |name: &str| arrays.iter().position(|a| a == name);
        found.sort_by_key(|f| place(&f.array));
        let mut order: Vec<String> = Vec::new();
        for f in &found {
            if !order.contains(&f.batch) {
                order.push(f.batch.clone());
            }
        }
        Ok(Self { found, order })
    }

    fn batches(&self) -> BTreeSet<String> {
        self.order.iter().cloned().collect()
    }
}

/// What stands before a tensor's name: nothing, or a batch and `_`.
fn batch_of(rest: &str) -> Option<String> {
    if rest.is_empty() {
        Some(String::new())
    } else {
        rest.strip_suffix('_').filter(|b| !b.is_empty()).map(str::to_owned)
    }
}

/// Takes a name apart at the end of a known batch, or at the first `_`.
fn split_off<'a>(array: &'a String, batches: &BTreeSet<String>) -> (&'a String, String, String) {
    let known = batches.iter().filter(|b| !b.is_empty()).rev();
    let by_batch = known
        .filter_map(|b| Some((b.as_str(), array.strip_prefix(b.as_str())?.strip_prefix('_')?)))
        .max_by_key(|(b, _)| b.len());
    let (batch, suffix) = by_batch.or_else(|| array.split_once('_')).unwrap_or(("", array));
    (array, batch.to_owned(), suffix.to_owned())
}
