//! The bundle of a spec.

use super::{MaskInput, Precision, SdpaSpec, cases, graph};
use crate::bundle::{BundleParts, CaseParts, Mask, OutputParts, OutputSpec, Provenance};

/// Everything that a bundle of that spec holds, under that name. Rows of the output are valid where their query is.
pub fn parts(spec: &SdpaSpec, name: &str) -> BundleParts {
    let masked = spec.mask != MaskInput::None;
    let (limits, precision) = match spec.precision {
        Precision::Fp32 => ("fp32", "float32"),
        Precision::Fp16 => ("fp16", "float16"),
    };
    let mask_word = if masked { "with a key-padding mask" } else { "without a mask" };
    let around = if spec.projections { ", projections around it" } else { "" };
    let SdpaSpec { batch, heads, sequence, head_dim, .. } = spec;
    BundleParts {
        name: name.to_owned(),
        description: format!(
            "decomposed attention in {precision} {mask_word}{around}, B={batch} H={heads} S={sequence} D={head_dim}"
        ),
        model: graph(spec),
        mask: masked.then(|| Mask { input: "mask".to_owned() }),
        outputs: vec![OutputSpec {
            name: "output".to_owned(),
            mask_axes: masked.then(|| vec![0, 2]),
            limits: Some(limits.to_owned()),
        }],
        cases: cases(spec)
            .into_iter()
            .map(|case| CaseParts {
                name: case.name.to_owned(),
                description: String::new(),
                inputs: case.inputs,
                outputs: vec![OutputParts {
                    name: "output".to_owned(),
                    reference: case.reference,
                    baseline: case.baseline,
                }],
                probes: Vec::new(),
            })
            .collect(),
        provenance: Provenance {
            producer: "ort-qualify".to_owned(),
            source: Some("bundle export sdpa".to_owned()),
            seed: None,
            notes: vec!["references in float64, baselines with every operator rounded to float16".to_owned()],
            versions: [("ort-qualify".to_owned(), env!("CARGO_PKG_VERSION").to_owned())].into(),
        },
    }
}
