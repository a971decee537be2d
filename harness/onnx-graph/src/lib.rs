//! ONNX models as data: read, inspect, edit, build and write them. Knows nothing of ONNX Runtime.

pub mod attention;
pub mod builder;
mod cut;
mod element;
mod error;
mod expose;
mod external;
mod fold;
pub mod infer;
mod inspect;
pub mod lint;
mod mapped;
mod model;
pub mod proto;
pub mod rewrite;
mod save;
mod summary;
pub mod tensor;
mod tensor_proto;
pub mod view;
mod walk;

pub use element::Element;
pub use error::ModelError;
pub use external::ExternalFile;
pub use infer::Types;
pub use inspect::{Dim, Node, ValueInfo, ValueKind};
pub use model::Model;
pub use save::Weights;
pub use summary::{Initialiser, Summary};
pub use tensor::{DataType, Tensor, TensorData};
pub use tensor_proto::{read_tensor_pb, tensor_from_proto, tensor_to_proto};
pub use view::View;
