//! Text from a file or stdin.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use crate::error::{Error, Result};
use crate::text;

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
    let failed = |e: io::Error| {
        let error = Error::io("cannot read", path, &e);
        match e.kind() {
            io::ErrorKind::NotFound => error.hint("check the path; `-` reads stdin"),
            io::ErrorKind::IsADirectory => error.hint("name a file in it"),
            _ => error,
        }
    };
    let bytes = fs::File::open(path).and_then(all).map_err(failed)?;
    text::decode(&bytes, &path.to_string_lossy())
}

/// All text of stdin.
///
/// # Errors
/// Where it cannot be read or holds no UTF-8 text.
pub fn stdin() -> Result<String> {
    let bytes = all(io::stdin().lock()).map_err(|e| Error::new(format!("cannot read stdin: {e}")))?;
    text::decode(&bytes, "stdin")
}

/// Checks that writing `output` leaves the input alone; either may not be there.
///
/// # Errors
/// Both are one file.
pub fn check_output(input: &Path, output: &Path) -> Result<()> {
    if input.as_os_str() == STDIN {
        return Ok(());
    }
    match (fs::canonicalize(input), fs::canonicalize(output)) {
        (Ok(from), Ok(to)) if from == to && from.is_file() => {
            Err(Error::usage(format!("`{}`: input and output are the same file", input.display()))
                .hint("choose another name for the output"))
        }
        _ => Ok(()),
    }
}

/// Whether somebody would have to type what is read from stdin.
pub fn stdin_is_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Whether stdout goes into a file or a pipe, where somebody may wait for audio.
pub fn stdout_is_redirected() -> bool {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        use std::os::unix::fs::FileTypeExt;
        let Ok(copy) = io::stdout().as_fd().try_clone_to_owned() else { return false };
        fs::File::from(copy).metadata().is_ok_and(|out| out.is_file() || out.file_type().is_fifo())
    }
    #[cfg(not(unix))]
    false
}

fn all(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT {
        return Err(io::Error::other(format!("it holds more than {} MiB, too much for text", LIMIT >> 20)));
    }
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn endless_input_is_refused() {
        assert_eq!(all(&b"text"[..]).unwrap(), b"text");
        assert!(all(io::repeat(b'a')).unwrap_err().to_string().contains("64 MiB"));
    }
}
