//! Dates: `3 May 2024`, `May 3rd`, `May 2024`, `2024-05-03`, `03/05/2024` (month first), `31.12.2024` (day first).

use super::cursor::Cursor;
use super::numbers::{ordinal, year};
use super::times::clock;
use super::{At, Said};

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) fn date(at: &At<'_>) -> Option<Said> {
    if !at.starts_word() {
        return None;
    }
    let forms: [fn(&At<'_>, &mut Cursor<'_>) -> Option<String>; 4] = [iso, day_month, parted, month_day];
    forms.iter().find_map(|form| {
        let mut cursor = at.cursor();
        let words = form(at, &mut cursor)?;
        cursor.word_ends().then(|| Said { bytes: cursor.read(), words })
    })
}

/// `2024-05-03`, also with a time: `2024-05-03T19:05`.
fn iso(_: &At<'_>, cursor: &mut Cursor<'_>) -> Option<String> {
    let y = cursor.figure(4, 4)?;
    let m = cursor.eat("-").then(|| cursor.figure(2, 2))??;
    let d = cursor.eat("-").then(|| cursor.figure(2, 2))??;
    let mut words = format!("{}, {}", in_month(m, d)?, year(y));
    let mut ahead = *cursor;
    if ahead.eat("T")
        && let Some(time) = clock(&mut ahead)
    {
        ahead.eat("Z");
        *cursor = ahead;
        words = format!("{words}, {time}");
    }
    Some(words)
}

/// `3 May 2024`, `3rd of May`: "the third of May, twenty twenty-four".
fn day_month(at: &At<'_>, cursor: &mut Cursor<'_>) -> Option<String> {
    let d = cursor.figure(1, 2)?;
    suffix(cursor, d);
    cursor.space();
    let _ = cursor.eat("of ");
    let m = month(cursor, true)?;
    let the = if at.prev_word().eq_ignore_ascii_case("the") { "" } else { "the " };
    let day = in_month(m, d).map(|_| ordinal(d))?;
    let words = format!("{the}{day} of {}", MONTHS.get(m as usize - 1)?);
    Some(with_year(words, cursor))
}

/// `03/05/2024` is "March fifth", `31.12.2024` "December thirty-first".
fn parted(_: &At<'_>, cursor: &mut Cursor<'_>) -> Option<String> {
    let first = cursor.figure(1, 2)?;
    let sign = cursor.eat_any(&['/', '.'])?;
    let second = cursor.figure(1, 2)?;
    if cursor.eat_any(&['/', '.'])? != sign {
        return None;
    }
    let mut short = *cursor;
    let y = match cursor.figure(4, 4) {
        Some(y) => y,
        // Two digits only with slashes: `1.2.34` is a version.
        None if sign == '/' => {
            let y = short.figure(2, 2)?;
            *cursor = short;
            if y < 50 { 2000 + y } else { 1900 + y }
        }
        None => return None,
    };
    let month_first = sign == '/' && first <= 12;
    let (m, d) = if month_first { (first, second) } else { (second, first) };
    Some(format!("{}, {}", in_month(m, d)?, year(y)))
}

/// `May 3`, `May 3rd, 2024`, `May 2024`.
fn month_day(_: &At<'_>, cursor: &mut Cursor<'_>) -> Option<String> {
    let m = month(cursor, false)?;
    let name = MONTHS.get(m as usize - 1)?;
    cursor.eat(",");
    if !cursor.space() {
        return None;
    }
    if let Some(y) = cursor.figure(4, 4) {
        return (1000..2200).contains(&y).then(|| format!("{name} {}", year(y)));
    }
    let d = cursor.figure(1, 2)?;
    suffix(cursor, d);
    // `May 5%`, `March 5:30`, `May 3.5`: no day.
    let next = cursor.rest();
    let goes_on = next.starts_with(['%', ':', '/'])
        || next.starts_with(['.', ',']) && next[1..].starts_with(|c: char| c.is_ascii_digit());
    if goes_on {
        return None;
    }
    let mut ahead = *cursor;
    if ahead.eat_any(&['-', '–']).is_some()
        && let Some(last) = ahead.figure(1, 2)
        && last > d
        && in_month(m, last).is_some()
    {
        *cursor = ahead;
        return Some(with_year(format!("{} to {}", in_month(m, d)?, ordinal(last)), cursor));
    }
    Some(with_year(in_month(m, d)?, cursor))
}

/// "May third", where the month has such a day.
fn in_month(m: u64, d: u64) -> Option<String> {
    let name = MONTHS.get((m as usize).checked_sub(1)?)?;
    let days = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let fits = (1..=days.get(m as usize - 1).copied()?).contains(&d);
    fits.then(|| format!("{name} {}", ordinal(d)))
}

/// A month's name or its short form, with a full stop or without; `May` and the like only with a capital.
fn month(cursor: &mut Cursor<'_>, after_day: bool) -> Option<u64> {
    let mut ahead = *cursor;
    let word = ahead.letters()?;
    if !word.starts_with(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    let index = MONTHS.iter().position(|name| {
        word.eq_ignore_ascii_case(name)
            || word.eq_ignore_ascii_case(&name[..3])
            || (*name == "September" && word.eq_ignore_ascii_case("sept"))
    })?;
    // After a day a full stop may end the sentence, so it is left there for who reads on.
    if word.len() < 5
        && (!after_day || ahead.rest().starts_with(". ") && ahead.rest()[2..].starts_with(|c: char| c.is_ascii_digit()))
    {
        ahead.eat(".");
    }
    *cursor = ahead;
    Some(index as u64 + 1)
}

fn suffix(cursor: &mut Cursor<'_>, n: u64) {
    let mut ahead = *cursor;
    if let Some(letters) = ahead.letters()
        && ordinal_suffix(n).eq_ignore_ascii_case(letters)
    {
        *cursor = ahead;
    }
}

/// `st`, `nd`, `rd` or `th`.
pub(super) fn ordinal_suffix(n: u64) -> &'static str {
    match (n % 100, n % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

fn with_year(words: String, cursor: &mut Cursor<'_>) -> String {
    let mut ahead = *cursor;
    ahead.eat(",");
    if ahead.space()
        && let Some(y) = ahead.figure(4, 4)
        && (1000..2200).contains(&y)
        && ahead.word_ends()
        && !ahead.rest().starts_with([':', '%'])
    {
        *cursor = ahead;
        return format!("{words}, {}", year(y));
    }
    words
}
