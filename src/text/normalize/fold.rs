//! Unicode down to what the rules and an English voice know: ASCII for everything Latin, signs as their plainest form,
//! emoji and invisible characters gone; letters and digits of other scripts stay as they are.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::text::emoji::{is_emoji, is_emoji_glue};

/// A letter, or a mark or joiner that is part of one.
pub(super) fn is_letter(c: char) -> bool {
    c.is_alphabetic() || is_combining_mark(c) || is_joiner(c)
}

fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200C}' | '\u{200D}')
}

/// `text` on one line, folded.
pub(super) fn fold(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        before_decomposition(c, &mut plain);
    }
    let mut folded = String::with_capacity(plain.len());
    let mut base = ' '; // the last character that is no mark
    for c in plain.nfkd() {
        if is_combining_mark(c) || is_joiner(c) {
            // Marks of Latin letters go; those of other scripts are spelling.
            if !base.is_ascii() && is_letter(base) {
                folded.push(c);
            }
            continue;
        }
        let from = folded.len();
        after_decomposition(c, &mut folded);
        base = if folded.len() == from { base } else { folded.chars().next_back().unwrap_or(' ') };
    }
    folded.nfc().collect()
}

/// Characters whose decomposition would lose what they say.
fn before_decomposition(c: char, out: &mut String) {
    match c {
        '²' => out.push_str("^2"),
        '³' => out.push_str("^3"),
        '¼' | '½' | '¾' | '⅐'..='⅞' => {
            out.push(' ');
            out.extend(std::iter::once(c).nfkd());
        }
        '™' | '®' | '℠' => {}
        '№' => out.push_str("No. "),
        _ if is_emoji_glue(c) => {}
        _ if is_emoji(c) => out.push(' '),
        _ => out.push(c),
    }
}

fn after_decomposition(c: char, out: &mut String) {
    let plain = match c {
        _ if c.is_ascii() && !c.is_ascii_control() => return out.push(c),
        '‘' | '’' | '‚' | '‛' | '′' | 'ʼ' | 'ʹ' | '´' => "'",
        '“' | '”' | '„' | '‟' | '«' | '»' | '″' => "\"",
        '‐' | '‑' | '‒' | '−' | '⁃' => "-",
        '—' | '―' | '⸺' => ", ",
        '⁄' | '∕' => "/",
        '。' | '।' | '॥' | '۔' | '։' | '።' => ". ",
        '、' | '،' => ", ",
        '؛' => "; ",
        '؟' => "? ",
        '「' | '」' | '『' | '』' => "\"",
        'ß' => "ss",
        'ẞ' => "SS",
        'æ' => "ae",
        'Æ' => "AE",
        'œ' => "oe",
        'Œ' => "OE",
        'ø' => "o",
        'Ø' => "O",
        'ł' => "l",
        'Ł' => "L",
        'đ' | 'ð' => "d",
        'Đ' | 'Ð' => "D",
        'þ' => "th",
        'Þ' => "Th",
        'ħ' => "h",
        'Ħ' => "H",
        'ı' => "i",
        'ŋ' => "ng",
        'Ŋ' => "Ng",
        // Signs that have words, see `signs` and `units`.
        '–' | '‰' | '×' | '÷' | '±' | '≤' | '≥' | '≠' | '≈' | '√' | '∞' | '°' | '§' | '©' | '€' | '£' | '¥' | '₹'
        | '¢' | '₩' | '₽' => {
            return out.push(c);
        }
        _ if is_letter(c) || c.is_numeric() => return out.push(c),
        // Zero-width and direction marks vanish, so that words stay whole; everything else parts words.
        '\u{AD}'
        | '\u{200B}'
        | '\u{200E}'
        | '\u{200F}'
        | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{FEFF}' => "",
        _ => " ",
    };
    out.push_str(plain);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn latin_becomes_ascii_and_other_scripts_stay() {
        for (text, want) in [
            ("Café naïve Łódź Straße", "Cafe naive Lodz Strasse"),
            ("ｆｕｌｌ ﬁne ①", "full fine 1"),
            ("“Don’t”", "\"Don't\""),
            ("3½ m²", "3 1/2 m^2"),
            ("नमस्ते क्\u{200d}ष", "नमस्ते क्\u{200d}ष"),
            ("й 한국어 你好", "й 한국어 你好"),
            ("Hi 👋🏽👨‍👩‍👧!", "Hi      !"),
            ("so\u{AD}ft\u{200B}ly", "softly"),
            ("1️⃣", "1"),
        ] {
            let folded = fold(text);
            let squeeze = |s: &str| s.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(squeeze(&folded), squeeze(want), "{text}");
        }
    }

    proptest! {
        #[test]
        fn folding_is_idempotent(text in any::<String>()) {
            let once = fold(&text);
            prop_assert_eq!(fold(&once), once);
        }
    }
}
