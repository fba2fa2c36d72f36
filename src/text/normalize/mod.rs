//! English as it is written into English as it is said: numbers, dates, times, money, units, abbreviations, addresses,
//! capitals and signs become words.
//!
//! ```text
//! text ─► fold (Unicode to ASCII, other scripts kept) ─► scan: at every place the first rule that fits speaks,
//!         else the word or sign is copied ─► tidy (spaces and punctuation)
//! ```
//!
//! One rule, one function `fn(&At) -> Option<Said>`; their order is the precedence. A rule sees what stands before and
//! after, and its words are not looked at again by the rules behind it, so they cannot trip over each other's output.
//! The result holds ASCII letters, spaces and `, . ; : ! ? ' -`, and letters of other scripts as they were.
//!
//! Choices, where readings differ: no "and" inside numbers, letters of acronyms one by one (`F B I`), slash dates
//! month first, American spelling of units, four-digit numbers from 1100 to 2099 as years unless something is counted.

mod abbreviations;
mod capitals;
mod cursor;
mod dates;
mod figures;
mod fold;
mod money;
mod numbers;
mod phone;
mod roman;
mod signs;
mod tidy;
mod times;
mod units;
mod web;

#[cfg(test)]
mod tests;

use cursor::Cursor;

/// What a rule makes of the text at its place: so many bytes of it, said in these words.
struct Said {
    bytes: usize,
    words: String,
}

/// A place in the text, with what rules ask about it.
#[derive(Clone, Copy)]
struct At<'a> {
    text: &'a str,
    pos: usize,
    /// The whole text is in capitals, so capitals say nothing about a word.
    shouting: bool,
}

type Rule = fn(&At<'_>) -> Option<Said>;

/// Rules in the order of precedence.
const RULES: &[Rule] = &[
    web::address,
    phone::phone,
    dates::date,
    times::time,
    money::money,
    figures::figure,
    abbreviations::dotted,
    abbreviations::abbreviation,
    roman::numeral,
    capitals::capitals,
    web::dotted_name,
    web::mention,
    signs::sign,
];

/// Passes over a text at most. One says everything; a second finds what tidying brought together (`(5) %`).
const PASSES: usize = 4;

/// Writes out what is not a word in `text`, as one line. Normalising again changes nothing.
pub fn normalize(text: &str) -> String {
    let mut current = pass(text);
    for _ in 1..PASSES {
        let next = pass(&current);
        if next == current {
            break;
        }
        current = next;
    }
    current
}

fn pass(text: &str) -> String {
    let text = fold::fold(text);
    let mut at = At { text: &text, pos: 0, shouting: capitals::is_shouting(&text) };
    let mut out = Spoken::default();
    while at.pos < text.len() {
        let said = RULES.iter().find_map(|rule| rule(&at)).filter(|said| said.bytes > 0);
        if let Some(said) = said {
            out.say(&said.words);
            at.pos += said.bytes;
            continue;
        }
        let word = word_length(at.rest());
        if word > 0 {
            out.copy(&text[at.pos..at.pos + word]);
            at.pos += word;
        } else {
            let c = at.rest().chars().next().unwrap_or(' ');
            out.sign(c);
            at.pos += c.len_utf8();
        }
    }
    tidy::tidy(&out.text)
}

/// Bytes of the word `text` starts with: letters, their marks and joiners, and apostrophes between letters.
fn word_length(text: &str) -> usize {
    let mut end = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((i, c)) = chars.next() {
        let next = chars.peek().map(|&(_, next)| next);
        let inside = end > 0 && c == '\'' && next.is_some_and(char::is_alphabetic);
        if !(fold::is_letter(c) || inside) {
            break;
        }
        end = i + c.len_utf8();
    }
    end
}

impl<'a> At<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.pos..]
    }

    fn before(&self) -> &'a str {
        &self.text[..self.pos]
    }

    fn cursor(&self) -> Cursor<'a> {
        Cursor::new(self.rest())
    }

    fn prev(&self) -> Option<char> {
        self.before().chars().next_back()
    }

    /// No letter or digit ends here: a word or number may start.
    fn starts_word(&self) -> bool {
        !self.prev().is_some_and(|c| fold::is_letter(c) || c.is_numeric())
    }

    /// The word before this place, without what stands between; empty where it is not a word of letters.
    fn prev_word(&self) -> &'a str {
        last_word(self.before())
    }
}

/// The word at the end of `text`, white space and full stops behind it ignored.
fn last_word(text: &str) -> &str {
    let text = text.trim_end_matches([' ', '.']);
    let start = text.char_indices().rev().take_while(|&(_, c)| fold::is_letter(c) || c == '\'').last();
    start.map_or("", |(i, _)| &text[i..])
}

/// `rest` begins with a space and a capital letter.
fn capital_follows(rest: &str) -> bool {
    rest.strip_prefix(' ').is_some_and(|rest| rest.trim_start().starts_with(|c: char| c.is_uppercase()))
}

/// A full stop before `rest` would end a sentence: the text ends here, or a capital letter follows.
fn sentence_ends(rest: &str) -> bool {
    rest.trim_matches([' ', '"', '\'', ')']).is_empty() || capital_follows(rest)
}

/// The text as far as it is said, with the spaces that words of rules need.
#[derive(Default)]
struct Spoken {
    text: String,
    /// The last thing was said by a rule: a word must not run into it.
    by_rule: bool,
}

impl Spoken {
    fn say(&mut self, words: &str) {
        if self.ends_word() || words.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(words);
        self.by_rule = true;
    }

    fn copy(&mut self, word: &str) {
        if self.by_rule && self.ends_word() {
            self.text.push(' ');
        }
        self.text.push_str(word);
        self.by_rule = false;
    }

    fn sign(&mut self, c: char) {
        if self.by_rule && self.ends_word() && c.is_numeric() {
            self.text.push(' ');
        }
        self.text.push(c);
        self.by_rule = false;
    }

    fn ends_word(&self) -> bool {
        self.text.chars().next_back().is_some_and(|c| fold::is_letter(c) || c.is_numeric() || ",.;:!?".contains(c))
    }
}
