//! A text and its settings become a script: cut into utterances, each with its seed, each checked by the model.

use super::seed;
use super::sound::Cutting;
use super::speak::Script;
use crate::audio::fade::samples_in;
use crate::error::Result;
use crate::models::{Speaker, Utterance};
use crate::text::{self, Pause};

/// The script of `text`. `like` holds voice and sampling; `seed` is the text's own.
///
/// # Errors
/// A text that cannot be spoken, or a setting that the model refuses.
pub fn write(
    speaker: &dyn Speaker,
    id: usize,
    text: &str,
    like: &Utterance,
    seed: u64,
    cutting: &Cutting,
) -> Result<Script> {
    let words_only = cutting.normalize.wanted(speaker.words_only());
    let pieces = text::utterances(text, cutting.split.split(), speaker.longest_text(), words_only)?;
    let mut script = Script { id, utterances: Vec::new(), gaps: Vec::new() };
    for (i, piece) in pieces.into_iter().enumerate() {
        let utterance = Utterance { text: piece.text, seed: seed::of_piece(seed, i), ..like.clone() };
        speaker.check(&utterance)?;
        script.utterances.push(utterance);
        let gap = cutting.gap.unwrap_or_else(|| pause(piece.pause));
        script.gaps.push(samples_in(gap, speaker.sample_rate()));
    }
    Ok(script)
}

/// Silence where the text is silent about it, in milliseconds. The utterances bring some of their own.
fn pause(pause: Pause) -> u32 {
    match pause {
        Pause::Word => 0,
        Pause::Clause => 80,
        Pause::Sentence => 200,
        Pause::Paragraph => 450,
    }
}
