//! A few weight rows times a few input rows, kept in registers: the one loop behind every exact linear.

use std::ops::Range;

use super::readers::{self, Reader};
use super::{Inputs, Output};
use crate::compute::cpu::isa::kernel;
use crate::compute::cpu::lanes::{LANES, Lanes, padded};
use crate::matrix::PlainMatrix;
use crate::nvfp4::Nvfp4Matrix;

/// Input values that are kept in the second-level cache while weight rows pass by: 512 KB.
const HELD: usize = 128 * 1024;

kernel! {
    /// Outputs `range` for all rows; they exist, and no other thread has them.
    pub(super) fn f32<L>(w: &PlainMatrix, x: &Inputs<'_>, range: Range<usize>, out: Output<'_>) {
        block::<L, _>(readers::F32::new(w), x, range, out);
    }
}
kernel! {
    /// As [`f32`].
    pub(super) fn bf16<L>(w: &PlainMatrix, x: &Inputs<'_>, range: Range<usize>, out: Output<'_>) {
        block::<L, _>(readers::Bf16::new(w), x, range, out);
    }
}
kernel! {
    /// As [`f32`].
    pub(super) fn f16<L>(w: &PlainMatrix, x: &Inputs<'_>, range: Range<usize>, out: Output<'_>) {
        block::<L, _>(readers::F16::new(w), x, range, out);
    }
}
kernel! {
    /// As [`f32`].
    pub(super) fn nvfp4<L>(w: &Nvfp4Matrix, x: &Inputs<'_>, range: Range<usize>, out: Output<'_>) {
        block::<L, _>(readers::Nvfp4::new(w), x, range, out);
    }
}

/// Weight rows are read from memory once for as many input rows as the cache holds.
#[inline(always)]
fn block<L: Lanes, W: Reader>(w: W, x: &Inputs<'_>, range: Range<usize>, out: Output<'_>) {
    let held = (HELD / x.k.max(1)).max(4);
    for first in (0..x.len()).step_by(held) {
        let rows = first..(first + held).min(x.len());
        let mut n = range.start;
        while n + 4 <= range.end {
            rows_of::<L, W, 4>(w, n, x, rows.clone(), out);
            n += 4;
        }
        while n < range.end {
            rows_of::<L, W, 1>(w, n, x, rows.clone(), out);
            n += 1;
        }
    }
}

#[inline(always)]
fn rows_of<L: Lanes, W: Reader, const N: usize>(w: W, n: usize, x: &Inputs<'_>, rows: Range<usize>, out: Output<'_>) {
    let mut r = rows.start;
    while r < rows.end {
        // SAFETY: `Linear::run` asks for existing outputs only, and gives each to one thread.
        unsafe {
            match rows.end - r {
                1 => tile::<L, W, N, 1>(w, n, x, r, out),
                2 => tile::<L, W, N, 2>(w, n, x, r, out),
                3 => tile::<L, W, N, 3>(w, n, x, r, out),
                _ => tile::<L, W, N, 4>(w, n, x, r, out),
            }
        }
        r += 4;
    }
}

/// Weight rows `n .. n + N` times input rows `r .. r + R`.
///
/// # Safety
/// All of them exist, and so do the places in `out`, which belong to this thread.
#[inline(always)]
unsafe fn tile<L: Lanes, W: Reader, const N: usize, const R: usize>(
    w: W,
    n: usize,
    x: &Inputs<'_>,
    r: usize,
    out: Output<'_>,
) {
    // SAFETY: the caller's promise; groups stay below K.
    unsafe {
        let weights: [W::Row; N] = std::array::from_fn(|i| w.row(n + i));
        let inputs: [*const f32; R] = std::array::from_fn(|i| x.row(r + i).as_ptr());
        let mut sums = [[L::zero(); N]; R];
        let (groups, rest) = (x.k / LANES, x.k % LANES);
        for group in 0..groups {
            let values: [L; N] = std::array::from_fn(|i| W::group(weights[i], group));
            for (input, sums) in inputs.iter().zip(&mut sums) {
                let input = L::f32(input.add(group * LANES));
                for (value, sum) in values.iter().zip(sums) {
                    *sum = value.fma(input, *sum);
                }
            }
        }
        if rest > 0 {
            let values: [L; N] = std::array::from_fn(|i| W::rest(weights[i], groups, rest));
            for (j, sums) in sums.iter_mut().enumerate() {
                let input = padded(&x.row(r + j)[groups * LANES..]);
                let input = L::f32(input.as_ptr());
                for (value, sum) in values.iter().zip(sums) {
                    *sum = value.fma(input, *sum);
                }
            }
        }
        for (j, sums) in sums.into_iter().enumerate() {
            for (i, sum) in sums.into_iter().enumerate() {
                out.put(r + j, n + i, sum.sum());
            }
        }
    }
}
