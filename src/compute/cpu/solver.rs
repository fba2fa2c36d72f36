//! The noise that a solver starts from, and its steps.

use std::f32::consts::TAU;

use super::buffer::Buffer;
use super::isa::{Isa, kernel};
use super::lanes::dot;
use super::math::{ln, sin};
use super::pool::Pool;
use crate::compute::random::{Purpose, words};
use crate::compute::{Draw, Guidance};

/// Normal numbers `4 i .. 4 i + 4` of (seed, step): two pairs of the Box-Muller transform.
fn normals(seed: u64, step: u32, i: u32) -> [f32; 4] {
    let words = words(seed, step, Purpose::Noise, i);
    let unit = |word: u32| (word >> 8) as f32 * (1.0 / 16_777_216.0);
    let pair = |a: u32, b: u32| {
        // 1 - u lies in (0, 1], where the logarithm is finite.
        let radius = (-2.0 * ln(1.0 - unit(a))).sqrt();
        let turn = unit(b);
        [radius * sin(TAU * (turn + 0.25)), radius * sin(TAU * turn)]
    };
    let ([a, b], [c, d]) = (pair(words[0], words[1]), pair(words[2], words[3]));
    [a, b, c, d]
}

/// Value c of row r of a draw is its number `c * rows + r`. `[draws * rows, cols]`
pub(super) fn noise(draws: &[Draw], rows: usize, cols: usize, out: &mut Buffer) {
    let size = rows * cols;
    let out = out.shape(draws.len() * rows, cols);
    for (draw, out) in draws.iter().zip(out.chunks_exact_mut(size.max(1))) {
        for first in (0..size).step_by(4) {
            let numbers = normals(draw.seed, draw.step, (first / 4) as u32);
            for (i, number) in (first..size).zip(numbers) {
                out[i % rows * cols + i / rows] = draw.scale * number;
            }
        }
    }
}

/// x `[S * per_draw, cols]`, v `[2 * S * per_draw, cols]`
pub(super) fn guided_step(isa: Isa, pool: &Pool, x: &mut Buffer, v: &Buffer, per_draw: usize, steps: &[Guidance]) {
    let size = per_draw * x.cols();
    debug_assert!(x.rows() == steps.len() * per_draw && v.rows() == 2 * x.rows() && v.cols() == x.cols());
    let (with, without) = v.values().split_at(x.values().len());
    pool.split(x.values_mut(), size, |i, x| {
        step(isa, x, &with[i * size..][..size], &without[i * size..][..size], steps[i]);
    });
}

kernel! {
    fn step<L>(x: &mut [f32], with: &[f32], without: &[f32], step: Guidance) {
        let alpha = dot::<L>(with, without) / (dot::<L>(without, without) + 1e-8);
        for ((x, with), without) in x.iter_mut().zip(with).zip(without) {
            let base = alpha * without;
            *x -= step.dt * step.cfg.mul_add(with - base, base);
        }
    }
}
