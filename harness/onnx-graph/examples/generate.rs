//! Rewrites `src/proto/onnx.rs` from an `onnx.proto`; see the crate's README.
//!
//! `cargo run -p onnx-graph --features generate --example generate -- PATH/onnx.proto`

use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let source: PathBuf = std::env::args_os().nth(1).ok_or("name the onnx.proto to generate from")?.into();
    let folder = source.parent().ok_or("the onnx.proto must lie in a folder")?;
    let files = protox::compile([&source], [folder])?;
    prost_build::Config::new()
        // `Bytes`, so that weights decoded from a mapped file are slices of the mapping.
        .bytes(["."])
        // The comments are most of the file; whoever wants them reads `onnx.proto`.
        .disable_comments(["."])
        .out_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proto"))
        .compile_fds(files)?;
    Ok(())
}
