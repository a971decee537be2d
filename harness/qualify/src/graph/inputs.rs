//! Inputs for a whole model: those of a bundle, and generated ones that models of ragged events are most often wrong on.

use super::hostile::{Wanted, from_floats, from_integers};
use super::stack::Tensors;
use crate::bundle::array::DEFAULT_CAP_BYTES;
use crate::bundle::{ArrayError, Bundle};
use crate::random::SplitMix64;
use onnx_graph::proto::TensorProto;
use onnx_graph::{Dim, Model, Tensor, ValueInfo};
use std::collections::BTreeMap;

/// Inputs that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum InputsError {
    /// An input of the model has a type that nothing can be drawn for.
    #[error("no values can be generated for the input {input}; give a bundle with inputs instead (--bundle DIR)")]
    Undrawable {
        /// The input with its type.
        input: String,
    },
    /// The named mask is no input.
    #[error("the model has no input `{mask}` that could be a mask; its inputs are {inputs}")]
    NoMask {
        /// The name that was given.
        mask: String,
        /// The inputs there are.
        inputs: String,
    },
    /// An array of the bundle cannot be read.
    #[error(transparent)]
    Array(#[from] ArrayError),
}

/// The inputs of every case of a bundle.
pub fn of_bundle(bundle: &Bundle) -> Result<Vec<(String, Tensors)>, InputsError> {
    let read = |case: &crate::bundle::BundleCase| -> Result<(String, Tensors), InputsError> {
        let tensors = case.inputs.iter().map(|i| Ok((i.name.clone(), i.array.read(&bundle.dir, DEFAULT_CAP_BYTES)?)));
        Ok((format!("case {}", case.name), tensors.collect::<Result<_, InputsError>>()?))
    };
    bundle.cases.iter().map(read).collect()
}

/// Values for the named extents of a model: those given, then those of inputs that are there, then 4.
pub fn extents(model: &Model, given: &BTreeMap<String, usize>, fed: &[(String, Tensors)]) -> BTreeMap<String, usize> {
    let mut extents = BTreeMap::new();
    for input in model.inputs() {
        let shape = fed.first().and_then(|(_, tensors)| tensors.get(&input.name)).map(|t| t.shape.clone());
        for (axis, dim) in input.shape.iter().flatten().enumerate() {
            if let Dim::Symbol(name) = dim {
                let met = shape.as_ref().and_then(|s| s.get(axis)).copied();
                extents.entry(name.clone()).or_insert_with(|| given.get(name).copied().or(met).unwrap_or(4));
            }
        }
    }
    extents
}

/// The sets that are generated.
const PATTERNS: &[Pattern] = &[
    Pattern::Plain,
    Pattern::Padded,
    Pattern::Holes,
    Pattern::AllMasked,
    Pattern::Ties,
    Pattern::Zeros,
    Pattern::Axes,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    Plain,
    /// The last rows are zero and masked.
    Padded,
    /// Rows in between are zero and masked.
    Holes,
    /// The first event is zero and masked altogether.
    AllMasked,
    /// Each row is there twice.
    Ties,
    /// Nothing but zeros.
    Zeros,
    /// Zeros and ones of both signs.
    Axes,
}

impl Pattern {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "generated plain",
            Self::Padded => "generated padded",
            Self::Holes => "generated holes",
            Self::AllMasked => "generated all-masked",
            Self::Ties => "generated ties",
            Self::Zeros => "generated zeros",
            Self::Axes => "generated axes",
        }
    }

    /// Which rows of `[events, rows]` are valid.
    fn valid(self, shape: &[usize], random: &mut SplitMix64) -> Vec<bool> {
        let rows = shape.last().copied().unwrap_or(1).max(1);
        let count: usize = shape.iter().product();
        let of = |i: usize, random: &mut SplitMix64| match self {
            Self::Padded => i % rows < rows - rows / 3,
            Self::Holes => i.is_multiple_of(rows) || !random.next().is_multiple_of(4),
            Self::AllMasked => i / rows != 0,
            _ => true,
        };
        (0..count).map(|i| of(i, random)).collect()
    }
}

/// Generated inputs. `mask` names the input whose nonzero elements mark the valid rows, where there is one.
pub fn generate(
    model: &Model,
    mask: Option<&str>,
    extents: &BTreeMap<String, usize>,
    seed: u64,
) -> Result<Vec<(String, Tensors)>, InputsError> {
    let inputs = model.inputs();
    let initialised: Vec<&str> = model.graph().initializer.iter().map(TensorProto::name).collect();
    let inputs: Vec<&ValueInfo> = inputs.iter().filter(|i| !initialised.contains(&i.name.as_str())).collect();
    let wanted = inputs.iter().map(|info| want(info, extents)).collect::<Result<Vec<_>, _>>()?;
    let at = mask.map(|mask| {
        let at = inputs.iter().position(|i| i.name == mask);
        at.ok_or_else(|| InputsError::NoMask {
            mask: mask.to_owned(),
            inputs: inputs.iter().map(|i| i.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    });
    let at = at.transpose()?;
    // Without a mask, the first two axes of the first input of two are taken for events and rows.
    let rows: Option<Vec<usize>> = match at {
        Some(at) => Some(wanted[at].shape.clone()),
        None => wanted.iter().find(|w| w.shape.len() >= 2).map(|w| w.shape[..2].to_vec()),
    };
    let mut sets = Vec::new();
    for (i, &pattern) in PATTERNS.iter().enumerate() {
        let mut random = SplitMix64(seed.wrapping_add(i as u64));
        let valid = rows.as_ref().map(|shape| pattern.valid(shape, &mut random));
        let mut set = Tensors::new();
        for (place, (info, w)) in inputs.iter().zip(&wanted).enumerate() {
            let tensor = match (&valid, at == Some(place)) {
                (Some(valid), true) => {
                    let ones: Vec<i64> = valid.iter().map(|&v| i64::from(v)).collect();
                    if w.dtype.is_float() {
                        from_floats(w, &ones.iter().map(|&v| v as f64).collect::<Vec<_>>())
                    } else {
                        from_integers(w, &ones)
                    }
                }
                _ => draw(pattern, w, rows.as_deref().zip(valid.as_deref()), &mut random),
            };
            let tensor = tensor.ok_or_else(|| InputsError::Undrawable { input: info.to_string() })?;
            set.insert(info.name.clone(), tensor);
        }
        sets.push((pattern.name().to_owned(), set));
    }
    Ok(sets)
}

fn want(info: &ValueInfo, extents: &BTreeMap<String, usize>) -> Result<Wanted, InputsError> {
    let undrawable = || InputsError::Undrawable { input: info.to_string() };
    let shape = info.shape.as_ref().ok_or_else(undrawable)?;
    let extent = |dim: &Dim| match dim {
        Dim::Fixed(n) => *n,
        Dim::Symbol(name) => extents.get(name).copied().unwrap_or(4),
        Dim::Unknown => 4,
    };
    let shape: Vec<usize> = shape.iter().map(extent).collect();
    Ok(Wanted { dtype: info.dtype.ok_or_else(undrawable)?, shape, permutation_along: None })
}

fn draw(
    pattern: Pattern,
    wanted: &Wanted,
    rows: Option<(&[usize], &[bool])>,
    random: &mut SplitMix64,
) -> Option<Tensor> {
    let count: usize = wanted.shape.iter().product();
    // Elements of a row, where the tensor has the rows.
    let of_row = rows.filter(|(shape, _)| wanted.shape.starts_with(shape)).map(|(shape, valid)| {
        let inner: usize = wanted.shape[shape.len()..].iter().product();
        (inner.max(1), valid)
    });
    let width = wanted.shape.last().copied().unwrap_or(1).max(1);
    if !wanted.dtype.is_float() {
        let values: Vec<i64> = (0..count).map(|_| (random.next() >> 62) as i64 & 1).collect();
        return from_integers(wanted, &values);
    }
    let mut values: Vec<f64> = (0..count)
        .map(|_| match pattern {
            Pattern::Zeros => 0.0,
            Pattern::Axes => [0.0, -0.0, 1.0, -1.0][(random.next() >> 62) as usize],
            _ => random.bell(),
        })
        .collect();
    if pattern == Pattern::Ties {
        let width = of_row.map_or(width, |(inner, _)| inner);
        for row in 0..count / (2 * width) {
            let (first, second) = values[2 * row * width..].split_at_mut(width);
            second[..width].copy_from_slice(first);
        }
    }
    if let Some((inner, valid)) = of_row {
        for (row, _) in valid.iter().enumerate().filter(|(_, valid)| !**valid) {
            values[row * inner..(row + 1) * inner].fill(0.0);
        }
    }
    from_floats(wanted, &values)
}
