//! Tokens to codec frames: Q units in the order of their quantizers are one frame.
//!
//! A quantizer-0 unit out of turn starts the next frame, anything else out of turn drops the frame begun; what is
//! incomplete at the end is dropped (specification 3.3).

use super::config::AudioIds;

/// The frame being put together.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    codes: Vec<u32>, // the codes of quantizers 0.. so far
}

impl Assembler {
    /// Takes a token; returns the Q codes of a frame that it completes.
    pub fn push(&mut self, token: u32, ids: &AudioIds) -> Option<Vec<u32>> {
        let unit = token.checked_sub(ids.first_unit).filter(|unit| (*unit as usize) < ids.units());
        let Some(unit) = unit else {
            self.codes.clear();
            return None;
        };
        let (code, quantizer) = (unit / ids.quantizers as u32, unit as usize % ids.quantizers);
        if quantizer != self.codes.len() {
            self.codes.clear();
        }
        if quantizer == self.codes.len() {
            self.codes.push(code);
        }
        (self.codes.len() == ids.quantizers).then(|| std::mem::take(&mut self.codes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: AudioIds = AudioIds { first_unit: 100, quantizers: 2, codebook: 4, text: 1, audio: 2, end: 3 };

    fn frames(tokens: &[u32]) -> Vec<Vec<u32>> {
        let mut assembler = Assembler::default();
        tokens.iter().filter_map(|t| assembler.push(*t, &IDS)).collect()
    }

    #[test]
    fn in_order() {
        assert_eq!(frames(&[100, 101, 106, 103]), [[0, 0], [3, 1]]);
    }

    #[test]
    fn first_quantizer_out_of_turn_starts_the_next_frame() {
        assert_eq!(frames(&[100, 102, 105]), [[1, 2]]);
    }

    #[test]
    fn later_quantizer_out_of_turn_drops_the_frame() {
        assert_eq!(frames(&[101, 100, 103, 105, 102]), [[0, 1]]);
    }

    #[test]
    fn other_tokens_drop_the_frame_and_the_rest_is_incomplete() {
        assert_eq!(frames(&[100, 1, 101, 108, 99, 104]), Vec::<Vec<u32>>::new());
    }
}
