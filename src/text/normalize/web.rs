//! Addresses: `https://example.com/a`, `joe@example.com`, `@user`, `#tag`, `report.pdf`, `Node.js`.

use super::{At, Said, normalize};

/// What makes a bare `name.end` an address.
#[rustfmt::skip]
const TOP: &[&str] = &[
    "com", "org", "net", "edu", "gov", "io", "ai", "dev", "app", "info", "biz", "co", "uk", "de", "fr", "in", "us", "ca", "au", "jp", "cn", "eu", "ru", "br", "it", "es", "nl", "ch",
];

/// Signs inside an address.
const SIGNS: &[(char, &str)] = &[
    ('.', "dot"),
    ('/', "slash"),
    ('-', "dash"),
    ('_', "underscore"),
    ('@', "at"),
    (':', "colon"),
    ('?', "question mark"),
    ('=', "equals"),
    ('&', "and"),
    ('%', "percent"),
    ('#', "hash"),
    ('+', "plus"),
    ('~', "tilde"),
];

/// An address of the web or of mail, read sign by sign.
pub(super) fn address(at: &At<'_>) -> Option<Said> {
    if at.prev().is_some_and(|c| c.is_ascii_alphanumeric()) {
        return None;
    }
    let end = at.rest().find(|c: char| c.is_whitespace() || "<>\"(){}[]|,;".contains(c)).unwrap_or(at.rest().len());
    let token = at.rest()[..end].trim_end_matches(['.', ':', '!', '?', '\'', '/', '-']);
    if !token.is_ascii() {
        return None;
    }
    let lower = token.to_ascii_lowercase();
    let scheme = ["https://", "http://", "ftp://", "mailto:"].into_iter().find(|scheme| lower.starts_with(scheme));
    let bare = &token[scheme.map_or(0, str::len)..];
    let bare = if bare.get(..4).is_some_and(|www| www.eq_ignore_ascii_case("www.")) { &bare[4..] } else { bare };
    let known = scheme.is_some() || bare.len() < token.len() || is_mail(token) || is_domain(token);
    let letters = bare.bytes().any(|b| b.is_ascii_alphanumeric());
    // A slash that closes an address is not said, but it is part of it.
    let slash = usize::from(at.rest()[token.len()..].starts_with('/') && known);
    (known && letters).then(|| Said { bytes: token.len() + slash, words: read(bare) })
}

/// `name.ext` inside ordinary text: a file, a product; else two sentences that lack a space.
pub(super) fn dotted_name(at: &At<'_>) -> Option<Said> {
    if !at.starts_word() {
        return None;
    }
    let end = at.rest().find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c))).unwrap_or(at.rest().len());
    let token = at.rest()[..end].trim_end_matches(['.', '-', '_']);
    let (stem, ending) = token.rsplit_once('.')?;
    let short = (1..=4).contains(&ending.len()) && ending.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let named =
        short && ending.bytes().any(|b| b.is_ascii_lowercase()) && stem.bytes().any(|b| b.is_ascii_alphabetic());
    let whole = !at.rest()[token.len()..].starts_with(|c: char| c.is_alphanumeric());
    (named && whole && !stem.ends_with('.')).then(|| {
        let spelled = ending.len() < 4 && !matches!(ending, "txt" | "doc" | "zip" | "bin" | "log");
        let ending = if spelled { spell(ending) } else { normalize(ending) };
        Said { bytes: token.len(), words: format!("{} dot {ending}", read(stem)) }
    })
}

/// `@user`, `#tag`.
pub(super) fn mention(at: &At<'_>) -> Option<Said> {
    let sign = at.rest().chars().next().filter(|c| matches!(c, '@' | '#'))?;
    let name = &at.rest()[1..];
    name.starts_with(|c: char| c.is_alphabetic()).then(|| {
        let words = if sign == '@' { "at" } else { "hashtag" };
        Said { bytes: 1, words: words.to_owned() }
    })
}

fn is_mail(token: &str) -> bool {
    let Some((user, host)) = token.split_once('@') else { return false };
    let fits = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._%+-".contains(&b));
    let top = host.rsplit('.').next().unwrap_or_default();
    !user.is_empty()
        && fits(user)
        && fits(host)
        && host.contains('.')
        && top.len() > 1
        && top.bytes().all(|b| b.is_ascii_alphabetic())
}

fn is_domain(token: &str) -> bool {
    let host = token.split(['/', '?', '#', ':']).next().unwrap_or_default();
    let mut labels = host.split('.');
    let plain = |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let top = host.rsplit('.').next().unwrap_or_default();
    let lower = top.bytes().all(|b| b.is_ascii_lowercase());
    host.contains('.')
        && lower
        && TOP.contains(&top)
        && labels.all(plain)
        && host.bytes().any(|b| b.is_ascii_alphabetic())
}

/// The parts of an address and the signs between them, in words.
fn read(address: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut part = String::new();
    let mut after_dot = false;
    let flush = |part: &mut String, words: &mut Vec<String>, after_dot: bool| {
        if part.is_empty() {
            return;
        }
        let country = after_dot && part.len() == 2 && part.bytes().all(|b| b.is_ascii_alphabetic()) && part != "co";
        words.push(if country { spell(part) } else { normalize(part) });
        part.clear();
    };
    for c in address.chars() {
        if c.is_ascii_alphanumeric() {
            part.push(c);
            continue;
        }
        flush(&mut part, &mut words, after_dot);
        after_dot = c == '.';
        words.extend(SIGNS.iter().find(|(sign, _)| *sign == c).map(|(_, name)| (*name).to_owned()));
    }
    flush(&mut part, &mut words, after_dot);
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

fn spell(letters: &str) -> String {
    letters.chars().map(|c| normalize(&c.to_ascii_uppercase().to_string())).collect::<Vec<_>>().join(" ")
}
