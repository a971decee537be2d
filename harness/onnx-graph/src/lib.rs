//! ONNX models as data: read, inspect, edit, build and write them. Knows nothing of ONNX Runtime.

pub mod builder;
mod element;
mod error;
mod expose;
mod external;
mod inspect;
mod mapped;
mod model;
pub mod proto;
pub mod tensor;
mod tensor_proto;
mod walk;

pub use element::Element;
pub use error::ModelError;
pub use external::ExternalFile;
pub use inspect::{Dim, Node, ValueInfo, ValueKind};
pub use model::Model;
pub use tensor::{DataType, Tensor, TensorData};
pub use tensor_proto::{read_tensor_pb, tensor_from_proto, tensor_to_proto};
