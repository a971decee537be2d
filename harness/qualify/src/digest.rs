//! SHA-256 of files and bytes, streamed, as lower-case hex.

use camino::Utf8Path;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};

/// Bytes read at a time: large enough to keep the hash busy, small enough not to count in memory.
const BLOCK_BYTES: usize = 1 << 17;

/// Size in bytes and SHA-256 of what `reader` yields.
pub fn of_reader(mut reader: impl Read) -> io::Result<(u64, String)> {
    let mut hasher = Sha256::new();
    let mut block = vec![0; BLOCK_BYTES];
    let mut size = 0;
    loop {
        match reader.read(&mut block)? {
            0 => return Ok((size, hex(hasher))),
            n => {
                hasher.update(&block[..n]);
                size += n as u64;
            }
        }
    }
}

/// Size in bytes and SHA-256 of a file.
pub fn of_file(path: &Utf8Path) -> io::Result<(u64, String)> {
    of_reader(File::open(path)?)
}

/// SHA-256 of bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(Sha256::new_with_prefix(bytes))
}

/// Is `text` a SHA-256 as this project writes them: 64 lower-case hex digits?
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn hex(hasher: Sha256) -> String {
    use std::fmt::Write as _;
    hasher.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_string_and_abc_have_the_hashes_of_fips_180_2() {
        assert_eq!(of_bytes(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(
            of_reader(&b"abc"[..]).unwrap(),
            (3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".into())
        );
    }
}
