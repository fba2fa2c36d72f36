//! Rotary position embedding, in place.

use super::buffer::Buffer;
use super::isa::{Isa, kernel};
use super::math::sin_cos;
use super::pool::Pool;
use crate::compute::{Rope, RopePairs, Rows};

/// Values a task rotates.
const TASK: usize = 16 * 1024;

/// Rotates `heads` heads beginning at column `at`.
pub(super) fn rope(isa: Isa, pool: &Pool, x: &mut Buffer, at: usize, heads: usize, rope: &Rope, rows: &Rows) {
    let cols = x.cols();
    let width = heads * rope.inv_freq.len() * 2;
    let positions: Vec<usize> = rows.segments.iter().flat_map(|s| s.start..s.start + s.len).collect();
    let task = (TASK / width.max(1)).max(1);
    pool.split(x.values_mut(), task * cols, |index, part| {
        for (row, position) in part.chunks_exact_mut(cols).zip(&positions[index * task..]) {
            rotate(isa, &mut row[at..at + width], *position, rope);
        }
    });
}

kernel! {
    fn rotate<L>(heads: &mut [f32], position: usize, rope: &Rope) {
        let half = rope.inv_freq.len();
        // [D/2] each
        let mut turns = vec![(0.0, 0.0); half];
        for (i, turn) in turns.iter_mut().enumerate() {
            let (sin, cos) = sin_cos(rope.angle(position, i));
            *turn = (sin * rope.amplitude, cos * rope.amplitude);
        }
        for head in heads.chunks_exact_mut(2 * half) {
            match rope.pairs {
                RopePairs::Interleaved => {
                    for ([a, b], turn) in head.as_chunks_mut::<2>().0.iter_mut().zip(&turns) {
                        (*a, *b) = turned(*a, *b, *turn);
                    }
                }
                RopePairs::Halves => {
                    let (first, second) = head.split_at_mut(half);
                    for ((a, b), turn) in first.iter_mut().zip(second).zip(&turns) {
                        (*a, *b) = turned(*a, *b, *turn);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn turned(a: f32, b: f32, (sin, cos): (f32, f32)) -> (f32, f32) {
    (a * cos - b * sin, b * cos + a * sin)
}
