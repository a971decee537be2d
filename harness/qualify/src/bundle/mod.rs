//! Bundles: a model with reference inputs and outputs, hashed and self-contained.

pub mod array;
mod inside;
pub mod sdpa;
