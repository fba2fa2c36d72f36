//! Properties of quantisation that hold for every matrix and every row of activations, on random ones.

use proptest::collection::vec;
use proptest::prelude::*;

use super::mma::{self, Operand, Registers};
use super::{BLOCK, GlobalScale, InputScale, Nvfp4Matrix, e2m1, e4m3, quantize, saturated_blocks};

/// Blocks whose magnitudes lie `span` powers of two apart at most, some of them zeros.
fn blocks(count: std::ops::Range<usize>, span: i32) -> impl Strategy<Value = Vec<f32>> {
    let block = (prop_oneof![8 => -span..=0, 1 => Just(-200)], vec(-1.0..1.0f32, BLOCK));
    vec(block, count).prop_map(|blocks| {
        blocks.into_iter().flat_map(|(power, values)| values.into_iter().map(move |v| v * 2f32.powi(power))).collect()
    })
}

fn amax(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |a, v| a.max(v.abs()))
}

/// One row, in either packing.
fn quantized(values: &[f32]) -> [Nvfp4Matrix; 2] {
    [GlobalScale::multiply_for(amax(values)), GlobalScale::divide_for(amax(values))]
        .map(|global| quantize::weights(1, values.len(), values, global).unwrap_or_else(|e| unreachable!("{e}")))
}

/// How far a value may move, in parts of the block's largest magnitude: half the widest step, 4 to 6, and what the scale
/// itself was rounded by, one part in 16 at most.
const STEP: f32 = 1.0 / 6.0 * (1.0 + 1.0 / 16.0);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_weight_moves_further_than_half_a_step(values in blocks(1..9, 12)) {
        for matrix in quantized(&values) {
            for (was, is) in values.chunks_exact(BLOCK).zip(matrix.dequantize().chunks_exact(BLOCK)) {
                let bound = STEP * amax(was) * 1.0001;
                for (was, is) in was.iter().zip(is) {
                    prop_assert!((was - is).abs() <= bound, "{was} became {is}, bound {bound}");
                }
            }
        }
    }

    #[test]
    fn no_other_code_would_be_nearer(values in blocks(1..5, 40)) {
        for matrix in quantized(&values) {
            for (b, (was, is)) in values.chunks_exact(BLOCK).zip(matrix.dequantize().chunks_exact(BLOCK)).enumerate() {
                let scale = f64::from(e4m3::decode(matrix.scales[b])) * f64::from(matrix.global.factor());
                for (&was, &is) in was.iter().zip(is) {
                    let off = (f64::from(was) - f64::from(is)).abs();
                    for value in e2m1::VALUES {
                        let other = (f64::from(was) - f64::from(value) * scale).abs();
                        prop_assert!(off <= other + 1e-6 * scale, "{was} became {is}, {value} times {scale} is nearer");
                    }
                }
            }
        }
    }

    #[test]
    fn quantising_what_was_quantised_changes_nothing(values in blocks(1..9, 12)) {
        for matrix in quantized(&values) {
            let once = matrix.dequantize();
            let again = quantize::weights(1, values.len(), &once, matrix.global).map(|m| m.dequantize());
            prop_assert_eq!(again.ok(), Some(once));
        }
    }

    #[test]
    fn both_packings_say_the_same(values in blocks(1..9, 12)) {
        let [modelopt, compressed] = quantized(&values).map(|m| m.dequantize());
        let blocks = values.chunks_exact(BLOCK).zip(modelopt.chunks_exact(BLOCK).zip(compressed.chunks_exact(BLOCK)));
        for (values, (a, b)) in blocks {
            // A value on the border may fall to either side, no further.
            let bound = 2.0 * STEP * amax(values) * 1.0001;
            prop_assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() <= bound));
        }
        let moved = modelopt.iter().zip(&compressed).filter(|(a, b)| (*a - *b).abs() > 1e-5 * amax(&values)).count();
        // Their scales round alike but for ties: few values may differ at all.
        prop_assert!(moved <= BLOCK, "{moved} of {} values differ", values.len());
    }

    #[test]
    fn activations_within_range_move_less_than_half_a_step(x in blocks(1..9, 12)) {
        let (codes, scales) = activations(&x, InputScale::Multiply(1.0 / 2688.0));
        let is = dequantized(&codes, &scales, 1.0 / 2688.0);
        for (was, is) in x.chunks_exact(BLOCK).zip(is.chunks_exact(BLOCK)) {
            let bound = STEP * amax(was) * 1.0001;
            prop_assert!(was.iter().zip(is).all(|(was, is)| (was - is).abs() <= bound));
        }
    }

    #[test]
    fn activations_scale_with_their_input_scale(x in blocks(1..5, 12), power in -20..20i32) {
        // Powers of two round nothing, so the bytes must be the same.
        let factor = 2f32.powi(power);
        let scaled: Vec<f32> = x.iter().map(|v| v * factor).collect();
        let plain = activations(&x, InputScale::Multiply(0.0003));
        prop_assert_eq!(&activations(&scaled, InputScale::Multiply(0.0003 * factor)), &plain);
    }

    #[test]
    fn activations_turn_with_their_sign(x in blocks(1..5, 12)) {
        let negative: Vec<f32> = x.iter().map(|v| -v).collect();
        let (codes, scales) = activations(&x, InputScale::Divide(3000.0));
        let (other_codes, other_scales) = activations(&negative, InputScale::Divide(3000.0));
        prop_assert_eq!(scales, other_scales);
        prop_assert!(codes.iter().zip(&other_codes).all(|(a, b)| a ^ b == 0x88));
    }

    #[test]
    fn blocks_beyond_the_calibrated_range_are_counted(x in blocks(1..9, 12), calibrated in 0.01..2.0f32) {
        let (_, scales) = activations(&x, InputScale::Multiply(calibrated / 2688.0));
        let beyond = |limit: f32| x.chunks_exact(BLOCK).filter(|b| amax(b) > limit).count();
        // The largest scale, 448, is taken from 432 on: there the step below it ends.
        let counted = saturated_blocks(&scales);
        prop_assert!(counted >= beyond(calibrated) && counted <= beyond(calibrated * (431.9 / 448.0)));
    }

    #[test]
    fn registers_hold_every_operand(a in vec(any::<u8>(), 16 * 36), b in vec(any::<u8>(), 8 * 36), unread in any::<u32>()) {
        let (a, b) = (operand::<{ mma::M }>(&a), operand::<{ mma::N }>(&b));
        prop_assert_eq!(Registers::load(&a, &b, unread).unload(), (a, b));
    }
}

fn activations(x: &[f32], input: InputScale) -> (Vec<u8>, Vec<u8>) {
    let (mut codes, mut scales) = (vec![0; x.len() / 2], vec![0; x.len() / BLOCK]);
    quantize::activations(x, input, &mut codes, &mut scales);
    (codes, scales)
}

fn dequantized(codes: &[u8], scales: &[u8], factor: f32) -> Vec<f32> {
    let value = |k: usize| e2m1::decode(codes[k / 2] >> (4 * (k % 2))) * (e4m3::decode(scales[k / BLOCK]) * factor);
    (0..2 * codes.len()).map(value).collect()
}

fn operand<const ROWS: usize>(bytes: &[u8]) -> Operand<ROWS> {
    let row = |r: usize| &bytes[36 * r..36 * (r + 1)];
    Operand {
        codes: std::array::from_fn(|r| std::array::from_fn(|i| row(r)[i])),
        scales: std::array::from_fn(|r| std::array::from_fn(|i| row(r)[32 + i])),
    }
}
