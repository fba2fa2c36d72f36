//! Amounts of money: `$3.50`, `£20`, `₹1,50,000`, `$2.5 million`, `-€5`, `20 EUR`, `$5-10`, `$3/kg`.

use super::cursor::Cursor;
use super::figures::{magnitude, range};
use super::numbers::{Number, cardinal};
use super::units::per;
use super::{At, Said};

/// How a currency is written, one of it, many, and one and many of its hundredth part (empty: it has none).
struct Currency {
    signs: &'static [&'static str],
    names: [&'static str; 2],
    parts: [&'static str; 2],
}

#[rustfmt::skip]
const CURRENCIES: &[Currency] = &[
    Currency { signs: &["US$", "USD", "$"], names: ["dollar", "dollars"], parts: ["cent", "cents"] },
    Currency { signs: &["€", "EUR"], names: ["euro", "euros"], parts: ["cent", "cents"] },
    Currency { signs: &["£", "GBP"], names: ["pound", "pounds"], parts: ["penny", "pence"] },
    Currency { signs: &["₹", "INR", "Rs.", "Rs"], names: ["rupee", "rupees"], parts: ["paisa", "paise"] },
    Currency { signs: &["¥", "JPY"], names: ["yen", "yen"], parts: ["", ""] },
    Currency { signs: &["₩", "KRW"], names: ["won", "won"], parts: ["", ""] },
    Currency { signs: &["₽", "RUB"], names: ["ruble", "rubles"], parts: ["kopeck", "kopecks"] },
    Currency { signs: &["A$", "AUD"], names: ["Australian dollar", "Australian dollars"], parts: ["cent", "cents"] },
    Currency { signs: &["C$", "CAD"], names: ["Canadian dollar", "Canadian dollars"], parts: ["cent", "cents"] },
    Currency { signs: &["CHF"], names: ["Swiss franc", "Swiss francs"], parts: ["", ""] },
    Currency { signs: &["CNY", "RMB"], names: ["yuan", "yuan"], parts: ["", ""] },
    Currency { signs: &["¢"], names: ["cent", "cents"], parts: ["", ""] },
];

pub(super) fn money(at: &At<'_>) -> Option<Said> {
    if !at.starts_word() {
        return None;
    }
    let mut cursor = at.cursor();
    let minus = !at.prev().is_some_and(|c| c != ' ' && c != '(') && cursor.eat("-");
    let words = sign_first(&mut cursor).or_else(|| sign_last(&mut cursor))?;
    let words = if minus { format!("minus {words}") } else { words };
    Some(Said { bytes: cursor.read(), words: format!("{words}{}", per(&mut cursor)) })
        .map(|said| Said { bytes: cursor.read(), ..said })
}

fn currency(cursor: &mut Cursor<'_>) -> Option<&'static Currency> {
    CURRENCIES.iter().find(|currency| currency.signs.iter().any(|sign| cursor.eat(sign)))
}

fn sign_first(cursor: &mut Cursor<'_>) -> Option<String> {
    let mut ahead = *cursor;
    let currency = currency(&mut ahead)?;
    ahead.space();
    let number = ahead.number()?;
    let mut second = ahead;
    if range(&mut second) {
        second.eat(currency.signs.iter().find(|sign| second.rest().starts_with(**sign)).copied().unwrap_or_default());
        if let Some(until) = second.number() {
            *cursor = second;
            let scale = magnitude(cursor).map(|name| format!(" {name}")).unwrap_or_default();
            return Some(format!("{} to {}{scale} {}", number.words(), until.words(), currency.names[1]));
        }
    }
    *cursor = ahead;
    finish(&number, currency, cursor)
}

fn sign_last(cursor: &mut Cursor<'_>) -> Option<String> {
    let mut ahead = *cursor;
    let number = ahead.number()?;
    let mut until = ahead;
    let second = range(&mut until).then(|| until.number()).flatten();
    if second.is_some() {
        ahead = until;
    }
    let scale = magnitude(&mut ahead);
    ahead.space();
    let currency = currency(&mut ahead)?;
    if !ahead.word_ends() {
        return None;
    }
    *cursor = ahead;
    let scale = scale.map(|name| format!(" {name}")).unwrap_or_default();
    match second {
        Some(second) => Some(format!("{} to {}{scale} {}", number.words(), second.words(), currency.names[1])),
        None if !scale.is_empty() => Some(format!("{}{scale} {}", number.words(), currency.names[1])),
        None => Some(amount(&number, currency)),
    }
}

/// The number behind the sign, with "million" and the like.
fn finish(number: &Number, currency: &Currency, cursor: &mut Cursor<'_>) -> Option<String> {
    if let Some(scale) = magnitude(cursor) {
        return Some(format!("{} {scale} {}", number.words(), currency.names[1]));
    }
    cursor.word_ends().then(|| amount(number, currency))
}

/// "three dollars and fifty cents".
fn amount(number: &Number, currency: &Currency) -> String {
    let hundredths = number.fraction.as_ref().filter(|digits| digits.len() == 2 && !currency.parts[0].is_empty());
    let named = |n: u64, names: &[&str; 2]| format!("{} {}", cardinal(n), if n == 1 { names[0] } else { names[1] });
    if let Some(parts) = hundredths.and_then(|digits| digits.parse::<u64>().ok())
        && let Ok(whole) = if number.whole.is_empty() { Ok(0) } else { number.whole.parse::<u64>() }
    {
        return match (whole, parts) {
            (whole, 0) => named(whole, &currency.names),
            (0, parts) => named(parts, &currency.parts),
            _ => format!("{} and {}", named(whole, &currency.names), named(parts, &currency.parts)),
        };
    }
    format!("{} {}", number.words(), currency.names[usize::from(!number.is_one())])
}
