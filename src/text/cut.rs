//! A sentence too long for one utterance, cut where it hurts least: at `; :` and dashes, at commas, between words, and
//! only then inside a word, never inside a character as the reader sees it.
//!
//! Cuts are balanced: a sentence one character over the limit becomes two halves, not a whole and a crumb.

use unicode_segmentation::UnicodeSegmentation;

use super::length::{spoken_length, weight};
use super::sentences::{CLOSERS, ENDS};
use super::split::Pause;

/// How good a place for a cut is, the best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Stop,
    Clause,
    Comma,
    Space,
}

/// Parts of `sentence` in order, each at most `longest` letters long (at least a character), with the pause
/// that belongs after it.
/// The last part ends as the sentence does: `end`.
pub(super) fn cut(sentence: &str, longest: usize, end: Pause) -> Vec<(&str, Pause)> {
    let mut parts = Vec::new();
    let mut rest = sentence.trim();
    let mut left = spoken_length(rest);
    while left > longest {
        let target = left.div_ceil(left.div_ceil(longest));
        let (at, pause) = place(rest, longest, target);
        let (head, tail) = rest.split_at(at);
        left -= spoken_length(head);
        let tail_trimmed = tail.trim_start();
        left -= spoken_length(&tail[..tail.len() - tail_trimmed.len()]);
        parts.push((head.trim_end(), pause));
        rest = tail_trimmed;
    }
    parts.push((rest, end));
    parts
}

/// Byte offset of the best cut of `text`, which has more than `longest` letters, at or before letter `longest`.
fn place(text: &str, longest: usize, target: usize) -> (usize, Pause) {
    let least = longest / 3;
    let mut best: Option<(Level, usize, usize)> = None; // level, distance from the target, byte offset
    let mut early = None; // a space before `least`
    let mut chars = text.char_indices().peekable();
    let (mut count, mut before) = (0, None::<char>);
    let mut mark: Option<Level> = None; // of the mark just passed, still open for closing quotes
    while let Some((i, c)) = chars.next() {
        let byte = i + c.len_utf8();
        count += weight(c);
        if count > longest {
            break;
        }
        let next = chars.peek().map(|&(_, next)| next);
        let closing = next.is_some_and(|next| CLOSERS.contains(&next) || ENDS.contains(&next));
        // `１．５` and `1，000`: these two need no space after them, except in numbers.
        let in_number =
            matches!(c, '．' | '，') && before.is_some_and(char::is_numeric) && next.is_some_and(char::is_numeric);
        before = Some(c);
        mark = match level(c) {
            _ if in_number => None,
            Some(level) => Some(level),
            None if CLOSERS.contains(&c) => mark,
            None => None,
        };
        let spaced = next.is_none_or(char::is_whitespace);
        let found = match mark {
            // Narrow marks also stand inside numbers, times and names: only those before a space are breaks.
            Some(level) if !closing && (spaced || is_wide(c)) => Some(level),
            _ if spaced && !c.is_whitespace() => Some(Level::Space),
            _ => None,
        };
        if let Some(level) = found {
            if count < least {
                early = Some(byte);
            } else if best.is_none_or(|(l, d, _)| (level, count.abs_diff(target)) < (l, d)) {
                best = Some((level, count.abs_diff(target), byte));
            }
        }
    }
    match best {
        Some((Level::Stop, _, at)) => (at, Pause::Sentence),
        Some((Level::Clause | Level::Comma, _, at)) => (at, Pause::Clause),
        Some((Level::Space, _, at)) => (at, Pause::Word),
        None => (early.unwrap_or_else(|| inside_word(text, longest, target)), Pause::Word),
    }
}

fn level(c: char) -> Option<Level> {
    match c {
        _ if ENDS.contains(&c) => Some(Level::Stop),
        ';' | ':' | '；' | '：' | '؛' | '—' | '–' | '-' => Some(Level::Clause),
        ',' | '，' | '、' | '،' | '､' => Some(Level::Comma),
        _ => None,
    }
}

/// Marks that need no space after them: those of scripts written without spaces, dandas, and the long dash.
fn is_wide(c: char) -> bool {
    matches!(
        c,
        '\u{3001}' | '\u{3002}' | '\u{300D}' | '\u{300F}' | '\u{FF01}'..='\u{FF65}' | '।' | '॥' | '؟' | '۔' | '—' | '”'
    )
}

/// Without a space or mark: at a word boundary of Unicode (scripts without spaces), else between graphemes, else, in a
/// grapheme longer than the limit, between its characters.
fn inside_word(text: &str, longest: usize, target: usize) -> usize {
    let limit = prefix(text, longest);
    let aim = prefix(text, target).min(limit);
    let nearest = |cuts: &mut dyn Iterator<Item = usize>| {
        cuts.take_while(|&i| i <= limit).filter(|&i| i > 0 && i * 3 >= limit).min_by_key(|i| i.abs_diff(aim))
    };
    nearest(&mut text.split_word_bound_indices().map(|(i, _)| i))
        .or_else(|| nearest(&mut text.grapheme_indices(true).map(|(i, _)| i)))
        .unwrap_or(limit)
}

/// How many bytes of `text` are at most `letters` long; at least one character.
fn prefix(text: &str, letters: usize) -> usize {
    let mut length = 0;
    let beyond = |(i, c): &(usize, char)| {
        length += weight(*c);
        *i > 0 && length > letters
    };
    text.char_indices().find(beyond).map_or(text.len(), |(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sentence: &str, longest: usize) -> Vec<&str> {
        cut(sentence, longest, Pause::Sentence).into_iter().map(|(part, _)| part).collect()
    }

    #[test]
    fn the_strongest_mark_in_reach_is_taken() {
        assert_eq!(
            cut("We waited, and waited; nobody came, nobody called.", 30, Pause::Paragraph),
            [("We waited, and waited;", Pause::Clause), ("nobody came, nobody called.", Pause::Paragraph)]
        );
        assert_eq!(
            parts("The quick brown fox, who was tired, jumped over it.", 40),
            ["The quick brown fox,", "who was tired, jumped over it."]
        );
        assert_eq!(parts("one two three four five six", 14), ["one two three", "four five six"]);
        assert_eq!(
            parts("He said \"Go on. Now run along.\" and left.", 32),
            ["He said \"Go on.", "Now run along.\" and left."]
        );
        assert_eq!(parts("First this — then that and more", 20), ["First this —", "then that and more"]);
    }

    #[test]
    fn marks_inside_numbers_are_no_breaks() {
        assert_eq!(parts("At 10:30 about 1,000,000 came in", 22), ["At 10:30 about", "1,000,000 came in"]);
        assert_eq!(parts("大约１２３．５公斤，还有三箱", 24), ["大约１２３．５公斤，", "还有三箱"]);
        assert_eq!(parts("x 3.14159265358979 y", 17), ["x", "3.14159265358979 y".split_at(16).0, "y"]);
    }

    #[test]
    fn scripts_without_spaces() {
        assert_eq!(parts("我们走了很久，天已经黑了，路上没有人。", 34), ["我们走了很久，", "天已经黑了，路上没有人。"]);
        assert_eq!(parts("我们走了很久天已经黑了路上没有人", 24), ["我们走了很久天已", "经黑了路上没有人"]);
        assert_eq!(parts("毎日コンピュータで仕事をします", 20), ["毎日コンピュータ", "で仕事をします"]);
    }

    #[test]
    fn a_grapheme_is_kept_whole_while_it_fits() {
        let family = "👨‍👩‍👧"; // 5 characters
        assert_eq!(parts(&family.repeat(3), 7), [family, family, family]);
        assert_eq!(parts("e\u{301}e\u{301}e\u{301}", 3), ["e\u{301}", "e\u{301}", "e\u{301}"]);
        assert_eq!(parts("a\u{301}\u{302}\u{303}", 2), ["a\u{301}", "\u{302}\u{303}"]);
        assert_eq!(parts("abc", 1), ["a", "b", "c"]);
    }

    #[test]
    fn parts_are_balanced() {
        let text = "word ".repeat(41); // 204 characters after trimming
        let parts = parts(&text, 200);
        assert_eq!(parts.len(), 2);
        assert!(parts.iter().all(|part| (95..=110).contains(&part.len())), "{parts:?}");
    }
}
