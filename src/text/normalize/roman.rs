//! Roman numerals: `Henry VIII` is "the eighth", `Chapter IV` and `World War II` are numbers, `XIV century` an ordinal.
//!
//! Only numerals of I, V and X are read (up to 39): `CD`, `DC`, `MD`, `MIX` are something else far more often.

use super::numbers::{cardinal, ordinal};
use super::{At, Said, last_word};

/// Names that sovereigns and popes bore.
#[rustfmt::skip]
const SOVEREIGNS: &[&str] = &[
    "albert", "alexander", "alfonso", "benedict", "catherine", "charles", "christian", "clement", "constantine", "edward", "elizabeth",
    "ferdinand", "francis", "franz", "frederick", "george", "gregory", "gustav", "haakon", "harald", "harold", "henry", "innocent", "ivan", "james",
    "john", "joseph", "juan", "julius", "leo", "leopold", "louis", "ludwig", "mary", "maximilian", "mehmed", "napoleon", "nicholas", "otto", "paul",
    "pedro", "peter", "philip", "pius", "ramses", "richard", "rudolf", "stephen", "sixtus", "urban", "victor", "wilhelm", "william",
];

/// Ranks: whoever stands between one of these and a numeral is a person.
const RANKS: &[&str] =
    &["king", "queen", "pope", "emperor", "empress", "tsar", "czar", "prince", "princess", "duke", "sultan", "pharaoh"];

/// Things that are numbered.
#[rustfmt::skip]
const NUMBERED: &[&str] = &[
    "act", "appendix", "article", "bowl", "book", "chapter", "class", "episode", "figure", "grade", "lesson", "level", "mark", "part", "phase", "round",
    "scene", "section", "stage", "table", "title", "type", "unit", "volume", "war",
];

pub(super) fn numeral(at: &At<'_>) -> Option<Said> {
    if !at.starts_word() || at.prev().is_some_and(|c| c != ' ' && c != '(') {
        return None;
    }
    let mut cursor = at.cursor();
    let letters = cursor.letters()?;
    if !cursor.word_ends() || cursor.rest().starts_with(['\'', '-', '/', '&']) {
        return None;
    }
    let n = value(letters)?;
    // Behind it neither a lone letter (spelled acronyms: `V B`) nor, for `I`, a word that makes it the speaker.
    let next = first_word(cursor.rest());
    let lone = next.len() == 1 && next != "a";
    let speaker = letters == "I" && SPEAKS.contains(&next);
    let touching = at.before().ends_with(' ') && !at.before().trim_end().ends_with(|c: char| ".,;:!?".contains(c));
    let prev = if touching { at.prev_word() } else { "" };
    let lower = prev.to_lowercase();
    let capital = prev.starts_with(|c: char| c.is_uppercase());
    let rank = RANKS.contains(&last_word(at.before().trim_end().trim_end_matches(prev)).to_lowercase().as_str());
    let words = if matches!(next, "century" | "centuries") {
        ordinal(n)
    } else if lone || speaker {
        return None;
    } else if NUMBERED.contains(&lower.as_str()) && capital | (letters.len() > 1) {
        cardinal(n)
    } else if capital && (SOVEREIGNS.contains(&lower.as_str()) || rank) {
        format!("the {}", ordinal(n))
    } else if letters.len() > 1 {
        cardinal(n)
    } else {
        return None;
    };
    Some(Said { bytes: letters.len(), words })
}

/// Words that follow "I" where it means the speaker.
#[rustfmt::skip]
const SPEAKS: &[&str] = &[
    "am", "was", "think", "thought", "have", "had", "know", "knew", "want", "would", "will", "can", "could", "do", "did", "like", "love", "mean",
    "must", "should", "saw", "see", "met", "never", "also", "just", "once", "really", "always", "don't", "didn't", "can't", "won't", "hope", "need",
];

fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|c: char| !(c.is_ascii_alphabetic() || c == '\'')).unwrap_or(text.len())]
}

/// The value of a numeral written as it should be; nothing for other letters.
fn value(letters: &str) -> Option<u64> {
    let numeral = letters.len() <= "XXXVIII".len() && letters.bytes().all(|b| b"IVX".contains(&b));
    (1..40).find(|&n| numeral && write(n) == letters)
}

fn write(n: u64) -> String {
    let ones = ["", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"];
    format!("{}{}", "X".repeat((n / 10) as usize), ones.get((n % 10) as usize).copied().unwrap_or_default())
}
