//! Rows looked up in tables that stay as the checkpoint's bytes.

use super::buffer::Buffer;
use super::linear::fault;
use crate::error::Result;
use crate::matrix::{Float, PlainMatrix};

/// Matrices of one width stacked along N.
pub struct Table {
    parts: Vec<PlainMatrix>,
    cols: usize,
}

impl Table {
    pub(super) fn prepare(parts: &[PlainMatrix]) -> Result<Self> {
        let cols = parts.first().map_or(0, |m| m.k);
        for m in parts {
            if m.k != cols || m.bytes.len() != m.n * m.k * m.float.size() {
                return Err(fault(format!("a table of {} columns and {} bytes beside {cols}", m.k, m.bytes.len())));
            }
        }
        Ok(Self { parts: parts.to_vec(), cols })
    }

    fn row(&self, id: u32) -> Result<(Float, &[u8])> {
        let mut at = id as usize;
        for m in &self.parts {
            if at < m.n {
                let size = m.k * m.float.size();
                return Ok((m.float, &m.bytes[at * size..(at + 1) * size]));
            }
            at -= m.n;
        }
        Err(fault(format!("row {id} of a table of {}", self.parts.iter().map(|m| m.n).sum::<usize>())))
    }

    /// `out[r] = Σ_j table[ids[r * per_row + j]]`, in order of j. `[R, cols]`
    pub(super) fn embed(&self, ids: &[u32], per_row: usize, out: &mut Buffer) -> Result<()> {
        debug_assert!(per_row > 0 && ids.len().is_multiple_of(per_row));
        let out = out.shape(ids.len() / per_row, self.cols);
        out.fill(0.0);
        for (ids, out) in ids.chunks_exact(per_row).zip(out.chunks_exact_mut(self.cols)) {
            for id in ids {
                let (float, bytes) = self.row(*id)?;
                match float {
                    Float::F32 => add(out, bytes, f32::from_le_bytes),
                    Float::F16 => add(out, bytes, |b| half::f16::from_le_bytes(b).to_f32()),
                    Float::Bf16 => add(out, bytes, |b| half::bf16::from_le_bytes(b).to_f32()),
                }
            }
        }
        Ok(())
    }
}

fn add<const SIZE: usize>(out: &mut [f32], bytes: &[u8], decode: impl Fn([u8; SIZE]) -> f32) {
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks::<SIZE>().0) {
        *out += decode(*bytes);
    }
}
