//! Sixteen f32 as an array: for every machine, and the meaning of the other two.

use super::{LANES, Lanes};
use crate::compute::cpu::linear::Small;

/// Sixteen scalars.
#[derive(Clone, Copy)]
pub(in crate::compute::cpu) struct Fallback([f32; LANES]);

impl Lanes for Fallback {
    type Tiles = Small;

    #[inline(always)]
    unsafe fn fetch<const FAR: bool>(_: *const u8) {}

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([0.0; LANES])
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: 16 f32 may be written, at any alignment.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn f32(from: *const f32) -> Self {
        // SAFETY: 16 f32 may be read, at any alignment.
        Self(unsafe { from.cast::<[f32; LANES]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn bf16(from: *const u8) -> Self {
        // SAFETY: 32 bytes may be read, at any alignment.
        let words = unsafe { from.cast::<[[u8; 2]; LANES]>().read_unaligned() };
        Self(words.map(|w| f32::from_bits(u32::from(u16::from_le_bytes(w)) << 16)))
    }

    #[inline(always)]
    unsafe fn f16(from: *const u8) -> Self {
        // SAFETY: 32 bytes may be read, at any alignment.
        let words = unsafe { from.cast::<[[u8; 2]; LANES]>().read_unaligned() };
        Self(words.map(|w| half::f16::from_le_bytes(w).to_f32()))
    }

    #[inline(always)]
    unsafe fn e2m1(from: *const u8, table: &[f32; 16]) -> Self {
        // SAFETY: 8 bytes may be read, at any alignment.
        let bytes = unsafe { from.cast::<[u8; 8]>().read_unaligned() };
        let mut values = [0.0; LANES];
        for (pair, byte) in values.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
            *pair = [table[usize::from(byte & 15)], table[usize::from(byte >> 4)]];
        }
        Self(values)
    }

    #[inline(always)]
    unsafe fn fma(self, by: Self, to: Self) -> Self {
        let mut values = [0.0; LANES];
        for (lane, value) in values.iter_mut().enumerate() {
            *value = self.0[lane].mul_add(by.0[lane], to.0[lane]);
        }
        Self(values)
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let mut v = self.0;
        for half in [8, 4, 2, 1] {
            for lane in 0..half {
                v[lane] += v[lane + half];
            }
        }
        v[0]
    }
}
