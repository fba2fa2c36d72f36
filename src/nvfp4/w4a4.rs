//! One quantised input row against many weight rows: the fast form of [`super::dot::dot_w4a4`], equal to it bit for bit.
//!
//! The integer sums may be formed in any order; the one rounding a group has is made group after group for every output.
//! Vectors therefore run across eight weight rows. Codes are looked up as 2x + 12, which makes one side of the byte
//! products unsigned as the instruction set wants it; 12 times the group's inputs is taken off again.

use super::{BLOCK, e2m1, e4m3};

/// Which instructions [`dots`] uses. A value other than [`Simd::plain`] exists only where they were detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simd(Set);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Simd {
    /// Any machine.
    pub fn plain() -> Self {
        Self(Set::Plain)
    }

    /// The best of this machine.
    pub fn detected() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") {
            return Self(Set::Avx2);
        }
        Self::plain()
    }
}

/// A quantised row of K activations, unpacked once for all the weight rows it meets.
#[derive(Clone, Debug)]
pub struct Input {
    /// `[K/2]`, twice the values of the even columns.
    even: Vec<i8>,
    /// `[K/2]`, twice the values of the odd columns.
    odd: Vec<i8>,
    /// `[K/16]`, -12 times the sum of each group's doubled values.
    offset: Vec<i32>,
    /// `[K/16]`, 64 times the scales: a quarter, and the 2^8 that E4M3 read as a half-precision float falls short of.
    scales: Vec<f32>,
}

const SHIFT: i32 = 12;
const HALF_TO_E4M3: f32 = 256.0;

impl Input {
    /// From codes `[K/2]` and scales `[K/16]`, as [`super::quantize::activations`] makes them.
    pub fn new(codes: &[u8], scales: &[u8]) -> Self {
        debug_assert_eq!(codes.len(), scales.len() * BLOCK / 2);
        let doubled = |code: u8| e2m1::DOUBLED[usize::from(code)];
        let (groups, _) = codes.as_chunks::<{ BLOCK / 2 }>();
        let total = |group: &[u8; BLOCK / 2]| {
            group.iter().map(|c| i32::from(doubled(c & 15)) + i32::from(doubled(c >> 4))).sum::<i32>()
        };
        Self {
            even: codes.iter().map(|c| doubled(c & 15)).collect(),
            odd: codes.iter().map(|c| doubled(c >> 4)).collect(),
            offset: groups.iter().map(|g| -SHIFT * total(g)).collect(),
            scales: scales.iter().map(|s| e4m3::decode(s & 0x7f) * (0.25 * HALF_TO_E4M3)).collect(),
        }
    }
}

/// `out[r] = Σ input * weights[r]` without the global scales: codes `[R, K/2]`, scales `[R, K/16]` (no NaN, no sign, as
/// [`super::Nvfp4Matrix::checked`] ensures), out `[R]`.
pub fn dots(simd: Simd, input: &Input, codes: &[u8], scales: &[u8], out: &mut [f32]) {
    let groups = input.scales.len();
    debug_assert_eq!(codes.len(), out.len() * groups * BLOCK / 2);
    debug_assert_eq!(scales.len(), out.len() * groups);
    if groups == 0 {
        out.fill(0.0);
        return;
    }
    match simd.0 {
        Set::Plain => {
            let rows = codes.chunks_exact(groups * BLOCK / 2).zip(scales.chunks_exact(groups));
            for ((codes, scales), out) in rows.zip(out) {
                *out = finish(0.0, 0, input, codes, scales);
            }
        }
        // SAFETY: the value exists only where the features were detected.
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => unsafe { x86::dots(input, codes, scales, out) },
    }
}

/// One row from group `from` on, added to `d`.
fn finish(d: f32, from: usize, input: &Input, codes: &[u8], scales: &[u8]) -> f32 {
    let (codes, _) = codes.as_chunks::<{ BLOCK / 2 }>();
    let (even, _) = input.even.as_chunks::<{ BLOCK / 2 }>();
    let (odd, _) = input.odd.as_chunks::<{ BLOCK / 2 }>();
    let inputs = even.iter().zip(odd).zip(&input.scales);
    inputs.zip(codes.iter().zip(scales)).skip(from).fold(d, |d, (((even, odd), input), (codes, &scale))| {
        let mut sum = 0;
        for i in 0..BLOCK / 2 {
            sum += i32::from(doubled(codes[i] & 15)) * i32::from(even[i]);
            sum += i32::from(doubled(codes[i] >> 4)) * i32::from(odd[i]);
        }
        sum as f32 * (input * (e4m3::decode(scale & 0x7f) * (1.0 / HALF_TO_E4M3))) + d
    })
}

/// [`e2m1::DOUBLED`] in arithmetic, which becomes vector code where a table would not.
#[inline(always)]
fn doubled(code: u8) -> i16 {
    let m = code & 7;
    let magnitude = i16::from(m + m.saturating_sub(4) + 2 * u8::from(m == 7));
    if code & 8 == 0 { magnitude } else { -magnitude }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BLOCK, Input, SHIFT, e2m1, finish};
    use std::arch::x86_64::*;

    /// Weight rows in the lanes of a vector.
    const ROWS: usize = 8;
    /// Groups a step of the loop takes: 32 bytes of codes and one word of scales from every row.
    const GROUPS: usize = 4;

    /// 2x + 12 for every code.
    const TABLE: [i8; 16] = {
        let mut table = e2m1::DOUBLED;
        let mut code = 0;
        while code < 16 {
            table[code] += SHIFT as i8;
            code += 1;
        }
        table
    };

    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn dots(input: &Input, codes: &[u8], scales: &[u8], out: &mut [f32]) {
        let groups = input.scales.len();
        let width = groups * BLOCK / 2;
        let whole = groups / GROUPS * GROUPS;
        for (block, out) in out.chunks_mut(ROWS).enumerate() {
            // A last block of fewer rows computes its last row several times.
            let row = |r: usize| block * ROWS + r.min(out.len() - 1);
            let codes: [&[u8]; ROWS] = std::array::from_fn(|r| &codes[row(r) * width..][..width]);
            let scales: [&[u8]; ROWS] = std::array::from_fn(|r| &scales[row(r) * groups..][..groups]);
            let sums = eight(input, codes, scales, whole);
            for (r, out) in out.iter_mut().enumerate() {
                *out = finish(sums[r], whole, input, codes[r], scales[r]);
            }
        }
    }

    /// The first `whole` groups of eight rows.
    #[target_feature(enable = "avx2,f16c")]
    fn eight(input: &Input, codes: [&[u8]; ROWS], scales: [&[u8]; ROWS], whole: usize) -> [f32; ROWS] {
        let nibble = _mm256_set1_epi8(15);
        let ones = _mm256_set1_epi16(1);
        // SAFETY: the table has 16 bytes.
        let table = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(TABLE.as_ptr().cast()) });
        // Four rows of four bytes into four groups of four rows.
        let transpose = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        let mut sums = _mm256_setzero_ps();
        for g in (0..whole).step_by(GROUPS) {
            let at = g * (BLOCK / 2);
            let load = |from: &[u8]| -> __m256i {
                // SAFETY: four groups, 32 bytes, begin at `at`; of the next eight rows the address need not exist.
                unsafe {
                    _mm_prefetch::<_MM_HINT_T0>(from.as_ptr().wrapping_add(ROWS * from.len() + at).cast());
                    _mm256_loadu_si256(from.as_ptr().add(at).cast())
                }
            };
            // SAFETY: both hold the same number of bytes as a row of codes.
            let (even, odd) = unsafe {
                (
                    _mm256_loadu_si256(input.even.as_ptr().add(at).cast()),
                    _mm256_loadu_si256(input.odd.as_ptr().add(at).cast()),
                )
            };
            // Two partial sums a group: [g0 g0 g1 g1 | g2 g2 g3 g3].
            let partial = |r: usize| {
                let packed = load(codes[r]);
                let low = _mm256_shuffle_epi8(table, _mm256_and_si256(packed, nibble));
                let high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(packed), nibble));
                // At most 4 * 24 * 12 in a 16-bit lane.
                let products = _mm256_add_epi16(_mm256_maddubs_epi16(low, even), _mm256_maddubs_epi16(high, odd));
                _mm256_madd_epi16(products, ones)
            };
            // [r g0, r g1, r+1 g0, r+1 g1 | r g2, r g3, r+1 g2, r+1 g3]
            let pair = |r: usize| _mm256_castsi256_ps(_mm256_hadd_epi32(partial(r), partial(r + 1)));
            let (p0, p2, p4, p6) = (pair(0), pair(2), pair(4), pair(6));
            // [rows 0..4 of g0 | of g2], and so on.
            let (even0, odd0) = (_mm256_shuffle_ps::<0x88>(p0, p2), _mm256_shuffle_ps::<0xdd>(p0, p2));
            let (even4, odd4) = (_mm256_shuffle_ps::<0x88>(p4, p6), _mm256_shuffle_ps::<0xdd>(p4, p6));
            let exact = [
                _mm256_permute2f128_ps::<0x20>(even0, even4),
                _mm256_permute2f128_ps::<0x20>(odd0, odd4),
                _mm256_permute2f128_ps::<0x31>(even0, even4),
                _mm256_permute2f128_ps::<0x31>(odd0, odd4),
            ];
            let word = |r: usize| {
                let s = &scales[r][g..g + GROUPS];
                i32::from_le_bytes([s[0], s[1], s[2], s[3]])
            };
            let rows0 = _mm_shuffle_epi8(_mm_setr_epi32(word(0), word(1), word(2), word(3)), transpose);
            let rows4 = _mm_shuffle_epi8(_mm_setr_epi32(word(4), word(5), word(6), word(7)), transpose);
            // An E4M3 byte seven bits up is a half-precision float 2^8 too small, subnormals included.
            let halves = |bytes| _mm256_slli_epi16::<7>(_mm256_cvtepu8_epi16(bytes));
            let g01 = halves(_mm_unpacklo_epi32(rows0, rows4));
            let g23 = halves(_mm_unpackhi_epi32(rows0, rows4));
            let weights = [
                _mm256_cvtph_ps(_mm256_castsi256_si128(g01)),
                _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(g01)),
                _mm256_cvtph_ps(_mm256_castsi256_si128(g23)),
                _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(g23)),
            ];
            for i in 0..GROUPS {
                let offset = _mm256_set1_epi32(input.offset[g + i]);
                let sum = _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_castps_si256(exact[i]), offset));
                let scale = _mm256_mul_ps(_mm256_set1_ps(input.scales[g + i]), weights[i]);
                sums = _mm256_add_ps(_mm256_mul_ps(sum, scale), sums);
            }
        }
        let mut out = [0.0; ROWS];
        // SAFETY: eight floats.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), sums) };
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvfp4::dot::dot_w4a4;

    /// Bytes below `bound`, the same on every run.
    fn bytes(seed: u64, count: usize, bound: u16) -> Vec<u8> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 48) as u16 % bound) as u8
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    fn check(rows: usize, groups: usize, scale_bound: u16) {
        let (width, seed) = (groups * BLOCK / 2, (rows * 1000 + groups) as u64);
        let (a, sa) = (bytes(seed, width, 256), bytes(seed + 1, groups, scale_bound));
        let (b, sb) = (bytes(seed + 2, rows * width, 256), bytes(seed + 3, rows * groups, scale_bound));
        let wanted: Vec<u32> = (0..rows)
            .map(|r| {
                let (b, sb) = (&b[r * width..][..width], &sb[r * groups..][..groups]);
                dot_w4a4(&a, &sa, b, sb, groups * BLOCK).to_bits()
            })
            .collect();
        for simd in [Simd::plain(), Simd::detected()] {
            let mut out = vec![f32::NAN; rows];
            dots(simd, &Input::new(&a, &sa), &b, &sb, &mut out);
            let bits: Vec<u32> = out.iter().map(|v| v.to_bits()).collect();
            assert_eq!(bits, wanted, "{rows} rows of {groups} groups, {simd:?}");
        }
    }

    #[test]
    fn every_shape_gives_the_bits_of_the_plain_product() {
        for rows in [1, 2, 7, 8, 9, 16, 19] {
            for groups in [1, 3, 4, 5, 7, 8, 11, 128] {
                check(rows, groups, 0x7f);
            }
        }
        assert!((0..16).all(|c| doubled(c) == i16::from(e2m1::DOUBLED[usize::from(c)])));
    }

    #[test]
    fn subnormal_and_zero_scales_are_exact_too() {
        check(8, 64, 9);
        check(8, 64, 2);
        check(8, 64, 1);
    }

    #[test]
    fn the_largest_sums_fit() {
        // Every code -6 or 6, every scale the largest: the integer lanes at their limits.
        for (a, b) in [(0x77, 0x77), (0xff, 0x77), (0x77, 0xff), (0xff, 0xff)] {
            let (a, b) = (vec![a; 32], vec![b; 8 * 32]);
            let (sa, sb) = (vec![0x7e; 4], vec![0x7e; 8 * 4]);
            for simd in [Simd::plain(), Simd::detected()] {
                let mut out = [0.0; 8];
                dots(simd, &Input::new(&a, &sa), &b, &sb, &mut out);
                let sign = if a[0] == b[0] { 1.0 } else { -1.0 };
                assert_eq!(out, [sign * 64.0 * 36.0 * 448.0 * 448.0; 8]);
            }
        }
    }

    #[test]
    fn nan_in_an_input_scale_reaches_every_output() {
        for simd in [Simd::plain(), Simd::detected()] {
            let mut out = [0.0; 3];
            dots(simd, &Input::new(&[0x11; 32], &[0x38, 0x7f, 0x38, 0x38]), &[0x11; 96], &[0x38; 12], &mut out);
            assert!(out.iter().all(|v| v.is_nan()));
        }
    }

    #[test]
    fn no_columns_sum_to_nothing() {
        let mut out = [1.0; 2];
        dots(Simd::detected(), &Input::new(&[], &[]), &[], &[], &mut out);
        assert_eq!(out, [0.0; 2]);
    }
}
