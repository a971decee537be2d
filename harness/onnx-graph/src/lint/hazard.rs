//! The hazards by name, each explained once.

/// Something that is known to go wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct Hazard {
    /// Short name: for filters, JSON and SARIF.
    pub id: &'static str,
    /// One paragraph: what happens, on which stacks, what to do.
    pub about: &'static str,
    /// The pass that removes it, where there is one.
    pub pass: Option<&'static str>,
}

/// The hazard of that name.
pub fn hazard(id: &str) -> Option<&'static Hazard> {
    HAZARDS.iter().find(|h| h.id == id)
}

const fn h(id: &'static str, pass: Option<&'static str>, about: &'static str) -> Hazard {
    Hazard { id, about, pass }
}

/// Every hazard, the gravest kinds first.
pub static HAZARDS: &[Hazard] = &[
    h(
        "cycle",
        None,
        "Nodes read from each other in a circle, so that no order of them can be computed. No library loads the model.",
    ),
    h(
        "undefined-tensor",
        None,
        "A node or an output reads a tensor that nothing makes. No library loads the model; an edit of the graph lost it.",
    ),
    h(
        "duplicate-tensor",
        None,
        "Two nodes, inputs or initialisers make a tensor of the same name. No library loads the model.",
    ),
    h(
        "node-order",
        None,
        "A node stands before one that it reads from. ONNX wants the nodes in order; some libraries sort them, others refuse the model.",
    ),
    h(
        "external-data",
        None,
        "External data are missing, cut short or outside of the model's folder. The library fails to load the model, or reads what is not meant for it.",
    ),
    h(
        "external-overlap",
        None,
        "Tensors share bytes of an external file in part. Shared whole ranges save space; a partial overlap is what a wrong offset looks like.",
    ),
    h(
        "ir-version",
        None,
        "The model's IR version is newer than the library reads. It is refused with `Unsupported model IR version`; export with an older IR.",
    ),
    h(
        "opset-version",
        None,
        "The model's opset is newer than the library has. It is refused, or runs with operators of another version; export with an older opset.",
    ),
    h(
        "unclaimed-operator",
        None,
        "The provider does not take this operator, so the node runs on the CPU or, where fallback is disabled, the session is refused. On \
         MIGraphX more than ten such nodes make the provider take nothing at all.",
    ),
    h(
        "softmax-guard",
        Some("safe-softmax"),
        "IsNaN and Where behind a Softmax turn the NaN of a fully masked row into zeros. MIGraphX's provider never takes IsNaN, OpenVINO \
         leaves it to the CPU, and no provider fuses attention across it. The pass safe-softmax keeps the zeros without IsNaN.",
    ),
    h(
        "nan-guard",
        Some("finite-guard"),
        "NaN and infinities are replaced by a number (nan_to_num), so that a failure upstream comes out as a finite, wrong value that no check \
         for NaN will see. Compare inner tensors, not only outputs. IsNaN and IsInf are not taken by every provider; the pass finite-guard \
         writes the same as comparisons.",
    ),
    h(
        "atan2-zero",
        Some("atan2"),
        "atan2 is written as Atan(y / x) with the quadrant picked by comparisons. Zero over zero, which every zero-padded row holds, is NaN, and \
         (+0, -1) lands on the wrong side of the cut; CUDA has no Atan. The pass atan2 is right everywhere and needs no Atan.",
    ),
    h(
        "topk-infinite-key",
        Some("unique-sort"),
        "An infinity flows into the keys of a TopK. CUDA's TopK (ONNX Runtime 1.31.1) then gives indices that are no permutation wherever the \
         length is between 65 and 4095 and not a power of two. The pass unique-sort keeps infinities and NaN out of the sort.",
    ),
    h(
        "topk-float-key",
        Some("unique-sort"),
        "A TopK orders floats, which can be equal. ONNX wants ties by the lower index; CUDA gives them in another order at most lengths, and so \
         does PyTorch. What follows from the order is then another result on each stack. The pass unique-sort makes the order unique.",
    ),
    h(
        "topk-unread-values",
        Some("unique-sort"),
        "Nobody reads the values of a TopK, only its indices. A provider that drops or narrows an output that is not used (int64 keys to float32 \
         on MIGraphX) changes the order unseen. The pass unique-sort uses both outputs.",
    ),
    h(
        "int64-range",
        None,
        "An int64 tensor can hold values that a float32 (from 2^24 on) or an int32 (from 2^31 on) does not hold exactly, and is turned into one, \
         here or by a provider that computes integers as floats (MIGraphX's eliminate_data_type).",
    ),
    h(
        "split-output",
        Some("split-heads"),
        "An output of the graph is a part of a Split. A provider may give out a strided view of the whole, which reads as shuffled values. The \
         pass split-heads makes each output a tensor of its own.",
    ),
    h(
        "attention-broadcast-mask",
        None,
        "Attention with a mask of shape [B,1,1,S] is refused by CUDA at run time (ONNX Runtime 1.31.1: `inconsistent q_sequence_length (between \
         attn_mask and Q)`). Expand the mask to [B,1,S,S], or use nonpad_kv_seqlen where it is right-padded.",
    ),
    h(
        "mha-masked-event",
        None,
        "MultiHeadAttention with a key mask: where an event has no valid key, CUDA gives NaN (2-D mask) or, with 1-D lengths in float32, a finite \
         and wrong result without an error. Make sure that no event is all-masked, or use Attention-24 with nonpad_kv_seqlen.",
    ),
    h(
        "tf32",
        None,
        "CUDA computes float32 products with TF32 unless the provider option use_tf32 is 0: a thousand times the error, and no warning.",
    ),
    h(
        "fp16-in-fp32",
        None,
        "A float16 graph computes a Softmax or gives an output in float32, as constants of float32 (0, -inf) mixed into it do: it is neither as \
         fast as float16 nor what its name says.",
    ),
    h(
        "fp16-range",
        None,
        "A float16 constant is infinite, or a larger one is cast to float16. Minus infinity as a mask gives NaN where a row has no key; a value \
         beyond 65504 becomes infinite.",
    ),
    h(
        "dynamic-shape",
        None,
        "Extents are known at run time only. Some providers compile once for each shape, keep shape arithmetic on the CPU or refuse it; the pass \
         fold-shapes makes a graph for given extents.",
    ),
    h(
        "baked-shape",
        None,
        "The model says that its extents may vary, yet a Reshape or Expand of a varying tensor has a constant shape: other extents fail, or are \
         mixed up where only the product agrees.",
    ),
    h("unnamed-node", None, "Nodes without a name: profiles, logs and placement cannot say which node they mean."),
    h(
        "duplicate-node-name",
        None,
        "Several nodes of one name: profiles, logs and placement cannot say which of them they mean.",
    ),
    h("unread-initialiser", None, "Initialisers that nothing reads: they cost memory and load time only."),
    h(
        "dead-node",
        None,
        "Nodes that no output depends on: libraries drop them, and so may hide that an output was lost.",
    ),
];
