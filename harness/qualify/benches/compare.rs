//! Speed of a comparison of 100 MB of fp32, beside the plainest loop that reads the same memory: the ratio of the two
//! is what can be compared between machines. Throughput counts the bytes of both arrays.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use onnx_graph::DataType;
use ort_qualify::observation::compare::{Elements, Measure, Rows, TensorView, compare};
use std::hint::black_box;
use std::time::Duration;

/// 25 million elements as `[B, S, D]`.
const SHAPE: [usize; 3] = [100, 2500, 100];
const ELEMENTS: usize = SHAPE[0] * SHAPE[1] * SHAPE[2];

/// Numbers between -4 and 4, the same in every run.
fn numbers() -> impl Iterator<Item = f64> {
    let mut state = 1u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 / 2f64.powi(53) - 0.5) * 8.0
    })
}

fn bytes_of<const N: usize>(encode: impl Fn(f64) -> [u8; N]) -> Vec<u8> {
    numbers().take(ELEMENTS).flat_map(encode).collect()
}

fn view(dtype: DataType, bytes: &[u8]) -> TensorView<'_> {
    TensorView::new(dtype, &SHAPE, Elements::Bytes(bytes)).expect("as long as the shape asks for")
}

fn sum_of_words(bytes: &[u8]) -> u64 {
    bytes.as_chunks().0.iter().fold(0, |sum, b| sum.wrapping_add(u64::from_le_bytes(*b)))
}

fn benchmark(c: &mut Criterion) {
    let f32_bytes = bytes_of(|v| (v as f32).to_le_bytes());
    // Off by a rounding or so in most places, as an output is.
    let near = bytes_of(|v| ((v * (1.0 + 1e-7 * v)) as f32).to_le_bytes());
    let f64_bytes = bytes_of(f64::to_le_bytes);
    let f16_bytes = bytes_of(|v| half::f16::from_f64(v).to_le_bytes());
    let mut one_nan_a_row = near.clone();
    for row in one_nan_a_row.chunks_mut(4 * SHAPE[2]) {
        row[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    }
    let mask: Vec<u8> = numbers().take(SHAPE[0] * SHAPE[1]).map(|v| u8::from(v > -2.0)).collect();
    let mask =
        TensorView::new(DataType::Bool, &SHAPE[..2], Elements::Bytes(&mask)).expect("as long as the shape asks for");
    let rows = Rows::new(&mask, &[0, 1]).expect("fits the shape");

    let mut group = c.benchmark_group("compare 25M elements");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    let both = |a: &[u8], b: &[u8]| Throughput::Bytes((a.len() + b.len()) as u64);

    group.throughput(both(&near, &f32_bytes));
    group.bench_function("read both arrays", |b| {
        b.iter(|| sum_of_words(black_box(&near)).wrapping_add(sum_of_words(black_box(&f32_bytes))));
    });
    let mut pair = |name: &str, got: (DataType, &[u8]), reference: (DataType, &[u8]), rows: Option<&Rows>| {
        group.throughput(both(got.1, reference.1));
        let (got, reference) = (view(got.0, got.1), view(reference.0, reference.1));
        let measure = Measure::default();
        group
            .bench_function(name, |b| b.iter(|| compare(black_box(&got), black_box(&reference), rows, None, &measure)));
    };
    let (f32, f64, f16) = (DataType::Float32, DataType::Float64, DataType::Float16);
    pair("f32 against f32", (f32, &near), (f32, &f32_bytes), None);
    pair("f32 against f32, equal", (f32, &f32_bytes), (f32, &f32_bytes), None);
    pair("f32 against f64", (f32, &near), (f64, &f64_bytes), None);
    pair("f32 against f32, rows of 100 masked", (f32, &near), (f32, &f32_bytes), Some(&rows));
    pair("f32 against f32, a NaN in every row", (f32, &one_nan_a_row), (f32, &f32_bytes), None);
    pair("f16 against f64", (f16, &f16_bytes), (f64, &f64_bytes), None);
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
