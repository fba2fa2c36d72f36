//! The list of a batch: what to say, line by line, each with its number in the list.

use std::path::Path;

use crate::error::{Error, Result};

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number in the list, from 1; lines without text count.
    pub n: usize,
    /// What to say.
    pub text: String,
}

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line an utterance.
    Text,
}

impl Form {
    /// The form that the name of the list tells.
    ///
    /// # Errors
    /// A form that is not read.
    pub fn of(list: &Path) -> Result<Self> {
        let extension = list.extension().map(|e| e.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            None | Some("txt" | "text" | "lst" | "list") => Ok(Form::Text),
            Some(other) => Err(Error::usage(format!("`{}`: a list of the form `{other}` is not read", list.display()))
                .hint("give a text file with a line an utterance, named `.txt`")),
        }
    }

    /// The lines that have text.
    pub fn lines(self, list: &str) -> Vec<Line> {
        match self {
            Form::Text => list
                .lines()
                .enumerate()
                .filter(|(_, text)| !text.trim().is_empty())
                .map(|(i, text)| Line { n: i + 1, text: text.trim().to_owned() })
                .collect(),
        }
    }
}

/// Every `of`-th line, the first being the `index`-th: one part of a list for one of several machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    of: usize,
}

impl Shard {
    /// Whether line `n` of the list belongs to this part.
    pub fn holds(self, n: usize) -> bool {
        n % self.of == self.index % self.of
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(i, of)| Some((i.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Self { index, of }),
            _ => Err("I/N with I from 1 to N is needed, for example 2/8".into()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_keep_their_number() {
        let lines = Form::Text.lines("one\n\n  three \n\t\nfive");
        let read: Vec<_> = lines.iter().map(|l| (l.n, l.text.as_str())).collect();
        assert_eq!(read, [(1, "one"), (3, "three"), (5, "five")]);
        assert_eq!(Form::Text.lines(""), []);
    }

    #[test]
    fn forms_follow_the_name() {
        assert_eq!(Form::of(Path::new("-")).unwrap(), Form::Text);
        assert_eq!(Form::of(Path::new("a/b.TXT")).unwrap(), Form::Text);
        assert!(Form::of(Path::new("b.mp4")).is_err());
    }

    #[test]
    fn shards_share_all_lines_out() {
        let shards: Vec<Shard> = (1..=3).map(|i| format!("{i}/3").parse().unwrap()).collect();
        for n in 1..30 {
            assert_eq!(shards.iter().filter(|s| s.holds(n)).count(), 1);
        }
        assert!(shards[0].holds(1) && shards[1].holds(2) && shards[2].holds(3));
        for wrong in ["0/3", "4/3", "1", "a/b", "1/0"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
