//! A text and its settings become a script: cut into utterances, each with its seed, each checked by the model, with
//! the silences between them.

use std::time::Duration;

use super::seed;
use super::sound::Cutting;
use super::speak::Script;
use crate::audio::fade::samples_in;
use crate::error::{Error, Result};
use crate::models::{Speaker, Utterance};
use crate::text::markers::{self, Part};
use crate::text::{self, Pause};

/// Whether `text` holds anything that can be spoken, as far as that shows without a model.
///
/// # Errors
/// Why it cannot be spoken.
pub fn check(text: &str) -> Result<()> {
    text::clean(text)?;
    let speakable = |part: &Part| matches!(part, Part::Text(text) if text::clean::is_speakable(text));
    if markers::parse(text)?.iter().any(speakable) {
        return Ok(());
    }
    Err(Error::new("the text holds nothing but pauses").hint("give at least one word"))
}

/// The script of `text`. `like` holds voice, sampling and the text's own seed.
///
/// # Errors
/// A text that cannot be spoken, or a setting that the model refuses.
pub fn write(speaker: &dyn Speaker, id: usize, text: &str, like: &Utterance, cutting: &Cutting) -> Result<Script> {
    check(text)?;
    let words_only = cutting.normalize.wanted(speaker.words_only());
    let mut lead = Duration::ZERO;
    // Each utterance with the silence after it.
    let mut pieces: Vec<(String, Duration)> = Vec::new();
    let mut captions = Vec::new();
    // Whether a marker said how long the last silence is.
    let mut marked = false;
    for part in markers::parse(text)? {
        match part {
            Part::Pause(pause) => {
                let silence = pieces.last_mut().map_or(&mut lead, |piece| &mut piece.1);
                *silence = if marked { *silence + pause } else { pause };
                marked = true;
            }
            Part::Text(text) if text::clean::is_speakable(&text) => {
                let cut = text::captioned(&text, cutting.split.split(), speaker.longest_text(), words_only)?;
                for (piece, caption) in cut {
                    pieces.push((piece.text, silence(cutting, piece.pause)));
                    captions.push(caption);
                }
                marked = false;
            }
            // A stop or a dash between two markers.
            Part::Text(_) => {}
        }
    }
    // Nothing follows the last utterance, unless the text says so.
    if let Some(last) = pieces.last_mut().filter(|_| !marked) {
        last.1 = Duration::ZERO;
    }
    let samples = |pause: Duration| samples_in(pause.as_millis() as u32, speaker.sample_rate());
    let mut script = Script { id, lead: samples(lead), utterances: Vec::new(), captions, gaps: Vec::new() };
    for (i, (mut spoken, pause)) in pieces.into_iter().enumerate() {
        if continued(like, text, i) {
            spoken.insert(0, ' ');
        }
        let utterance = Utterance { text: spoken, seed: seed::of_piece(like.seed, i), ..like.clone() };
        speaker.check(&utterance)?;
        script.utterances.push(utterance);
        script.gaps.push(samples(pause));
    }
    Ok(script)
}

/// Whether a space parts utterance `i` of `text` from the words of the recording it continues. The model reads both as one
/// text: the first as they were typed, the others as sentences of such a text follow each other.
fn continued(like: &Utterance, text: &str, i: usize) -> bool {
    let Some(prompt) = &like.prompt else { return false };
    match i {
        0 => text.starts_with(char::is_whitespace),
        _ => prompt.text.ends_with(|c: char| c.is_ascii_graphic()),
    }
}

/// What `script` holds that a model which only knows English words cannot read, as the words for a warning.
pub fn unreadable(script: &Script, speaker: &dyn Speaker) -> Option<String> {
    if !speaker.words_only() {
        return None;
    }
    let found = script.utterances.iter().find_map(|utterance| text::letters::foreign(&utterance.text))?;
    Some(format!("this voice reads Latin letters only, and `{}` is {}", found.word, found.script))
}

/// The silence after an utterance: as asked for, else as what ends with it suggests. Utterances bring some of their own.
fn silence(cutting: &Cutting, pause: Pause) -> Duration {
    let milliseconds = cutting.gap.unwrap_or(match pause {
        Pause::Word => 0,
        Pause::Clause => 80,
        Pause::Sentence => 200,
        Pause::Paragraph => 450,
    });
    Duration::from_millis(milliseconds.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cli::fake::{FakeSpeaker, RATE};
    use crate::cli::sound::Normalize;

    fn script(text: &str, normalize: Normalize) -> Result<Script> {
        let cutting = Cutting { normalize, ..Cutting::default() };
        write(&FakeSpeaker::new(1), 0, text, &Utterance::default(), &cutting)
    }

    #[test]
    fn pauses_stand_where_the_text_puts_them() {
        let script = script("[pause:100ms] One. [pause:500ms] Two. [pause:1s][pause:250ms]", Normalize::Auto).unwrap();
        let texts: Vec<&str> = script.utterances.iter().map(|u| u.text.as_str()).collect();
        assert_eq!(texts, ["One.", "Two."]);
        let rate = RATE as usize;
        assert_eq!((script.lead, script.gaps), (rate / 10, vec![rate / 2, rate * 5 / 4]));
    }

    #[test]
    fn nothing_follows_the_last_utterance() {
        let script = script("The first paragraph is here.\n\nThe second is there.", Normalize::Auto).unwrap();
        assert_eq!(script.gaps, [samples_in(450, RATE), 0]);
    }

    #[test]
    fn words_are_written_out_where_the_model_needs_it() {
        assert_eq!(script("It is 25 km.", Normalize::Auto).unwrap().utterances[0].text, "It is 25 km.");
        assert_eq!(
            script("It is 25 km.", Normalize::Always).unwrap().utterances[0].text,
            "It is twenty-five kilometers."
        );
    }

    #[test]
    fn a_continued_recording_and_the_text_are_one_text() {
        let latents = std::sync::Arc::new(crate::models::Latents { values: vec![0.1, 0.0], dim: 2 });
        let texts = |words: &str, text: &str| -> Vec<String> {
            let prompt = Some(crate::models::Prompt { text: words.into(), latents: latents.clone() });
            let like = Utterance { prompt, ..Utterance::default() };
            let script = write(&FakeSpeaker::listening(1), 0, text, &like, &Cutting::default()).unwrap();
            script.utterances.into_iter().map(|u| u.text).collect()
        };
        assert_eq!(texts("Hello, world!", " This is a test."), [" This is a test."]);
        assert_eq!(texts("Hello, world! ", "This is a test."), ["This is a test."]);
        let two = "The first paragraph is here.\n\nThe second is there.";
        assert_eq!(texts("Hello, world!", two), ["The first paragraph is here.", " The second is there."]);
        assert_eq!(texts("你好，世界！", "今天天气很好。"), ["今天天气很好。"]);
    }

    #[test]
    fn pauses_alone_are_nothing_to_say() {
        for text in ["[pause:1s]", "[pause:1s] ... [pause:1s]", "", "[pause:soon] Hello."] {
            assert!(script(text, Normalize::Auto).is_err() && check(text).is_err(), "{text}");
        }
    }
}
