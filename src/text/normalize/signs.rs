//! Single signs: said where they carry meaning, a pause where they part phrases, dropped otherwise.

use super::{At, Said, fold};

pub(super) fn sign(at: &At<'_>) -> Option<Said> {
    let rest = at.rest();
    let c = rest.chars().next()?;
    let tail = &rest[c.len_utf8()..];
    let before = at.prev();
    let next = tail.chars().next();
    let spaced = before.is_none_or(|c| c == ' ') && next.is_none_or(|c| c == ' ');
    let word_before = before.is_some_and(|c| fold::is_letter(c) || c.is_numeric());
    let word_next = next.is_some_and(|c| fold::is_letter(c) || c.is_numeric());
    // Between two terms of a sum: `5 - 3`, `2 * 3`.
    let figures = at.before().trim_end().ends_with(|c: char| c.is_ascii_digit())
        && tail.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let said = |bytes: usize, words: &str| Some(Said { bytes, words: words.to_owned() });
    let sign = |words: &str| said(c.len_utf8(), words);
    let run = |of: char| rest.len() - rest.trim_start_matches(of).len();
    match c {
        '\'' if word_before && word_next => None,
        '.' if run('.') > 1 => {
            let end = super::sentence_ends(&rest[run('.')..]);
            said(run('.'), if end { "." } else { "," })
        }
        '.' if word_before && next.is_some_and(|c| c.is_ascii_digit()) => sign("point"),
        '.' if word_before && word_next => sign("."),
        ',' | '.' | ';' | ':' | '!' | '?' | ' ' => None,
        '-' if run('-') > 1 => said(run('-'), ","),
        '-' if figures && spaced => sign("minus"),
        '-' if word_before && word_next => None,
        '-' if spaced => sign(","),
        '-' | '\'' => sign(""),
        '–' => sign(","),
        '&' => sign("and"),
        '@' => sign("at"),
        '+' => sign("plus"),
        '=' if rest.starts_with("=>") => said(2, ","),
        '=' if run('=') > 2 => said(run('='), ","),
        '=' => said(run('='), "equals"),
        '<' if rest.starts_with("<=") => said(2, "less than or equal to"),
        '>' if rest.starts_with(">=") => said(2, "greater than or equal to"),
        '<' if spaced || figures => sign("less than"),
        '>' if spaced || figures => sign("greater than"),
        '*' if figures => sign("times"),
        '^' if tail.starts_with('2') && !tail[1..].starts_with(|c: char| c.is_ascii_digit()) => said(2, "squared"),
        '^' if tail.starts_with('3') && !tail[1..].starts_with(|c: char| c.is_ascii_digit()) => said(2, "cubed"),
        '^' if word_next => sign("to the power of"),
        '/' if figures && !spaced => sign("over"),
        '/' if word_next => sign("slash"),
        '/' if spaced => sign(","),
        '\\' if word_before && word_next => sign("backslash"),
        '%' => sign("percent"),
        '‰' => sign("per mille"),
        '°' => sign("degrees"),
        '×' => sign("times"),
        '÷' => sign("divided by"),
        '±' => sign("plus or minus"),
        '≤' => sign("less than or equal to"),
        '≥' => sign("greater than or equal to"),
        '≠' => sign("not equal to"),
        '≈' => sign("about"),
        '√' => sign("square root of"),
        '∞' => sign("infinity"),
        '§' => sign("section"),
        '©' => sign("copyright"),
        '$' if !spaced || figures => sign("dollars"),
        '€' => sign("euros"),
        '£' => sign("pounds"),
        '¥' => sign("yen"),
        '₹' => sign("rupees"),
        '¢' => sign("cents"),
        '₩' => sign("won"),
        '₽' => sign("rubles"),
        // Brackets are spoken as a parenthesis: a short pause on both sides.
        '(' | '[' | '{' | ')' | ']' | '}' | '|' => sign(","),
        _ if fold::is_letter(c) || c.is_numeric() => None,
        _ => sign(""),
    }
}
