//! Weight matrices as the checkpoint holds them, before any backend prepared them.

use crate::bytes::Bytes;
use crate::nvfp4::Nvfp4Matrix;

/// How the values of a plain tensor are stored, little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
}

impl Float {
    /// Bytes of one value.
    pub fn size(self) -> usize {
        match self {
            Float::F32 => 4,
            Float::F16 | Float::Bf16 => 2,
        }
    }

    /// The values of `bytes` as f32; every conversion is exact. A trailing part of a value is ignored.
    pub fn decode(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Float::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
            Float::F16 => bytes.chunks_exact(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
            Float::Bf16 => bytes.chunks_exact(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
        }
    }
}

/// An unquantised matrix `[N, K]`, row-major. `bytes.len() == n * k * float.size()`.
#[derive(Clone, Debug)]
pub struct PlainMatrix {
    /// Rows: output features N.
    pub n: usize,
    /// Columns: input features K.
    pub k: usize,
    /// How a value is stored.
    pub float: Float,
    /// The values.
    pub bytes: Bytes,
}

impl PlainMatrix {
    /// An f32 matrix `[N, K]` from values in memory. `values.len()` must be `n * k`.
    pub fn from_f32(n: usize, k: usize, values: &[f32]) -> Self {
        debug_assert_eq!(values.len(), n * k);
        let mut bytes = Vec::with_capacity(values.len() * 4);
        for value in values {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        Self { n, k, float: Float::F32, bytes: bytes.into() }
    }

    /// Rows `from .. from + count`, sharing the bytes; `None` where they do not exist.
    pub fn rows(&self, from: usize, count: usize) -> Option<Self> {
        let row = self.k * self.float.size();
        let bytes = self.bytes.slice(from * row..from.checked_add(count)? * row)?;
        Some(Self { n: count, k: self.k, float: self.float, bytes })
    }
}

/// A weight matrix in either form; y = x Wᵀ.
#[derive(Clone, Debug)]
pub enum Matrix {
    /// BF16, F16 or F32.
    Plain(PlainMatrix),
    /// 4-bit codes with a scale per 16 values.
    Nvfp4(Nvfp4Matrix),
}

impl Matrix {
    /// Output features N.
    pub fn n(&self) -> usize {
        match self {
            Matrix::Plain(m) => m.n,
            Matrix::Nvfp4(m) => m.n,
        }
    }

    /// Input features K.
    pub fn k(&self) -> usize {
        match self {
            Matrix::Plain(m) => m.k,
            Matrix::Nvfp4(m) => m.k,
        }
    }
}
