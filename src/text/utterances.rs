//! From a text to what is spoken: split, normalised where the voice wants it, nothing unspeakable left.

use super::clean::{clean, is_speakable};
use super::length::spoken_length;
use super::normalize::normalize;
use super::split::{Piece, Split, split};
use crate::error::Result;

/// The utterances of `text`, each as long as `longest` Latin letters at most (`Split::None`: one of any length), in order.
///
/// With `words_only` numbers, dates and signs are written out first ([`normalize`]); sentences are found before that,
/// while abbreviations still look like abbreviations, and what grew over the limit is cut again.
/// Fails as [`clean`] does where nothing can be spoken.
pub fn utterances(text: &str, mode: Split, longest: usize, words_only: bool) -> Result<Vec<Piece>> {
    Ok(captioned(text, mode, longest, words_only)?.into_iter().map(|(piece, _)| piece).collect())
}

/// [`utterances`], each with what was written for it: nothing where it goes on with what the one before began.
pub fn captioned(text: &str, mode: Split, longest: usize, words_only: bool) -> Result<Vec<(Piece, Option<String>)>> {
    clean(text)?;
    let mut spoken: Vec<(Piece, Option<String>)> = Vec::new();
    for piece in split(text, mode, longest) {
        let pause = piece.pause;
        let mut written = Some(piece.text.clone());
        let mut parts = if words_only { written_out(piece, mode, longest) } else { vec![piece] };
        parts.retain(|part| is_speakable(&part.text));
        match (parts.last_mut(), spoken.last_mut()) {
            (Some(last), _) => last.pause = pause,
            // A piece that says nothing still ends what it ends.
            (None, Some((last, _))) => last.pause = last.pause.max(pause),
            (None, None) => {}
        }
        spoken.extend(parts.into_iter().map(|part| (part, written.take())));
    }
    if spoken.is_empty() {
        clean(&normalize(text))?;
    }
    Ok(spoken)
}

fn written_out(piece: Piece, mode: Split, longest: usize) -> Vec<Piece> {
    let text = normalize(&piece.text);
    if mode == Split::None || spoken_length(&text) <= longest {
        return vec![Piece { text, ..piece }];
    }
    split(&text, Split::Auto, longest)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use crate::text::Pause;
    use proptest::prelude::*;

    fn piece(text: &str, pause: Pause) -> Piece {
        Piece { text: text.to_owned(), pause }
    }

    #[test]
    fn raw_text_is_split_only() {
        let text = "Dr. Smith paid $3.50 at 5 p.m. She left.";
        assert_eq!(utterances(text, Split::Auto, 400, false).unwrap(), [piece(text, Pause::Paragraph)]);
    }

    #[test]
    fn words_only_text_is_written_out_within_the_limit() {
        let text = "Dr. Smith paid $3.50 at 5 p.m. She left.\n\n-----\n\nOn 3 May 2024 the price rose to $1,234,567.89 overnight!";
        assert_eq!(
            utterances(text, Split::Auto, 60, true).unwrap(),
            [
                piece("Doctor Smith paid three dollars and fifty cents at five P M.", Pause::Sentence),
                piece("She left.", Pause::Paragraph),
                piece("On the third of May,", Pause::Clause),
                piece("twenty twenty-four the price rose to one million", Pause::Word),
                piece("two hundred thirty-four thousand five hundred", Pause::Word),
                piece("sixty-seven dollars and eighty-nine cents overnight!", Pause::Paragraph),
            ]
        );
        let captions = captioned(text, Split::Auto, 60, true).unwrap();
        let captions: Vec<Option<&str>> = captions.iter().map(|(_, caption)| caption.as_deref()).collect();
        let second = "On 3 May 2024 the price rose to $1,234,567.89 overnight!";
        assert_eq!(
            captions,
            [Some("Dr. Smith paid $3.50 at 5 p.m. She left. -----"), None, Some(second), None, None, None]
        );
        let whole = utterances(text, Split::None, 60, true).unwrap();
        assert_eq!(whole.len(), 1);
        assert!(whole[0].text.ends_with("eighty-nine cents overnight!"), "{whole:?}");
    }

    #[test]
    fn nothing_to_say_is_an_error() {
        for text in ["", " \n", "🎉", "…!?"] {
            assert!(utterances(text, Split::Auto, 400, true).is_err(), "{text:?}");
            assert!(utterances(text, Split::None, 400, false).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn utterances_can_be_spoken_and_fit(text in "([a-z0-9$%:/.,!?🎉*-]{0,9}[ \\n]{0,2}){0,40}", longest in 20_usize..200, words_only: bool) {
            if let Ok(pieces) = utterances(&text, Split::Auto, longest, words_only) {
                prop_assert!(!pieces.is_empty());
                for piece in pieces {
                    prop_assert!(is_speakable(&piece.text));
                    prop_assert!(piece.text.chars().count() <= longest);
                }
            }
        }
    }
}
