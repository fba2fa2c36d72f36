//! Whatever else starts with a digit: percentages, measures, ordinals, decades, fractions, ranges, scores, versions,
//! years and plain numbers.

use super::cursor::Cursor;
use super::dates::ordinal_suffix;
use super::numbers::{Number, cardinal, ordinal, plural, spell, year};
use super::units::unit;
use super::{At, Said, fold};

/// From this many digits on, a bare number is a code or a telephone, read digit by digit.
const CODE: usize = 7;

pub(super) fn figure(at: &At<'_>) -> Option<Said> {
    let mut cursor = at.cursor();
    let open = !at.prev().is_some_and(|c| !matches!(c, ' ' | '(' | '"' | '\'' | ','));
    let sign = match cursor.peek() {
        Some('-') if open => "minus ",
        Some('+') if open => "plus ",
        Some('~' | '≈') => "about ",
        Some('±') => "plus or minus ",
        Some('#') => "number ",
        Some('\'') if open => "",
        _ => "",
    };
    let apostrophe = open && cursor.peek() == Some('\'');
    if !sign.is_empty() || apostrophe {
        cursor.eat_any(&['-', '+', '~', '≈', '±', '#', '\'']);
    }
    if !cursor.peek().is_some_and(|c| c.is_ascii_digit() || c == '.') {
        return None;
    }
    // `x.5` is no decimal: the point belongs to what stands before it.
    if cursor.peek() == Some('.') && at.prev().is_some_and(|c| fold::is_letter(c) || c == '.') {
        return None;
    }
    if apostrophe {
        return decade(&mut cursor).map(|words| Said { bytes: cursor.read(), words });
    }
    let words = if at.prev().is_some_and(fold::is_letter) {
        // `B2B`, `i7`: part of a name, nothing is measured.
        first_of(&[version], &mut cursor)
    } else if sign.is_empty() || sign == "number " {
        unsigned(at, &mut cursor)
    } else {
        first_of(&[measured], &mut cursor)
    };
    let words = words.or_else(|| cursor.number().map(|number| number.words()))?;
    Some(Said { bytes: cursor.read(), words: format!("{sign}{words}") })
}

type Form = fn(&mut Cursor<'_>) -> Option<String>;

/// Forms that a sign never precedes, then measures, then a bare number.
fn unsigned(at: &At<'_>, cursor: &mut Cursor<'_>) -> Option<String> {
    let forms: [Form; 8] = [version, height, nth, decade, fraction, dimensions, ratio, measured];
    first_of(&forms, cursor).or_else(|| bare(at, cursor))
}

/// What the first form that fits says; the cursor stays where it was if none does.
fn first_of(forms: &[Form], cursor: &mut Cursor<'_>) -> Option<String> {
    forms.iter().find_map(|form| {
        let mut ahead = *cursor;
        let words = form(&mut ahead)?;
        *cursor = ahead;
        Some(words)
    })
}

/// `1.2.3`; with four parts an address, said with "dot".
fn version(cursor: &mut Cursor<'_>) -> Option<String> {
    let mut parts = vec![cursor.digits()?];
    while cursor.rest().starts_with('.') && cursor.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) {
        cursor.eat(".");
        parts.extend(cursor.digits());
    }
    let between = if parts.len() == 4 { " dot " } else { " point " };
    let said: Vec<String> = parts.iter().map(|part| count(part)).collect();
    (parts.len() > 2).then(|| said.join(between))
}

/// `5'11"`: feet and inches.
fn height(cursor: &mut Cursor<'_>) -> Option<String> {
    let feet = cursor.figure(1, 2)?;
    let inches = cursor.eat("'").then(|| cursor.figure(1, 2))??;
    cursor.eat("\"").then(|| {
        let names = [if feet == 1 { "foot" } else { "feet" }, if inches == 1 { "inch" } else { "inches" }];
        format!("{} {} {} {}", cardinal(feet), names[0], cardinal(inches), names[1])
    })
}

/// `21st`, `1,000th`.
fn nth(cursor: &mut Cursor<'_>) -> Option<String> {
    let n = cursor.number()?.integer()?;
    let suffix = cursor.letters()?;
    (suffix.eq_ignore_ascii_case(ordinal_suffix(n)) && cursor.word_ends()).then(|| ordinal(n))
}

/// `1990s`, `'90s`, `20s`: "nineteen nineties", "nineties", "twenties".
fn decade(cursor: &mut Cursor<'_>) -> Option<String> {
    let digits = cursor.digits().filter(|digits| matches!(digits.len(), 2 | 4) && digits.ends_with('0'))?;
    cursor.eat("'");
    if !(cursor.eat("s") && cursor.word_ends()) {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    match (digits.len(), n) {
        (2, 20..) => Some(plural(&cardinal(n))),
        (4, 1100..2100) => Some(plural(&year(n))),
        _ => None,
    }
}

/// `1/2`, `3 3/4`, `24/7`, `120/80`, `10/10`.
fn fraction(cursor: &mut Cursor<'_>) -> Option<String> {
    let mut ahead = *cursor;
    let whole = ahead.figure(1, 3).filter(|_| ahead.space() && !ahead.rest().starts_with(' '));
    if let Some(whole) = whole
        && let Some(part) = simple_fraction(&mut ahead, true)
    {
        *cursor = ahead;
        return Some(format!("{} and {part}", cardinal(whole)));
    }
    simple_fraction(cursor, false)
}

fn simple_fraction(cursor: &mut Cursor<'_>, proper: bool) -> Option<String> {
    let above = cursor.figure(1, 4)?;
    let below = cursor.eat("/").then(|| cursor.figure(1, 4))??;
    if !cursor.word_ends() || cursor.rest().starts_with('/') {
        return None;
    }
    let named = matches!(below, 2..=10 | 12 | 16 | 20 | 32 | 50 | 64 | 100 | 1000)
        && (above < below || below < 10 && above < 10);
    match (above, below) {
        (24, 7) => Some("twenty-four seven".to_owned()),
        (9, 11) => Some("nine eleven".to_owned()),
        (50, 50) => Some("fifty-fifty".to_owned()),
        _ if named => {
            let part = match below {
                2 => "half".to_owned(),
                4 => "quarter".to_owned(),
                _ => ordinal(below),
            };
            let part = match (above, below) {
                (1, _) => return Some(if proper && below != 8 { format!("a {part}") } else { format!("one {part}") }),
                (_, 2) => "halves".to_owned(),
                _ => plural(&part),
            };
            Some(format!("{} {part}", cardinal(above)))
        }
        _ if proper => None,
        _ => Some(format!("{} over {}", cardinal(above), cardinal(below))),
    }
}

/// `1920x1080`, `3×4`; `2x` alone is "two times".
fn dimensions(cursor: &mut Cursor<'_>) -> Option<String> {
    let first = cursor.number()?;
    let mut ahead = *cursor;
    if ahead.eat_any(&['x', '×']).is_some() && ahead.word_ends() {
        *cursor = ahead;
        return Some(format!("{} times", first.words()));
    }
    let by = |cursor: &mut Cursor<'_>| {
        let mut ahead = *cursor;
        let spaced = ahead.space();
        ahead.eat_any(&['x', '×'])?;
        let number = (ahead.space() == spaced).then(|| ahead.number())??;
        *cursor = ahead;
        Some(number.words())
    };
    let mut words = format!("{} by {}", first.words(), by(cursor)?);
    while let Some(next) = by(cursor) {
        words = format!("{words} by {next}");
    }
    Some(match unit(cursor, false) {
        Some(name) => format!("{words} {name}"),
        None => words,
    })
}

/// `16:9`, `1:2:3`: what colons join and is no time of day.
fn ratio(cursor: &mut Cursor<'_>) -> Option<String> {
    let mut parts = vec![cursor.number()?.words()];
    let mut ahead = *cursor;
    while ahead.eat(":")
        && let Some(number) = ahead.number()
    {
        parts.push(number.words());
        *cursor = ahead;
    }
    (parts.len() > 1 && cursor.word_ends()).then(|| parts.join(" to "))
}

/// A number or range with what it counts: `5%`, `3-5 km`, `10k`, `-3°`.
fn measured(cursor: &mut Cursor<'_>) -> Option<String> {
    let first = cursor.number()?;
    let mut ahead = *cursor;
    let second = range(&mut ahead).then(|| ahead.number()).flatten();
    let one = second.is_none() && first.is_one();
    if second.is_some() {
        *cursor = ahead;
    }
    let words =
        second.as_ref().map_or_else(|| first.words(), |second| format!("{} to {}", first.words(), second.words()));
    let mut percent = *cursor;
    percent.space();
    if percent.eat("%") {
        *cursor = percent;
        return Some(format!("{words} percent"));
    }
    if let Some(name) = unit(cursor, one) {
        // `6 ft. 2 in.`: the stop is part of the unit where no sentence ends.
        if cursor.rest().starts_with(". ") && !super::sentence_ends(&cursor.rest()[1..]) {
            cursor.eat(".");
        }
        return Some(format!("{words} {name}"));
    }
    let mut scaled = *cursor;
    if let Some(scale) = short_scale(&mut scaled) {
        *cursor = scaled;
        return Some(format!("{words} {scale}"));
    }
    let mut half = *cursor;
    if let Some(second) = &second {
        if let Some(name) = super::times::half_of_day(&mut half) {
            *cursor = half;
            return Some(format!("{words} {name}"));
        }
        return cursor.word_ends().then(|| span(&first, second));
    }
    None
}

/// A range of bare numbers; years are read as years: `1984-85`, `1990–2000`.
fn span(first: &Number, second: &Number) -> String {
    let from = bare_year(first);
    let until = second.integer().filter(|_| second.whole.len() == 2 || bare_year(second).is_some());
    match (from, until) {
        (Some(from), Some(until)) => format!("{} to {}", year(from), year(until)),
        _ => format!("{} to {}", first.words(), second.words()),
    }
}

/// Eats what makes a range of two numbers: a hyphen without spaces, or a dash with or without.
pub(super) fn range(cursor: &mut Cursor<'_>) -> bool {
    let mut ahead = *cursor;
    if !ahead.eat("-") {
        ahead.space();
        if !ahead.eat("–") {
            return false;
        }
        ahead.space();
    }
    let number = ahead.peek().is_some_and(|c| c.is_ascii_digit() || "$€£₹¥".contains(c));
    if number {
        *cursor = ahead;
    }
    number
}

/// ` million`, `m`, `bn` behind an amount of money.
pub(super) fn magnitude(cursor: &mut Cursor<'_>) -> Option<&'static str> {
    const NAMES: [&str; 7] = ["hundred", "thousand", "million", "billion", "trillion", "lakh", "crore"];
    let mut word = *cursor;
    word.space();
    let name = word.letters().and_then(|word| NAMES.into_iter().find(|name| word.eq_ignore_ascii_case(name)));
    if name.is_some() && word.word_ends() {
        *cursor = word;
        return name;
    }
    let mut ahead = *cursor;
    let name = match ahead.letters()? {
        "k" | "K" => "thousand",
        "m" | "mn" | "M" => "million",
        "b" | "bn" | "B" => "billion",
        "tn" | "T" => "trillion",
        _ => return None,
    };
    ahead.word_ends().then(|| {
        *cursor = ahead;
        name
    })
}

/// `10k`, and `5M users`, `7B parameters`, but not `221B, Baker Street`: capitals only before what is counted.
fn short_scale(cursor: &mut Cursor<'_>) -> Option<&'static str> {
    let mut ahead = *cursor;
    let letters = ahead.letters()?;
    let counted = ahead.rest().strip_prefix(' ').is_some_and(|next| next.starts_with(|c: char| c.is_ascii_lowercase()));
    let name = match letters {
        "k" => "thousand",
        "M" if counted => "million",
        "B" if counted => "billion",
        "bn" => "billion",
        _ => return None,
    };
    ahead.word_ends().then(|| {
        *cursor = ahead;
        name
    })
}

/// Digits alone: a year, a code, or how many.
fn bare(at: &At<'_>, cursor: &mut Cursor<'_>) -> Option<String> {
    let number = cursor.number()?;
    if number.fraction.is_some() || number.grouped {
        return Some(number.words());
    }
    let round = number.whole.ends_with("000");
    if number.whole.len() >= CODE && !round || number.whole.len() > 2 && is_code(at) {
        return Some(spell(&number.whole));
    }
    let is_year = bare_year(&number).is_some() && !counts_things(at, cursor.rest());
    Some(if is_year { number.integer().map_or_else(|| number.words(), year) } else { number.words() })
}

fn bare_year(number: &Number) -> Option<u64> {
    number.integer().filter(|n| number.whole.len() == 4 && !number.grouped && (1100..2100).contains(n))
}

/// A plural noun follows, so `2048 files` are counted, unless a word before says that a year is meant.
fn counts_things(at: &At<'_>, rest: &str) -> bool {
    const YEAR_FOLLOWS: [&str; 10] =
        ["in", "since", "until", "till", "from", "year", "circa", "summer", "winter", "spring"];
    const NO_NOUN: [&str; 14] = [
        "was", "is", "has", "as", "his", "this", "its", "does", "plus", "less", "across", "always", "perhaps", "versus",
    ];
    let before = at.prev_word().to_ascii_lowercase();
    let next: String =
        rest.strip_prefix(' ').unwrap_or_default().chars().take_while(char::is_ascii_alphabetic).collect();
    let noun = matches!(next.as_str(), "people" | "men" | "women" | "children")
        || next.len() > 3 && next.ends_with('s') && !next.ends_with("ss") && !NO_NOUN.contains(&next.as_str());
    noun && !YEAR_FOLLOWS.contains(&before.as_str())
}

/// The word before says that the digits are no quantity: `the code is 90210`.
fn is_code(at: &At<'_>) -> bool {
    const CODES: [&str; 6] = ["code", "zip", "zipcode", "pin", "password", "id"];
    let prev = at.prev_word();
    let before = if prev == "is" { super::last_word(at.before().trim_end().trim_end_matches(prev)) } else { prev };
    CODES.contains(&before.to_ascii_lowercase().as_str())
}

/// A part of a version: leading zeros are read.
fn count(digits: &str) -> String {
    match digits.parse() {
        Ok(n) if digits.len() == 1 || !digits.starts_with('0') => cardinal(n),
        _ => spell(digits),
    }
}
