//! Where sentences end: the `sentencex` segmenter with the language of the text's script, and a few joins it misses.
//!
//! `sentencex` knows abbreviations, initials, decimals and quotations of some thirty languages. What is added here: Indic
//! titles and initials before a full stop (`डॉ. शर्मा`), speech followed by its speaker (`“走吧！”他说。`), and runs of
//! bare punctuation, which belong to the sentence before them.

use std::ops::Range;

use super::clean::is_speakable;

/// Longest stretch handed to the segmenter at once, in bytes: its time grows with the square of the quotation marks.
const STRETCH: usize = 8 * 1024;

/// Marks that end a sentence, in every script this program meets.
pub(super) const ENDS: &[char] = &['.', '!', '?', '。', '！', '？', '．', '｡', '…', '।', '॥', '؟', '۔', '։', '።', '။'];

/// Quotation marks and brackets that still belong to what they close.
pub(super) const CLOSERS: &[char] =
    &['"', '\'', '”', '’', '»', '›', ')', ']', '}', '」', '』', '）', '》', '〉', '】', '〕', '］', '｣'];

/// Words before a full stop that do not end a sentence and that the segmenter does not know for every language.
#[rustfmt::skip]
const TITLES: &[&str] = &[
    "Dr", "Mr", "Mrs", "Ms", "Prof", "Shri", "Smt", "Er", "Adv", "Rs", "No",
    "डॉ", "डा", "श्री", "श्रीमती", "सुश्री", "प्रो", "पं", "मो", "रु", "नं", "स्व", "मा", "कु", "एड",
    "ডা", "ডাঃ", "ড", "মো", "মোঃ", "অধ্যা", "শ্রী", "ડૉ", "શ્રી", "ડો", "ਡਾ", "ਸ੍ਰ", "ਸ੍ਰੀ", "ପ୍ରଫେସର", "ଡା", "ଶ୍ରୀ",
    "டாக்டர்", "டாக்", "திரு", "திருமதி", "செல்வி", "பேரா", "డా", "శ్రీ", "ప్రొ", "ಡಾ", "ಶ್ರೀ", "ಪ್ರೊ", "ഡോ", "ശ്രീ", "പ്രൊഫ",
];

/// Words of one letter that end sentences where people write a full stop instead of a danda, and are no initials.
#[rustfmt::skip]
const SHORT_WORDS: &[&str] = &[
    "है", "हैं", "हूँ", "हूं", "था", "थे", "थी", "थीं", "हो", "दो", "लो", "हाँ", "हां", "ना", "છે", "છો", "છું", "હા", "ના", "ਹੈ",
];

/// The sentences of one paragraph, as byte ranges that follow each other without a gap and cover all of it.
pub(super) fn sentences(paragraph: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    while start < paragraph.len() {
        let stretch = stretch(&paragraph[start..]);
        let mut from = 0;
        for boundary in sentencex::get_sentence_boundaries(language(stretch), stretch) {
            let end = boundary.end_byte;
            if end > from && stretch.is_char_boundary(end) {
                found.push(start + from..start + end);
                from = end;
            }
        }
        if from < stretch.len() {
            found.push(start + from..start + stretch.len());
        }
        start += stretch.len();
    }
    join(paragraph, found)
}

/// The first part of `text`, ending where a cut does least harm.
fn stretch(text: &str) -> &str {
    if text.len() <= STRETCH {
        return text;
    }
    let head = &text[..text.floor_char_boundary(STRETCH)];
    let after = |at: Option<(usize, char)>| at.map(|(i, c)| i + c.len_utf8());
    let mut spaces = head.char_indices().rev().filter(|&(_, c)| c.is_whitespace());
    let at_end = spaces.clone().find(|&(i, _)| head[..i].trim_end_matches(CLOSERS).ends_with(ENDS));
    let wide = head.char_indices().rev().find(|&(_, c)| matches!(c, '。' | '！' | '？' | '।'));
    let end = after(at_end).or_else(|| after(wide)).or_else(|| after(spaces.next())).unwrap_or(head.len());
    &text[..end]
}

/// The language code whose rules fit the script most letters are in. Latin text gets the English rules.
fn language(text: &str) -> &'static str {
    const CODES: [&str; 17] =
        ["en", "hi", "bn", "pa", "gu", "ta", "te", "kn", "ml", "my", "am", "hy", "el", "ru", "ar", "ja", "zh"];
    let mut counts = [0_usize; CODES.len()];
    for c in text.chars().filter(|c| c.is_alphabetic()) {
        let script = match c {
            '\u{900}'..='\u{97F}' => 1,
            '\u{980}'..='\u{9FF}' => 2,
            '\u{A00}'..='\u{A7F}' => 3,
            '\u{A80}'..='\u{AFF}' => 4,
            '\u{B80}'..='\u{BFF}' => 5,
            '\u{C00}'..='\u{C7F}' => 6,
            '\u{C80}'..='\u{CFF}' => 7,
            '\u{D00}'..='\u{D7F}' => 8,
            '\u{1000}'..='\u{109F}' => 9,
            '\u{1200}'..='\u{137F}' => 10,
            '\u{530}'..='\u{58F}' => 11,
            '\u{370}'..='\u{3FF}' => 12,
            '\u{400}'..='\u{4FF}' => 13,
            '\u{600}'..='\u{6FF}' | '\u{750}'..='\u{77F}' => 14,
            '\u{3040}'..='\u{30FF}' => 15,
            '\u{3400}'..='\u{9FFF}' => 16,
            _ => 0,
        };
        counts[script] += 1;
    }
    // Japanese is written mostly in Chinese characters; a fair share of kana decides.
    if counts[15] * 4 >= counts[16] {
        counts[15] += counts[16];
    }
    let best = counts.iter().enumerate().max_by_key(|&(i, &count)| (count, std::cmp::Reverse(i)));
    best.and_then(|(i, _)| CODES.get(i)).copied().unwrap_or("en")
}

fn join(paragraph: &str, found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for next in found {
        match joined.last_mut() {
            Some(last) if belong_together(&paragraph[last.clone()], &paragraph[next.clone()]) => last.end = next.end,
            _ => joined.push(next),
        }
    }
    joined
}

fn belong_together(before: &str, after: &str) -> bool {
    !is_speakable(after)
        || !is_speakable(before)
        || is_list_number(before.trim())
        || inside_number(before, after)
        || ends_in_abbreviation(before.trim_end())
        || names_speaker(before, after)
}

/// `3.` alone: it numbers what follows.
fn is_list_number(sentence: &str) -> bool {
    sentence.strip_suffix('.').is_some_and(|number| number.len() <= 3 && number.bytes().all(|b| b.is_ascii_digit()))
}

/// The point of `३.५` or `１．５`: the segmenter knows ASCII digits only.
fn inside_number(before: &str, after: &str) -> bool {
    before.strip_suffix(['.', '．']).is_some_and(|number| number.ends_with(char::is_numeric))
        && after.starts_with(char::is_numeric)
}

/// `डॉ.`, `Dr.`, or an initial in a script that has its own full stop or no capitals (`ए. पी. जे.`).
fn ends_in_abbreviation(sentence: &str) -> bool {
    let Some(body) = sentence.strip_suffix('.') else { return false };
    let word = body.rsplit(|c: char| c.is_whitespace() || "(\"'“‘.".contains(c)).next().unwrap_or_default();
    let letters = word.chars().filter(|c| !unicode_mark(*c)).count();
    let initial =
        letters == 1 && word.chars().next().is_some_and(|c| c.is_alphabetic() && ('\u{900}'..'\u{E00}').contains(&c));
    initial && !SHORT_WORDS.contains(&word) || TITLES.contains(&word)
}

/// Vowel signs and the like of the Indic blocks: they do not count as letters of their own.
fn unicode_mark(c: char) -> bool {
    ('\u{900}'..'\u{E00}').contains(&c)
        && matches!(c as u32 & 0x7F, 0x00..=0x03 | 0x3C | 0x3E..=0x4D | 0x55..=0x57 | 0x62 | 0x63)
}

/// Direct speech that ends in `！”` or `。」`, followed at once by who said it.
fn names_speaker(before: &str, after: &str) -> bool {
    let quoted = before.ends_with(['”', '』', '」', '’']);
    let head: String = after.chars().take_while(|c| !ENDS.contains(c) && !"，、,：:".contains(*c)).take(4).collect();
    quoted && (head.starts_with(['と', 'っ']) || head.contains(['说', '說', '道', '问', '問', '喊', '叫', '答', '笑']))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Vec<&str> {
        sentences(text).into_iter().map(|range| text[range].trim()).collect()
    }

    /// Sentences parted by `|` are put together (with or without a space) and must come apart again.
    fn check(marked: &str, space: &str) {
        let want: Vec<&str> = marked.split('|').collect();
        assert_eq!(of(&want.join(space)), want);
    }

    #[test]
    fn english() {
        for marked in [
            "Hello, how are you today?|I am fine.|Thanks!",
            "Dr. Smith met Mrs. Jones at St. Mary's at 5 p.m. on Monday.|They talked.",
            "It costs $3.50, e.g. in the U.S. and elsewhere.|Version 1.2.3 is out.",
            "J. R. R. Tolkien wrote it.|C. S. Lewis read it.",
            "\"Stop!\" he said.|Nobody stopped.",
            "He asked, \"Are you sure?\"|She was.",
            "Pi is 3.14159 or so.|See Fig. 3 for the proof.",
            "Wait... what?|No way!",
            "Is it true?!|Yes.",
            "She works at Yahoo! in town.|He does not.",
        ] {
            check(marked, " ");
        }
    }

    #[test]
    fn indic() {
        for marked in [
            "नमस्ते!|आप कैसे हैं?|मैं ठीक हूँ।",
            "डॉ. शर्मा कल दिल्ली आए।|वे श्री. वर्मा से मिले।",
            "ए. पी. जे. अब्दुल कलाम राष्ट्रपति थे।|उनका जन्म १९३१ में हुआ।",
            "पानी ३.५ लीटर है।|बस।",
            "रामः वनं गच्छति॥|सीता अपि।",
            "আমি ভালো আছি।|আপনি কেমন আছেন?",
            "ডা. রহমান আজ আসবেন না।|কাল আসবেন।",
            "வணக்கம்.|நீங்கள் எப்படி இருக்கிறீர்கள்?",
            "నమస్కారం.|మీరు ఎలా ఉన్నారు?",
            "ನಮಸ್ಕಾರ.|ನೀವು ಹೇಗಿದ್ದೀರಿ?",
            "Dr. Sharma ने कहा कि meeting कल है।|Okay, ठीक है!",
            "آپ کیسے ہیں؟|میں ٹھیک ہوں۔",
            "ભાવ ૩.૫૦ રૂપિયા છે.|ચાલો.",
            "यह मेरा घर है.|वह सुंदर है.|चलो.",
        ] {
            check(marked, " ");
        }
    }

    #[test]
    fn chinese_and_japanese() {
        for marked in [
            "你好。|你吃了吗？|我吃了！",
            "“走吧！”他说。|天黑了。",
            "价格是3.5元。|很便宜。",
            "他问：“你是谁？”|我没有回答。",
            "今日は雨です。|傘を持って行きましょう。",
            "「行こう。」と彼は言った。|私は黙っていた。",
            "本当ですか？|はい、そうです。",
            "等等……我还没准备好。|走吧！",
            "真的吗？！|真的。",
            "版本是１．５，很新。|下载吧。",
            "3.5キロです。|遠くありません。",
            "「本当？」と聞いた。|誰も答えなかった。",
        ] {
            check(marked, "");
        }
        check("他说 hello.|Then he left.", " ");
        check("नमस्ते।|How are you?|你好。|吃了吗？", " ");
    }

    #[test]
    fn bare_punctuation_stays_with_its_sentence() {
        assert_eq!(of("Really?! … Yes."), ["Really?!", "… Yes."]);
        assert_eq!(of("... And then?"), ["... And then?"]);
        assert_eq!(of("That is all. 🎉"), ["That is all. 🎉"]);
    }

    #[test]
    fn a_very_long_paragraph_takes_linear_time() {
        let text = "a \"b. c ' ".repeat(30_000);
        let start = std::time::Instant::now();
        let ranges = sentences(&text);
        assert_eq!(ranges.last().unwrap().end, text.len());
        // Handed over whole, the segmenter needs minutes for this.
        assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    }

    proptest! {
        #[test]
        fn ranges_cover_the_text_without_gap(text in prop_oneof![any::<String>(), "[aB .!?…।\"'“”「」()\\n1。你डॉ]{0,60}"]) {
            let mut end = 0;
            for range in sentences(&text) {
                prop_assert_eq!(range.start, end);
                prop_assert!(range.end > range.start);
                end = range.end;
            }
            prop_assert_eq!(end, text.len());
        }
    }
}
