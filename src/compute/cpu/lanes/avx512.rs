//! Sixteen f32 as one 512-bit register.

use std::arch::x86_64::*;

use super::Lanes;
use crate::compute::cpu::linear::Large;

/// One zmm register.
#[derive(Clone, Copy)]
pub(in crate::compute::cpu) struct Avx512(__m512);

// SAFETY (for every block below): the trait's contract, that is AVX-512 F, BW, DQ, VL and VBMI exist and the pointers may be
// read as far as each function says. All loads are of the unaligned kind.
impl Lanes for Avx512 {
    type Tiles = Large;

    #[inline(always)]
    unsafe fn fetch<const FAR: bool>(at: *const u8) {
        // SAFETY: a hint; the address need not be valid.
        unsafe {
            if FAR {
                _mm_prefetch::<_MM_HINT_T1>(at.cast());
            } else {
                _mm_prefetch::<_MM_HINT_T0>(at.cast());
            }
        }
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_setzero_ps() })
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_set1_ps(value) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn f32(from: *const f32) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn bf16(from: *const u8) -> Self {
        // SAFETY: see above.
        unsafe {
            let words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(words)))
        }
    }

    #[inline(always)]
    unsafe fn f16(from: *const u8) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) })
    }

    /// Each 32-bit lane needs its nibble in its low four bits, all that the permutation looks at: eight bytes are
    /// broadcast, and byte 0 of dword l is cut out of its qword at bit 4 l.
    #[inline(always)]
    unsafe fn e2m1(from: *const u8, table: &[f32; 16]) -> Self {
        // SAFETY: see above.
        unsafe {
            let codes = _mm512_set1_epi64(from.cast::<i64>().read_unaligned());
            let at = _mm512_set_epi64(
                0x3c_0000_0038,
                0x34_0000_0030,
                0x2c_0000_0028,
                0x24_0000_0020,
                0x1c_0000_0018,
                0x14_0000_0010,
                0x0c_0000_0008,
                0x04_0000_0000,
            );
            let codes = _mm512_multishift_epi64_epi8(at, codes);
            Self(_mm512_permutexvar_ps(codes, _mm512_loadu_ps(table.as_ptr())))
        }
    }

    #[inline(always)]
    unsafe fn fma(self, by: Self, to: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_fmadd_ps(self.0, by.0, to.0) })
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: see above.
        unsafe {
            let v = _mm256_add_ps(_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
            super::avx2::sum8(v)
        }
    }
}
