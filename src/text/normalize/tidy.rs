//! The last touch: one space between words, none before punctuation, one mark where several met.

const MARKS: &[char] = &['?', '!', '.', ':', ';', ','];

/// Puts spaces and punctuation in order. Of several marks in a row the strongest stays (`?` before `!` before `.` …);
/// marks at the start, and all but `. ! ?` at the end, go.
pub(super) fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut mark: Option<char> = None; // waiting for the next word
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() {
            gap = true;
            continue;
        }
        if MARKS.contains(&c) {
            let rank = |c: char| MARKS.iter().position(|&mark| mark == c);
            mark = Some(mark.filter(|&old| rank(old) <= rank(c)).unwrap_or(c));
            continue;
        }
        if !out.is_empty() {
            out.extend(mark);
            if gap || mark.is_some() {
                out.push(' ');
            }
        }
        (mark, gap) = (None, false);
        out.push(c);
    }
    if !out.is_empty() {
        out.extend(mark.filter(|mark| matches!(mark, '.' | '!' | '?')));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::tidy;

    #[test]
    fn spaces_and_marks() {
        for (text, want) in [
            ("  a  b ,c", "a b, c"),
            ("what ?! .. yes ,", "what? yes"),
            (", (so it was, .", "(so it was."),
            ("a:b", "a: b"),
            ("...", ""),
            ("wow !!!", "wow!"),
        ] {
            assert_eq!(tidy(text), want, "{text:?}");
        }
    }
}
