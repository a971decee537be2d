//! The raw calls into ONNX Runtime: the only unsafe code of this crate. Everything here checks what it hands over.
#![allow(unsafe_code)]

use camino::Utf8Path;
use onnx_graph::DataType;
use ort::memory::Allocator;
use ort::session::builder::SessionBuilder;
use ort::sys::{ONNXTensorElementDataType as Element, OrtApiBase, OrtValue};
use ort::value::{DynTensorValueType, DynValue, Value};
use ort::{AsPointer, ortsys};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::ptr::{self, NonNull};

/// What the loaded library says of its version (`OrtApiBase::GetVersionString`).
///
/// The library must have been loaded before, so that this finds the same copy.
pub(super) fn library_version(path: &Utf8Path) -> Result<String, String> {
    // SAFETY: loading runs initialisers, which ran when the library was first loaded: this only adds a reference.
    let library = unsafe { libloading::Library::new(path.as_std_path()) }.map_err(|e| e.to_string())?;
    // SAFETY: the symbol has this signature in every ONNX Runtime since 1.0 (onnxruntime_c_api.h).
    let base: libloading::Symbol<'_, unsafe extern "C" fn() -> *const OrtApiBase> =
        unsafe { library.get(b"OrtGetApiBase\0") }.map_err(|e| e.to_string())?;
    // SAFETY: the function takes nothing and returns a pointer to a static table.
    let base = unsafe { base().as_ref() }.ok_or("OrtGetApiBase returned nothing")?;
    // SAFETY: the member is set in every version and returns a static, NUL-terminated string.
    let text = unsafe { CStr::from_ptr((base.GetVersionString)()) };
    Ok(text.to_string_lossy().into_owned())
}

/// Appends a provider by its registered name with any options (`SessionOptionsAppendExecutionProvider`).
pub(super) fn append_provider(
    builder: &mut SessionBuilder,
    name: &str,
    options: &BTreeMap<String, String>,
) -> ort::Result<()> {
    let text = |s: &str| CString::new(s).map_err(ort::Error::wrap);
    let name = text(name)?;
    let keys = options.keys().map(|k| text(k)).collect::<ort::Result<Vec<_>>>()?;
    let values = options.values().map(|v| text(v)).collect::<ort::Result<Vec<_>>>()?;
    let pointers = |strings: &[CString]| strings.iter().map(|s| s.as_ptr()).collect::<Vec<*const c_char>>();
    let (keys, values) = (pointers(&keys), pointers(&values));
    // The strings must outlive the call, and they do: `options`' copies live until this function returns.
    ortsys![unsafe SessionOptionsAppendExecutionProvider(builder.ptr_mut(), name.as_ptr(), keys.as_ptr(), values.as_ptr(), keys.len())?];
    Ok(())
}

/// A tensor in the library's own CPU memory with a copy of `bytes` (little-endian, row-major).
pub(super) fn tensor_from_bytes(dtype: DataType, shape: &[usize], bytes: &[u8]) -> ort::Result<DynValue> {
    let element = element(dtype).ok_or_else(|| ort::Error::new(format!("{dtype} tensors cannot be fed as bytes")))?;
    let extents = shape.iter().map(|&d| i64::try_from(d)).collect::<Result<Vec<_>, _>>().map_err(ort::Error::wrap)?;
    let allocator = Allocator::default();
    let mut value: *mut OrtValue = ptr::null_mut();
    ortsys![unsafe CreateTensorAsOrtValue(allocator.ptr().cast_mut(), extents.as_ptr(), extents.len(), element, &raw mut value)?];
    let value =
        NonNull::new(value).ok_or_else(|| ort::Error::new("the library made no tensor and reported no error"))?;
    // SAFETY: the value was just made with this allocator and is owned by nobody else.
    let value: DynValue = unsafe { Value::from_ptr(value, Some(&allocator)) };
    let mut tensor = value.downcast::<DynTensorValueType>()?;
    if tensor.size() != Some(bytes.len()) {
        let size = tensor.size();
        return Err(ort::Error::new(format!("{dtype} {shape:?} needs {size:?} bytes and has {}", bytes.len())));
    }
    if !bytes.is_empty() {
        // SAFETY: the tensor is in CPU memory, owned by us, and exactly as long as `bytes` (checked above).
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), tensor.data_ptr_mut().cast::<u8>(), bytes.len()) };
    }
    Ok(tensor.into_dyn())
}

/// The bytes of a tensor in CPU memory; `None` for anything else.
pub(super) fn tensor_bytes(value: &DynValue) -> Option<&[u8]> {
    let tensor = value.view().downcast::<DynTensorValueType>().ok()?;
    let size = tensor.size()?;
    if !tensor.memory_info().is_cpu_accessible() {
        return None;
    }
    if size == 0 {
        return Some(&[]);
    }
    let data = NonNull::new(tensor.data_ptr().cast_mut())?;
    // SAFETY: the library says that the tensor holds `size` bytes there; they belong to `value` and stay as long as it.
    Some(unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), size) })
}

/// The library's number of an element type. It differs from ONNX's own for the newest types.
fn element(dtype: DataType) -> Option<Element> {
    Some(match dtype {
        DataType::Float32 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
        DataType::Uint8 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
        DataType::Int8 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8,
        DataType::Uint16 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16,
        DataType::Int16 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16,
        DataType::Int32 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,
        DataType::Int64 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
        DataType::Bool => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL,
        DataType::Float16 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
        DataType::Float64 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,
        DataType::Uint32 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32,
        DataType::Uint64 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64,
        DataType::Bfloat16 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16,
        DataType::Complex64 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64,
        DataType::Complex128 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128,
        DataType::Float8E4M3Fn => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN,
        DataType::Float8E4M3Fnuz => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ,
        DataType::Float8E5M2 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2,
        DataType::Float8E5M2Fnuz => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ,
        DataType::Uint4 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT4,
        DataType::Int4 => Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4,
        DataType::String | DataType::Float4E2M1 | DataType::Float8E8M0 | DataType::Uint2 | DataType::Int2 => {
            return None;
        }
    })
}
