//! A case and its bundle brought together: everything that can be wrong with them is found before a worker starts.

use crate::bundle::{ArrayRef, Bundle, BundleCase, BundleError, FileDigest, NamedArray, OpenOptions};
use crate::case::Case;
use crate::worker::OutputRequest;
use crate::{digest, nearest};
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeMap;

/// A bundle with its files' digests, in the order of its files; opened once for all its cases.
#[derive(Debug)]
pub(super) struct Opened {
    pub bundle: Bundle,
    pub digests: Vec<FileDigest>,
}

impl Opened {
    pub fn new(dir: &Utf8Path, options: &OpenOptions) -> Result<Self, BundleError> {
        let bundle = Bundle::open_with(dir, options)?;
        let digests = bundle.check_files()?;
        Ok(Self { bundle, digests })
    }
}

/// A case that can be run.
pub(super) struct Prepared<'a> {
    /// The case, the bundle's own limits filled in.
    pub case: Case,
    /// Its bundle.
    pub bundle: &'a Bundle,
    /// The case inside the bundle.
    pub replayed: &'a BundleCase,
    /// Outputs to compare, with what to count against.
    pub outputs: Vec<OutputRequest>,
    /// The array that says which rows are valid.
    pub mask: Option<ArrayRef>,
    /// SHA-256 of every file that the verdict depends on, by path below the bundle.
    pub files: Vec<(Utf8PathBuf, String)>,
}

impl<'a> Prepared<'a> {
    /// Refuses, in words, what does not fit: pins, batch, limits, names of outputs.
    pub fn new(case: &Case, opened: &'a Opened) -> Result<Self, String> {
        let bundle = &opened.bundle;
        let files = files(case, opened)?;
        let case = case.with_limits_of(bundle).map_err(|e| format!("{}: {e}", bundle.dir))?;
        let replayed = bundle.case(&case.batch).map_err(|e| e.to_string())?;
        check_names(&case, bundle, replayed)?;
        let outputs = replayed.outputs.iter().map(|reference| {
            let limits = case.limits_of(&reference.name).ok_or_else(|| {
                format!(
                    "neither {} nor the bundle states limits for output `{}`: give the group some, as `limits = \"fp32\"` \
                     (`ort-qualify limits` shows the profiles)",
                    case.file, reference.name
                )
            })?;
            let spec = bundle.outputs.iter().find(|o| o.name == reference.name);
            Ok(OutputRequest {
                name: reference.name.clone(),
                reference: reference.array.clone(),
                baseline: reference.baseline.clone(),
                mask_axes: spec.and_then(|s| s.mask_axes.clone()),
                measure: limits.measure(),
            })
        });
        let outputs = outputs.collect::<Result<_, String>>()?;
        let mask = mask(bundle, replayed)?;
        Ok(Self { case, bundle, replayed, outputs, mask, files })
    }
}

/// The bundle's files and those that only the case names (probes, pins), each hashed; pins are held here.
fn files(case: &Case, opened: &Opened) -> Result<Vec<(Utf8PathBuf, String)>, String> {
    let Opened { bundle, digests } = opened;
    let mut files: BTreeMap<Utf8PathBuf, String> =
        bundle.files.iter().zip(digests).map(|(f, d)| (f.path.clone(), d.sha256.clone())).collect();
    for path in case.probes.iter().map(|p| &p.array.file).chain(case.pins.keys()) {
        if !files.contains_key(path) {
            let file = bundle.dir.join(path);
            let (_, sha256) = digest::of_file(&file).map_err(|e| format!("cannot read {file}: {e}"))?;
            files.insert(path.clone(), sha256);
        }
    }
    for (path, pinned) in &case.pins {
        if let Some(found) = files.get(path).filter(|found| *found != pinned) {
            let file = bundle.dir.join(path);
            return Err(format!("{file}: sha256 is {found}, and {} pins {pinned}", case.file));
        }
    }
    Ok(files.into_iter().collect())
}

/// A limit for an output that is not there would never be applied.
fn check_names(case: &Case, bundle: &Bundle, replayed: &BundleCase) -> Result<(), String> {
    let known: Vec<&str> = replayed.outputs.iter().map(|o| o.name.as_str()).collect();
    let stated = case.output_limits.keys().map(|name| (case.file.as_path(), "output_limits", name));
    let described = bundle.outputs.iter().map(|o| (bundle.dir.as_path(), "[[output]]", &o.name));
    for (file, field, name) in stated.chain(described) {
        if !known.contains(&name.as_str()) {
            let hint = nearest::hint(name, known.iter().copied());
            return Err(format!(
                "{file}: {field} names `{name}`{hint}, and case `{}` of {} compares {known:?}",
                replayed.name, bundle.dir
            ));
        }
    }
    Ok(())
}

/// The array of the input that says which rows are valid.
fn mask(bundle: &Bundle, replayed: &BundleCase) -> Result<Option<ArrayRef>, String> {
    let Some(mask) = &bundle.mask else { return Ok(None) };
    let named = |input: &&NamedArray| input.name == mask.input;
    let array = replayed.inputs.iter().find(named).map(|input| input.array.clone());
    array.map(Some).ok_or_else(|| {
        format!("{}: case `{}` has no array for the mask input `{}`", bundle.dir, replayed.name, mask.input)
    })
}
