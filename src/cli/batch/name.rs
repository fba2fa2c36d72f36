//! Output names of a batch: a template filled in for every line, refused before anything is spoken where two lines
//! would share a file or one would leave the folder.

use std::collections::HashMap;
use std::path::{Component, Path};
use std::str::FromStr;

use crate::error::{Error, Result};

/// `{n:04}` and the like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// The line's number with at least so many digits.
    Number(usize),
    Stem,
    Voice,
    Hash,
}

/// What a line fills the template with.
#[derive(Clone, Copy, Debug)]
pub struct Fill<'a> {
    /// The line's number.
    pub n: usize,
    /// The list's name without its ending.
    pub stem: &'a str,
    /// The voice that speaks.
    pub voice: &'a str,
    /// The beginning of the SHA-256 of the text, in hexadecimal.
    pub hash: &'a str,
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find(['{', '}']) {
            if !rest[open..].starts_with('{') {
                return Err("a `}` stands without its `{`".into());
            }
            let close = rest[open..].find('}').ok_or("a `{` stands without its `}`")? + open;
            if open > 0 {
                parts.push(Part::Literal(rest[..open].to_owned()));
            }
            parts.push(field(&rest[open + 1..close])?);
            rest = &rest[close + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Ok(Self(parts))
    }
}

fn field(name: &str) -> Result<Part, String> {
    match name {
        "n" => Ok(Part::Number(1)),
        "stem" => Ok(Part::Stem),
        "voice" => Ok(Part::Voice),
        "hash" => Ok(Part::Hash),
        _ => match name.strip_prefix("n:0").map(str::parse) {
            Some(Ok(width @ 1..=20)) => Ok(Part::Number(width)),
            _ => Err(format!("`{{{name}}}` is not known; {{n}}, {{n:04}}, {{stem}}, {{voice}} and {{hash}} are")),
        },
    }
}

impl Template {
    /// The file name of a line, with its ending.
    pub fn fill(&self, with: Fill<'_>) -> String {
        let mut name = String::new();
        for part in &self.0 {
            match part {
                Part::Literal(text) => name.push_str(text),
                Part::Number(width) => name.push_str(&format!("{:0width$}", with.n, width = *width)),
                Part::Stem => name.push_str(&safe(with.stem)),
                Part::Voice => name.push_str(&safe(with.voice)),
                Part::Hash => name.push_str(with.hash),
            }
        }
        file(&name)
    }
}

/// What is filled in names a file, never a folder.
fn safe(value: &str) -> String {
    value.chars().map(|c| if c == '/' || c == '\\' || c.is_control() { '_' } else { c }).collect()
}

/// What a name may end in; others get the first of them.
const ENDINGS: [&str; 2] = [".wav", ".flac"];

/// The file of a line with this name.
pub fn file(name: &str) -> String {
    let lower = name.to_lowercase();
    if ENDINGS.iter().any(|ending| lower.ends_with(ending)) { name.to_owned() } else { format!("{name}.wav") }
}

/// Checks all names of a batch, given with their lines' numbers.
///
/// # Errors
/// The first name that leaves the folder or that two lines share.
pub fn check<'a>(names: impl IntoIterator<Item = (usize, &'a str)>) -> Result<()> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (n, name) in names {
        let inside = Path::new(name).components().all(|c| matches!(c, Component::Normal(_)));
        if !inside || name.contains('\0') {
            return Err(Error::usage(format!("line {n}: the name `{name}` leads out of the output folder")));
        }
        if Path::new(name).file_stem().is_none_or(|stem| ENDINGS.iter().any(|ending| stem == *ending)) {
            return Err(Error::usage(format!("line {n}: its file has no name")).hint("give a name with --name"));
        }
        // Some file systems do not tell `A.wav` from `a.wav`.
        if let Some(first) = seen.insert(name.to_lowercase(), n) {
            return Err(Error::usage(format!("lines {first} and {n} would both be written to `{name}`"))
                .hint("make the names differ, for example with {n} in --name"));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn fill(template: &str) -> String {
        let with = Fill { n: 7, stem: "lines", voice: "Ira/Lo", hash: "abc123" };
        template.parse::<Template>().unwrap().fill(with)
    }

    #[test]
    fn fields() {
        assert_eq!(fill("{n:04}"), "0007.wav");
        assert_eq!(fill("{stem}-{n}-{voice}"), "lines-7-Ira_Lo.wav");
        assert_eq!(fill("a/{hash}.WAV"), "a/abc123.WAV");
        assert_eq!(fill("{n:01}"), "7.wav");
        assert_eq!((fill("{n}.flac"), fill("v1.{n}")), ("7.flac".into(), "v1.7.wav".into()));
    }

    #[test]
    fn wrong_templates() {
        for wrong in ["{", "}", "{n", "{m}", "{n:}", "{n:4}", "{n:0999}", "a}b{n}"] {
            assert!(wrong.parse::<Template>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn escapes_and_collisions_are_refused() {
        assert!(check([(1, "a.wav"), (2, "b/a.wav")]).is_ok());
        for name in ["../a.wav", "/a.wav", "a/../../b.wav", "a\0.wav", ".wav", ".flac", "./a.wav"] {
            assert!(check([(1, name)]).is_err(), "{name}");
        }
        let error = check([(1, "a.wav"), (2, "b.wav"), (5, "A.wav")]).unwrap_err().to_string();
        assert!(error.contains("lines 1 and 5"), "{error}");
    }
}
