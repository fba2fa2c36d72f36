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
