//! numpy's strings: elements of one width, padded with NUL.

use super::ArrayProblem;
use onnx_graph::tensor::element_count;

/// `<U` and `>U`: UTF-32. `width` is in bytes.
pub(super) fn utf32(
    bytes: &[u8],
    width: usize,
    big_endian: bool,
    shape: &[usize],
) -> Result<Vec<String>, ArrayProblem> {
    let unit = if big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
    elements(bytes, width, shape, |element| {
        let units = element.chunks_exact(4).map(|c| unit([c[0], c[1], c[2], c[3]]));
        let text: Option<String> = units.map(char::from_u32).collect();
        text.ok_or_else(|| "a code point is out of range".to_owned())
    })
}

/// `|S`: bytes, which must be UTF-8.
pub(super) fn utf8(bytes: &[u8], width: usize, shape: &[usize]) -> Result<Vec<String>, ArrayProblem> {
    elements(bytes, width, shape, |element| std::str::from_utf8(element).map(str::to_owned).map_err(|e| format!("{e}")))
}

fn elements(
    bytes: &[u8],
    width: usize,
    shape: &[usize],
    decode: impl Fn(&[u8]) -> Result<String, String>,
) -> Result<Vec<String>, ArrayProblem> {
    let count = element_count(shape).unwrap_or(0);
    let element = |index: usize| bytes.get(index * width..(index + 1) * width).unwrap_or_default();
    (0..count)
        .map(|index| {
            let mut text = decode(element(index)).map_err(|problem| ArrayProblem::Text { index, problem })?;
            text.truncate(text.trim_end_matches('\0').len());
            Ok(text)
        })
        .collect()
}

/// numpy's dtype and bytes for strings: `<U` of the longest one's width.
pub(super) fn to_utf32(strings: &[String]) -> Result<(String, Vec<u8>), ArrayProblem> {
    if let Some(text) = strings.iter().find(|s| s.ends_with('\0')) {
        return Err(ArrayProblem::Unwritable(format!("the string {text:?} ends in NUL, which is numpy's padding")));
    }
    let width = strings.iter().map(|s| s.chars().count()).max().unwrap_or(0).max(1);
    let mut bytes = Vec::with_capacity(strings.len() * width * 4);
    for (index, text) in strings.iter().enumerate() {
        bytes.extend(text.chars().flat_map(|c| u32::from(c).to_le_bytes()));
        bytes.resize((index + 1) * width * 4, 0);
    }
    Ok((format!("<U{width}"), bytes))
}
