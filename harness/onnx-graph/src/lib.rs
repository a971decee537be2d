//! ONNX models as data: read, inspect, edit, build and write them. Knows nothing of ONNX Runtime.

pub mod tensor;

pub use tensor::{DataType, Tensor, TensorData};
