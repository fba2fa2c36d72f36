//! Telephone numbers and other numbers in groups (`978-3-16-148410-0`): digit by digit, a breath between the groups.

use super::cursor::Cursor;
use super::numbers::spell;
use super::{At, Said};

pub(super) fn phone(at: &At<'_>) -> Option<Said> {
    if !at.starts_word() || at.prev().is_some_and(|c| matches!(c, '-' | '.' | '$' | '/')) {
        return None;
    }
    let mut cursor = at.cursor();
    let plus = cursor.eat("+");
    let mut groups: Vec<&str> = Vec::new();
    let mut signs: Vec<char> = Vec::new();
    let mut area = false;
    loop {
        let mut ahead = cursor;
        let bracket = ahead.eat("(");
        let Some(digits) = ahead.digits() else { break };
        if bracket && !ahead.eat(")") {
            break;
        }
        area |= bracket && digits.len() == 3;
        groups.push(digits);
        cursor = ahead;
        let sign = ahead.eat_any(&['-', '.', ' ']);
        let more = ahead.peek().is_some_and(|c| {
            c.is_ascii_digit() || c == '(' && ahead.rest()[1..].starts_with(|c: char| c.is_ascii_digit())
        });
        if !more || sign.is_none() && !bracket {
            break;
        }
        if sign == Some(' ') && !(plus || area) {
            break;
        }
        signs.push(sign.unwrap_or(' '));
        cursor = ahead;
    }
    let sizes: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let total: usize = sizes.iter().sum();
    let hyphens = signs.iter().all(|&sign| sign == '-');
    let dots = signs.iter().all(|&sign| sign == '.');
    let fits = match sizes.as_slice() {
        [_] => plus && total >= 8,
        _ if plus || area => (7..=15).contains(&total),
        [3, 4] | [3, 3, 4] | [1, 3, 3, 4] => hyphens || dots && sizes.len() > 2,
        [3, 2, 4] => hyphens,
        _ => hyphens && sizes.len() > 2 && total >= 9,
    };
    (fits && cursor.word_ends() && !followed_by_decimal(cursor)).then(|| {
        let said: Vec<String> = groups.iter().map(|group| spell(group)).collect();
        let plus = if plus { "plus " } else { "" };
        Said { bytes: cursor.read(), words: format!("{plus}{}", said.join(", ")) }
    })
}

fn followed_by_decimal(mut cursor: Cursor<'_>) -> bool {
    cursor.eat_any(&['.', '-']).is_some() && cursor.digits().is_some()
}
