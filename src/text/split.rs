//! A text cut into utterances: pieces a model can speak in one breath, in order, with nothing lost between them.
//!
//! ```text
//! text ─► blocks (paragraphs, list items) ─► sentences ─► parts of over-long sentences ─► joined up to the limit
//! ```
//!
//! Joining is balanced: among all ways to join neighbours, the one with the least squared slack is taken, so that no
//! paragraph ends in a crumb (very short texts are where such models fail first). Rates and limits:
//! `TinyAya` was trained on up to 30 s, which is about 400 characters.

use super::clean::{is_speakable, one_line};
use super::cut::cut;
use super::length::spoken_length;
use super::sentences::sentences;

/// Where a text may be cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// At sentence ends, then short neighbours of a paragraph are joined up to the limit.
    #[default]
    Auto,
    /// Every sentence is an utterance.
    Sentence,
    /// Every line is an utterance.
    Line,
    /// The text is one utterance, whatever its length.
    None,
}

/// What ends at the end of a piece, hence how long a silence belongs there. In rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pause {
    /// Nothing: the cut fell between two words.
    Word,
    /// A part of a sentence.
    Clause,
    /// A sentence, or a line.
    Sentence,
    /// A paragraph, or the text.
    Paragraph,
}

/// One utterance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What to speak: one line, trimmed, not empty.
    pub text: String,
    /// What ends with it.
    pub pause: Pause,
}

/// Cuts `text` into pieces that are spoken as long as `longest` Latin letters at most (`Split::None`: one piece of any
/// length).
///
/// The characters that are not white space, control characters or byte order marks come out all and in order. A piece
/// may hold nothing speakable only where its neighbours have no room for it.
pub fn split(text: &str, mode: Split, longest: usize) -> Vec<Piece> {
    let longest = longest.max(1);
    let mut pieces = Vec::new();
    match mode {
        Split::None => {
            let text = one_line(text);
            pieces.extend((!text.is_empty()).then_some(Piece { text, pause: Pause::Paragraph }));
        }
        Split::Line => {
            for block in blocks(text, |_| true) {
                pieces.extend(join(atoms(&block, longest), longest));
            }
        }
        Split::Sentence => {
            for block in blocks(text, starts_item) {
                pieces.extend(atoms(&block, longest));
            }
        }
        Split::Auto => {
            let mut paragraph = Vec::new();
            for block in blocks(text, starts_item) {
                paragraph.extend(atoms(&block, longest));
                if block.pause == Pause::Paragraph {
                    pieces.extend(join(std::mem::take(&mut paragraph), longest));
                }
            }
        }
    }
    absorb(pieces, longest)
}

/// Lines that belong together, as one line, and what ends after them: a paragraph, or just a line.
fn blocks(text: &str, starts: impl Fn(&str) -> bool) -> Vec<Piece> {
    let mut blocks: Vec<Piece> = Vec::new();
    let mut fresh = true;
    for line in text.replace("\r\n", "\n").split(['\n', '\r', '\u{B}', '\u{C}', '\u{85}', '\u{2028}', '\u{2029}']) {
        let line = one_line(line);
        if line.is_empty() {
            fresh = true;
            if let Some(last) = blocks.last_mut() {
                last.pause = Pause::Paragraph;
            }
            continue;
        }
        match blocks.last_mut() {
            Some(last) if !fresh && !starts(&line) => append(&mut last.text, &line),
            _ => blocks.push(Piece { text: line, pause: Pause::Sentence }),
        }
        fresh = false;
    }
    if let Some(last) = blocks.last_mut() {
        last.pause = Pause::Paragraph;
    }
    blocks
}

/// True for `- item`, `* item`, `• item`, `3. item`, `(b) item`.
fn starts_item(line: &str) -> bool {
    let Some((marker, _)) = line.split_once(' ') else { return false };
    let number = marker.trim_start_matches('(').trim_end_matches(['.', ')']);
    matches!(marker, "-" | "*" | "+" | "•" | "–" | "—" | "◦" | "▪" | "·")
        || (number.len() < marker.len()
            && marker.ends_with(['.', ')'])
            && (number.len() <= 3 && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
                || number.len() == 1 && marker.ends_with(')') && number.bytes().all(|b| b.is_ascii_alphabetic())))
}

/// The sentences of a block, the over-long ones cut.
fn atoms(block: &Piece, longest: usize) -> Vec<Piece> {
    let mut atoms: Vec<Piece> = Vec::new();
    for range in sentences(&block.text) {
        for (text, pause) in cut(&block.text[range], longest, Pause::Sentence) {
            if !text.is_empty() {
                atoms.push(Piece { text: text.to_owned(), pause });
            }
        }
    }
    if let Some(last) = atoms.last_mut() {
        last.pause = block.pause;
    }
    atoms
}

/// Joins neighbours into pieces of at most `longest` letters, with the least sum of squared slack.
fn join(atoms: Vec<Piece>, longest: usize) -> Vec<Piece> {
    let lengths: Vec<usize> = atoms.iter().map(|atom| spoken_length(&atom.text)).collect();
    // cost[n], from[n]: of the best way to join the first n atoms, whose last piece starts at atom from[n].
    let mut cost = vec![0_u128; atoms.len() + 1];
    let mut from = vec![0_usize; atoms.len() + 1];
    for n in 1..=atoms.len() {
        let (mut best, mut length) = (None, 0);
        for start in (0..n).rev() {
            length += lengths[start] + usize::from(start + 1 < n); // a space at most
            if length > longest && start + 1 < n {
                break;
            }
            let slack = longest.saturating_sub(length) as u128;
            let total = cost[start].saturating_add(slack.saturating_mul(slack));
            if best.is_none_or(|(least, _)| total < least) {
                best = Some((total, start));
            }
        }
        (cost[n], from[n]) = best.unwrap_or_default();
    }
    let mut starts = vec![false; atoms.len()];
    let mut n = atoms.len();
    while n > 0 {
        n = from[n];
        starts[n] = true;
    }
    let mut pieces: Vec<Piece> = Vec::new();
    for (atom, starts) in atoms.into_iter().zip(starts) {
        match pieces.last_mut() {
            Some(last) if !starts => {
                append(&mut last.text, &atom.text);
                last.pause = atom.pause;
            }
            _ => pieces.push(atom),
        }
    }
    pieces
}

/// Gives pieces without a letter or digit (`***`, `🎉`) to a neighbour that has room: nothing could be spoken for them.
fn absorb(pieces: Vec<Piece>, longest: usize) -> Vec<Piece> {
    let mut kept: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match kept.last_mut() {
            Some(last)
                if !(is_speakable(&piece.text) && is_speakable(&last.text))
                    && spoken_length(&last.text) + 1 + spoken_length(&piece.text) <= longest =>
            {
                append(&mut last.text, &piece.text);
                last.pause = piece.pause.max(last.pause);
            }
            _ => kept.push(piece),
        }
    }
    kept
}

/// Puts `tail` after `text`, with a space unless both sides are of a script written without spaces.
fn append(text: &mut String, tail: &str) {
    let solid = |c: Option<char>| {
        c.is_some_and(|c| matches!(c, '\u{2E80}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{FF00}'..='\u{FF65}' | '\u{20000}'..='\u{3FFFF}'))
    };
    if !(solid(text.chars().next_back()) && solid(tail.chars().next())) {
        text.push(' ');
    }
    text.push_str(tail);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(text: &str, mode: Split, longest: usize) -> Vec<String> {
        split(text, mode, longest).into_iter().map(|piece| piece.text).collect()
    }

    fn pauses(text: &str, mode: Split, longest: usize) -> Vec<Pause> {
        split(text, mode, longest).into_iter().map(|piece| piece.pause).collect()
    }

    #[test]
    fn short_text_is_one_piece() {
        assert_eq!(texts("Hello. How are you?  Fine!\n", Split::Auto, 400), ["Hello. How are you? Fine!"]);
        assert_eq!(texts("", Split::Auto, 400), Vec::<String>::new());
        assert_eq!(texts(" \n\u{FEFF}\t", Split::None, 400), Vec::<String>::new());
    }

    #[test]
    fn a_paragraph_break_always_splits() {
        let text = "One.\nStill one.\n\nTwo.\r\n \r\nThree.";
        assert_eq!(texts(text, Split::Auto, 400), ["One. Still one.", "Two.", "Three."]);
        assert_eq!(pauses(text, Split::Auto, 400), [Pause::Paragraph; 3]);
        assert_eq!(texts(text, Split::Line, 400), ["One.", "Still one.", "Two.", "Three."]);
        assert_eq!(
            pauses(text, Split::Line, 400),
            [Pause::Sentence, Pause::Paragraph, Pause::Paragraph, Pause::Paragraph]
        );
        assert_eq!(texts(text, Split::Sentence, 400), ["One.", "Still one.", "Two.", "Three."]);
        assert_eq!(texts(text, Split::None, 4), ["One. Still one. Two. Three."]);
    }

    #[test]
    fn joining_is_balanced() {
        let sentence = "This one has thirty letters ok."; // 31
        let text = [sentence; 5].join(" "); // 159 characters, 4 would fill the first piece
        assert_eq!(
            texts(&text, Split::Auto, 130).iter().map(String::len).collect::<Vec<_>>(),
            [3 * 31 + 2, 2 * 31 + 1]
        );
        // The crumb at the end goes to a neighbour that has room.
        assert_eq!(
            texts("A sentence of some length here. Another of much the same length. Yes.", Split::Auto, 50),
            ["A sentence of some length here.", "Another of much the same length. Yes."]
        );
    }

    #[test]
    fn list_items_are_sentences() {
        let text = "Buy:\n- two eggs\n- milk\n1. Call home\n(b) sleep";
        assert_eq!(texts(text, Split::Sentence, 400), ["Buy:", "- two eggs", "- milk", "1. Call home", "(b) sleep"]);
        assert_eq!(texts(text, Split::Auto, 400), ["Buy: - two eggs - milk 1. Call home (b) sleep"]);
        // A wrapped line that merely starts with a word in brackets or a year goes on.
        assert_eq!(texts("It was in\n1984. (then)\nas I said", Split::Sentence, 400)[0], "It was in 1984.");
    }

    #[test]
    fn long_sentences_are_cut_and_say_so() {
        let text = "We walked for hours through the rain, which did not stop; nobody spoke a word. Then it was over.";
        assert_eq!(
            split(text, Split::Sentence, 60),
            [
                Piece {
                    text: "We walked for hours through the rain, which did not stop;".into(),
                    pause: Pause::Clause
                },
                Piece { text: "nobody spoke a word.".into(), pause: Pause::Sentence },
                Piece { text: "Then it was over.".into(), pause: Pause::Paragraph },
            ]
        );
        assert_eq!(pauses("aaaa bbbb", Split::Auto, 5), [Pause::Word, Pause::Paragraph]);
    }

    #[test]
    fn hindi_and_mixed() {
        let text = "भारत एक विशाल देश है। यहाँ कई भाषाएँ बोली जाती हैं, जैसे हिंदी और तमिल। डॉ. शर्मा ने कहा, “यह सच है।”";
        assert_eq!(
            texts(text, Split::Sentence, 400),
            ["भारत एक विशाल देश है।", "यहाँ कई भाषाएँ बोली जाती हैं, जैसे हिंदी और तमिल।", "डॉ. शर्मा ने कहा, “यह सच है।”"]
        );
        assert_eq!(texts(text, Split::Auto, 400), [text]);
        assert_eq!(
            texts("Meeting कल 5 बजे है। Please come on time! ठीक है?", Split::Sentence, 400),
            ["Meeting कल 5 बजे है।", "Please come on time!", "ठीक है?"]
        );
    }

    #[test]
    fn chinese_and_japanese_are_joined_without_spaces() {
        let text = "今天天气很好。我们\n去公园吧！你觉得怎么样？";
        assert_eq!(texts(text, Split::Sentence, 400), ["今天天气很好。", "我们去公园吧！", "你觉得怎么样？"]);
        assert_eq!(texts(text, Split::Auto, 40), ["今天天气很好。我们去公园吧！", "你觉得怎么样？"]);
        assert_eq!(texts("雨です。\n傘を持とう。", Split::Auto, 400), ["雨です。傘を持とう。"]);
    }

    #[test]
    fn every_script_is_cut_to_about_the_same_length_of_speech() {
        let sentences = [
            ("The old house stood at the end of the lane. ", 5.0 / 75.0),
            ("老房子在小路的尽头，多年没有人住过。", 1.0 / 5.0),
            ("古い家は小道の突き当たりにありました。", 1.0 / 7.0),
            ("पुराना घर गली के अंत में खड़ा था। ", 1.0 / 15.0),
            ("그 오래된 집은 길 끝에 서 있었습니다. ", 1.0 / 7.0),
            ("我在 Google 上找了 3.5 个小时，found nothing。", 1.0 / 10.0),
        ];
        for (sentence, seconds) in sentences {
            let text = sentence.repeat(40);
            let pieces = texts(&text, Split::Auto, 300);
            assert!(pieces.len() > 2, "{sentence}");
            for piece in &pieces {
                let spoken = piece.chars().count() as f64 * seconds;
                assert!((8.0..26.0).contains(&spoken), "{spoken:.0} s: {piece}");
                assert!(piece.ends_with(['.', '。', '।']), "{piece}");
            }
        }
    }

    #[test]
    fn what_cannot_be_spoken_goes_with_a_neighbour() {
        assert_eq!(texts("One.\n\n***\n\nTwo.", Split::Auto, 400), ["One. ***", "Two."]);
        assert_eq!(texts("🎉\n\nParty!\n\n🎉🎉", Split::Auto, 400), ["🎉 Party! 🎉🎉"]);
        assert_eq!(texts("…!?", Split::Auto, 400), ["…!?"]);
    }

    #[test]
    fn a_thousand_characters_make_even_pieces() {
        let text = "The old house stood at the end of the lane. Nobody had lived in it for years, or so people said. \
                    One evening a light burned in the window. "
            .repeat(8);
        let pieces = texts(&text, Split::Auto, 400);
        let lengths: Vec<usize> = pieces.iter().map(|piece| piece.chars().count()).collect();
        assert!(lengths.iter().all(|&length| (250..=400).contains(&length)), "{lengths:?}");
    }

    fn visible(text: &str) -> String {
        text.chars().filter(|&c| !(c.is_whitespace() || c.is_control() || c == '\u{FEFF}')).collect()
    }

    fn any_text() -> impl Strategy<Value = String> {
        let words = prop_oneof![
            Just("Dr. "),
            Just("e.g. "),
            Just("word "),
            Just("longerword"),
            Just("3.14 "),
            Just("U.S. "),
            Just(", "),
            Just("; "),
            Just(". "),
            Just("! "),
            Just("…"),
            Just("\n"),
            Just("\n\n"),
            Just("- "),
            Just("—"),
            Just("डॉ. "),
            Just("नमस्ते "),
            Just("हैं। "),
            Just("你好"),
            Just("。"),
            Just("，"),
            Just("“"),
            Just("”他说"),
            Just("カタカナ"),
            Just("と言った。"),
            Just("👨‍👩‍👧"),
            Just("e\u{301}"),
            Just("\u{200d}"),
            Just("\""),
            Just("("),
            Just(") "),
            Just("\u{2028}"),
            Just("1. "),
            Just("a\0b"),
        ];
        prop_oneof![proptest::collection::vec(words, 0..80).prop_map(|words| words.concat()), any::<String>()]
    }

    fn any_mode() -> impl Strategy<Value = Split> {
        prop_oneof![Just(Split::Auto), Just(Split::Sentence), Just(Split::Line), Just(Split::None)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn nothing_is_lost_and_no_piece_is_too_long(text in any_text(), mode in any_mode(), longest in 1_usize..120) {
            let pieces = split(&text, mode, longest);
            prop_assert_eq!(pieces.iter().map(|piece| visible(&piece.text)).collect::<String>(), visible(&text));
            for piece in &pieces {
                prop_assert!(!piece.text.is_empty());
                prop_assert_eq!(&piece.text, &one_line(&piece.text));
                let fits = spoken_length(&piece.text) <= longest || piece.text.chars().count() == 1;
                prop_assert!(mode == Split::None || fits, "{:?}", piece);
            }
            prop_assert!(pieces.last().is_none_or(|piece| piece.pause == Pause::Paragraph));
        }
    }
}
