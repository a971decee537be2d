//! Placement: on which provider each node ran, in how many runs of consecutive nodes, and which tensors cross over.

use super::profile::{Profile, ProfiledNode};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The library's name of its CPU provider.
pub const CPU: &str = "CPUExecutionProvider";

/// Where the nodes of a model ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The provider that the recipe asks for, as the library names it.
    pub wanted: String,
    /// The library's words where it refused to make a session without falling back to the CPU.
    /// The figures below then come from a second session that was allowed to.
    pub refusal: Option<String>,
    /// Was the profile cut off, so that nodes are missing below?
    pub truncated: bool,
    /// Number of nodes by provider and operator, after the library's optimisation.
    pub nodes: BTreeMap<String, BTreeMap<String, usize>>,
    /// The nodes that ran elsewhere than on the wanted provider, in running order.
    pub elsewhere: Vec<PlacedNode>,
    /// Runs of consecutive nodes on one provider, in running order.
    pub partitions: Vec<Partition>,
    /// Tensors that are made on one provider and used on another, in running order.
    pub crossings: Vec<Crossing>,
}

/// A node and its provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacedNode {
    /// Name after optimisation.
    pub name: String,
    /// Operator.
    pub op_type: String,
    /// Where it ran.
    pub provider: String,
}

/// A run of consecutive nodes on one provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// Where they ran.
    pub provider: String,
    /// How many they are; a compiled subgraph counts as one.
    pub nodes: usize,
    /// The first one's name.
    pub first: String,
    /// The last one's name.
    pub last: String,
}

/// A tensor that crosses from one provider to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    /// The tensor's name.
    pub tensor: String,
    /// Where it is made.
    pub from: String,
    /// Where it is used.
    pub to: String,
    /// The node that uses or makes it and is known by name: the one to look at.
    pub node: String,
    /// Bytes an inference; `None` where the profile does not tell.
    pub bytes: Option<u64>,
}

/// A node of the graph whose tensors are followed: the model's own, or the library's optimised one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// Name.
    pub name: String,
    /// Inputs, in order; absent optional ones are empty.
    pub inputs: Vec<String>,
    /// Outputs, in order.
    pub outputs: Vec<String>,
}

impl Placement {
    /// Placement from a profile's nodes in running order, following tensors along `graph`.
    ///
    /// A node of `graph` that the profile does not name was folded away or sits inside a compiled subgraph. Where
    /// exactly one provider has nodes that `graph` does not name, those subgraphs are its; else such edges are left out.
    pub fn new(wanted: &str, profile: &Profile, graph: &[GraphNode]) -> Self {
        let ran = profile.nodes.as_slice();
        let mut placement = Self { wanted: wanted.to_owned(), truncated: profile.truncated, ..Self::default() };
        for node in ran {
            let ops = placement.nodes.entry(node.provider.clone()).or_default();
            *ops.entry(node.op_type.clone()).or_default() += 1;
            match placement.partitions.last_mut() {
                Some(run) if run.provider == node.provider => {
                    run.nodes += 1;
                    run.last.clone_from(&node.name);
                }
                _ => placement.partitions.push(Partition {
                    provider: node.provider.clone(),
                    nodes: 1,
                    first: node.name.clone(),
                    last: node.name.clone(),
                }),
            }
            if node.provider != wanted {
                placement.elsewhere.push(PlacedNode {
                    name: node.name.clone(),
                    op_type: node.op_type.clone(),
                    provider: node.provider.clone(),
                });
            }
        }
        if placement.nodes.len() > 1 {
            placement.crossings = crossings(ran, graph);
        }
        placement
    }

    /// Did every node run on the wanted provider, without a refusal, and was there at least one?
    pub fn is_wholly_there(&self) -> bool {
        self.refusal.is_none() && !self.truncated && self.elsewhere.is_empty() && !self.nodes.is_empty()
    }

    /// Bytes that cross between providers in one inference, as far as they are known.
    pub fn crossing_bytes(&self) -> u64 {
        self.crossings.iter().filter_map(|c| c.bytes).sum()
    }

    /// One line for a table: `CPU 42`, or `OpenVINO 3, CPU 1 (3 partitions, 2 tensors cross: 1.2 KiB)`.
    pub fn summary(&self) -> String {
        let counts: Vec<_> = self
            .nodes
            .iter()
            .map(|(provider, ops)| format!("{} {}", short(provider), ops.values().sum::<usize>()))
            .collect();
        let counts = counts.join(", ");
        if self.nodes.len() < 2 {
            return counts;
        }
        let (partitions, tensors, size) = (self.partitions.len(), self.crossings.len(), size(self.crossing_bytes()));
        format!("{counts} ({partitions} partitions, {tensors} tensors cross: {size})")
    }
}

/// `CPUExecutionProvider` -> `CPU`.
pub fn short(provider: &str) -> &str {
    provider.strip_suffix("ExecutionProvider").unwrap_or(provider)
}

/// Bytes for people, in binary units.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// Tensors whose maker and user sit on different providers.
fn crossings(ran: &[ProfiledNode], graph: &[GraphNode]) -> Vec<Crossing> {
    let by_name: HashMap<&str, &ProfiledNode> = ran.iter().map(|n| (n.name.as_str(), n)).collect();
    let named: BTreeSet<&str> = graph.iter().map(|n| n.name.as_str()).collect();
    let compiled: BTreeSet<&str> =
        ran.iter().filter(|n| !named.contains(n.name.as_str())).map(|n| n.provider.as_str()).collect();
    // One provider alone has nodes that the graph does not name: what the profile does not name is inside them.
    let absorbing = if compiled.len() == 1 { compiled.first().copied() } else { None };
    let home = |node: &GraphNode| by_name.get(node.name.as_str()).map_or(absorbing, |n| Some(n.provider.as_str()));

    let makers: HashMap<&str, (&GraphNode, usize)> = graph
        .iter()
        .flat_map(|n| n.outputs.iter().enumerate().map(move |(i, t)| (t.as_str(), (n, i))))
        .filter(|(tensor, _)| !tensor.is_empty())
        .collect();
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for user in graph {
        let Some(to) = home(user) else { continue };
        for (position, tensor) in user.inputs.iter().filter(|t| !t.is_empty()).enumerate() {
            let Some(&(maker, output)) = makers.get(tensor.as_str()) else { continue };
            let Some(from) = home(maker) else { continue };
            // A tensor crosses to a provider once, however many nodes use it there.
            if from == to || !seen.insert((tensor.as_str(), to)) {
                continue;
            }
            let made = by_name.get(maker.name.as_str());
            let used = by_name.get(user.name.as_str());
            let bytes = made
                .and_then(|n| n.output_bytes.as_ref()?.get(output).copied())
                .or_else(|| used.and_then(|n| n.input_bytes.as_ref()?.get(position).copied()));
            let node = used.map_or(&maker.name, |_| &user.name);
            found.push(Crossing {
                tensor: tensor.clone(),
                from: from.to_owned(),
                to: to.to_owned(),
                node: node.clone(),
                bytes,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(name: &str, op: &str, provider: &str, input: &[u64], output: &[u64]) -> ProfiledNode {
        ProfiledNode {
            name: name.into(),
            op_type: op.into(),
            provider: provider.into(),
            input_bytes: Some(input.to_vec()),
            output_bytes: Some(output.to_vec()),
        }
    }

    fn profile(nodes: &[ProfiledNode]) -> Profile {
        Profile { nodes: nodes.to_vec(), truncated: false }
    }

    fn node(name: &str, inputs: &[&str], outputs: &[&str]) -> GraphNode {
        let own = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
        GraphNode { name: name.into(), inputs: own(inputs), outputs: own(outputs) }
    }

    /// Attention with a guard: q k^T, softmax | `IsNaN` on the CPU | Where, times v; the rest compiled into two subgraphs.
    #[test]
    fn a_lone_cpu_node_between_compiled_subgraphs_shows_both_crossings_and_their_bytes() {
        let graph = [
            node("qk", &["q", "k"], &["s"]),
            node("softmax", &["s"], &["p"]),
            node("isnan", &["p"], &["n"]),
            node("where", &["n", "zero", "p"], &["g"]),
            node("pv", &["g", "v"], &["o"]),
        ];
        let profile = profile(&[
            ran("subgraph_1", "subgraph_1", "OpenVINOExecutionProvider", &[64, 64], &[4096]),
            ran("isnan", "IsNaN", CPU, &[4096], &[1024]),
            ran("subgraph_2", "subgraph_2", "OpenVINOExecutionProvider", &[1024, 64], &[64]),
        ]);
        let p = Placement::new("OpenVINOExecutionProvider", &profile, &graph);
        assert!(!p.is_wholly_there());
        assert_eq!(p.elsewhere.len(), 1);
        assert_eq!(p.elsewhere[0].name, "isnan");
        assert_eq!(p.partitions.iter().map(|r| r.nodes).collect::<Vec<_>>(), [1, 1, 1]);
        let crossing: Vec<_> = p.crossings.iter().map(|c| (c.tensor.as_str(), c.bytes, c.node.as_str())).collect();
        assert_eq!(crossing, [("p", Some(4096), "isnan"), ("n", Some(1024), "isnan")]);
        assert_eq!(p.summary(), "CPU 1, OpenVINO 2 (3 partitions, 2 tensors cross: 5.0 KiB)");
    }

    #[test]
    fn one_provider_has_no_crossings_and_nothing_at_all_is_not_wholly_there() {
        let both = profile(&[ran("a", "Add", CPU, &[4], &[4]), ran("b", "Add", CPU, &[4], &[4])]);
        let p = Placement::new(CPU, &both, &[]);
        assert!(p.is_wholly_there());
        assert_eq!(p.summary(), "CPU 2");
        assert_eq!(p.partitions.len(), 1);
        assert!(!Placement::new(CPU, &profile(&[]), &[]).is_wholly_there(), "no node seen proves nothing");
        let cut = Profile { truncated: true, ..both };
        assert!(!Placement::new(CPU, &cut, &[]).is_wholly_there(), "what is cut off may be anywhere");
    }
}
