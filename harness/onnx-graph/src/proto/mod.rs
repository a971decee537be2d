//! The messages of `onnx.proto`, generated (see the crate's README); proto2, every optional field an `Option`.

#[allow(missing_docs, clippy::pedantic, unused_qualifications)] // generated code, not to be edited by hand
mod onnx;

pub use onnx::*;
