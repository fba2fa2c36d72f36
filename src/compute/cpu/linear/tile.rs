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
    let held = (HELD / x.k.max(1)).max(8);
    for first in (0..x.len()).step_by(held) {
        let rows = first..(first + held).min(x.len());
        // SAFETY: `Linear::run` asks for existing outputs only, and gives each to one thread.
        unsafe { L::Tiles::run::<L, W>(w, x, rows, range.clone(), out) }
    }
}

/// The shapes of tiles that suit a register file. Each shape is code of its own, so there are no more than pay.
pub(in crate::compute::cpu) trait Tiles {
    /// Outputs `range` of input rows `rows`.
    ///
    /// # Safety
    /// They exist, and their places in `out` belong to this thread.
    unsafe fn run<L: Lanes, W: Reader>(w: W, x: &Inputs<'_>, rows: Range<usize>, range: Range<usize>, out: Output<'_>);
}

/// Room for 16 sums of 16 lanes and what feeds them.
pub(in crate::compute::cpu) struct Large;
/// Room for 4, one input row's or two's.
pub(in crate::compute::cpu) struct Medium;
/// The same, in less code.
pub(in crate::compute::cpu) struct Small;

impl Tiles for Large {
    #[inline(always)]
    unsafe fn run<L: Lanes, W: Reader>(w: W, x: &Inputs<'_>, rows: Range<usize>, range: Range<usize>, out: Output<'_>) {
        let whole = range.start + range.len() / 4 * 4;
        // SAFETY: the caller's promise.
        unsafe {
            for n in (range.start..whole).step_by(4) {
                let mut r = rows.start;
                while r < rows.end {
                    let size = share(rows.end - r, 4);
                    match size {
                        1 => tile::<L, W, 4, 1>(w, n, x, r, out),
                        2 => tile::<L, W, 4, 2>(w, n, x, r, out),
                        3 => tile::<L, W, 4, 3>(w, n, x, r, out),
                        _ => tile::<L, W, 4, 4>(w, n, x, r, out),
                    }
                    r += size;
                }
            }
            singly::<L, W>(w, x, rows, whole..range.end, out);
        }
    }
}

impl Tiles for Medium {
    #[inline(always)]
    unsafe fn run<L: Lanes, W: Reader>(w: W, x: &Inputs<'_>, rows: Range<usize>, range: Range<usize>, out: Output<'_>) {
        // SAFETY: the caller's promise.
        unsafe {
            if rows.len() > 1 {
                return Small::run::<L, W>(w, x, rows, range, out);
            }
            let whole = range.start + range.len() / 4 * 4;
            for n in (range.start..whole).step_by(4) {
                tile::<L, W, 4, 1>(w, n, x, rows.start, out);
            }
            singly::<L, W>(w, x, rows, whole..range.end, out);
        }
    }
}

impl Tiles for Small {
    #[inline(always)]
    unsafe fn run<L: Lanes, W: Reader>(w: W, x: &Inputs<'_>, rows: Range<usize>, range: Range<usize>, out: Output<'_>) {
        let whole = range.start + range.len() / 2 * 2;
        // SAFETY: the caller's promise.
        unsafe {
            for n in (range.start..whole).step_by(2) {
                for r in (rows.start..rows.end).step_by(2) {
                    match rows.end - r {
                        1 => tile::<L, W, 2, 1>(w, n, x, r, out),
                        _ => tile::<L, W, 2, 2>(w, n, x, r, out),
                    }
                }
            }
            singly::<L, W>(w, x, rows, whole..range.end, out);
        }
    }
}

/// The first of about equal shares of at most `most`: 9 rows are 3 + 3 + 3, not 4 + 4 + 1.
#[inline(always)]
fn share(rows: usize, most: usize) -> usize {
    rows.div_ceil(rows.div_ceil(most))
}

/// The few outputs that whole tiles leave over.
///
/// # Safety
/// As for [`Tiles::run`].
#[inline(always)]
unsafe fn singly<L: Lanes, W: Reader>(w: W, x: &Inputs<'_>, rows: Range<usize>, range: Range<usize>, out: Output<'_>) {
    for n in range {
        for r in rows.clone() {
            // SAFETY: the caller's promise.
            unsafe { tile::<L, W, 1, 1>(w, n, x, r, out) }
        }
    }
}

/// Weight rows `n .. n + N` times input rows `r .. r + R`.
///
/// Plain loops over indices: a closure that the compiler decides not to inline would be compiled without the instruction
/// set, and be a hundred times slower.
///
/// # Safety
/// All of them exist, and so do the places in `out`, which belong to this thread.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
unsafe fn tile<L: Lanes, W: Reader, const N: usize, const R: usize>(
    w: W,
    n: usize,
    x: &Inputs<'_>,
    r: usize,
    out: Output<'_>,
) {
    // SAFETY: the caller's promise; groups stay below K.
    unsafe {
        let w = w.from(n);
        let mut inputs = [std::ptr::null(); R];
        for j in 0..R {
            inputs[j] = x.row(r + j).as_ptr();
        }
        let mut sums = [[L::zero(); N]; R];
        let mut values = [L::zero(); N];
        let (groups, rest) = (x.k / LANES, x.k % LANES);
        for group in 0..groups {
            for i in 0..N {
                values[i] = w.group(i, group);
            }
            w.fetch::<L, N>(group);
            for j in 0..R {
                let input = L::f32(inputs[j].add(group * LANES));
                for i in 0..N {
                    sums[j][i] = values[i].fma(input, sums[j][i]);
                }
            }
        }
        // What follows stays loops, and what loops index must be memory: the sums are put there only now, so that they
        // were registers above.
        let mut stored = [[[0f32; LANES]; N]; R];
        for j in 0..R {
            for i in 0..N {
                sums[j][i].store(stored[j][i].as_mut_ptr());
            }
        }
        if W::RAGGED && rest > 0 {
            for j in 0..R {
                let input = padded(&x.row(r + j)[groups * LANES..]);
                let input = L::f32(input.as_ptr());
                for i in 0..N {
                    let sum = &mut stored[j][i];
                    w.rest::<L>(i, groups, rest).fma(input, L::f32(sum.as_ptr())).store(sum.as_mut_ptr());
                }
            }
        }
        for j in 0..R {
            for i in 0..N {
                out.put(r + j, n + i, L::f32(stored[j][i].as_ptr()).sum());
            }
        }
    }
}
