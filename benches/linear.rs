//! The CPU's linears against the speed of this machine's memory: `cargo bench --bench linear`.
//!
//! Weights of 268 MB are walked through in slices, so that they come from memory and not from a cache. Reported are the
//! best slice and, in brackets, the median: on a machine with other work the first says what the code can do.
//! Arguments: words that a line must contain, like `nvfp4` or `K=2048`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use rtts::bytes::Bytes;
use rtts::compute::cpu::{Cpu, Isa};
use rtts::compute::{Activations, Compute, View};
use rtts::matrix::{Float, Matrix, PlainMatrix};
use rtts::nvfp4::{GlobalScale, InputScale, Nvfp4Matrix};

/// Bytes walked through in one pass.
const TOTAL: usize = 268_000_000;
/// Bytes of one slice.
const SLICE: usize = 4_000_000;
/// Passes over everything, at least.
const PASSES: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nvfp4,
    W4a4,
    Bf16,
    F32,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Nvfp4 => "nvfp4",
            Kind::W4a4 => "nvfp4 w4a4",
            Kind::Bf16 => "bf16",
            Kind::F32 => "f32",
        }
    }

    fn row(self, k: usize) -> usize {
        match self {
            Kind::Nvfp4 | Kind::W4a4 => k / 2 + k / 16,
            Kind::Bf16 => 2 * k,
            Kind::F32 => 4 * k,
        }
    }

    fn activations(self) -> Activations {
        if self == Kind::W4a4 { Activations::Fp4 } else { Activations::Full }
    }

    /// Rows `from .. from + n` of a matrix spread over these bytes.
    fn slice(self, bytes: &Bytes, from: usize, n: usize, k: usize) -> Matrix {
        let plain = |float: Float| {
            let size = k * float.size();
            Matrix::Plain(PlainMatrix { n, k, float, bytes: bytes.slice(from * size..(from + n) * size).unwrap() })
        };
        match self {
            Kind::Bf16 => plain(Float::Bf16),
            Kind::F32 => plain(Float::F32),
            Kind::Nvfp4 | Kind::W4a4 => {
                let all = TOTAL / self.row(k);
                let scales = all * k / 2;
                Matrix::Nvfp4(Nvfp4Matrix {
                    n,
                    k,
                    codes: bytes.slice(from * k / 2..(from + n) * k / 2).unwrap(),
                    scales: bytes.slice(scales + from * k / 16..scales + (from + n) * k / 16).unwrap(),
                    global: GlobalScale::Multiply(1e-3),
                    input: Some(InputScale::Multiply(1e-3)),
                })
            }
        }
    }
}

/// Bytes that are ordinary numbers in every format: 0x30..0x38 in all of them.
fn weights() -> Bytes {
    let mut state = 1u64;
    let words = (0..TOTAL / 8 + 1).flat_map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state ^ state >> 29) & 0x0707_0707_0707_0707 | 0x3030_3030_3030_3030).to_le_bytes()
    });
    Bytes::from(words.collect::<Vec<u8>>())
}

/// Best and median of times, in GB/s.
fn rates(bytes: usize, mut seconds: Vec<f64>) -> (f64, f64) {
    seconds.sort_by(f64::total_cmp);
    let rate = |s: f64| bytes as f64 / s / 1e9;
    (rate(seconds[0]), rate(seconds[seconds.len() / 2]))
}

/// What one core reads when it does nothing else.
fn stream(bytes: &Bytes) -> (f64, f64) {
    let mut seconds = Vec::new();
    for _ in 0..PASSES {
        for slice in bytes[..TOTAL].chunks_exact(SLICE) {
            let start = Instant::now();
            let mut sums = [0u64; 16];
            for line in slice.as_chunks::<128>().0 {
                for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
                    *sum ^= u64::from_le_bytes(*word);
                }
            }
            std::hint::black_box(sums);
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    rates(SLICE, seconds)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let isas = if std::env::var_os("RTTS_CPU").is_some() { vec![Isa::chosen().unwrap()] } else { Isa::available() };
    let bytes = weights();
    let (best, median) = stream(&bytes);
    println!("read stream, one core: {best:.1} GB/s ({median:.1})");
    for isa in isas {
        for threads in [1, 2] {
            let cpu = Cpu::with(isa, Some(threads)).unwrap();
            for kind in [Kind::Nvfp4, Kind::W4a4, Kind::Bf16, Kind::F32] {
                for k in [2048, 11008] {
                    for rows in [1, 2, 4, 8, 32] {
                        let name = format!("{:8} {threads} thread {:10} K={k} {rows} rows", isa.name(), kind.name());
                        if words.iter().all(|w| name.contains(w.as_str())) {
                            println!("{name:45} {}", linear(&cpu, kind, k, rows, &bytes, best));
                        }
                    }
                }
            }
        }
    }
}

fn linear(cpu: &Cpu, kind: Kind, k: usize, rows: usize, bytes: &Bytes, stream: f64) -> String {
    let n = SLICE / kind.row(k) / 16 * 16;
    let slices: Vec<_> = (0..TOTAL / kind.row(k) / n)
        .map(|i| cpu.prepare_linear(&[kind.slice(bytes, i * n, n, k)], None, kind.activations()).unwrap())
        .collect();
    let values: Vec<f32> = (0..rows * k).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let (mut x, mut out) = (cpu.buffer(), cpu.buffer());
    cpu.write(&values, k, &mut x).unwrap();
    let mut seconds = Vec::new();
    let begin = Instant::now();
    for _ in 0..PASSES {
        for w in &slices {
            let start = Instant::now();
            cpu.linear(w, View { buffer: &x, at: 0, width: k }, &mut out).unwrap();
            seconds.push(start.elapsed().as_secs_f64());
        }
        if begin.elapsed().as_secs_f64() > 4.0 {
            break;
        }
    }
    let packed = n * kind.row(k);
    let (best, median) = rates(packed, seconds);
    let macs = best / packed as f64 * (n * k * rows) as f64;
    format!("{best:6.2} GB/s ({median:.2})  {:3.0} % of the stream  {macs:6.1} Gmac/s", 100.0 * best / stream)
}
