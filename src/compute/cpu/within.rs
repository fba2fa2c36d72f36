//! Attention among a few neighbouring rows, without a cache and without a mask.

use super::attention::row;
use super::buffer::Buffer;
use super::isa::{Isa, kernel};
use super::lanes::{LANES, Lanes, dot, padded};
use super::linear::fault;
use super::math::exp;
use super::pool::Pool;
use crate::compute::View;
use crate::error::Result;

/// The rows that see each other, and how many heads share keys.
#[derive(Clone, Copy)]
struct Shape {
    group: usize,
    kv_heads: usize,
    head_dim: usize,
}

/// q and out `[R, Nh * D]`, k and v `[R, Nkv * D]`; every `group` consecutive rows see each other.
#[allow(clippy::too_many_arguments)]
pub(super) fn attend_within(
    isa: Isa,
    pool: &Pool,
    group: usize,
    kv_heads: usize,
    q: &View<'_, Buffer>,
    k: &View<'_, Buffer>,
    v: &View<'_, Buffer>,
    out: &mut Buffer,
) -> Result<()> {
    let rows = q.buffer.rows();
    let head_dim = k.width / kv_heads.max(1);
    if group == 0 || head_dim == 0 || !rows.is_multiple_of(group) || !q.width.is_multiple_of(head_dim) {
        return Err(fault(format!("attention among {group} of {rows} rows in heads of {head_dim}")));
    }
    debug_assert!(k.width == v.width && k.buffer.rows() == rows && v.buffer.rows() == rows);
    let shape = Shape { group, kv_heads, head_dim };
    let width = q.width;
    pool.split(out.shape(rows, width), group * width, |index, out| {
        attend_group(isa, shape, index * group, q, k, v, out);
    });
    Ok(())
}

kernel! {
    /// The rows `first .. first + group`; out `[group, Nh * D]`
    fn attend_group<L>(
        shape: Shape,
        first: usize,
        q: &View<'_, Buffer>,
        k: &View<'_, Buffer>,
        v: &View<'_, Buffer>,
        out: &mut [f32],
    ) {
        let Shape { group, kv_heads, head_dim } = shape;
        let heads = q.width / head_dim;
        let scale = 1.0 / (head_dim as f32).sqrt();
        let mut weights = vec![0.0; group];
        for (r, out) in out.chunks_exact_mut(q.width).enumerate() {
            for (head, out) in out.chunks_exact_mut(head_dim).enumerate() {
                let query = &row(q, first + r)[head * head_dim..][..head_dim];
                let at = head * kv_heads / heads * head_dim;
                let mut largest = f32::NEG_INFINITY;
                for (j, weight) in weights.iter_mut().enumerate() {
                    *weight = dot::<L>(query, &row(k, first + j)[at..at + head_dim]) * scale;
                    largest = largest.max(*weight);
                }
                let mut sum = 0.0;
                for weight in &mut weights {
                    *weight = exp(*weight - largest);
                    sum += *weight;
                }
                let by = 1.0 / sum;
                weigh::<L>(&weights, |j| &row(v, first + j)[at..at + head_dim], by, out);
            }
        }
    }
}

/// `out = by * Σ_j weights[j] values(j)`, in order of j.
#[inline(always)]
fn weigh<'a, L: Lanes>(weights: &[f32], values: impl Fn(usize) -> &'a [f32], by: f32, out: &mut [f32]) {
    let len = out.len();
    let whole = len / LANES * LANES;
    for at in (0..len).step_by(LANES) {
        // SAFETY: reached through `kernel!` only; whole groups of 16 lie within the slices, the last one is padded.
        unsafe {
            let mut sum = L::zero();
            for (j, weight) in weights.iter().enumerate() {
                let values = values(j);
                let value =
                    if at < whole { L::f32(values[at..].as_ptr()) } else { L::f32(padded(&values[at..]).as_ptr()) };
                sum = value.fma(L::splat(*weight), sum);
            }
            let mut done = [0.0; LANES];
            sum.store(done.as_mut_ptr());
            for (out, done) in out[at..].iter_mut().zip(done) {
                *out = done * by;
            }
        }
    }
}
