//! How 16 weights come from a checkpoint's bytes into registers. Every conversion is exact.

use crate::compute::cpu::lanes::{LANES, Lanes};
use crate::matrix::PlainMatrix;
use crate::nvfp4::{Nvfp4Matrix, e2m1, e4m3};

/// Rows of weights that can be read 16 at a time.
pub(super) trait Reader: Copy {
    /// A place in the bytes: the beginning of one row.
    type Row: Copy;
    /// Row n.
    ///
    /// # Safety
    /// The row must exist.
    unsafe fn row(self, n: usize) -> Self::Row;
    /// Columns `16 * group .. 16 * group + 16` of a row.
    ///
    /// # Safety
    /// They must exist, and the contract of [`Lanes`] holds.
    unsafe fn group<L: Lanes>(row: Self::Row, group: usize) -> L;
    /// The `rest < 16` columns after the last whole group, then zeros.
    ///
    /// # Safety
    /// As for [`Reader::group`].
    unsafe fn rest<L: Lanes>(row: Self::Row, group: usize, rest: usize) -> L;
}

macro_rules! plain {
    ($(#[$meta:meta])* $name:ident, $size:literal, |$from:ident| $load:expr) => {
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
            type Row = *const u8;

            #[inline(always)]
            unsafe fn row(self, n: usize) -> *const u8 {
                // SAFETY: the row exists.
                unsafe { self.base.add(n * self.stride) }
            }

            #[inline(always)]
            unsafe fn group<L: Lanes>(row: *const u8, group: usize) -> L {
                // SAFETY: the columns exist.
                unsafe {
                    let $from = row.add(group * LANES * $size);
                    $load
                }
            }

            #[inline(always)]
            unsafe fn rest<L: Lanes>(row: *const u8, group: usize, rest: usize) -> L {
                let mut bytes = [0u8; LANES * $size];
                // SAFETY: the columns exist, and fewer than 16 of them fit.
                unsafe {
                    let from = row.add(group * LANES * $size);
                    std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), rest * $size);
                    let $from = bytes.as_ptr();
                    $load
                }
            }
        }
    };
}

plain!(
    /// f32 as it is.
    F32, 4, |from| L::f32(from.cast())
);
plain!(
    /// bfloat16.
    Bf16, 2, |from| L::bf16(from)
);
plain!(
    /// binary16.
    F16, 2, |from| L::f16(from)
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
    type Row = (*const u8, *const u8);

    #[inline(always)]
    unsafe fn row(self, n: usize) -> Self::Row {
        // SAFETY: the row exists.
        unsafe { (self.codes.add(n * (self.k / 2)), self.scales.add(n * (self.k / 16))) }
    }

    #[inline(always)]
    unsafe fn group<L: Lanes>((codes, scales): Self::Row, group: usize) -> L {
        // SAFETY: the columns exist; a byte is a valid index of the table.
        unsafe { L::e2m1(codes.add(group * 8), &SCALED.0[usize::from(*scales.add(group))]) }
    }

    #[inline(always)]
    unsafe fn rest<L: Lanes>(_: Self::Row, _: usize, _: usize) -> L {
        // SAFETY: the contract of `Lanes`. K is a multiple of 16, so nothing is ever left over.
        unsafe { L::zero() }
    }
}
