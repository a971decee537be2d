//! Is a bundle whole and does it fit its model? Headers only, but for the hashes.

use super::array::DEFAULT_CAP_BYTES;
use super::{ArrayInfo, ArrayRef, Bundle, BundleCase, BundleError, Layout, files, manifest};
use crate::nearest;
use camino::Utf8PathBuf;
use onnx_graph::{DataType, Dim, Model, ValueInfo, ValueKind};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Something that was found to be so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// What it is about: `files`, `model`, `case NAME`.
    pub subject: String,
    /// What holds.
    pub finding: String,
}

impl Bundle {
    /// Checks every hash, that no file is too many, that external data stay inside, and each array's dtype and shape
    /// against the model. The first thing that is wrong is the error; else the facts that were established.
    pub fn verify(&self) -> Result<Vec<Fact>, BundleError> {
        let mut facts = vec![self.verify_files()?];
        let model = self.load_model()?;
        facts.push(self.verify_model(&model)?);
        let signature = Signature {
            inputs: model.inputs(),
            outputs: model.outputs(),
            inner: model.nodes().flat_map(|n| n.outputs().iter().map(String::as_str)).collect(),
        };
        self.verify_specs(&signature)?;
        for case in &self.cases {
            facts.extend(self.verify_case(case, &signature)?);
        }
        Ok(facts)
    }

    fn verify_files(&self) -> Result<Fact, BundleError> {
        if self.layout == Layout::Own {
            let own = [manifest::MANIFEST, manifest::MANIFEST_HASH].map(Utf8PathBuf::from);
            let listed: BTreeSet<&Utf8PathBuf> = self.files.iter().map(|f| &f.path).chain(&own).collect();
            if let Some(extra) = files::walk(&self.dir)?.iter().find(|path| !listed.contains(path)) {
                return Err(self.fault(
                    format!("file `{extra}`"),
                    "is in the folder and not in the manifest; remove it or list it".to_owned(),
                ));
            }
        }
        let digests = self.check_files()?;
        let bytes: u64 = digests.iter().map(|d| d.size).sum();
        let recorded = if self.layout == Layout::Own {
            "every size and SHA-256 as recorded"
        } else {
            "readable; this layout records no hashes"
        };
        Ok(Fact { subject: "files".to_owned(), finding: format!("{} files, {bytes} bytes: {recorded}", digests.len()) })
    }

    fn verify_model(&self, model: &Model) -> Result<Fact, BundleError> {
        let path = self.model_path();
        // External data are beside the model, which may lie in a folder of the bundle.
        let folder = self.model.parent().unwrap_or("".into());
        let external = model.check_external(self.dir.join(folder).as_std_path()).map_err(BundleError::model(&path))?;
        for file in &external {
            let listed = folder.join(&file.location);
            self.inside(&listed)?;
            if !self.files.iter().any(|f| f.path == listed) {
                return Err(self.fault(
                    format!("model, tensor `{}`", file.tensor),
                    format!("its external data `{listed}` are not among the bundle's files"),
                ));
            }
        }
        let list = |values: &[ValueInfo]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let finding = format!(
            "{} nodes, {} tensors in external data; inputs {}; outputs {}",
            model.node_count(),
            external.len(),
            list(&model.inputs()),
            list(&model.outputs())
        );
        Ok(Fact { subject: "model".to_owned(), finding })
    }

    /// The mask's input and the outputs that something is said of exist.
    fn verify_specs(&self, signature: &Signature<'_>) -> Result<(), BundleError> {
        if let Some(mask) = &self.mask {
            find(&signature.inputs, &mask.input).map_err(|e| self.fault("mask".to_owned(), e))?;
        }
        for output in &self.outputs {
            let field = || format!("output `{}`", output.name);
            find(&signature.outputs, &output.name).map_err(|e| self.fault(field(), e))?;
            if self.mask.is_none() && output.mask_axes.is_some() {
                return Err(self.fault(field(), "has mask_axes, and the bundle has no [mask]".to_owned()));
            }
        }
        Ok(())
    }

    fn verify_case(&self, case: &BundleCase, signature: &Signature<'_>) -> Result<Vec<Fact>, BundleError> {
        let subject = format!("case `{}`", case.name);
        let fault = |place: &str, problem: String| self.fault(format!("{subject}, {place}"), problem);
        let mut bound = Bindings::default();
        let mut mask_shape = None;
        for input in &case.inputs {
            let place = format!("input `{}`", input.name);
            let value = find(&signature.inputs, &input.name).map_err(|e| fault(&place, e))?;
            let info = self.look_at(&subject, &place, &input.array)?;
            if let Some(wanted) = value.dtype.filter(|d| *d != info.dtype) {
                return Err(fault(&place, format!("is {} and the model wants {wanted}", info.dtype)));
            }
            bound.check(value, &info, &place).map_err(|e| fault(&place, e))?;
            if self.mask.as_ref().is_some_and(|m| m.input == input.name) {
                mask_shape = Some(info.shape);
            }
        }
        let fed = |v: &&ValueInfo| v.kind != ValueKind::Optional && !case.inputs.iter().any(|i| i.name == v.name);
        if let Some(value) = signature.inputs.iter().find(fed) {
            return Err(fault(&format!("input `{}`", value.name), format!("is missing; the model needs `{value}`")));
        }
        if self.mask.is_some() && mask_shape.is_none() {
            return Err(fault("mask", "the case does not feed the mask's input".to_owned()));
        }
        let mut facts = Vec::new();
        let mut fact = |finding: String| facts.push(Fact { subject: subject.clone(), finding });
        for output in &case.outputs {
            let place = format!("output `{}`", output.name);
            let value = find(&signature.outputs, &output.name).map_err(|e| fault(&place, e))?;
            if matches!(value.kind, ValueKind::Sequence | ValueKind::Other) {
                return Err(fault(&place, format!("the model gives `{value}`, and only tensors can be compared")));
            }
            let info = self.look_at(&subject, &place, &output.array)?;
            if let Some(wanted) = value.dtype.filter(|d| !can_judge(info.dtype, *d)) {
                let problem = format!(
                    "the reference is {} and the model gives {wanted}: it must be the same, or a wider float for a float",
                    info.dtype
                );
                return Err(fault(&place, problem));
            }
            bound.check(value, &info, &place).map_err(|e| fault(&place, e))?;
            if let Some(baseline) = &output.baseline {
                let place = format!("baseline of `{}`", output.name);
                let other = self.look_at(&subject, &place, baseline)?;
                if other.shape != info.shape || !other.dtype.is_float() || !info.dtype.is_float() {
                    let problem = format!(
                        "is {}{:?} beside the reference {}{:?}: it must be a float of the same shape",
                        other.dtype, other.shape, info.dtype, info.shape
                    );
                    return Err(fault(&place, problem));
                }
            }
            if let Some(mask) = &mask_shape {
                match self.mask_axes(&output.name, mask, &info.shape)? {
                    Some(axes) => fact(format!("{place}: mask {mask:?} on axes {axes:?} of {:?}", info.shape)),
                    None => fact(format!(
                        "{place}: compared without the mask, whose shape {mask:?} does not lead {:?}",
                        info.shape
                    )),
                }
            }
        }
        for value in signature.outputs.iter().filter(|v| !case.outputs.iter().any(|o| o.name == v.name)) {
            fact(format!("output `{}` has no reference and is not compared", value.name));
        }
        for probe in &case.probes {
            let place = format!("probe `{}`", probe.name);
            if !signature.inner.contains(probe.name.as_str()) {
                let hint = nearest::hint(&probe.name, signature.inner.iter().copied());
                return Err(fault(&place, format!("no node of the main graph makes such a tensor{hint}")));
            }
            self.look_at(&subject, &place, &probe.array)?;
        }
        fact(format!(
            "{} inputs, {} outputs, {} probes fit the model",
            case.inputs.len(),
            case.outputs.len(),
            case.probes.len()
        ));
        Ok(facts)
    }

    /// An array's type and shape. Where no hash vouches for the elements, an archive's own checksum must.
    fn look_at(&self, subject: &str, place: &str, array: &ArrayRef) -> Result<ArrayInfo, BundleError> {
        let info = match self.layout {
            Layout::Own => array.info(&self.dir, DEFAULT_CAP_BYTES),
            Layout::BackendTest | Layout::ArrayDirectory => array.check(&self.dir, DEFAULT_CAP_BYTES),
        };
        let place = || format!("{subject}, {place}");
        info.map_err(|source| BundleError::Array { dir: self.dir.clone(), place: place(), source })
    }

    fn fault(&self, field: String, problem: String) -> BundleError {
        let file = match self.layout {
            Layout::Own => self.dir.join(manifest::MANIFEST),
            Layout::BackendTest | Layout::ArrayDirectory => self.dir.clone(),
        };
        BundleError::Field { file, field, problem }
    }
}

/// What a model takes, gives and makes on the way.
struct Signature<'a> {
    inputs: Vec<ValueInfo>,
    outputs: Vec<ValueInfo>,
    inner: BTreeSet<&'a str>,
}

fn find<'a>(values: &'a [ValueInfo], name: &str) -> Result<&'a ValueInfo, String> {
    values.iter().find(|v| v.name == name).ok_or_else(|| {
        let hint = nearest::hint(name, values.iter().map(|v| v.name.as_str()));
        let known: Vec<String> = values.iter().map(|v| format!("`{}`", v.name)).collect();
        format!("the model has no `{name}`{hint}; it has {}", known.join(", "))
    })
}

/// Can an array of `reference` judge an output of `output`?
fn can_judge(reference: DataType, output: DataType) -> bool {
    reference == output || (reference.is_float() && output.is_float() && reference.bits() > output.bits())
}

/// The extents that symbolic dimensions have in a case, and where each was first seen.
#[derive(Default)]
struct Bindings(BTreeMap<String, (usize, String)>);

impl Bindings {
    fn check(&mut self, value: &ValueInfo, info: &ArrayInfo, place: &str) -> Result<(), String> {
        let Some(dims) = &value.shape else { return Ok(()) };
        let mismatch = || format!("has the shape {:?} and the model says `{value}`", info.shape);
        if dims.len() != info.shape.len() {
            return Err(mismatch());
        }
        for (dim, &extent) in dims.iter().zip(&info.shape) {
            match dim {
                Dim::Unknown => {}
                Dim::Fixed(wanted) if *wanted == extent => {}
                Dim::Fixed(_) => return Err(mismatch()),
                Dim::Symbol(symbol) => {
                    let first = self.0.entry(symbol.clone()).or_insert_with(|| (extent, place.to_owned()));
                    if first.0 != extent {
                        return Err(format!("{}; `{symbol}` was {} in {}", mismatch(), first.0, first.1));
                    }
                }
            }
        }
        Ok(())
    }
}
