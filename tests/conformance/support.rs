//! Random input, exact arithmetic, comparison.

use rtts::bytes::Bytes;
use rtts::compute::{Compute, Rows, Segment, View};
use rtts::matrix::{Float, Matrix, PlainMatrix};
use rtts::nvfp4::{GlobalScale, InputScale, Nvfp4Matrix};

/// SplitMix64: small, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }

    /// In -1..1, exact in bfloat16 so that storage of any kind holds it.
    pub fn value(&mut self) -> f32 {
        (self.below(255) as f32 - 127.0) / 128.0
    }

    pub fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.value()).collect()
    }

    pub fn plain(&mut self, n: usize, k: usize, float: Float) -> PlainMatrix {
        let bytes: Vec<u8> = self
            .values(n * k)
            .into_iter()
            .flat_map(|v| match float {
                Float::F32 => v.to_le_bytes().to_vec(),
                // Exact in both, as eight bits are enough.
                Float::F16 => half_bits(v).to_le_bytes().to_vec(),
                Float::Bf16 => ((v.to_bits() >> 16) as u16).to_le_bytes().to_vec(),
            })
            .collect();
        PlainMatrix { n, k, float, bytes: odd(&bytes) }
    }

    pub fn nvfp4(&mut self, n: usize, k: usize, divide: bool, input: Option<InputScale>) -> Nvfp4Matrix {
        let codes: Vec<u8> = (0..n * k / 2).map(|_| self.word() as u8).collect();
        // Everything E4M3 has, subnormals too, but rarely the very large ones.
        let scales: Vec<u8> =
            (0..n * k / 16).map(|_| (self.word() % if self.below(20) == 0 { 0x7f } else { 0x48 }) as u8).collect();
        let global = if divide { GlobalScale::Divide(37.3) } else { GlobalScale::Multiply(0.0271) };
        Nvfp4Matrix { n, k, codes: odd(&codes), scales: odd(&scales), global, input }
    }
}

/// The bytes at an odd address, as in a file.
fn odd(bytes: &[u8]) -> Bytes {
    let mut shifted = vec![0];
    shifted.extend_from_slice(bytes);
    Bytes::from(shifted).slice(1..bytes.len() + 1).unwrap()
}

/// Binary16 bits of a value with few bits and a moderate exponent.
fn half_bits(v: f32) -> u16 {
    if v == 0.0 {
        return 0;
    }
    let bits = v.to_bits();
    let exponent = (bits >> 23 & 255) as i32 - 127 + 15;
    ((bits >> 16 & 0x8000) | (exponent as u32) << 10 | (bits >> 13 & 0x3ff)) as u16
}

/// `[N, K]`, exactly what the bytes mean.
pub fn exact(matrix: &Matrix) -> Vec<f64> {
    match matrix {
        Matrix::Plain(m) => m.float.decode(&m.bytes).into_iter().map(f64::from).collect(),
        Matrix::Nvfp4(m) => exact_nvfp4(m),
    }
}

pub fn exact_nvfp4(m: &Nvfp4Matrix) -> Vec<f64> {
    let global = match m.global {
        GlobalScale::Multiply(s) => f64::from(s),
        GlobalScale::Divide(s) => 1.0 / f64::from(s),
    };
    (0..m.n * m.k)
        .map(|i| {
            let byte = m.codes[i / 2];
            e2m1(if i % 2 == 0 { byte & 15 } else { byte >> 4 }) * e4m3(m.scales[i / 16]) * global
        })
        .collect()
}

pub fn e2m1(code: u8) -> f64 {
    let size = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(code & 7)];
    if code & 8 == 0 { size } else { -size }
}

pub fn e4m3(byte: u8) -> f64 {
    let (exponent, fraction) = (i32::from(byte >> 3), f64::from(byte & 7) / 8.0);
    if exponent == 0 { fraction * 2f64.powi(-6) } else { (1.0 + fraction) * 2f64.powi(exponent - 7) }
}

/// Puts values into a new buffer.
pub fn buffer<C: Compute>(c: &C, values: &[f32], cols: usize) -> C::Buffer {
    let mut buffer = c.buffer();
    c.write(values, cols, &mut buffer).unwrap();
    buffer
}

/// All `cols` columns.
pub fn whole<B>(buffer: &B, cols: usize) -> View<'_, B> {
    View { buffer, at: 0, width: cols }
}

/// One slot after the other: (slot, start, len).
pub fn rows(segments: &[(usize, usize, usize)]) -> Rows {
    Rows { segments: segments.iter().map(|&(slot, start, len)| Segment { slot, start, len }).collect() }
}

/// Every value within `tolerance * size` of the exact one, where `size` says how large the summed terms are.
#[track_caller]
pub fn close(what: &str, got: &[f32], exact: &[(f64, f64)], tolerance: f64) {
    assert_eq!(got.len(), exact.len(), "{what}: number of values");
    for (i, (got, (exact, size))) in got.iter().zip(exact).enumerate() {
        let off = (f64::from(*got) - exact).abs();
        assert!(off <= tolerance * size.max(1e-3), "{what}: value {i} is {got}, exactly {exact} (terms of {size})");
    }
}

/// Equal bit by bit.
#[track_caller]
pub fn same(what: &str, a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "{what}: number of values");
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert_eq!(a.to_bits(), b.to_bits(), "{what}: value {i} is {a} and {b}");
    }
}

/// `x Wᵀ + bias` and the size of its terms, `[R, N]`.
pub fn product(x: &[f32], w: &[f64], k: usize, bias: Option<&[f32]>) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    for x in x.chunks_exact(k) {
        for (n, w) in w.chunks_exact(k).enumerate() {
            let bias = bias.map_or(0.0, |b| f64::from(b[n]));
            let terms = x.iter().zip(w).map(|(x, w)| f64::from(*x) * w);
            all.push((terms.clone().sum::<f64>() + bias, terms.map(f64::abs).sum::<f64>() + bias.abs()));
        }
    }
    all
}
