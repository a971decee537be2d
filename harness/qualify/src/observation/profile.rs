//! ONNX Runtime's profile: the JSON that a profiled session leaves, read into the nodes that ran.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// A node that ran, as the profile tells. Fused subgraphs are one node here and hide their originals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfiledNode {
    /// Name after optimisation, which renames and inserts nodes.
    pub name: String,
    /// Operator, or the compiled subgraph's name.
    pub op_type: String,
    /// Execution provider, as the library names it (`CPUExecutionProvider`).
    pub provider: String,
    /// Bytes of each tensor input, in order, absent ones left out; `None` where the profile has no shapes.
    pub input_bytes: Option<Vec<u64>>,
    /// Bytes of each tensor output, in order.
    pub output_bytes: Option<Vec<u64>>,
}

/// A profile that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the library's profile is not the JSON array of events that it should be: {0}")]
pub struct ProfileError(#[from] serde_json::Error);

#[derive(Deserialize)]
struct Event {
    cat: Option<String>,
    name: Option<String>,
    ts: Option<f64>,
    args: Option<Args>,
}

#[derive(Deserialize)]
struct Args {
    op_name: Option<String>,
    provider: Option<String>,
    node_index: Option<String>,
    input_type_shape: Option<Vec<BTreeMap<String, Vec<i64>>>>,
    output_type_shape: Option<Vec<BTreeMap<String, Vec<i64>>>>,
}

/// What the library appends to a node's name for the event that holds its provider.
const SUFFIX: &str = "_kernel_time";

/// Events that the library keeps at most (`max_num_events_` of its profiler); the rest is dropped with a warning.
const MOST_EVENTS: usize = 1_000_000;

/// What a profile tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The nodes that ran in running order; one that ran several times (in a loop) stands once.
    pub nodes: Vec<ProfiledNode>,
    /// Were there more events than the library keeps?
    pub truncated: bool,
}

impl Profile {
    /// Reads a profile.
    pub fn read(json: &[u8]) -> Result<Self, ProfileError> {
        let events: Vec<Event> = serde_json::from_slice(json)?;
        Ok(Self { truncated: events.len() >= MOST_EVENTS, nodes: nodes(events) })
    }
}

fn nodes(events: Vec<Event>) -> Vec<ProfiledNode> {
    let mut timed = Vec::new();
    for event in events {
        let (Some("Node"), Some(name), Some(args)) = (event.cat.as_deref(), event.name, event.args) else { continue };
        let (Some(provider), Some(op_type)) = (args.provider, args.op_name) else { continue };
        let index = args.node_index.unwrap_or_default();
        let node = ProfiledNode {
            name: name.strip_suffix(SUFFIX).unwrap_or(&name).to_owned(),
            op_type,
            provider,
            input_bytes: args.input_type_shape.as_deref().and_then(bytes_of),
            output_bytes: args.output_type_shape.as_deref().and_then(bytes_of),
        };
        timed.push((event.ts.unwrap_or(0.0), index, node));
    }
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut seen = HashSet::new();
    timed
        .into_iter()
        .filter(|(_, index, node)| seen.insert((index.clone(), node.name.clone())))
        .map(|(_, _, node)| node)
        .collect()
}

/// Bytes of tensors given as `[{"float":[2,16]}, ...]`; `None` if a type is not known.
fn bytes_of(shapes: &[BTreeMap<String, Vec<i64>>]) -> Option<Vec<u64>> {
    shapes
        .iter()
        .filter_map(|tensor| tensor.first_key_value())
        .map(|(dtype, shape)| {
            let elements = shape.iter().try_fold(1u64, |n, &d| n.checked_mul(u64::try_from(d).ok()?))?;
            elements.checked_mul(element_bytes(dtype)?)
        })
        .collect()
}

/// Sizes by the names that the library's profile uses (C++ names for some, ONNX names for others).
fn element_bytes(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "bool" | "int8" | "uint8" | "float8e4m3fn" | "float8e4m3fnuz" | "float8e5m2" | "float8e5m2fnuz" => 1,
        "float16" | "bfloat16" | "int16" | "uint16" => 2,
        "float" | "int32" | "uint32" => 4,
        "double" | "int64" | "uint64" => 8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_in_running_order_once_each_and_other_events_are_passed_over() {
        let json = br#"[
          {"cat":"Session","name":"session_initialization","ts":1,"args":{}},
          {"cat":"Node","name":"b_kernel_time","ts":30,"args":{"op_name":"Add","provider":"CPUExecutionProvider","node_index":"2",
            "input_type_shape":[{"float":[2,3]},{"int64":[]}],"output_type_shape":[{"float16":[2,3]}]}},
          {"cat":"Node","name":"a_kernel_time","ts":20,"args":{"op_name":"MatMul","provider":"X","node_index":"1"}},
          {"cat":"Node","name":"a_kernel_time","ts":40,"args":{"op_name":"MatMul","provider":"X","node_index":"1"}},
          {"cat":"Node","name":"a_fence_before","ts":19,"args":{"op_name":"MatMul"}}
        ]"#;
        let nodes = Profile::read(json).unwrap().nodes;
        assert_eq!(nodes.iter().map(|n| n.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(nodes[1].input_bytes, Some(vec![24, 8]));
        assert_eq!(nodes[1].output_bytes, Some(vec![12]));
        assert_eq!(nodes[0].input_bytes, None);
    }

    #[test]
    fn what_is_no_profile_is_an_error() {
        assert!(Profile::read(b"{\"cat\":1").unwrap_err().to_string().contains("profile"));
    }
}
