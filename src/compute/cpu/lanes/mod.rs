//! Sixteen f32 at a time: the one summation order of the CPU backend.
//!
//! A sum over k keeps 16 partial sums: lane l takes k = l, l + 16, l + 32, …, each by one fused multiply-add, and what is
//! missing of the last 16 counts as zero. The partial sums are then added as a fixed tree: l with l + 8, l + 4, l + 2, l + 1.
//! One 512-bit register, two of 256 bits or sixteen scalars all do exactly that, so their results are equal bit by bit.

use super::linear::Tiles;

pub(super) mod fallback;

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;

/// How many values a [`Lanes`] holds.
pub(super) const LANES: usize = 16;

/// Sixteen f32 in registers.
///
/// # Safety
/// Every function may only be called where the instruction set it is for exists, which `kernel!` sees to; loads and
/// stores touch exactly what they say, at any alignment.
pub(super) trait Lanes: Copy {
    /// How many of them fit into the registers.
    type Tiles: Tiles;
    /// Asks for the cache line at an address that will soon be read, if FAR only as near as the second-level cache; any
    /// address will do.
    unsafe fn fetch<const FAR: bool>(at: *const u8);
    /// All zero.
    unsafe fn zero() -> Self;
    /// One value in all.
    unsafe fn splat(value: f32) -> Self;
    /// Writes 16 f32.
    unsafe fn store(self, to: *mut f32);
    /// 16 f32.
    unsafe fn f32(from: *const f32) -> Self;
    /// 16 bfloat16 (32 bytes), little endian.
    unsafe fn bf16(from: *const u8) -> Self;
    /// 16 binary16 (32 bytes), little endian.
    unsafe fn f16(from: *const u8) -> Self;
    /// 16 E2M1 codes (8 bytes, low nibble first) looked up in a table of 16 values, of which the second half is the
    /// first one negated.
    unsafe fn e2m1(from: *const u8, table: &[f32; 16]) -> Self;
    /// `self * by + to`, rounded once.
    unsafe fn fma(self, by: Self, to: Self) -> Self;
    /// The fixed tree.
    unsafe fn sum(self) -> f32;
}

/// `Σ a[k] b[k]` in the order above.
#[inline(always)]
pub(super) fn dot<L: Lanes>(a: &[f32], b: &[f32]) -> f32 {
    let len = a.len().min(b.len());
    let whole = len / LANES * LANES;
    // SAFETY: reached through `kernel!` only; the whole groups of 16 lie within both slices.
    unsafe {
        let mut sum = L::zero();
        for at in (0..whole).step_by(LANES) {
            sum = L::f32(a.as_ptr().add(at)).fma(L::f32(b.as_ptr().add(at)), sum);
        }
        if whole < len {
            let (a, b) = (padded(&a[whole..len]), padded(&b[whole..len]));
            sum = L::f32(a.as_ptr()).fma(L::f32(b.as_ptr()), sum);
        }
        sum.sum()
    }
}

/// Up to 16 values, then zeros.
#[inline(always)]
pub(super) fn padded(values: &[f32]) -> [f32; LANES] {
    let mut all = [0.0; LANES];
    all[..values.len()].copy_from_slice(values);
    all
}
