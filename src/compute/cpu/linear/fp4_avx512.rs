//! W4A4 with byte dot products of AVX-512: sixteen weight rows side by side, unpacked once for all input rows.
//!
//! Of eight groups (64 bytes of codes) a row gives sixteen partial sums, two a group. The sixteen rows' partial sums are
//! added in pairs and transposed, so that a vector holds one group of sixteen rows: then each group is one multiplication
//! (exact) and one addition (the one rounding), group after group. Codes become 2x + 12, as the instruction wants one side
//! unsigned; 12 times the inputs is what each sum begins with, negated.

use std::arch::x86_64::*;
use std::ops::Range;

use super::Output;
use crate::nvfp4::{BLOCK, Nvfp4Matrix, e2m1, e4m3};

/// Weight rows side by side.
const ROWS: usize = 16;
/// Groups in a step.
const GROUPS: usize = 8;
/// Bytes of codes in a step.
const CODES: usize = GROUPS * BLOCK / 2;
const SHIFT: i8 = 12;
/// E4M3 read as a half-precision float falls short by 2^8, which the input's scales make up for.
const HALF_TO_E4M3: f32 = 256.0;

/// 2x + 12 for every code.
const TABLE: [i8; 16] = {
    let mut table = e2m1::DOUBLED;
    let mut code = 0;
    while code < 16 {
        table[code] += SHIFT;
        code += 1;
    }
    table
};

/// Eight groups of a quantised input row; what is missing at the end of a row is zero.
#[derive(Clone)]
#[repr(C, align(64))]
struct Step {
    /// Twice the values of the even columns.
    even: [i8; CODES],
    /// Twice the values of the odd columns.
    odd: [i8; CODES],
    /// -12 times the sum of the eight values that a partial sum is over.
    offset: [i32; 16],
    /// 64 times the scales.
    scales: [f32; GROUPS],
}

/// A quantised input row.
pub(super) struct Input {
    steps: Vec<Step>,
}

impl Input {
    /// From codes `[K/2]` and scales `[K/16]`.
    pub(super) fn new(codes: &[u8], scales: &[u8]) -> Self {
        let empty = Step { even: [0; CODES], odd: [0; CODES], offset: [0; 16], scales: [0.0; GROUPS] };
        let mut steps = vec![empty; scales.len().div_ceil(GROUPS)];
        for ((step, codes), scales) in steps.iter_mut().zip(codes.chunks(CODES)).zip(scales.chunks(GROUPS)) {
            for (i, code) in codes.iter().enumerate() {
                let (even, odd) = (e2m1::DOUBLED[usize::from(code & 15)], e2m1::DOUBLED[usize::from(code >> 4)]);
                (step.even[i], step.odd[i]) = (even, odd);
                step.offset[i / 4] -= i32::from(SHIFT) * (i32::from(even) + i32::from(odd));
            }
            for (value, byte) in step.scales.iter_mut().zip(scales) {
                *value = e4m3::decode(byte & 0x7f) * (0.25 * HALF_TO_E4M3);
            }
        }
        Self { steps }
    }
}

/// Sixteen weight rows' step, unpacked.
struct Unpacked {
    /// 2x + 12 of the even columns.
    even: [__m512i; ROWS],
    /// 2x + 12 of the odd columns.
    odd: [__m512i; ROWS],
    /// For each group the scales of the sixteen rows, short of 2^8.
    scales: [__m512; GROUPS],
}

/// Outputs `range` for all inputs; they exist, and no other thread has them.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
pub(super) fn outputs(w: &Nvfp4Matrix, inputs: &[Input], range: Range<usize>, out: Output<'_>) {
    let groups = w.k / BLOCK;
    let zero = _mm512_setzero_ps();
    let mut sums = vec![zero; inputs.len()];
    for from in range.clone().step_by(ROWS) {
        let count = ROWS.min(range.end - from);
        sums.fill(zero);
        for (number, first) in (0..groups).step_by(GROUPS).enumerate() {
            let unpacked = unpack(w, from, count, first, GROUPS.min(groups - first));
            for (sum, input) in sums.iter_mut().zip(inputs) {
                *sum = step(&unpacked, &input.steps[number], *sum);
            }
        }
        for (r, sum) in sums.iter().enumerate() {
            let mut values = [0f32; ROWS];
            // SAFETY: sixteen values are written into sixteen; the places in `out` are this thread's.
            unsafe {
                _mm512_storeu_ps(values.as_mut_ptr(), *sum);
                for (i, value) in values[..count].iter().enumerate() {
                    out.put(r, from + i, *value);
                }
            }
        }
    }
}

/// Groups `first .. first + groups` of rows `from .. from + count`; missing groups are zero, missing rows the last one.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn unpack(w: &Nvfp4Matrix, from: usize, count: usize, first: usize, groups: usize) -> Unpacked {
    let (row_codes, row_scales) = (w.k / 2, w.k / BLOCK);
    let nibble = _mm512_set1_epi8(15);
    // SAFETY: the table has 16 bytes.
    let table = _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(TABLE.as_ptr().cast()) });
    let mut even = [_mm512_setzero_si512(); ROWS];
    let mut odd = even;
    let mut words = [0i64; ROWS];
    for row in 0..ROWS {
        let n = from + row.min(count - 1);
        let codes = &w.codes[n * row_codes + first * (BLOCK / 2)..];
        let scales = &w.scales[n * row_scales + first..];
        let packed = if groups == GROUPS {
            // SAFETY: eight groups are there.
            unsafe {
                // The same step of the next sixteen rows; the address need not exist.
                let ahead = codes.as_ptr().wrapping_add(ROWS * row_codes);
                _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                words[row] = scales.as_ptr().cast::<i64>().read_unaligned();
                _mm512_loadu_si512(codes.as_ptr().cast())
            }
        } else {
            let mut bytes = [0u8; CODES];
            bytes[..groups * (BLOCK / 2)].copy_from_slice(&codes[..groups * (BLOCK / 2)]);
            let mut word = [0u8; GROUPS];
            word[..groups].copy_from_slice(&scales[..groups]);
            words[row] = i64::from_le_bytes(word);
            // SAFETY: 64 bytes of 64.
            unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
        };
        even[row] = _mm512_shuffle_epi8(table, _mm512_and_si512(packed, nibble));
        odd[row] = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16::<4>(packed), nibble));
    }
    Unpacked { even, odd, scales: scales(&words) }
}

/// Scale bytes of sixteen rows and eight groups (a word a row) into a vector for each group.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn scales(words: &[i64; ROWS]) -> [__m512; GROUPS] {
    /// Byte j of the first half comes from row j % 16, group j / 16.
    const ORDER: [u8; 64] = {
        let mut order = [0; 64];
        let mut j = 0;
        while j < 64 {
            order[j] = (j % 16 * 8 + j / 16) as u8;
            j += 1;
        }
        order
    };
    let w = words;
    let low = _mm512_set_epi64(w[7], w[6], w[5], w[4], w[3], w[2], w[1], w[0]);
    let high = _mm512_set_epi64(w[15], w[14], w[13], w[12], w[11], w[10], w[9], w[8]);
    // SAFETY: 64 bytes of 64.
    let order = unsafe { _mm512_loadu_si512(ORDER.as_ptr().cast()) };
    let later = _mm512_add_epi8(order, _mm512_set1_epi8(4));
    let mut all = [_mm512_setzero_ps(); GROUPS];
    for (half, order) in [order, later].into_iter().enumerate() {
        let bytes = _mm512_permutex2var_epi8(low, order, high);
        let pairs = [_mm512_castsi512_si256(bytes), _mm512_extracti64x4_epi64::<1>(bytes)];
        for (i, pair) in pairs.into_iter().enumerate() {
            let words = _mm512_slli_epi16::<7>(_mm512_cvtepu8_epi16(pair));
            all[half * 4 + i * 2] = _mm512_cvtph_ps(_mm512_castsi512_si256(words));
            all[half * 4 + i * 2 + 1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(words));
        }
    }
    all
}

/// Adds eight groups of sixteen rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn step(w: &Unpacked, x: &Step, sum: __m512) -> __m512 {
    // SAFETY: 64 bytes of 64, three times.
    let (even, odd, offset) = unsafe {
        (
            _mm512_load_si512(x.even.as_ptr().cast()),
            _mm512_load_si512(x.odd.as_ptr().cast()),
            _mm512_load_si512(x.offset.as_ptr().cast()),
        )
    };
    // By fours of rows: a quarter of a vector is one group of four rows, first the even groups, then the odd ones.
    let mut fours = [[_mm512_setzero_ps(); 2]; ROWS / 4];
    for (i, four) in fours.iter_mut().enumerate() {
        let mut pairs = [_mm512_setzero_ps(); 2];
        for (j, pair) in pairs.iter_mut().enumerate() {
            let row = i * 4 + j * 2;
            let a = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(offset, w.even[row], even), w.odd[row], odd);
            let b = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(offset, w.even[row + 1], even), w.odd[row + 1], odd);
            let (a, b) = (_mm512_castsi512_ps(a), _mm512_castsi512_ps(b));
            let first = _mm512_castps_si512(_mm512_shuffle_ps::<0x88>(a, b));
            let second = _mm512_castps_si512(_mm512_shuffle_ps::<0xdd>(a, b));
            *pair = _mm512_castsi512_ps(_mm512_add_epi32(first, second));
        }
        *four = [_mm512_shuffle_ps::<0x88>(pairs[0], pairs[1]), _mm512_shuffle_ps::<0xdd>(pairs[0], pairs[1])];
    }
    let mut exact = [_mm512_setzero_ps(); GROUPS];
    for parity in 0..2 {
        let [a, b, c, d] = [fours[0][parity], fours[1][parity], fours[2][parity], fours[3][parity]];
        // Quarters 0 and 2 of two vectors, and 1 and 3.
        let (ab02, ab13) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
        let (cd02, cd13) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
        exact[parity] = _mm512_shuffle_f32x4::<0x88>(ab02, cd02);
        exact[4 + parity] = _mm512_shuffle_f32x4::<0xdd>(ab02, cd02);
        exact[2 + parity] = _mm512_shuffle_f32x4::<0x88>(ab13, cd13);
        exact[6 + parity] = _mm512_shuffle_f32x4::<0xdd>(ab13, cd13);
    }
    let mut sum = sum;
    for (group, exact) in exact.into_iter().enumerate() {
        let exact = _mm512_cvtepi32_ps(_mm512_castps_si512(exact));
        let scale = _mm512_mul_ps(w.scales[group], _mm512_set1_ps(x.scales[group]));
        sum = _mm512_fmadd_ps(exact, scale, sum);
    }
    sum
}
