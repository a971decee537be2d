//! A model in memory: loaded by mapping its file, so that weights are addressed and not copied.

use crate::error::ModelError;
use crate::mapped;
use crate::proto::{GraphProto, ModelProto, StringStringEntryProto};
use bytes::Bytes;
use prost::Message;
use std::path::Path;

/// Largest protobuf message in bytes.
const PROTOBUF_MAX: usize = i32::MAX as usize;

/// An ONNX model. The protobuf message is open to callers; everything else here is a view of it or an edit.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The message, as `onnx.proto` has it.
    pub proto: ModelProto,
}

impl Model {
    /// Reads a model file by mapping it. External data are not touched; see [`Model::check_external`].
    ///
    /// The file must not be edited in place while the model or any tensor of it lives.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        Self::decode(&path.display().to_string(), mapped::map(path)?)
    }

    /// Reads a model from memory; its `raw_data` are slices of `bytes`.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, ModelError> {
        Self::decode("model", bytes)
    }

    fn decode(subject: &str, bytes: Bytes) -> Result<Self, ModelError> {
        let hint = resemblance(&bytes);
        let proto = ModelProto::decode(bytes).map_err(|source| ModelError::Decode {
            subject: subject.to_owned(),
            hint,
            source,
        })?;
        // Protobuf skips what it does not know, so many files that are no models decode to an empty one.
        let missing = match (&proto.graph, proto.ir_version) {
            (None, _) => Some("graph"),
            (_, None | Some(i64::MIN..=0)) => Some("ir_version"),
            _ => None,
        };
        match missing {
            None => Ok(Self { proto }),
            Some(missing) => Err(ModelError::NotAModel { subject: subject.to_owned(), missing, hint }),
        }
    }

    /// The bytes of the model file; refused from 2 GiB on. The same model gives the same bytes.
    pub fn encode(&self) -> Result<Vec<u8>, ModelError> {
        match self.proto.encoded_len() {
            bytes if bytes > PROTOBUF_MAX => Err(ModelError::TooLarge { bytes }),
            _ => Ok(self.proto.encode_to_vec()),
        }
    }

    /// Notes a key and its value in the model's metadata, in the place of what stood there for the key.
    pub fn set_metadata(&mut self, key: &str, value: &str) {
        self.proto.metadata_props.retain(|entry| entry.key() != key);
        let entry = StringStringEntryProto { key: Some(key.to_owned()), value: Some(value.to_owned()) };
        self.proto.metadata_props.push(entry);
    }

    /// What the model's metadata say for a key.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.proto.metadata_props.iter().find(|entry| entry.key() == key).map(StringStringEntryProto::value)
    }

    /// IR version.
    pub fn ir_version(&self) -> i64 {
        self.proto.ir_version.unwrap_or(0)
    }

    /// The main graph; an empty one if a caller took it out of `proto`.
    pub fn graph(&self) -> &GraphProto {
        static EMPTY: GraphProto = GraphProto {
            node: Vec::new(),
            name: None,
            initializer: Vec::new(),
            sparse_initializer: Vec::new(),
            doc_string: None,
            input: Vec::new(),
            output: Vec::new(),
            value_info: Vec::new(),
            quantization_annotation: Vec::new(),
            metadata_props: Vec::new(),
        };
        self.proto.graph.as_ref().unwrap_or(&EMPTY)
    }
}

/// What a file that is no model most likely is, from its first bytes: said inside a longer message.
fn resemblance(bytes: &[u8]) -> &'static str {
    const KNOWN: &[(usize, &[u8], &str)] = &[
        (0, b"version https://git-lfs", "it is a Git LFS pointer: fetch the file behind it with `git lfs pull`"),
        (0, b"PK\x03\x04", "it is a zip archive, such as a PyTorch checkpoint: export it to ONNX first"),
        (4, b"ORTM", "it is a model in the .ort format: use the .onnx file that it was converted from"),
        (0, b"<", "it looks like a web page or XML: was the download an error page?"),
        (0, b"{", "it looks like JSON: name the .onnx file"),
        (0, b"\x7fELF", "it is a shared library or a program: name the .onnx file"),
    ];
    if bytes.is_empty() {
        return "it is empty: was the copy interrupted?";
    }
    KNOWN.iter().find(|(at, magic, _)| bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic))).map_or(
        "it may be cut short, damaged or another kind of file: compare its size and hash with the original",
        |k| k.2,
    )
}
