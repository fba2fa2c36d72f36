//! Bytes of a file or pipe into text: UTF-8, with or without a byte order mark, any line ends.
//!
//! Other encodings are named, not guessed at: a wrong guess would be spoken as gibberish.

use crate::error::{Error, Result};

/// Text of `bytes`, read from `name` (a file, or `standard input`), with `\n` as the only line end.
///
/// UTF-16 and UTF-32 are recognised by their byte order mark, UTF-16 also by its zero bytes, and refused with the cure.
/// Invalid UTF-8 is refused with its line and the byte in that line, both counted from 1.
pub fn decode(bytes: &[u8], name: &str) -> Result<String> {
    if let Some(encoding) = wide_encoding(bytes) {
        return Err(Error::new(format!("`{name}`: the text is in {encoding}, not UTF-8"))
            .hint(format!("save it as UTF-8, or convert it: `iconv -f {encoding} -t UTF-8`")));
    }
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|cause| invalid(bytes, cause.valid_up_to(), name))?;
    Ok(text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// The name `iconv` knows, where the bytes are of an encoding with wide units.
fn wide_encoding(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xFF, 0xFE, 0, 0, ..] => Some("UTF-32LE"),
        [0, 0, 0xFE, 0xFF, ..] => Some("UTF-32BE"),
        [0xFF, 0xFE, ..] => Some("UTF-16LE"),
        [0xFE, 0xFF, ..] => Some("UTF-16BE"),
        _ => {
            // Without a mark: Latin text in UTF-16 has a zero in every other byte, UTF-8 text has none.
            let head = &bytes[..bytes.len().min(1024) & !1];
            let zeros = |from: usize| head.iter().skip(from).step_by(2).filter(|&&b| b == 0).count();
            let (even, odd, half) = (zeros(0), zeros(1), head.len() / 2);
            match half {
                0 | 1 => None,
                _ if odd * 4 >= half * 3 && even * 8 < half => Some("UTF-16LE"),
                _ if even * 4 >= half * 3 && odd * 8 < half => Some("UTF-16BE"),
                _ => None,
            }
        }
    }
}

fn invalid(bytes: &[u8], at: usize, name: &str) -> Error {
    let before = &bytes[..at];
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&b| b != b'\n').count() + 1;
    let byte = bytes.get(at).copied().unwrap_or_default();
    Error::new(format!("`{name}`: line {line}, byte {column} (0x{byte:02X}) is not UTF-8"))
        .hint("save it as UTF-8, or convert it from what it is, for example: `iconv -f ISO-8859-1 -t UTF-8`")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn marks_and_line_ends_do_not_reach_the_text() {
        assert_eq!(decode(b"\xEF\xBB\xBFone\r\ntwo\rthree\n", "x").unwrap(), "one\ntwo\nthree\n");
        assert_eq!(decode("नमस्ते।".as_bytes(), "x").unwrap(), "नमस्ते।");
        assert_eq!(decode(b"\xEF\xBB\xBF", "x").unwrap(), "");
        assert_eq!(decode(b"", "x").unwrap(), "");
        assert_eq!(decode(b"a", "x").unwrap(), "a");
    }

    #[test]
    fn wide_encodings_are_named_with_the_cure() {
        let le = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let be = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
        for (bytes, encoding) in [
            (le("\u{FEFF}Hello\r\n"), "UTF-16LE"),
            (be("\u{FEFF}Hello\r\n"), "UTF-16BE"),
            (le("\u{FEFF}नमस्ते"), "UTF-16LE"),
            (le("Hello there"), "UTF-16LE"),
            (be("Hello there"), "UTF-16BE"),
            (vec![0xFF, 0xFE, 0, 0, b'a', 0, 0, 0], "UTF-32LE"),
            (vec![0, 0, 0xFE, 0xFF, 0, 0, 0, b'a'], "UTF-32BE"),
        ] {
            let error = decode(&bytes, "list.txt").unwrap_err();
            assert_eq!(error.to_string(), format!("`list.txt`: the text is in {encoding}, not UTF-8"));
            assert!(error.cure().unwrap().contains(&format!("iconv -f {encoding}")), "{encoding}");
        }
    }

    #[test]
    fn invalid_bytes_are_found_by_line_and_byte() {
        let error = decode(b"fine\nalso fine\ncaf\xE9 au lait\n", "list.txt").unwrap_err();
        assert_eq!(error.to_string(), "`list.txt`: line 3, byte 4 (0xE9) is not UTF-8");
        let error = decode(b"\xEF\xBB\xBFab\xFF", "list.txt").unwrap_err();
        assert_eq!(error.to_string(), "`list.txt`: line 1, byte 3 (0xFF) is not UTF-8");
        let error = decode("a\nनमस्ते".as_bytes().split_last().unwrap().1, "list.txt").unwrap_err();
        assert_eq!(error.to_string(), "`list.txt`: line 2, byte 16 (0xE0) is not UTF-8");
    }

    #[test]
    fn a_single_nul_is_left_for_the_line_that_holds_it() {
        assert_eq!(decode(b"fine\nb\0d\nfine too, and longer\n", "x").unwrap(), "fine\nb\0d\nfine too, and longer\n");
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_politely(bytes in any::<Vec<u8>>()) {
            if let Ok(text) = decode(&bytes, "x") {
                prop_assert!(!text.contains('\r'));
            }
        }

        #[test]
        fn text_without_returns_and_nuls_is_kept(text in "[^\r\0\u{FEFF}]*") {
            prop_assert_eq!(decode(text.as_bytes(), "x").unwrap(), text);
        }
    }
}
