//! ONNX models as data: read, inspect, edit, build and write them. Knows nothing of ONNX Runtime.

mod error;
mod inspect;
mod mapped;
mod model;
pub mod proto;
pub mod tensor;
mod walk;

pub use error::ModelError;
pub use inspect::{Dim, Node, ValueInfo, ValueKind};
pub use model::Model;
pub use tensor::{DataType, Tensor, TensorData};
