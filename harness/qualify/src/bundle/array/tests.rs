//! Arrays written by hand, byte by byte, read back; and whatever is wrong with them refused by name.

use super::*;
use bytes::Bytes;
use onnx_graph::TensorData;
use proptest::prelude::*;
use std::io::{Cursor, Write};
use tempfile::TempDir;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// A folder with one file in it.
fn folder(name: &str, bytes: &[u8]) -> (TempDir, Utf8PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap();
    std::fs::write(path.join(name), bytes).unwrap();
    (dir, path)
}

fn read(name: &str, array: Option<&str>, dtype: Option<DataType>, bytes: &[u8]) -> Result<Tensor, ArrayError> {
    let (_keep, dir) = folder(name, bytes);
    let array = ArrayRef { file: name.into(), array: array.map(str::to_owned), dtype };
    let tensor = array.read(&dir, 1 << 20);
    // The header alone says the same as the whole, as far as it goes.
    if let Ok(tensor) = &tensor {
        let info = array.info(&dir, 1 << 20).unwrap();
        assert_eq!((info.dtype, &info.shape), (tensor.dtype, &tensor.shape));
    }
    tensor
}

/// A `.npy` file with this dict and these bytes.
fn npy(dict: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dict.len() as u16).to_le_bytes());
    bytes.extend(dict.bytes());
    bytes.extend(data);
    bytes
}

fn dict(descr: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n")
}

fn npz(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, data) in entries {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(data).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn big_endian_and_fortran_order_become_little_endian_rows() {
    let rows = Tensor::from_values(&[2, 3], &[1f32, 2., 3., 4., 5., 6.]).unwrap();
    let columns = [1f32, 4., 2., 5., 3., 6.];
    let fortran = |d: &str| format!("{{'descr': '{d}', 'fortran_order': True, 'shape': (2, 3), }}");
    assert_eq!(read("a.npy", None, None, &npy(&fortran("<f4"), &f32s(&columns))).unwrap(), rows);
    let big: Vec<u8> = columns.iter().flat_map(|v| v.to_be_bytes()).collect();
    assert_eq!(read("a.npy", None, None, &npy(&fortran(">f4"), &big)).unwrap(), rows);
    let deep = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 1, 2, 3), }";
    let t = read("a.npy", None, None, &npy(deep, &[0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11])).unwrap();
    assert_eq!(t.bytes().unwrap().as_ref(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
}

#[test]
fn strings_of_both_kinds_lose_their_padding() {
    let utf32: Vec<u8> = "ab\0é\0\0".chars().flat_map(|c| u32::from(c).to_be_bytes()).collect();
    let t = read("a.npy", None, None, &npy(&dict(">U3", "(2,)"), &utf32)).unwrap();
    assert_eq!(t.data, TensorData::Strings(vec!["ab".into(), "é".into()]));
    let t = read("a.npy", None, None, &npy(&dict("|S2", "(2,)"), b"ab\0\0")).unwrap();
    assert_eq!(t.data, TensorData::Strings(vec!["ab".into(), String::new()]));
    let e = read("a.npy", None, None, &npy(&dict("|S2", "(2,)"), b"ab\xff\0")).unwrap_err().to_string();
    assert!(e.contains("a.npy: element 1"), "{e}");
    let e = read("a.npy", None, None, &npy(&dict("<U1", "(1,)"), &[0, 0xd8, 0, 0])).unwrap_err().to_string();
    assert!(e.contains("code point"), "{e}");
}

#[test]
fn bits_without_a_name_need_one_and_numbers_cannot_be_renamed() {
    let raw = npy(&dict("<V2", "(2,)"), &[0x80, 0x3f, 0, 0]);
    let e = read("a.npy", None, None, &raw).unwrap_err().to_string();
    assert!(e.contains("`<V2`") && e.contains("dtype = \"bfloat16\""), "{e}");
    for descr in ["<V2", "|V2", "<u2"] {
        let raw = npy(&dict(descr, "(2,)"), &[0x80, 0x3f, 0, 0]);
        let t = read("a.npy", None, Some(DataType::Bfloat16), &raw).unwrap();
        assert_eq!((t.dtype, t.bytes().unwrap().as_ref()), (DataType::Bfloat16, [0x80, 0x3f, 0, 0].as_ref()));
    }
    for (descr, wanted) in [("<f4", DataType::Int32), ("<V2", DataType::Float32), ("<V2", DataType::String)] {
        let e = read("a.npy", None, Some(wanted), &npy(&dict(descr, "(0,)"), &[])).unwrap_err().to_string();
        assert!(e.contains("cannot be read as"), "{e}");
    }
}

#[test]
fn what_numpy_cannot_give_a_tensor_is_refused_with_file_and_array() {
    let cases: [(&str, &[u8], &str); 9] = [
        ("|O", &[0; 8], "Python objects"),
        ("<c8", &[0; 8], "real and imaginary"),
        ("<M8[ns]", &[0; 8], "not supported"),
        ("<f16", &[0; 16], "not supported"),
        ("=f4", &[0; 4], "not supported"),
        ("<f4", &[0; 3], "cut short: 4 bytes of elements are declared and 3"),
        ("<f4", &[0; 5], "longer than declared: 4 bytes of elements are declared and 5"),
        ("|b1", &[2], "neither 0 nor 1"),
        ("", &[], "not supported"),
    ];
    for (descr, data, wanted) in cases {
        let bytes = npy(&dict(descr, "(1,)"), data);
        let e = read("a.npz", Some("x"), None, &npz(&[("x.npy", &bytes)], CompressionMethod::Deflated));
        let e = e.unwrap_err().to_string();
        assert!(e.starts_with("a.npz, array `x`: ") && e.contains(wanted), "{descr}: {e}");
    }
    let structured = npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", &[0; 4]);
    let e = read("a.npy", None, None, &structured).unwrap_err().to_string();
    assert!(e.contains("structured"), "{e}");
}

#[test]
fn arrays_are_found_by_name_and_a_slip_is_mended() {
    let a = npy(&dict("<f4", "()"), &f32s(&[1.5]));
    let two = npz(&[("plain_X.npy", &a), ("plain_mask.npy", &a), ("notes.txt", b"x")], CompressionMethod::Stored);
    assert_eq!(read("a.npz", Some("plain_X"), None, &two).unwrap().shape, Vec::<usize>::new());
    let e = read("a.npz", Some("plain_x"), None, &two).unwrap_err().to_string();
    assert!(e.contains("did you mean `plain_X`") && e.contains("it holds `plain_X`, `plain_mask`"), "{e}");
    let e = read("a.npz", None, None, &two).unwrap_err().to_string();
    assert!(e.contains("must be named"), "{e}");
    let one = npz(&[("only.npy", &a)], CompressionMethod::Deflated);
    assert!(read("a.npz", None, None, &one).is_ok());
    let e = read("a.npy", Some("x"), None, &a).unwrap_err().to_string();
    assert!(e.contains("single array"), "{e}");
    let e = read("a.bin", None, None, &a).unwrap_err().to_string();
    assert!(e.contains("the ending must be"), "{e}");
}

#[test]
fn sizes_are_held_against_the_cap_and_the_file_before_anything_is_allocated() {
    let huge = npy(&dict("<f4", "(1000000000000, 1000000000)"), &[]);
    let e = read("a.npy", None, None, &huge).unwrap_err().to_string();
    assert!(e.contains("above the cap of 1048576"), "{e}");
    let empty_strings = npy(&dict("<U0", "(1000000000,)"), &[]);
    assert!(read("a.npy", None, None, &empty_strings).unwrap_err().to_string().contains("above the cap"));
    let no_elements = npy(&dict("<f4", "(0, 1000000000)"), &[]);
    assert!(read("a.npy", None, None, &no_elements).is_ok());

    // An honest but large array of zeros: above the cap, and below it if the cap allows.
    let zeros = npy(&dict("|u1", "(2000000,)"), &vec![0; 2_000_000]);
    let packed = npz(&[("z.npy", &zeros)], CompressionMethod::Deflated);
    assert!(packed.len() < 10_000);
    let (_keep, dir) = folder("z.npz", &packed);
    let z = ArrayRef::named("z.npz", "z");
    assert!(matches!(*z.read(&dir, 1_999_999).unwrap_err().problem, ArrayProblem::TooLarge { bytes: 2_000_000, .. }));
    assert_eq!(z.read(&dir, 2_000_000).unwrap().len(), 2_000_000);
}

#[test]
fn a_zip_bomb_is_refused_wherever_it_lies_about_its_size() {
    // The entry inflates to 2 MB; its .npy header declares 4 bytes.
    let mut bomb = npy(&dict("<f4", "(1,)"), &vec![0; 2_000_000]);
    let packed = npz(&[("b.npy", &bomb)], CompressionMethod::Deflated);
    let e = read("b.npz", Some("b"), None, &packed).unwrap_err().to_string();
    assert!(e.contains("longer than declared"), "{e}");

    // The same with the zip headers patched to agree with the .npy header: only the stream itself tells.
    let honest = bomb.len() as u32;
    bomb.truncate(bomb.len() - 2_000_000 + 4);
    let declared = (bomb.len() as u32).to_le_bytes();
    let mut lying = packed.clone();
    for at in 0..lying.len() - 4 {
        if lying[at..at + 4] == honest.to_le_bytes() {
            lying[at..at + 4].copy_from_slice(&declared);
        }
    }
    assert_ne!(lying, packed);
    assert!(read("b.npz", Some("b"), None, &lying).is_err());

    // Sizes that deflate cannot reach.
    let mut claims = packed;
    for at in 0..claims.len() - 4 {
        if claims[at..at + 4] == honest.to_le_bytes() {
            claims[at..at + 4].copy_from_slice(&3_000_000_000u32.to_le_bytes());
        }
    }
    let e = read("b.npz", Some("b"), None, &claims).unwrap_err();
    assert!(matches!(*e.problem, ArrayProblem::Bomb { declared: 3_000_000_000, .. }), "{e}");
}

#[test]
fn a_flipped_bit_in_compressed_or_stored_data_is_noticed() {
    let data: Vec<u8> = (0..400u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let bytes = npy(&dict("<u4", "(400,)"), &data);
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let mut packed = npz(&[("x.npy", &bytes)], method);
        assert!(read("x.npz", None, None, &packed).is_ok());
        let middle = packed.len() / 2;
        packed[middle] ^= 1;
        assert!(read("x.npz", None, None, &packed).is_err());
    }
}

#[test]
fn safetensors_give_their_types_and_bad_offsets_are_refused() {
    let header = r#"{"h":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"f":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
    let good = safetensors(header, &[1, 2, 3, 4, 0, 0, 128, 63]);
    let t = read("a.safetensors", Some("h"), None, &good).unwrap();
    assert_eq!((t.dtype, t.bytes().unwrap().as_ref()), (DataType::Bfloat16, [1, 2, 3, 4].as_ref()));
    assert_eq!(read("a.safetensors", Some("f"), None, &good).unwrap().values::<f32>().unwrap(), [1.0]);
    let (_keep, dir) = folder("a.safetensors", &good);
    assert_eq!(names(&dir.join("a.safetensors")).unwrap(), ["h", "f"]);
    let e = read("a.safetensors", Some("g"), None, &good).unwrap_err().to_string();
    assert!(e.contains("it holds `h`, `f`"), "{e}");

    let one = |offsets: &str| {
        safetensors(&format!(r#"{{"f":{{"dtype":"F32","shape":[1],"data_offsets":{offsets}}}}}"#), &[0; 4])
    };
    assert!(read("a.safetensors", None, None, &one("[0,4]")).is_ok());
    for offsets in ["[0,8]", "[4,8]", "[4,0]", "[0,3]", "[-4,0]", "[0,18446744073709551615]"] {
        let e = read("a.safetensors", None, None, &one(offsets)).unwrap_err();
        assert!(matches!(*e.problem, ArrayProblem::Safetensors(_)), "{offsets}: {e}");
    }
    let mut long = one("[0,4]");
    long.push(0);
    assert!(matches!(*read("a.safetensors", None, None, &long).unwrap_err().problem, ArrayProblem::TooLong { .. }));
    let short = &long[..long.len() - 2];
    assert!(matches!(*read("a.safetensors", None, None, short).unwrap_err().problem, ArrayProblem::Truncated { .. }));
    assert!(read("a.safetensors", None, None, &[255; 8]).unwrap_err().to_string().contains("claims a header"));
}

#[test]
fn paths_out_of_the_folder_are_refused() {
    let (_keep, dir) = folder("a.npy", &npy(&dict("<f4", "(0,)"), &[]));
    for file in ["../a.npy", "/etc/hostname.npy", "absent.npy"] {
        let e = ArrayRef::file(file).read(&dir, 1).unwrap_err();
        assert!(matches!(*e.problem, ArrayProblem::Path(_)) && e.to_string().starts_with(file), "{e}");
    }
}

/// Any tensor that can be written, with what its reference must say of the type.
fn any_tensor() -> impl Strategy<Value = Tensor> {
    let types = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17].map(|n| DataType::from_onnx(n).unwrap());
    (prop::sample::select(types.to_vec()), prop::collection::vec(0usize..4, 0..4), any::<u64>()).prop_map(
        |(dtype, shape, seed)| {
            let count = shape.iter().product::<usize>();
            let mut state = seed;
            let mut byte = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            };
            if dtype == DataType::String {
                let texts = (0..count).map(|_| "é€\u{1f600}x".chars().take(usize::from(byte() % 5)).collect());
                return Tensor::from_strings(shape, texts.collect()).unwrap();
            }
            let limit = if dtype == DataType::Bool { 1 } else { 255 };
            let bytes: Vec<u8> = (0..dtype.byte_len(count).unwrap()).map(|_| byte() & limit).collect();
            Tensor::from_bytes(dtype, shape, Bytes::from(bytes)).unwrap()
        },
    )
}

fn written(tensors: &[(&str, &Tensor)]) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    write_npz(&mut out, tensors.iter().copied()).unwrap();
    out.into_inner()
}

proptest! {
    #[test]
    fn every_tensor_comes_back_from_npz_and_the_bytes_are_always_the_same(a in any_tensor(), b in any_tensor()) {
        let bytes = written(&[("plain/a", &a), ("b", &b)]);
        prop_assert_eq!(&bytes, &written(&[("plain/a", &a), ("b", &b)]));
        let back = read("t.npz", Some("plain/a"), Some(a.dtype), &bytes).unwrap();
        prop_assert_eq!(back, a);
        let plain = !needs_dtype(b.dtype);
        let back = read("t.npz", Some("b"), (!plain).then_some(b.dtype), &bytes).unwrap();
        prop_assert_eq!(back, b);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), magic in 0usize..4) {
        let start: &[u8] = [&b""[..], b"\x93NUMPY\x01\x00\x20\x00{'descr': '<f4', ", b"PK\x03\x04", b"\x40\0\0\0\0\0\0\0{\"a\":{"][magic];
        let bytes = [start, &bytes].concat();
        for name in ["a.npy", "a.npz", "a.safetensors", "a.pb"] {
            let _ = read(name, None, None, &bytes);
        }
    }

    #[test]
    fn a_mutated_npz_never_panics_and_never_lies(
        a in any_tensor(), deflate in any::<bool>(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let (descr_file, dtype) = (written(&[("a", &a)]), Some(a.dtype));
        let (_keep, dir) = folder("w.npz", &descr_file);
        let mut zip = zip::ZipArchive::new(std::fs::File::open(dir.join("w.npz")).unwrap()).unwrap();
        let mut stream = Vec::new();
        std::io::Read::read_to_end(&mut zip.by_name("a.npy").unwrap(), &mut stream).unwrap();
        let method = if deflate { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        let mut bytes = npz(&[("a.npy", &stream)], method);
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        // The CRC and the sizes: what is still readable is what was written, whatever else was changed in the archive.
        if let Ok(back) = read("m.npz", Some("a"), dtype, &bytes) {
            prop_assert_eq!(back, a);
        }
    }
}
