//! Text from arguments, a file or stdin: UTF-8, with the byte-order mark taken off and what cannot be text refused.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use crate::error::{Error, Result};

/// The name of stdin where a file is expected.
pub const STDIN: &str = "-";

/// The most that is read as text; more is a mistake, such as a video given as a list.
const LIMIT: u64 = 64 << 20;

/// The text of `path`, `-` being stdin.
///
/// # Errors
/// A file that cannot be read or holds no UTF-8 text.
pub fn read(path: &Path) -> Result<String> {
    if path.as_os_str() == STDIN {
        return stdin();
    }
    let name = format!("`{}`", path.display());
    let file = fs::File::open(path).map_err(|e| Error::io("cannot read", path, &e))?;
    let bytes = all(file).map_err(|e| Error::io("cannot read", path, &e))?;
    decode(bytes, &name)
}

/// All text of stdin.
///
/// # Errors
/// Where it cannot be read or holds no UTF-8 text.
pub fn stdin() -> Result<String> {
    let bytes = all(io::stdin().lock()).map_err(|e| Error::new(format!("cannot read stdin: {e}")))?;
    decode(bytes, "stdin")
}

/// Whether somebody would have to type what is read from stdin.
pub fn stdin_is_terminal() -> bool {
    io::stdin().is_terminal()
}

fn all(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT {
        return Err(io::Error::other(format!("it holds more than {} MiB, too much for text", LIMIT >> 20)));
    }
    Ok(bytes)
}

/// `name` stands for the source in messages.
fn decode(bytes: Vec<u8>, name: &str) -> Result<String> {
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return Err(Error::new(format!("{name} is UTF-16, not UTF-8"))
            .hint("convert it with `iconv -f UTF-16 -t UTF-8`, or save it as UTF-8"));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|b| **b == b'\n').count();
        Error::new(format!("{name}, line {line}: not UTF-8 text"))
            .hint("convert it, for example with `iconv -f LATIN1 -t UTF-8`")
    })?;
    Ok(match text.strip_prefix('\u{FEFF}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_off() {
        assert_eq!(decode(b"\xEF\xBB\xBFone\r\ntwo".to_vec(), "x").unwrap(), "one\r\ntwo");
        assert_eq!(decode(Vec::new(), "x").unwrap(), "");
    }

    #[test]
    fn what_is_no_text_is_named() {
        let error = decode(b"one\ntwo\nth\xE9\n".to_vec(), "`list.txt`").unwrap_err();
        assert_eq!(error.to_string(), "`list.txt`, line 3: not UTF-8 text");
        let error = decode(b"\xFF\xFEo\0n\0".to_vec(), "stdin").unwrap_err();
        assert!(error.to_string().contains("UTF-16"));
    }
}
