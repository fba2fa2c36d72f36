//! Layer and root-mean-square normalisation.

use super::buffer::Buffer;
use super::isa::{Isa, kernel};
use super::lanes::{LANES, dot, padded};
use super::pool::Pool;

/// Rows a task takes: a row costs about as much as it has values.
const TASK: usize = 16 * 1024;

/// `out = gain * (x - mean) / sqrt(var + eps) + bias`, `[R, cols]`
pub(super) fn layer_norm(
    isa: Isa,
    pool: &Pool,
    x: &Buffer,
    gain: &[f32],
    bias: Option<&[f32]>,
    eps: f32,
    out: &mut Buffer,
) {
    let cols = x.cols();
    let values = x.values();
    let rows = (TASK / cols.max(1)).max(1);
    pool.split(out.shape(x.rows(), cols), rows * cols, |task, out| {
        let x = &values[task * rows * cols..][..out.len()];
        for (x, out) in x.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            row(isa, x, gain, bias, eps, out);
        }
    });
}

/// `out = x / sqrt(mean(x²) + eps) * gain`, `[R, cols]`
pub(super) fn rms_norm(isa: Isa, pool: &Pool, x: &Buffer, gain: &[f32], eps: f32, out: &mut Buffer) {
    let cols = x.cols();
    let values = x.values();
    let rows = (TASK / cols.max(1)).max(1);
    pool.split(out.shape(x.rows(), cols), rows * cols, |task, out| {
        let x = &values[task * rows * cols..][..out.len()];
        for (x, out) in x.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            rms_row(isa, x, gain, eps, out);
        }
    });
}

kernel! {
    fn rms_row<L>(x: &[f32], gain: &[f32], eps: f32, out: &mut [f32]) {
        let by = 1.0 / (dot::<L>(x, x) / x.len() as f32 + eps).sqrt();
        for ((out, x), gain) in out.iter_mut().zip(x).zip(gain) {
            *out = x * by * gain;
        }
    }
}

kernel! {
    fn row<L>(x: &[f32], gain: &[f32], bias: Option<&[f32]>, eps: f32, out: &mut [f32]) {
        let count = x.len() as f32;
        let (groups, rest) = x.as_chunks::<LANES>();
        // SAFETY: reached through `kernel!` only; every load is of 16 values in an array.
        let (mean, variance) = unsafe {
            let one = L::splat(1.0);
            let mut sum = L::zero();
            for group in groups {
                sum = L::f32(group.as_ptr()).fma(one, sum);
            }
            if !rest.is_empty() {
                sum = L::f32(padded(rest).as_ptr()).fma(one, sum);
            }
            let mean = sum.sum() / count;

            let minus = L::splat(-mean);
            let mut squares = L::zero();
            for group in groups {
                let away = L::f32(group.as_ptr()).fma(one, minus);
                squares = away.fma(away, squares);
            }
            if !rest.is_empty() {
                // What is missing of the last 16 must count as zero, not as far from the mean.
                let mut away = padded(rest);
                away[..rest.len()].iter_mut().for_each(|v| *v -= mean);
                let away = L::f32(away.as_ptr());
                squares = away.fma(away, squares);
            }
            (mean, squares.sum() / count)
        };
        let by = 1.0 / (variance + eps).sqrt();
        match bias {
            Some(bias) => {
                for (((out, x), gain), bias) in out.iter_mut().zip(x).zip(gain).zip(bias) {
                    *out = ((x - mean) * by).mul_add(*gain, *bias);
                }
            }
            None => {
                for ((out, x), gain) in out.iter_mut().zip(x).zip(gain) {
                    *out = (x - mean) * by * gain;
                }
            }
        }
    }
}
