//! Which script a text is written in, as far as a voice that reads only Latin letters must know.

/// A word in letters that are not Latin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The word.
    pub word: String,
    /// Its script, as people call it.
    pub script: &'static str,
}

/// First and last letter of the scripts, after the blocks of Unicode 17.
const SCRIPTS: [(char, char, &str); 27] = [
    ('\u{370}', '\u{3FF}', "Greek"),
    ('\u{400}', '\u{52F}', "Cyrillic"),
    ('\u{530}', '\u{58F}', "Armenian"),
    ('\u{590}', '\u{5FF}', "Hebrew"),
    ('\u{600}', '\u{6FF}', "Arabic"),
    ('\u{750}', '\u{77F}', "Arabic"),
    ('\u{900}', '\u{97F}', "Devanagari"),
    ('\u{980}', '\u{9FF}', "Bengali"),
    ('\u{A00}', '\u{A7F}', "Gurmukhi"),
    ('\u{A80}', '\u{AFF}', "Gujarati"),
    ('\u{B00}', '\u{B7F}', "Odia"),
    ('\u{B80}', '\u{BFF}', "Tamil"),
    ('\u{C00}', '\u{C7F}', "Telugu"),
    ('\u{C80}', '\u{CFF}', "Kannada"),
    ('\u{D00}', '\u{D7F}', "Malayalam"),
    ('\u{D80}', '\u{DFF}', "Sinhala"),
    ('\u{E00}', '\u{E7F}', "Thai"),
    ('\u{E80}', '\u{EFF}', "Lao"),
    ('\u{F00}', '\u{FFF}', "Tibetan"),
    ('\u{1000}', '\u{109F}', "Burmese"),
    ('\u{10A0}', '\u{10FF}', "Georgian"),
    ('\u{1200}', '\u{139F}', "Ethiopic"),
    ('\u{1780}', '\u{17FF}', "Khmer"),
    ('\u{3040}', '\u{30FF}', "Japanese"),
    ('\u{3400}', '\u{9FFF}', "Chinese"),
    ('\u{AC00}', '\u{D7AF}', "Korean"),
    ('\u{20000}', '\u{3FFFF}', "Chinese"),
];

/// The first word of `text` that holds a letter which is not Latin.
pub fn foreign(text: &str) -> Option<Foreign> {
    text.split_whitespace().find_map(|word| {
        let letter = word.chars().find(|c| c.is_alphabetic() && !is_latin(*c))?;
        let bare = word.trim_start_matches(|c: char| !c.is_alphanumeric());
        // Marks belong to the letters before them.
        let bare = bare.trim_end_matches(|c: char| c.is_ascii_punctuation() || "”’»…—।。，、！？".contains(c));
        Some(Foreign { word: bare.chars().take(24).collect(), script: script(letter) })
    })
}

fn script(letter: char) -> &'static str {
    let found = SCRIPTS.iter().find(|(first, last, _)| (*first..=*last).contains(&letter));
    found.map_or("in another script", |(_, _, name)| name)
}

/// The Latin blocks, with phonetic letters and modifiers, and the full-width forms.
fn is_latin(letter: char) -> bool {
    matches!(letter, '\0'..='\u{2FF}' | '\u{1D00}'..='\u{1DBF}' | '\u{1E00}'..='\u{1EFF}' | '\u{2070}'..='\u{209F}'
        | '\u{2100}'..='\u{218F}' | '\u{24B6}'..='\u{24E9}' | '\u{2C60}'..='\u{2C7F}' | '\u{A720}'..='\u{A7FF}'
        | '\u{AB30}'..='\u{AB6F}' | '\u{FB00}'..='\u{FB06}' | '\u{FF21}'..='\u{FF5A}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(String, &'static str)> {
        foreign(text).map(|f| (f.word, f.script))
    }

    #[test]
    fn latin_text_passes() {
        for text in ["Hello, 25 km!", "naïve Łódź Việt ﬁne", "ﬃ ª º ² ℃", "«quoted» — … 🎉", ""]
        {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn the_first_foreign_word_is_named() {
        for (text, word, script) in [
            ("Say “नमस्ते”, friend", "नमस्ते", "Devanagari"),
            ("Привет мир", "Привет", "Cyrillic"),
            ("I like 東京.", "東京", "Chinese"),
            ("これはペン", "これはペン", "Japanese"),
            ("안녕", "안녕", "Korean"),
            ("ᏣᎳᎩ", "ᏣᎳᎩ", "in another script"),
        ] {
            assert_eq!(found(text), Some((word.to_owned(), script)), "{text}");
        }
    }
}
