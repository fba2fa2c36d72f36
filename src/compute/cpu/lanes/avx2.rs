//! Sixteen f32 as two 256-bit registers.

use std::arch::x86_64::*;

use super::Lanes;
use crate::compute::cpu::linear::Medium;

/// Lanes 0..8 and 8..16.
#[derive(Clone, Copy)]
pub(in crate::compute::cpu) struct Avx2(__m256, __m256);

// SAFETY (for every block below): the trait's contract, that is AVX2, FMA and F16C exist and the pointers may be read as far
// as each function says. All loads are of the unaligned kind.
impl Lanes for Avx2 {
    type Tiles = Medium;

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
        unsafe { Self(_mm256_setzero_ps(), _mm256_setzero_ps()) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_set1_ps(value), _mm256_set1_ps(value)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: see above.
        unsafe {
            _mm256_storeu_ps(to, self.0);
            _mm256_storeu_ps(to.add(8), self.1);
        }
    }

    #[inline(always)]
    unsafe fn f32(from: *const f32) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }

    #[inline(always)]
    unsafe fn bf16(from: *const u8) -> Self {
        // SAFETY: see above.
        unsafe { Self(bf16(from), bf16(from.add(16))) }
    }

    #[inline(always)]
    unsafe fn f16(from: *const u8) -> Self {
        // SAFETY: see above.
        unsafe {
            Self(_mm256_cvtph_ps(_mm_loadu_si128(from.cast())), _mm256_cvtph_ps(_mm_loadu_si128(from.add(16).cast())))
        }
    }

    #[inline(always)]
    unsafe fn e2m1(from: *const u8, table: &[f32; 16]) -> Self {
        // SAFETY: see above.
        unsafe {
            let table = _mm256_loadu_ps(table.as_ptr());
            Self(e2m1(from, table), e2m1(from.add(4), table))
        }
    }

    #[inline(always)]
    unsafe fn fma(self, by: Self, to: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_fmadd_ps(self.0, by.0, to.0), _mm256_fmadd_ps(self.1, by.1, to.1)) }
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: see above.
        unsafe { sum8(_mm256_add_ps(self.0, self.1)) }
    }
}

/// 8 bfloat16.
///
/// # Safety
/// AVX2 must exist, and 16 bytes may be read.
#[inline(always)]
unsafe fn bf16(from: *const u8) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe {
        let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
    }
}

/// 8 codes and the table's 8 positive values. Each 32-bit lane shifts its nibble to the top: the sign lands where an f32
/// has it, the other three bits go down to choose.
///
/// # Safety
/// AVX2 must exist, and 4 bytes may be read.
#[inline(always)]
unsafe fn e2m1(from: *const u8, table: __m256) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe {
        let by = _mm256_set_epi32(0, 4, 8, 12, 16, 20, 24, 28);
        let codes = _mm256_sllv_epi32(_mm256_set1_epi32(from.cast::<i32>().read_unaligned()), by);
        let size = _mm256_permutevar8x32_ps(table, _mm256_srli_epi32::<28>(codes));
        let sign = _mm256_and_ps(_mm256_castsi256_ps(codes), _mm256_set1_ps(-0.0));
        _mm256_xor_ps(size, sign)
    }
}

/// The tree below eight lanes.
///
/// # Safety
/// AVX must exist.
#[inline(always)]
pub(super) unsafe fn sum8(v: __m256) -> f32 {
    // SAFETY: AVX exists.
    unsafe {
        let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
        let v = _mm_add_ss(v, _mm_shuffle_ps::<1>(v, v));
        _mm_cvtss_f32(v)
    }
}
