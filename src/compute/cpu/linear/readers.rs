//! How 16 weights come from a checkpoint's bytes into registers. Every conversion is exact.

use crate::compute::cpu::lanes::{LANES, Lanes};
use crate::matrix::PlainMatrix;
use crate::nvfp4::{Nvfp4Matrix, e2m1, e4m3};

/// Rows of weights that can be read 16 at a time.
///
/// # Safety
/// Of all functions but the last: row and columns must exist, and the contract of [`Lanes`] holds.
pub(in crate::compute::cpu) trait Reader: Copy {
    /// Columns may be left over after the last 16.
    const RAGGED: bool;
    /// The same matrix, beginning with row n.
    unsafe fn from(self, n: usize) -> Self;
    /// Columns `16 * group .. 16 * group + 16` of row i.
    unsafe fn group<L: Lanes>(self, i: usize, group: usize) -> L;
    /// The `rest < 16` columns of row i after the last whole group, then zeros.
    unsafe fn rest<L: Lanes>(self, i: usize, group: usize, rest: usize) -> L;
    /// Asks memory for a share of rows `N .. 2 N`: while N rows are read group by group, all of the next N.
    unsafe fn fetch<L: Lanes, const N: usize>(self, group: usize);
}

macro_rules! plain {
    ($(#[$meta:meta])* $name:ident, $size:literal, ahead: $ahead:literal, |$from:ident| $load:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub(super) struct $name {
            base: *const u8,
            stride: usize,
        }

        impl $name {
            pub(super) fn new(matrix: &PlainMatrix) -> Self {
                Self { base: matrix.bytes.as_ptr(), stride: matrix.k * $size }
            }
        }

        impl Reader for $name {
            const RAGGED: bool = true;

            #[inline(always)]
            unsafe fn from(self, n: usize) -> Self {
                // SAFETY: the row exists.
                Self { base: unsafe { self.base.add(n * self.stride) }, ..self }
            }

            #[inline(always)]
            unsafe fn group<L: Lanes>(self, i: usize, group: usize) -> L {
                // SAFETY: the columns exist.
                unsafe {
                    let $from = self.base.add(i * self.stride + group * LANES * $size);
                    $load
                }
            }

            #[inline(always)]
            unsafe fn rest<L: Lanes>(self, i: usize, group: usize, rest: usize) -> L {
                let mut bytes = [0u8; LANES * $size];
                // SAFETY: the columns exist, and fewer than 16 of them fit.
                unsafe {
                    let from = self.base.add(i * self.stride + group * LANES * $size);
                    std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), rest * $size);
                    let $from = bytes.as_ptr();
                    $load
                }
            }

            #[inline(always)]
            unsafe fn fetch<L: Lanes, const N: usize>(self, group: usize) {
                let next = self.base.wrapping_add(N * self.stride + group * N * LANES * $size);
                let lines = if $ahead { (N * LANES * $size).div_ceil(64) } else { 0 };
                for line in 0..lines {
                    // SAFETY: the contract of `Lanes`; any address will do.
                    unsafe { L::fetch::<true>(next.wrapping_add(line * 64)) }
                }
            }
        }
    };
}

plain!(
    /// f32 as it is. So many lines are asked for by reading already that asking ahead slows it down.
    F32, 4, ahead: false, |from| L::f32(from.cast())
);
plain!(
    /// bfloat16.
    Bf16, 2, ahead: true, |from| L::bf16(from)
);
plain!(
    /// binary16.
    F16, 2, ahead: true, |from| L::f16(from)
);

/// `scaled[s][c]` = value of code c under the scale byte s: at most 6 significant bits, so exact. With it a block of 16
/// weights costs one table load instead of a scale conversion and 16 multiplications; 8 KB of it are in use.
#[repr(align(64))]
struct Scaled([[f32; 16]; 256]);

static SCALED: Scaled = {
    let mut table = [[0.0; 16]; 256];
    let mut scale = 0;
    while scale < 256 {
        let mut code = 0;
        while code < 16 {
            table[scale][code] = e2m1::VALUES[code] * e4m3::VALUES[scale];
            code += 1;
        }
        scale += 1;
    }
    Scaled(table)
};

/// Codes times block scales, without the global scale.
#[derive(Clone, Copy)]
pub(super) struct Nvfp4 {
    codes: *const u8,
    scales: *const u8,
    k: usize,
}

impl Nvfp4 {
    pub(super) fn new(matrix: &Nvfp4Matrix) -> Self {
        Self { codes: matrix.codes.as_ptr(), scales: matrix.scales.as_ptr(), k: matrix.k }
    }
}

impl Reader for Nvfp4 {
    const RAGGED: bool = false;

    #[inline(always)]
    unsafe fn from(self, n: usize) -> Self {
        // SAFETY: the row exists.
        unsafe { Self { codes: self.codes.add(n * (self.k / 2)), scales: self.scales.add(n * (self.k / 16)), ..self } }
    }

    #[inline(always)]
    unsafe fn group<L: Lanes>(self, i: usize, group: usize) -> L {
        // SAFETY: the columns exist; a byte is a valid index of the table.
        unsafe {
            let scale = *self.scales.add(i * (self.k / 16) + group);
            L::e2m1(self.codes.add(i * (self.k / 2) + group * 8), &SCALED.0[usize::from(scale)])
        }
    }

    #[inline(always)]
    unsafe fn rest<L: Lanes>(self, _: usize, _: usize, _: usize) -> L {
        // SAFETY: the contract of `Lanes`.
        unsafe { L::zero() }
    }

    #[inline(always)]
    unsafe fn fetch<L: Lanes, const N: usize>(self, group: usize) {
        // A block of packed rows is small enough for the first-level cache.
        // SAFETY: the contract of `Lanes`; any address will do.
        unsafe { L::fetch::<false>(self.codes.wrapping_add(N * (self.k / 2) + group * N * 8)) }
    }
}
