//! Pieces generated side by side become one stream in order: the first unfinished piece flows through, later ones wait.
//! Where a piece may be spoken anew, it waits for its own end too.
//!
//! The model's samples are never changed, and a single piece is just them: a cut utterance ends where the limit was.
//! Where another piece comes after a cut one, a fade stands between them: the last milliseconds, mirrored and fading to
//! silence, so that the cut does not click.

use std::collections::VecDeque;
use std::ops::Range;

use crate::audio::fade::{CUT_FADE_MS, fade_out, samples_in};

/// Joins the pieces of one text.
pub struct Joiner {
    rate: u32,
    /// No piece is heard before its end, so that it can be spoken anew.
    hold: bool,
    /// Silence before the first piece, in samples, until it is heard.
    lead: usize,
    /// The piece whose audio flows through.
    current: usize,
    /// Samples heard so far.
    heard: usize,
    pieces: Vec<Piece>,
}

struct Piece {
    /// Where its own samples are in what is heard.
    span: Range<usize>,
    /// Silence after this piece, in samples.
    gap: usize,
    /// Audio that waits for its turn.
    waiting: Vec<f32>,
    /// The last samples of the piece, as many as the fade needs.
    tail: VecDeque<f32>,
    /// Whether the piece is over, and whether it was cut.
    end: Option<bool>,
}

impl Joiner {
    /// For pieces with `lead` samples of silence before the first and `gaps[i]` after piece i.
    pub fn new(lead: usize, gaps: &[usize], rate: u32, hold: bool) -> Self {
        let piece =
            |&gap: &usize| Piece { span: lead..lead, gap, waiting: Vec::new(), tail: VecDeque::new(), end: None };
        Self { rate, hold, lead, current: 0, heard: 0, pieces: gaps.iter().map(piece).collect() }
    }

    /// The next samples of piece `i`; returns what can be heard now.
    pub fn audio(&mut self, i: usize, samples: &[f32]) -> Vec<f32> {
        let keep = samples_in(CUT_FADE_MS, self.rate);
        let piece = &mut self.pieces[i];
        piece.tail.extend(&samples[samples.len().saturating_sub(keep)..]);
        piece.tail.drain(..piece.tail.len().saturating_sub(keep));
        piece.waiting.extend_from_slice(samples);
        let mut heard = Vec::new();
        if i == self.current && !self.hold {
            self.flow(&mut heard);
            self.heard += heard.len();
        }
        heard
    }

    /// Piece `i`, of which nothing was heard, begins anew.
    pub fn again(&mut self, i: usize) {
        self.pieces[i].waiting.clear();
        self.pieces[i].tail.clear();
    }

    /// Piece `i` is over, `cut` or not; returns what can be heard now.
    pub fn end(&mut self, i: usize, cut: bool) -> Vec<f32> {
        self.pieces[i].end = Some(cut);
        let mut heard = Vec::new();
        while let Some(cut) = self.pieces.get(self.current).and_then(|p| p.end) {
            self.flow(&mut heard);
            let piece = &self.pieces[self.current];
            if cut && self.current + 1 < self.pieces.len() {
                let mut fade: Vec<f32> = piece.tail.iter().rev().copied().collect();
                fade_out(&mut fade, self.rate);
                heard.extend(fade);
            }
            heard.resize(heard.len() + piece.gap, 0.0);
            self.current += 1;
        }
        if !self.hold {
            self.flow(&mut heard);
        }
        self.heard += heard.len();
        heard
    }

    /// When each piece is heard, in samples from the beginning, without the silence after it.
    pub fn spans(&self) -> Vec<Range<usize>> {
        self.pieces.iter().map(|piece| piece.span.clone()).collect()
    }

    /// What waits in the current piece is heard.
    fn flow(&mut self, heard: &mut Vec<f32>) {
        if let Some(piece) = self.pieces.get_mut(self.current).filter(|piece| !piece.waiting.is_empty()) {
            heard.resize(heard.len() + std::mem::take(&mut self.lead), 0.0);
            let begin = self.heard + heard.len();
            heard.append(&mut piece.waiting);
            // What follows of a piece follows at once.
            let begin = if piece.span.is_empty() { begin } else { piece.span.start };
            piece.span = begin..self.heard + heard.len();
        }
    }

    /// Whether all pieces are over.
    pub fn complete(&self) -> bool {
        self.current == self.pieces.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_piece_flows_and_the_second_waits() {
        let mut joiner = Joiner::new(1, &[2, 3], 1000, false);
        assert!(joiner.audio(1, &[0.5, 0.5]).is_empty());
        assert_eq!(joiner.audio(0, &[0.1]), [0.0, 0.1]);
        assert!(joiner.end(1, false).is_empty());
        assert_eq!(joiner.audio(0, &[0.2]), [0.2]);
        assert!(!joiner.complete());
        assert_eq!(joiner.end(0, false), [0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0]);
        assert!(joiner.complete());
        assert_eq!(joiner.spans(), [1..3, 5..7]);
    }

    #[test]
    fn a_cut_piece_keeps_its_samples_and_fades_after_them() {
        // 10 ms at 1000 Hz are 10 samples.
        let mut joiner = Joiner::new(0, &[0, 0], 1000, false);
        let mut heard = joiner.audio(0, &[0.25; 7]);
        heard.extend(joiner.audio(0, &[0.75; 8]));
        assert_eq!(heard, [[0.25; 7].as_slice(), &[0.75; 8]].concat());
        let fade = joiner.end(0, true);
        assert_eq!(fade.len(), 10);
        // Mirrored: the later samples come first, so the seam is smooth.
        assert!(fade[0] > 0.7 && fade[7] < 0.25 && fade[9] == 0.0, "{fade:?}");
        assert!(fade.windows(2).all(|w| w[0] >= w[1]));
        // Nothing comes after the last piece, so the limit is its end.
        assert_eq!(joiner.audio(1, &[0.75; 8]), [0.75; 8]);
        assert!(joiner.end(1, true).is_empty());
    }

    #[test]
    fn a_held_piece_can_begin_anew() {
        let mut joiner = Joiner::new(2, &[1, 0], 1000, true);
        assert!(joiner.audio(0, &[0.1, 0.2]).is_empty() && joiner.audio(1, &[0.5]).is_empty());
        joiner.again(0);
        assert!(joiner.audio(0, &[0.3]).is_empty());
        assert_eq!(joiner.end(0, false), [0.0, 0.0, 0.3, 0.0]);
        joiner.again(1);
        assert!(joiner.audio(1, &[0.6]).is_empty());
        assert_eq!(joiner.end(1, false), [0.6]);
        assert!(joiner.complete());
    }

    proptest! {
        /// Whatever the order in which the pieces come in, they leave in theirs, whole.
        #[test]
        fn order_of_arrival_does_not_matter(picks in prop::collection::vec(0usize..4, 1..60), hold: bool) {
            let mut joiner = Joiner::new(0, &[3, 3, 3, 0], 1000, hold);
            let mut said: [Vec<f32>; 4] = Default::default();
            let mut heard = Vec::new();
            for (step, piece) in picks.into_iter().enumerate() {
                let sample = 1.0 + step as f32;
                said[piece].push(sample);
                heard.extend(joiner.audio(piece, &[sample]));
            }
            for piece in [2, 0, 3, 1] {
                heard.extend(joiner.end(piece, false));
            }
            prop_assert!(joiner.complete());
            for (span, said) in joiner.spans().into_iter().zip(&said) {
                prop_assert_eq!(&heard[span], said.as_slice());
            }
            prop_assert_eq!(heard, said.join([0.0; 3].as_slice()));
        }
    }
}
