//! Host model of the tensor-core instruction `mma.m16n8k64 kind::mxf4nvf4 scale_vec::4X` (e2m1 x e2m1, ue4m3 scales, f32).
//!
//! D `[16, 8]` = A `[16, 64]` B `[64, 8]` + C, A row-major, B stored by columns, a scale for each row (or column) and 16 k:
//!
//! ```text
//! for g in 0..4:  D = fma( Σ (2a)(2b) over the 16 k of group g,  (scale_a * scale_b) * 0.25,  D )
//! ```
//!
//! The sum is an integer of at most 16 * 144 and the scales' product has eight significant bits, so a group costs exactly
//! one rounding, in any IEEE arithmetic. The hardware's own internal order and width are not specified (PTX ISA); GPU code
//! without the instruction follows this model bit for bit, and so does the CPU ([`super::dot`]).
//!
//! Registers, from the PTX ISA and CUTLASS's layout of scale factors, with lane = 4 * quad + t: every register holds eight
//! consecutive k of one row, nibble i at bits 4i.

use super::dot;

/// Lanes of a warp.
pub const LANES: usize = 32;
/// Rows of A and D.
pub const M: usize = 16;
/// Columns of B and D.
pub const N: usize = 8;
/// The depth of A and B.
pub const K: usize = 64;

/// The element (row, k) of A in nibble `nibble` (0..8) of register `reg` (0..4).
pub const fn a_reg(lane: usize, reg: usize, nibble: usize) -> (usize, usize) {
    (lane / 4 + 8 * (reg % 2), 32 * (reg / 2) + 8 * (lane % 4) + nibble)
}

/// The element (column, k) of B in nibble `nibble` (0..8) of register `reg` (0..2).
pub const fn b_reg(lane: usize, reg: usize, nibble: usize) -> (usize, usize) {
    (lane / 4, 32 * reg + 8 * (lane % 4) + nibble)
}

/// The element (row, column) of C and D in register `reg` (0..4).
pub const fn d_reg(lane: usize, reg: usize) -> (usize, usize) {
    (lane / 4 + 8 * (reg / 2), 2 * (lane % 4) + reg % 2)
}

/// The lane whose scale register serves `row` of A (selector thread-id 0, byte-id 0); byte j is the scale of group j.
pub const fn scale_a_lane(row: usize) -> usize {
    4 * (row % 8) + row / 8
}

/// The lane whose scale register serves `column` of B (selector thread-id 0, byte-id 0); byte j is the scale of group j.
pub const fn scale_b_lane(column: usize) -> usize {
    4 * column
}

/// A fragment of either operand: packed rows (or columns) and the scales of their four groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand<const ROWS: usize> {
    /// `[ROWS, K/2]`, even k in the low nibble.
    pub codes: [[u8; K / 2]; ROWS],
    /// `[ROWS, K/16]`, E4M3; the sign bit is ignored.
    pub scales: [[u8; K / 16]; ROWS],
}

/// The instruction on whole operands: `d[row][column]` comes in as C and goes out as D.
pub fn mma_nvf4_model(a: &Operand<M>, b: &Operand<N>, d: &mut [[f32; N]; M]) {
    for (row, d) in d.iter_mut().enumerate() {
        for (column, d) in d.iter_mut().enumerate() {
            *d = dot::accumulate(*d, &a.codes[row], &a.scales[row], &b.codes[column], &b.scales[column]);
        }
    }
}

/// What a warp holds: the instruction's operands as its lanes' registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Four words of A a lane.
    pub a: [[u32; 4]; LANES],
    /// Two words of B a lane.
    pub b: [[u32; 2]; LANES],
    /// Scales of A; only the lanes of [`scale_a_lane`] are read.
    pub scale_a: [u32; LANES],
    /// Scales of B; only the lanes of [`scale_b_lane`] are read.
    pub scale_b: [u32; LANES],
}

impl Registers {
    /// The registers that hold these operands. Lanes whose scales are not read hold `unread`.
    pub fn load(a: &Operand<M>, b: &Operand<N>, unread: u32) -> Self {
        let mut r = Self { a: [[0; 4]; LANES], b: [[0; 2]; LANES], scale_a: [unread; LANES], scale_b: [unread; LANES] };
        for lane in 0..LANES {
            for (reg, word) in r.a[lane].iter_mut().enumerate() {
                *word = word_of(|i| a_reg(lane, reg, i), &a.codes);
            }
            for (reg, word) in r.b[lane].iter_mut().enumerate() {
                *word = word_of(|i| b_reg(lane, reg, i), &b.codes);
            }
        }
        for (row, scales) in a.scales.iter().enumerate() {
            r.scale_a[scale_a_lane(row)] = u32::from_le_bytes(*scales);
        }
        for (column, scales) in b.scales.iter().enumerate() {
            r.scale_b[scale_b_lane(column)] = u32::from_le_bytes(*scales);
        }
        r
    }

    /// The operands these registers hold.
    pub fn unload(&self) -> (Operand<M>, Operand<N>) {
        let mut a = Operand { codes: [[0; K / 2]; M], scales: [[0; K / 16]; M] };
        let mut b = Operand { codes: [[0; K / 2]; N], scales: [[0; K / 16]; N] };
        for lane in 0..LANES {
            for (reg, &word) in self.a[lane].iter().enumerate() {
                spread(word, |i| a_reg(lane, reg, i), &mut a.codes);
            }
            for (reg, &word) in self.b[lane].iter().enumerate() {
                spread(word, |i| b_reg(lane, reg, i), &mut b.codes);
            }
        }
        for (row, scales) in a.scales.iter_mut().enumerate() {
            *scales = self.scale_a[scale_a_lane(row)].to_le_bytes();
        }
        for (column, scales) in b.scales.iter_mut().enumerate() {
            *scales = self.scale_b[scale_b_lane(column)].to_le_bytes();
        }
        (a, b)
    }

    /// The instruction on registers: `d[lane]` comes in as C and goes out as D.
    pub fn mma(&self, d: &mut [[f32; 4]; LANES]) {
        let (a, b) = self.unload();
        let mut whole = [[0.0; N]; M];
        for (lane, regs) in d.iter().enumerate() {
            for (reg, &value) in regs.iter().enumerate() {
                let (row, column) = d_reg(lane, reg);
                whole[row][column] = value;
            }
        }
        mma_nvf4_model(&a, &b, &mut whole);
        for (lane, regs) in d.iter_mut().enumerate() {
            for (reg, value) in regs.iter_mut().enumerate() {
                let (row, column) = d_reg(lane, reg);
                *value = whole[row][column];
            }
        }
    }
}

fn word_of<const ROWS: usize>(place: impl Fn(usize) -> (usize, usize), codes: &[[u8; K / 2]; ROWS]) -> u32 {
    (0..8).fold(0, |word, nibble| {
        let (row, k) = place(nibble);
        let code = codes[row][k / 2] >> (4 * (k % 2)) & 15;
        word | u32::from(code) << (4 * nibble)
    })
}

fn spread<const ROWS: usize>(word: u32, place: impl Fn(usize) -> (usize, usize), codes: &mut [[u8; K / 2]; ROWS]) {
    for nibble in 0..8 {
        let (row, k) = place(nibble);
        let code = (word >> (4 * nibble) & 15) as u8;
        codes[row][k / 2] |= code << (4 * (k % 2));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::nvfp4::{dot::dot_w4a4, e2m1, e4m3, vectors};
    use serde_json::Value;

    fn operand<const ROWS: usize>(codes: &[u8], at: impl Fn(usize, usize) -> usize, scales: &[u8]) -> Operand<ROWS> {
        let mut operand = Operand { codes: [[0; K / 2]; ROWS], scales: [[0; K / 16]; ROWS] };
        for row in 0..ROWS {
            for k in 0..K {
                operand.codes[row][k / 2] |= codes[at(row, k)] << (4 * (k % 2));
            }
            operand.scales[row].copy_from_slice(&scales[4 * row..4 * row + 4]);
        }
        operand
    }

    fn operands(case: &Value) -> (Operand<M>, Operand<N>) {
        let a = vectors::bytes(&case["A_codes_16x64"]);
        let b = vectors::bytes(&case["B_codes_64x8"]);
        (
            operand(&a, |row, k| row * K + k, &vectors::bytes(&case["SFA_bytes_16x4"])),
            operand(&b, |column, k| k * N + column, &vectors::bytes(&case["SFB_bytes_8x4"])),
        )
    }

    fn accumulators(words: &[u32]) -> [[f32; 4]; LANES] {
        std::array::from_fn(|lane| std::array::from_fn(|reg| f32::from_bits(words[4 * lane + reg])))
    }

    fn cases() -> Vec<Value> {
        let cases = vectors::load()["mma_m16n8k64"].as_array().unwrap().clone();
        assert_eq!(cases.len(), 2);
        cases
    }

    #[test]
    fn register_images_match_the_vectors() {
        for case in cases() {
            let (a, b) = operands(&case);
            let registers = Registers::load(&a, &b, 0xdead_beef);
            assert_eq!(registers.a.as_flattened(), vectors::words(&case["a_regs_lane_x4"]));
            assert_eq!(registers.b.as_flattened(), vectors::words(&case["b_regs_lane_x2"]));
            assert_eq!(registers.scale_a[..], vectors::words(&case["sfa_reg_lane"]));
            assert_eq!(registers.scale_b[..], vectors::words(&case["sfb_reg_lane"]));
            assert_eq!(registers.unload(), (a, b));
        }
    }

    #[test]
    fn results_match_the_vectors_bit_for_bit_whatever_unread_lanes_hold() {
        for case in cases() {
            let (a, b) = operands(&case);
            for unread in [0xdead_beef, 0, 0x7f7f_7f7f, u32::MAX] {
                let mut d = accumulators(&vectors::words(&case["c_bits_lane_x4"]));
                Registers::load(&a, &b, unread).mma(&mut d);
                let bits: Vec<u32> = d.as_flattened().iter().map(|v| v.to_bits()).collect();
                assert_eq!(bits, vectors::words(&case["d_bits_lane_x4"]));
            }
        }
    }

    #[test]
    fn every_element_has_exactly_one_place() {
        let (mut a, mut b, mut d) = ([[0; K]; M], [[0; K]; N], [[0; N]; M]);
        for lane in 0..LANES {
            for reg in 0..4 {
                let (row, column) = d_reg(lane, reg);
                d[row][column] += 1;
                for nibble in 0..8 {
                    let (row, k) = a_reg(lane, reg, nibble);
                    a[row][k] += 1;
                    if reg < 2 {
                        let (column, k) = b_reg(lane, reg, nibble);
                        b[column][k] += 1;
                    }
                }
            }
        }
        assert_eq!((a, b, d), ([[1; K]; M], [[1; K]; N], [[1; N]; M]));
        let mut lanes: Vec<usize> = (0..M).map(scale_a_lane).collect();
        lanes.sort_unstable();
        assert_eq!(lanes, (0..LANES).filter(|lane| lane % 4 < 2).collect::<Vec<_>>());
    }

    #[test]
    fn the_model_is_the_product_in_wide_arithmetic_when_nothing_rounds() {
        // Scales of 1 and small integers: any sane adder is exact, whatever its order.
        let (mut a, mut b) = operands(&cases()[0]);
        a.scales = [[0x38; 4]; M];
        b.scales = [[0x38; 4]; N];
        let mut d = [[0.5; N]; M];
        mma_nvf4_model(&a, &b, &mut d);
        let code = |codes: &[u8; K / 2], k: usize| e2m1::decode(codes[k / 2] >> (4 * (k % 2)) & 15);
        for (d, a) in d.iter().zip(&a.codes) {
            for (d, b) in d.iter().zip(&b.codes) {
                let sum: f32 = (0..K).map(|k| code(a, k) * code(b, k)).sum();
                assert_eq!(*d, sum + 0.5);
            }
        }
    }

    #[test]
    fn scales_have_no_sign_and_keep_nan() {
        let (mut a, b) = operands(&cases()[0]);
        let mut plain = [[0.0; N]; M];
        mma_nvf4_model(&a, &b, &mut plain);
        a.scales.iter_mut().flatten().for_each(|byte| *byte |= 0x80);
        let mut signed = [[0.0; N]; M];
        mma_nvf4_model(&a, &b, &mut signed);
        assert_eq!(plain, signed);
        a.scales[3][2] = e4m3::NAN_BYTE;
        mma_nvf4_model(&a, &b, &mut signed);
        assert!(signed[3].iter().all(|v| v.is_nan()) && signed[4].iter().all(|v| v.is_finite()));
    }

    #[test]
    fn a_whole_row_is_the_instruction_repeated() {
        let [first, second] = cases().try_into().unwrap();
        let ((a0, b0), (a1, b1)) = (operands(&first), operands(&second));
        let mut d = [[0.0; N]; M];
        mma_nvf4_model(&a0, &b0, &mut d);
        mma_nvf4_model(&a1, &b1, &mut d);
        for (row, d) in d.iter().enumerate() {
            for (column, d) in d.iter().enumerate() {
                let dot = dot_w4a4(
                    &[a0.codes[row], a1.codes[row]].concat(),
                    &[a0.scales[row], a1.scales[row]].concat(),
                    &[b0.codes[column], b1.codes[column]].concat(),
                    &[b0.scales[column], b1.scales[column]].concat(),
                    2 * K,
                );
                assert_eq!(dot.to_bits(), d.to_bits());
            }
        }
    }
}
