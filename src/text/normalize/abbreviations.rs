//! Shortened words: titles, streets, `etc.`, `e.g.`, and letters with full stops (`U.S.A.`, `J. Smith`).

use super::cursor::Cursor;
use super::{At, Said, capital_follows, last_word, sentence_ends};

/// Where a short form may stand to be one.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// With a full stop, before a name: `Gen. Lee`.
    BeforeName,
    /// With a full stop or without, before a name: `Dr Smith`.
    Title,
    /// With a full stop, before a number: `No. 5`.
    BeforeNumber,
    /// With a full stop, anywhere; the stop stays where it ends the sentence.
    Anywhere,
    /// With a full stop or without.
    Bare,
}

#[rustfmt::skip]
const SHORT: &[(&str, Place, &str)] = &[
    ("mr", Place::Title, "Mister"), ("mrs", Place::Title, "Missus"), ("ms", Place::Title, "Miz"), ("prof", Place::Title, "Professor"),
    ("gen", Place::BeforeName, "General"), ("col", Place::BeforeName, "Colonel"), ("sgt", Place::BeforeName, "Sergeant"),
    ("capt", Place::BeforeName, "Captain"), ("lt", Place::BeforeName, "Lieutenant"), ("cpl", Place::BeforeName, "Corporal"),
    ("maj", Place::BeforeName, "Major"), ("rev", Place::BeforeName, "Reverend"), ("hon", Place::BeforeName, "Honorable"),
    ("gov", Place::BeforeName, "Governor"), ("sen", Place::BeforeName, "Senator"), ("rep", Place::BeforeName, "Representative"),
    ("pres", Place::BeforeName, "President"), ("mt", Place::BeforeName, "Mount"), ("ft", Place::BeforeName, "Fort"), ("fr", Place::BeforeName, "Father"),
    ("no", Place::BeforeNumber, "number"), ("nos", Place::BeforeNumber, "numbers"), ("vol", Place::BeforeNumber, "volume"),
    ("ch", Place::BeforeNumber, "chapter"), ("pp", Place::BeforeNumber, "pages"), ("p", Place::BeforeNumber, "page"),
    ("pg", Place::BeforeNumber, "page"), ("sec", Place::BeforeNumber, "section"), ("ext", Place::BeforeNumber, "extension"),
    ("ca", Place::BeforeNumber, "circa"), ("art", Place::BeforeNumber, "article"), ("fig", Place::BeforeNumber, "figure"),
    ("eq", Place::BeforeNumber, "equation"), ("apt", Place::BeforeNumber, "apartment"), ("rm", Place::BeforeNumber, "room"), ("tel", Place::BeforeNumber, "telephone"),
    ("jan", Place::BeforeNumber, "January"), ("feb", Place::BeforeNumber, "February"), ("mar", Place::BeforeNumber, "March"),
    ("apr", Place::BeforeNumber, "April"), ("jun", Place::BeforeNumber, "June"), ("jul", Place::BeforeNumber, "July"),
    ("aug", Place::BeforeNumber, "August"), ("sep", Place::BeforeNumber, "September"), ("sept", Place::BeforeNumber, "September"),
    ("oct", Place::BeforeNumber, "October"), ("nov", Place::BeforeNumber, "November"), ("dec", Place::BeforeNumber, "December"),
    ("jr", Place::Anywhere, "Junior"), ("sr", Place::Anywhere, "Senior"), ("approx", Place::Anywhere, "approximately"),
    ("dept", Place::Anywhere, "department"), ("inc", Place::Anywhere, "Incorporated"), ("ltd", Place::Anywhere, "Limited"),
    ("corp", Place::Anywhere, "Corporation"), ("co", Place::Anywhere, "Company"), ("bros", Place::Anywhere, "Brothers"),
    ("ave", Place::Anywhere, "Avenue"), ("blvd", Place::Anywhere, "Boulevard"), ("rd", Place::Anywhere, "Road"), ("hwy", Place::Anywhere, "Highway"),
    ("govt", Place::Anywhere, "government"), ("temp", Place::Anywhere, "temperature"), ("misc", Place::Anywhere, "miscellaneous"), ("univ", Place::Anywhere, "University"),
    ("assn", Place::Anywhere, "Association"), ("tues", Place::Anywhere, "Tuesday"), ("thurs", Place::Anywhere, "Thursday"),
    ("wed", Place::BeforeNumber, "Wednesday"), ("mon", Place::BeforeNumber, "Monday"), ("tue", Place::BeforeNumber, "Tuesday"),
    ("thu", Place::BeforeNumber, "Thursday"), ("fri", Place::BeforeNumber, "Friday"), ("sat", Place::BeforeNumber, "Saturday"),
    ("vs", Place::Bare, "versus"), ("etc", Place::Bare, "et cetera"), ("ok", Place::Bare, "okay"), ("okay", Place::Bare, "okay"),
];

/// `w/`, `w/o`: spelt with a slash.
const SLASHED: &[(&str, &str)] =
    &[("w/o", "without"), ("w/", "with"), ("c/o", "care of"), ("n/a", "not applicable"), ("N/A", "not applicable")];

/// Saints whose name stands behind a capital at the start of a sentence: `Visit St. Louis`.
#[rustfmt::skip]
const SAINTS: &[&str] = &[
    "Albans", "Andrew", "Anne", "Anthony", "Augustine", "Bernard", "Catherine", "Clair", "Cloud", "Croix", "David", "Francis", "George",
    "Helena", "Helens", "Ives", "James", "John", "Johns", "Joseph", "Jude", "Kitts", "Louis", "Lucia", "Luke", "Mark", "Martin", "Mary",
    "Matthew", "Michael", "Moritz", "Nicholas", "Pancras", "Patrick", "Paul", "Peter", "Petersburg", "Stephen", "Thomas", "Tropez", "Valentine", "Vincent",
];

/// One row of the table, and the two whose meaning hangs on their neighbours: `St.`, `Dr.`.
pub(super) fn abbreviation(at: &At<'_>) -> Option<Said> {
    if !at.starts_word() || at.prev().is_some_and(|c| matches!(c, '\'' | '/')) {
        return None;
    }
    if let Some((sign, words)) = SLASHED.iter().find(|(sign, _)| at.rest().starts_with(sign)) {
        let mut after = at.cursor();
        after.eat(sign);
        let whole = after.word_ends() || sign.ends_with('/');
        return whole.then(|| Said { bytes: sign.len(), words: (*words).to_owned() });
    }
    let mut cursor = at.cursor();
    let word = cursor.letters()?;
    if !cursor.word_ends() {
        return None;
    }
    let dot = cursor.eat(".");
    // `co.uk`, `mr.x`: part of a name, not a shortened word.
    if dot && !cursor.word_ends() && !cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
        return None;
    }
    let rest = cursor.rest();
    let lower = word.to_ascii_lowercase();
    let full = match lower.as_str() {
        "st" if dot => street_or_saint(at, rest)?,
        "dr" => doctor_or_drive(at, dot, rest)?,
        _ => {
            let (_, place, full) = SHORT.iter().find(|(short, ..)| *short == lower)?;
            let number = rest.trim_start_matches([' ', '#']).starts_with(|c: char| c.is_ascii_digit());
            let fits = match place {
                Place::BeforeName => dot && capital_follows(rest),
                Place::Title => {
                    let couple = rest.strip_prefix(" & ").or_else(|| rest.strip_prefix(" and "));
                    let named = capital_follows(rest) || couple.is_some_and(|rest| rest.starts_with('M'));
                    named && (dot || word.starts_with(|c: char| c.is_ascii_uppercase()))
                }
                Place::BeforeNumber => dot && number,
                Place::Anywhere => dot,
                Place::Bare => true,
            };
            if !fits {
                return None;
            }
            if matches!(place, Place::Anywhere | Place::Bare) {
                return Some(said(full, dot, word.len(), rest));
            }
            full
        }
    };
    match full {
        "Street" | "Drive" => Some(said(full, dot, word.len(), rest)),
        _ => Some(Said { bytes: word.len() + usize::from(dot), words: full.to_owned() }),
    }
}

/// The full stop is said to be one only where the sentence ends with it.
fn said(full: &str, dot: bool, length: usize, rest: &str) -> Said {
    let stop = if dot && sentence_ends(rest) { "." } else { "" };
    Said { bytes: length + usize::from(dot), words: format!("{full}{stop}") }
}

fn street_or_saint(at: &At<'_>, rest: &str) -> Option<&'static str> {
    let name: String = rest.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    let before = at.before();
    let prev = at.prev_word();
    let capital_before = prev.starts_with(|c: char| c.is_uppercase()) && before.ends_with(' ');
    let numbered =
        before.trim_end().strip_suffix(prev).is_some_and(|b| b.trim_end().ends_with(|c: char| c.is_ascii_digit()));
    let first = before.trim_end().len() == prev.len();
    match (capital_follows(rest), capital_before) {
        (_, true) if numbered => Some("Street"),
        (true, _) if SAINTS.contains(&name.as_str()) => Some("Saint"),
        (true, true) if !first => Some("Street"),
        (true, _) => Some("Saint"),
        (false, true) => Some("Street"),
        (false, false) => None,
    }
}

fn doctor_or_drive(at: &At<'_>, dot: bool, rest: &str) -> Option<&'static str> {
    if capital_follows(rest) {
        return Some("Doctor");
    }
    let after_name = at.before().ends_with(' ') && at.prev_word().starts_with(|c: char| c.is_uppercase());
    (dot && after_name).then_some("Drive")
}

/// Single letters with full stops: `e.g.`, `U.S.A.`, `Ph.D.`, and initials (`J. Smith`).
pub(super) fn dotted(at: &At<'_>) -> Option<Said> {
    if !at.starts_word() || at.prev() == Some('\'') {
        return None;
    }
    let mut cursor = at.cursor();
    if cursor.eat("Ph.D") || cursor.eat("PhD") {
        let stop = cursor.eat(".") && sentence_ends(cursor.rest());
        let ends = cursor.word_ends();
        return ends.then(|| Said { bytes: cursor.read(), words: format!("P H D{}", if stop { "." } else { "" }) });
    }
    let mut letters = String::new();
    let mut stopped = false;
    loop {
        let mut ahead = cursor;
        let Some(letter) = ahead.letters().filter(|letters| letters.len() == 1) else { break };
        let stop = ahead.eat(".");
        if !stop && (letters.is_empty() || !ahead.word_ends()) {
            break;
        }
        letters.push_str(letter);
        cursor = ahead;
        stopped = stop;
        if !stop {
            break;
        }
    }
    if !cursor.word_ends() {
        return None;
    }
    let rest = cursor.rest();
    let stop = if stopped && sentence_ends(rest) { "." } else { "" };
    // `e.g.,` and `e.g. ` both get one comma, from here.
    let aside = |words: &str, mut cursor: Cursor<'_>| {
        cursor.eat(",");
        Said { bytes: cursor.read(), words: format!("{words},") }
    };
    match letters.to_ascii_lowercase().as_str() {
        "eg" => Some(aside("for example", cursor)),
        "ie" => Some(aside("that is", cursor)),
        "aka" => Some(Said { bytes: cursor.read(), words: "also known as".to_owned() }),
        "" => None,
        letter if letter.len() == 1 => initial(at, &letters, rest).then(|| Said { bytes: 2, words: letters.clone() }),
        "am" | "pm" => Some(Said { bytes: cursor.read(), words: format!("{}{stop}", spaced(&letters)) }),
        // Capital letters that follow do not make a stop of it: `the U.S. Army`.
        _ => {
            let stop = if stopped && !capital_follows(rest) { stop } else { "" };
            Some(Said { bytes: cursor.read(), words: format!("{}{stop}", spaced(&letters)) })
        }
    }
}

/// A capital and a full stop before a name, after nothing, another initial or a capitalised word.
fn initial(at: &At<'_>, letter: &str, rest: &str) -> bool {
    let before = at.before().trim_end();
    let prev = last_word(before);
    let name = prev.len() > 1 && prev.starts_with(|c: char| c.is_uppercase()) && !before.ends_with('.');
    let after = before.is_empty() || name || prev.len() == 1 && before.ends_with('.');
    letter.starts_with(|c: char| c.is_ascii_uppercase()) && letter != "I" && after && capital_follows(rest)
}

fn spaced(letters: &str) -> String {
    let letters: Vec<String> = letters.to_ascii_uppercase().chars().map(String::from).collect();
    letters.join(" ")
}
