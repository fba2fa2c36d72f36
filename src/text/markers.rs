//! Silences written into a text: `Wait. [pause:500ms] Now.`
//!
//! ```text
//! marker := "[pause:" NUMBER ("ms" | "s") "]"        at most a minute
//! ```
//!
//! Only `[pause:` and `[pause]` are taken for markers; other brackets are text, and a marker that cannot be understood is
//! an error rather than spoken.

use std::time::Duration;

use crate::error::{Error, Result};

/// Longest silence of one marker.
const LONGEST: Duration = Duration::from_secs(60);

/// A stretch of text, or a silence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text between markers, as written; never blank.
    Text(String),
    /// The silence of one marker.
    Pause(Duration),
}

/// Takes `text` apart at its pause markers. A text without markers is one part; a blank one has none.
pub fn parse(text: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = text;
    let mut from = 0; // where to look for the next marker in `rest`
    while let Some(at) = rest[from..].find('[').map(|at| from + at) {
        let Some(inside) = inside_marker(&rest[at..]) else {
            from = at + 1;
            continue;
        };
        let Some(end) = inside.find(']') else {
            let shown: String = rest[at..].chars().take(24).collect();
            return Err(malformed(&shown, "the closing `]` is missing"));
        };
        push_text(&mut parts, &rest[..at]);
        let marker_end = rest.len() - inside.len() + end + 1;
        parts.push(Part::Pause(length(&inside[..end]).map_err(|why| malformed(&rest[at..marker_end], why))?));
        rest = &rest[marker_end..];
        from = 0;
    }
    push_text(&mut parts, rest);
    Ok(parts)
}

/// What follows `[pause:`, or the `]` of `[pause]`, where `text` starts with a marker.
fn inside_marker(text: &str) -> Option<&str> {
    let word = text.get(..6).filter(|word| word.eq_ignore_ascii_case("[pause"))?;
    let inside = &text[word.len()..];
    inside.strip_prefix(':').or_else(|| inside.starts_with(']').then_some(inside))
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    if !text.trim().is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
}

fn length(written: &str) -> Result<Duration, &'static str> {
    let written = written.trim();
    if written.is_empty() {
        return Err("the length is missing");
    }
    let (number, milliseconds) = match (written.strip_suffix("ms"), written.strip_suffix('s')) {
        (Some(number), _) => (number, 1.0),
        (None, Some(number)) => (number, 1000.0),
        (None, None) => return Err("the unit is missing or unknown"),
    };
    let number = number.trim_end();
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number = number.parse::<f64>().ok().filter(|_| plain).ok_or("the length is no number")?;
    let length = Duration::try_from_secs_f64(number * milliseconds / 1000.0).map_err(|_| "the length is too large")?;
    if length > LONGEST { Err("the length is over a minute") } else { Ok(length) }
}

fn malformed(marker: &str, why: &str) -> Error {
    Error::new(format!("marker `{marker}`: {why}")).hint("write `[pause:500ms]` or `[pause:1.5s]`, at most `60s`")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    fn pause(ms: u64) -> Part {
        Part::Pause(Duration::from_millis(ms))
    }

    #[test]
    fn markers_part_the_text() {
        for (raw, want) in [
            ("Hello.", vec![text("Hello.")]),
            ("Wait. [pause:500ms] Now.", vec![text("Wait. "), pause(500), text(" Now.")]),
            ("[pause:1.5s]a[pause: 2 s ]", vec![pause(1500), text("a"), pause(2000)]),
            ("a[Pause:0ms] [pause:60s]b", vec![text("a"), pause(0), pause(60_000), text("b")]),
            (
                "see [1], [pause the film] and [[pause:1s]]",
                vec![text("see [1], [pause the film] and ["), pause(1000), text("]")],
            ),
            ("[पॉज़] ठीक [", vec![text("[पॉज़] ठीक [")]),
            (" \n", vec![]),
        ] {
            assert_eq!(parse(raw).unwrap(), want, "{raw:?}");
        }
    }

    #[test]
    fn malformed_markers_are_named() {
        for (raw, want) in [
            ("a [pause:] b", "marker `[pause:]`: the length is missing"),
            ("a [pause] b", "marker `[pause]`: the length is missing"),
            ("a [pause:500] b", "marker `[pause:500]`: the unit is missing or unknown"),
            ("a [pause:1m] b", "marker `[pause:1m]`: the unit is missing or unknown"),
            ("a [pause:-1s] b", "marker `[pause:-1s]`: the length is no number"),
            ("a [pause:infs] b", "marker `[pause:infs]`: the length is no number"),
            ("a [pause:1e9s] b", "marker `[pause:1e9s]`: the length is no number"),
            ("a [pause:s] b", "marker `[pause:s]`: the length is no number"),
            ("a [pause:61s] b", "marker `[pause:61s]`: the length is over a minute"),
            (
                "a [pause:99999999999999999999999s] b",
                "marker `[pause:99999999999999999999999s]`: the length is too large",
            ),
            ("a [pause:1s and then more text", "marker `[pause:1s and then more `: the closing `]` is missing"),
        ] {
            let error = parse(raw).unwrap_err();
            assert_eq!(error.to_string(), want, "{raw:?}");
            assert!(error.cure().is_some());
        }
    }

    proptest! {
        #[test]
        fn text_around_markers_is_kept(a in "[^\\[\\]]*", ms in 0_u64..60_000, b in "[^\\[\\]]*") {
            let parts = parse(&format!("{a}[pause:{ms}ms]{b}")).unwrap();
            let mut want = vec![text(&a), pause(ms), text(&b)];
            want.retain(|part| !matches!(part, Part::Text(text) if text.trim().is_empty()));
            prop_assert_eq!(parts, want);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in prop_oneof![any::<String>(), "(\\[pause:?|\\]|[0-9ms. é\\[]){0,12}"]) {
            let _ = parse(&text);
        }
    }
}
