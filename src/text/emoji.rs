//! Which characters belong to emoji: pictographs, flags and the invisible parts that glue them together.
//!
//! Ranges from Unicode's emoji-data (Extended_Pictographic, Regional_Indicator, Emoji_Modifier) and the tag and
//! keycap characters of UTS 51, rounded up to whole blocks of symbols: none of them holds a letter.

/// True for a character that draws an emoji, or a sign of the same symbol blocks (`☎`, `★`, `✓`).
pub(crate) fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{1F000}'..='\u{1F0FF}' // tiles and cards
        | '\u{1F18E}' | '\u{1F191}'..='\u{1F19A}'
        | '\u{1F1E6}'..='\u{1F1FF}' // regional indicators: flags
        | '\u{1F201}'..='\u{1F2FF}'
        | '\u{1F300}'..='\u{1FAFF}'
        | '\u{2600}'..='\u{27BF}'
        | '\u{2B05}'..='\u{2B07}' | '\u{2B1B}' | '\u{2B1C}' | '\u{2B50}' | '\u{2B55}'
        | '\u{231A}' | '\u{231B}' | '\u{2328}' | '\u{23CF}' | '\u{23E9}'..='\u{23FA}'
        | '\u{3030}' | '\u{303D}' | '\u{3297}' | '\u{3299}')
}

/// True for the invisible parts of an emoji: variation selectors, the keycap ring, tag characters.
/// The zero-width joiner is not among them, because Indic and Arabic spelling needs it too.
pub(crate) fn is_emoji_glue(c: char) -> bool {
    matches!(c, '\u{FE0E}' | '\u{FE0F}' | '\u{20E3}' | '\u{E0020}'..='\u{E007F}')
}
