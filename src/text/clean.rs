//! What text may reach a model: something to say, on one line, without control characters.
//!
//! Models were trained on plain lines; a tab, a line end or a stray escape inside one is noise to them, and a text
//! without a single letter or digit makes them babble or never stop. Everything else is kept as it was written: scripts,
//! case, joiners and punctuation are the tokenizer's business.

use super::emoji::{is_emoji, is_emoji_glue};
use crate::error::{Error, Result};

/// Trims `text` and turns every run of white space and control characters into one space.
///
/// Fails where nothing could be spoken: empty, blank, only emoji, only punctuation; and on a NUL character, which never
/// belongs to a text. A byte order mark is dropped wherever it stands.
pub fn clean(text: &str) -> Result<String> {
    if let Some(at) = text.chars().position(|c| c == '\0') {
        return Err(Error::new(format!("the text holds a NUL character (character {})", at + 1))
            .hint("pass plain text; files of another kind cannot be spoken"));
    }
    if text.is_empty() {
        return Err(Error::new("the text is empty").hint("give at least one word"));
    }
    let line = one_line(text);
    if line.is_empty() {
        return Err(Error::new("the text is blank: only spaces and line ends").hint("give at least one word"));
    }
    if !is_speakable(&line) {
        let what =
            if line.chars().any(|c| is_emoji(c) || is_emoji_glue(c)) { "emoji" } else { "punctuation and signs" };
        return Err(Error::new(format!("the text holds only {what}: nothing in it can be spoken"))
            .hint("give at least one word or number"));
    }
    Ok(line)
}

/// True where at least one letter or digit, of any script, stands in `text`.
pub fn is_speakable(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// `text` trimmed, every run of white space and control characters one space, byte order marks gone.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut gap = false;
    for c in text.chars().filter(|&c| c != '\u{FEFF}') {
        if c.is_whitespace() || c.is_control() {
            gap = true;
            continue;
        }
        if gap && !line.is_empty() {
            line.push(' ');
        }
        gap = false;
        line.push(c);
    }
    line
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn white_space_and_controls_become_one_space() {
        for (raw, want) in [
            ("  Hello \t\r\n world\u{7} ", "Hello world"),
            ("a\u{1b}[1mb", "a [1mb"),
            ("नमस्ते\nदुनिया", "नमस्ते दुनिया"),
            ("\u{FEFF}Hello", "Hello"),
            ("a\u{2028}b\u{85}c\u{3000}d", "a b c d"),
            ("क्\u{200d}ष", "क्\u{200d}ष"), // the joiner is spelling
            ("🎲 **अंक मोजणी**\n1. …", "🎲 **अंक मोजणी** 1. …"),
            ("7", "7"),
        ] {
            assert_eq!(clean(raw).unwrap(), want, "{raw:?}");
        }
    }

    #[test]
    fn every_unspeakable_text_has_its_own_sentence() {
        for (raw, want) in [
            ("", "the text is empty"),
            (" \n\t ", "the text is blank: only spaces and line ends"),
            ("\u{FEFF}", "the text is blank: only spaces and line ends"),
            ("🎉🎉", "the text holds only emoji: nothing in it can be spoken"),
            ("👨‍👩‍👧‍👦", "the text holds only emoji: nothing in it can be spoken"),
            ("🇮🇳!", "the text holds only emoji: nothing in it can be spoken"),
            ("…!?", "the text holds only punctuation and signs: nothing in it can be spoken"),
            ("।", "the text holds only punctuation and signs: nothing in it can be spoken"),
            ("ab\0c", "the text holds a NUL character (character 3)"),
        ] {
            let error = clean(raw).unwrap_err();
            assert_eq!(error.to_string(), want, "{raw:?}");
            assert!(error.cure().is_some(), "{raw:?}");
        }
    }

    proptest! {
        #[test]
        fn cleaning_is_idempotent_and_keeps_every_visible_character(text in any::<String>()) {
            if let Ok(line) = clean(&text) {
                prop_assert_eq!(clean(&line).unwrap(), line.clone());
                let visible = |s: &str| s.chars().filter(|&c| !(c.is_whitespace() || c.is_control() || c == '\u{FEFF}')).collect::<String>();
                prop_assert_eq!(visible(&line), visible(&text));
                prop_assert!(!line.chars().any(|c| c.is_control()));
            }
        }
    }
}
