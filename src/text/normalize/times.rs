//! Times of day: `7:30 pm`, `19:05`, `7 a.m.`, `9:00-17:30`.

use super::cursor::Cursor;
use super::numbers::cardinal;
use super::{At, Said, sentence_ends};

pub(super) fn time(at: &At<'_>) -> Option<Said> {
    if !at.starts_word() || at.prev() == Some(':') {
        return None;
    }
    let mut cursor = at.cursor();
    let mut words = clock(&mut cursor)?;
    let mut ahead = cursor;
    if range_sign(&mut ahead)
        && let Some(until) = clock(&mut ahead)
        && ahead.word_ends()
    {
        cursor = ahead;
        words = format!("{words} to {until}");
    }
    (cursor.word_ends() && cursor.peek() != Some(':')).then(|| Said { bytes: cursor.read(), words })
}

fn range_sign(cursor: &mut Cursor<'_>) -> bool {
    if cursor.eat("-") {
        return true;
    }
    cursor.space();
    let found = cursor.eat("–");
    cursor.space();
    found
}

/// `19:05`, `7:30 pm`, `1:23:45`, `7 pm`, in words.
pub(super) fn clock(cursor: &mut Cursor<'_>) -> Option<String> {
    let mut ahead = *cursor;
    let hour = ahead.figure(1, 2).filter(|&h| h <= 24)?;
    if !ahead.eat(":") {
        let half = half_of_day(&mut ahead).filter(|_| (1..=12).contains(&hour))?;
        *cursor = ahead;
        return Some(format!("{} {half}", cardinal(hour)));
    }
    let minute = ahead.figure(2, 2).filter(|&m| m < 60)?;
    let mut seconds = ahead;
    let second = seconds.eat(":").then(|| seconds.figure(2, 2)).flatten().filter(|&s| s < 60);
    if second.is_some() {
        ahead = seconds;
    }
    let half = half_of_day(&mut ahead);
    *cursor = ahead;
    let words = match (hour, minute) {
        (hour, 0) if half.is_some() => cardinal(hour),
        (0 | 24, 0) => "midnight".to_owned(),
        (1..=12, 0) => format!("{} o'clock", cardinal(hour)),
        (hour, 0) => format!("{} hundred", cardinal(hour)),
        (hour, 1..10) => format!("{} oh {}", cardinal(hour), cardinal(minute)),
        _ => format!("{} {}", cardinal(hour), cardinal(minute)),
    };
    let words = match second {
        None | Some(0) => words,
        Some(1) => format!("{words} and one second"),
        Some(second) => format!("{words} and {} seconds", cardinal(second)),
    };
    Some(half.map_or_else(|| words.clone(), |half| format!("{words} {half}")))
}

/// `pm`, `P.M.`, ` a.m.`: "P M", with the full stop where it also ends the sentence.
pub(super) fn half_of_day(cursor: &mut Cursor<'_>) -> Option<String> {
    let mut ahead = *cursor;
    ahead.space();
    let half = ahead.eat_any(&['a', 'p', 'A', 'P'])?.to_ascii_uppercase();
    let dotted = ahead.eat(".");
    if dotted {
        ahead.space();
    }
    ahead.eat_any(&['m', 'M'])?;
    let stop = dotted && ahead.eat(".");
    if !ahead.word_ends() {
        return None;
    }
    *cursor = ahead;
    let end = if stop && sentence_ends(ahead.rest()) { "." } else { "" };
    Some(format!("{half} M{end}"))
}
