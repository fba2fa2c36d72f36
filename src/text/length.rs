//! How long a text is when spoken, counted in Latin letters: a Chinese character is a syllable, an English one has three
//! letters. With the same limit for all scripts, Chinese would run three times as long as English.

/// The length of `text` in letters that take as long to say.
pub fn spoken_length(text: &str) -> usize {
    text.chars().map(weight).sum()
}

/// About 15 Latin letters, 5 Chinese characters, 5 Korean syllables or 8 kana are said in a second. Indic letters and
/// vowel signs count one each, as they are counted by what models of those languages were tried with.
pub(super) fn weight(c: char) -> usize {
    match c {
        // Han, with its extensions and compatibility forms; Hangul syllables.
        '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' | '\u{AC00}'..='\u{D7A3}' => 3,
        // Kana and its half-width forms, bopomofo.
        '\u{3041}'..='\u{312F}' | '\u{FF66}'..='\u{FF9D}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_second_of_speech_counts_alike_in_every_script() {
        for text in ["Hello, my world.", "你好，世界！", "안녕하세요", "こんにちは、せかい", "नमस्ते दुनिया जी"]
        {
            assert!((14..=17).contains(&spoken_length(text)), "{text}: {}", spoken_length(text));
        }
    }
}
