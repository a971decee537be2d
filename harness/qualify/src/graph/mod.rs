//! The graph toolkit on real libraries: what a stack makes of a model's graph, proofs of rewrites, bisection, reduction.
//!
//! The graph itself is [`onnx_graph`]'s; this module brings recipes, workers and bundles to it.

mod hostile;
pub mod inputs;
pub mod proof;
pub mod rewriting;
pub mod stack;
mod target;

pub use stack::Stack;
pub use target::target;
