//! Scaled-dot-product attention in the decomposed form of `PyTorch`'s MATH export: graph, inputs and references.
//!
//! Everything here is a pure function of [`SdpaSpec`]: the same spec gives the same graph, inputs and references, to the
//! last bit, on every machine.

mod graph;
mod inputs;
mod parts;
mod projections;
mod reference;

pub use graph::graph;
pub use parts::parts;

use half::f16;
use inputs::Inputs;
use ndarray::{Array, Array2, Array4, Dimension};
use onnx_graph::{DataType, Tensor};

/// What kind of attention. All extents are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdpaSpec {
    /// B, events in a batch.
    pub batch: usize,
    /// H, heads.
    pub heads: usize,
    /// S, elements of an event: queries as well as keys.
    pub sequence: usize,
    /// D, features of a head.
    pub head_dim: usize,
    /// Type of every float tensor in the graph, constants and softmax included.
    pub precision: Precision,
    /// Whether there is a key-padding mask, and as what.
    pub mask: MaskInput,
    /// Whether query, key and value are made of one input by projections with weights, and the output by one more. In
    /// float32 and without a mask only: see [`SdpaSpec::check`].
    pub projections: bool,
}

/// Float type of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Precision {
    /// float32
    Fp32,
    /// float16 throughout: nothing is computed in float32 and rounded at the end.
    Fp16,
}

/// The mask input `mask` `[B,S]`; a key that is true or non-zero is attended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MaskInput {
    /// No mask input, and no guard against rows without keys.
    None,
    /// bool
    Bool,
    /// The graph's float type, 1 and 0.
    Float,
}

/// One set of inputs with what the graph must make of it.
#[derive(Clone, Debug, PartialEq)]
pub struct SdpaCase {
    /// `plain` without mask; else how the mask looks: `full`, `padded`, `holes`, `allmasked`.
    pub name: &'static str,
    /// `query`, `key`, `value` `[B,H,S,D]` and, with a mask, `mask` `[B,S]`, in the graph's types. With projections
    /// `elements` `[B,S,HD]`.
    pub inputs: Vec<(String, Tensor)>,
    /// `output` `[B,H,S,D]` (with projections `[B,S,HD]`) in float64, from the inputs as rounded to the graph's type. A query without any key gives 0.
    pub reference: Tensor,
    /// For float16: the same computed with each operator's result rounded to float16 (products summed in float32). How
    /// far it is from `reference` is what the precision alone costs.
    pub baseline: Option<Tensor>,
    /// Which elements are valid, bool `[B,S]`; absent without a mask.
    pub mask: Option<Tensor>,
}

/// How the mask of a case looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    Full,
    Padded,
    Holes,
    AllMasked,
}

impl Pattern {
    const ALL: [(Self, &'static str); 4] =
        [(Self::Full, "full"), (Self::Padded, "padded"), (Self::Holes, "holes"), (Self::AllMasked, "allmasked")];
}

impl Precision {
    /// The element type.
    pub fn dtype(self) -> DataType {
        match self {
            Self::Fp32 => DataType::Float32,
            Self::Fp16 => DataType::Float16,
        }
    }

    /// `values`, each rounded to this precision (ties to even), back in f64.
    fn round<D: Dimension>(self, values: &Array<f64, D>) -> Array<f64, D> {
        match self {
            Self::Fp32 => values.mapv(|v| f64::from(v as f32)),
            Self::Fp16 => values.mapv(|v| f16::from_f64(v).to_f64()),
        }
    }

    /// A tensor of values that this precision represents exactly.
    fn tensor(self, shape: &[usize], values: impl Iterator<Item = f64>) -> Tensor {
        let tensor = match self {
            Self::Fp32 => Tensor::from_values(shape, &values.map(|v| v as f32).collect::<Vec<_>>()),
            Self::Fp16 => Tensor::from_values(shape, &values.map(f16::from_f64).collect::<Vec<_>>()),
        };
        tensor.expect("an ndarray has as many elements as its shape says")
    }
}

impl SdpaSpec {
    /// `[B,H,S,D]`
    fn shape(&self) -> [usize; 4] {
        [self.batch, self.heads, self.sequence, self.head_dim]
    }

    /// Elements of the largest tensor, query, scores or weights; `None` beyond 2^31, what no bundle should hold.
    fn largest_tensor(&self) -> Option<usize> {
        let rows = self.batch.checked_mul(self.heads)?.checked_mul(self.sequence)?;
        let activations = rows.checked_mul(self.sequence.max(self.head_dim))?;
        let features = self.heads.checked_mul(self.head_dim)?;
        let weights = if self.projections { features.checked_mul(features)? } else { 0 };
        Some(activations.max(weights)).filter(|&elements| elements <= 1 << 31)
    }

    /// E = H D, features of an element.
    fn features(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Says what of it cannot be made, if anything.
    pub fn check(&self) -> Result<(), String> {
        let Self { batch, heads, sequence, head_dim, .. } = self;
        if self.largest_tensor().is_none() {
            return Err(format!(
                "B={batch} H={heads} S={sequence} D={head_dim} needs a tensor of more than 2^31 elements; give smaller extents"
            ));
        }
        if self.projections && (self.precision, self.mask) != (Precision::Fp32, MaskInput::None) {
            return Err(
                "projections are made in fp32 and without a mask: for the others there is no baseline".to_owned()
            );
        }
        Ok(())
    }

    /// The softmax scale, 1 / sqrt(D).
    fn scale(&self) -> f64 {
        1.0 / (self.head_dim as f64).sqrt()
    }
}

/// The cases of a graph: one without mask, four with.
pub fn cases(spec: &SdpaSpec) -> Vec<SdpaCase> {
    match spec.mask {
        MaskInput::None if spec.projections => vec![projections::case(spec)],
        MaskInput::None => vec![case(spec, "plain", 0, None)],
        MaskInput::Bool | MaskInput::Float => {
            let patterns = Pattern::ALL.iter().enumerate();
            patterns.map(|(i, &(pattern, name))| case(spec, name, 1 + i as u64, Some(pattern))).collect()
        }
    }
}

fn case(spec: &SdpaSpec, name: &'static str, seed: u64, pattern: Option<Pattern>) -> SdpaCase {
    let drawn = Inputs::draw(spec, seed, pattern);
    let shape = spec.shape();
    let float =
        |name: &str, values: &Array4<f64>| (name.to_owned(), spec.precision.tensor(&shape, values.iter().copied()));
    let mut inputs = vec![float("query", &drawn.query), float("key", &drawn.key), float("value", &drawn.value)];
    let valid = drawn.valid.as_ref().map(bool_tensor);
    if let (Some(valid), Some(array)) = (&valid, &drawn.valid) {
        let mask = match spec.mask {
            MaskInput::Float => {
                let ones = array.iter().map(|&v| f64::from(u8::from(v)));
                spec.precision.tensor(&[spec.batch, spec.sequence], ones)
            }
            MaskInput::Bool | MaskInput::None => valid.clone(),
        };
        inputs.push(("mask".to_owned(), mask));
    }
    let reference: Vec<f64> = reference::exact(&drawn, spec.scale()).into_iter().collect();
    let baseline = (spec.precision == Precision::Fp16).then(|| {
        let rounded: Vec<f16> = reference::rounded_to_f16(&drawn, spec.scale()).into_iter().collect();
        Tensor::from_values(&shape, &rounded).expect("the reference has the shape of the query")
    });
    let reference = Tensor::from_values(&shape, &reference).expect("the reference has the shape of the query");
    SdpaCase { name, inputs, reference, baseline, mask: valid }
}

fn bool_tensor(valid: &Array2<bool>) -> Tensor {
    let values: Vec<bool> = valid.iter().copied().collect();
    Tensor::from_values(valid.shape(), &values).expect("an ndarray has as many elements as its shape says")
}

#[cfg(test)]
mod tests;
