//! What is done to every value by itself.

use super::attention::row;
use super::buffer::Buffer;
use super::isa::{Isa, kernel};
use super::math;
use super::pool::Pool;
use crate::compute::View;

/// Values in a task.
const TASK: usize = 8 * 1024;

/// `out = silu(gate) * up`, `[R, cols]`
pub(super) fn silu_mul(isa: Isa, pool: &Pool, gate: &View<'_, Buffer>, up: &View<'_, Buffer>, out: &mut Buffer) {
    debug_assert!(gate.width == up.width && gate.buffer.rows() == up.buffer.rows());
    let cols = gate.width;
    let rows = (TASK / cols.max(1)).max(1);
    pool.split(out.shape(gate.buffer.rows(), cols), rows * cols, |task, out| {
        for (i, out) in out.chunks_exact_mut(cols).enumerate() {
            let r = task * rows + i;
            silu_mul_row(isa, row(gate, r), row(up, r), out);
        }
    });
}

/// In place.
pub(super) fn gelu(isa: Isa, pool: &Pool, x: &mut Buffer) {
    pool.split(x.values_mut(), TASK, |_, x| gelu_values(isa, x));
}

/// In place.
pub(super) fn silu(isa: Isa, pool: &Pool, x: &mut Buffer) {
    pool.split(x.values_mut(), TASK, |_, x| silu_values(isa, x));
}

/// In place.
pub(super) fn tanh(isa: Isa, pool: &Pool, x: &mut Buffer) {
    pool.split(x.values_mut(), TASK, |_, x| tanh_values(isa, x));
}

/// `round(levels * tanh x) / levels`, in place.
pub(super) fn finite_scalar(isa: Isa, pool: &Pool, x: &mut Buffer, levels: f32) {
    pool.split(x.values_mut(), TASK, |_, x| finite_scalar_values(isa, x, levels));
}

/// `out = x + sin²(alpha x) / (alpha + 1e-9)`, `[R, cols]`
pub(super) fn snake(isa: Isa, pool: &Pool, x: &Buffer, alpha: &[f32], out: &mut Buffer) {
    debug_assert_eq!(alpha.len(), x.cols());
    let cols = x.cols();
    let values = x.values();
    let size = (TASK / cols.max(1)).max(1) * cols;
    let over: Vec<f32> = alpha.iter().map(|alpha| 1.0 / (alpha + 1e-9)).collect();
    pool.split(out.shape(x.rows(), cols), size, |task, out| {
        for (out, x) in out.chunks_exact_mut(cols).zip(values[task * size..].chunks_exact(cols)) {
            snake_row(isa, x, alpha, &over, out);
        }
    });
}

/// `x = x * scale + shift`, per column.
pub(super) fn affine(isa: Isa, pool: &Pool, x: &mut Buffer, scale: &[f32], shift: &[f32]) {
    debug_assert!(scale.len() == x.cols() && shift.len() == x.cols());
    let cols = x.cols();
    let size = (TASK / cols.max(1)).max(1) * cols;
    pool.split(x.values_mut(), size, |_, x| {
        for x in x.chunks_exact_mut(cols) {
            affine_row(isa, x, scale, shift);
        }
    });
}

/// `out = elu(x)`
pub(super) fn elu(isa: Isa, pool: &Pool, x: &Buffer, out: &mut Buffer) {
    let values = x.values();
    pool.split(out.shape(x.rows(), x.cols()), TASK, |task, out| elu_values(isa, &values[task * TASK..], out));
}

/// `x += y`, or `x += scale * y` with a scale per column.
pub(super) fn add(isa: Isa, pool: &Pool, x: &mut Buffer, y: &Buffer, scale: Option<&[f32]>) {
    debug_assert!(x.rows() == y.rows() && x.cols() == y.cols());
    let cols = x.cols();
    let values = y.values();
    match scale {
        None => pool.split(x.values_mut(), TASK, |task, x| add_values(isa, x, &values[task * TASK..])),
        Some(scale) => {
            debug_assert_eq!(scale.len(), cols);
            let size = (TASK / cols.max(1)).max(1) * cols;
            pool.split(x.values_mut(), size, |task, x| {
                for (x, y) in x.chunks_exact_mut(cols).zip(values[task * size..].chunks_exact(cols)) {
                    add_scaled_row(isa, x, y, scale);
                }
            });
        }
    }
}

/// `x *= factor`
pub(super) fn scale(isa: Isa, pool: &Pool, x: &mut Buffer, factor: f32) {
    pool.split(x.values_mut(), TASK, |_, x| scale_values(isa, x, factor));
}

kernel! {
    fn silu_mul_row<L>(gate: &[f32], up: &[f32], out: &mut [f32]) {
        for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
            *out = math::silu(*gate) * up;
        }
    }
}
kernel! {
    fn gelu_values<L>(x: &mut [f32]) {
        for x in x {
            *x = math::gelu(*x);
        }
    }
}
kernel! {
    fn silu_values<L>(x: &mut [f32]) {
        for x in x {
            *x = math::silu(*x);
        }
    }
}
kernel! {
    fn tanh_values<L>(x: &mut [f32]) {
        for x in x {
            *x = math::tanh(*x);
        }
    }
}
kernel! {
    fn finite_scalar_values<L>(x: &mut [f32], levels: f32) {
        for x in x {
            *x = (levels * math::tanh(*x)).round_ties_even() / levels;
        }
    }
}
kernel! {
    fn snake_row<L>(x: &[f32], alpha: &[f32], over: &[f32], out: &mut [f32]) {
        for (((out, x), alpha), over) in out.iter_mut().zip(x).zip(alpha).zip(over) {
            let sin = math::sin(alpha * x);
            *out = (sin * sin).mul_add(*over, *x);
        }
    }
}
kernel! {
    fn affine_row<L>(x: &mut [f32], scale: &[f32], shift: &[f32]) {
        for ((x, scale), shift) in x.iter_mut().zip(scale).zip(shift) {
            *x = x.mul_add(*scale, *shift);
        }
    }
}
kernel! {
    fn elu_values<L>(x: &[f32], out: &mut [f32]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = math::elu(*x);
        }
    }
}
kernel! {
    fn add_values<L>(x: &mut [f32], y: &[f32]) {
        for (x, y) in x.iter_mut().zip(y) {
            *x += y;
        }
    }
}
kernel! {
    fn add_scaled_row<L>(x: &mut [f32], y: &[f32], scale: &[f32]) {
        for ((x, y), scale) in x.iter_mut().zip(y).zip(scale) {
            *x = scale.mul_add(*y, *x);
        }
    }
}
kernel! {
    fn scale_values<L>(x: &mut [f32], factor: f32) {
        for x in x {
            *x *= factor;
        }
    }
}
