//! The list of a batch: what to say, line by line, each with its number and the settings of its own.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;

use crate::cli::cast::Sources;
use crate::error::{Error, Result};
use crate::models::Utterance;

mod rows;

/// One line of the list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Its number in the list, from 1; blank lines count, the header of a table does not.
    pub n: usize,
    /// What to say.
    pub text: String,
    /// The name of its file, where the template does not hold.
    pub name: Option<String>,
    /// Settings that differ from those of the command line.
    pub own: Own,
}

/// Settings of one line; what is `None` is as on the command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Own {
    /// `--voice`
    pub voice: Option<String>,
    /// `--style`
    pub style: Option<String>,
    /// `--seed`
    pub seed: Option<u64>,
    /// `--temperature`
    pub temperature: Option<f32>,
    /// `--top-k`
    pub top_k: Option<usize>,
    /// `--max-seconds`
    pub max_seconds: Option<f32>,
    /// `--cfg`
    pub cfg: Option<f32>,
    /// `--steps`
    pub steps: Option<usize>,
    /// `--reference`
    pub reference: Option<PathBuf>,
    /// `--prompt-audio` and `--prompt-text`
    pub prompt: Option<(PathBuf, String)>,
}

impl Own {
    /// The settings of the line, over those of the command line.
    pub fn over(&self, like: &Utterance) -> Utterance {
        Utterance {
            voice: self.voice.clone().or_else(|| like.voice.clone().filter(|_| !self.names_voice())),
            style: self.style.clone().or_else(|| like.style.clone()),
            temperature: self.temperature.or(like.temperature),
            top_k: self.top_k.or(like.top_k),
            max_seconds: self.max_seconds.or(like.max_seconds),
            cfg: self.cfg.or(like.cfg),
            solver_steps: self.steps.or(like.solver_steps),
            ..like.clone()
        }
    }
}

impl Own {
    /// Whether the line says who speaks; then nothing the command line says about that holds.
    fn names_voice(&self) -> bool {
        self.voice.is_some() || self.reference.is_some() || self.prompt.is_some()
    }

    /// The recordings of the line, else those of the command line. Names are meant from the list's `folder`, or from
    /// where the program runs if nothing is there.
    pub fn sources(&self, like: &Sources, folder: &Path) -> Sources {
        if !self.names_voice() {
            return like.clone();
        }
        let find =
            |path: &PathBuf| Some(folder.join(path)).filter(|path| path.exists()).unwrap_or_else(|| path.clone());
        Sources {
            saved: None,
            reference: self.reference.as_ref().map(find),
            prompt: self.prompt.as_ref().map(|(path, text)| (find(path), text.clone())),
        }
    }
}

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A line an utterance.
    Txt,
    /// A JSON object a line.
    Jsonl,
    /// A table with a header; cells may be quoted.
    Csv,
    /// A table with a header, tabs between the cells, no quoting.
    Tsv,
}

impl Form {
    /// The form that the name of the list tells.
    ///
    /// # Errors
    /// A form that is not read.
    pub fn of(list: &Path) -> Result<Self> {
        let ending = list.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
        let refuse = |hint: &str| {
            Err(Error::usage(format!("`{}`: a list ending in `.{ending}` is not read", list.display())).hint(hint))
        };
        match ending.as_str() {
            "" | "txt" | "text" | "lst" | "list" => Ok(Form::Txt),
            "jsonl" | "ndjson" => Ok(Form::Jsonl),
            "csv" => Ok(Form::Csv),
            "tsv" | "tab" => Ok(Form::Tsv),
            "json" => refuse("give an object a line, named `.jsonl`: `jq -c '.[]' FILE` writes it from an array"),
            _ => refuse("give a `.txt`, `.jsonl`, `.csv` or `.tsv` file, or say which it is with --form"),
        }
    }

    /// The lines; of plain text those that are not blank. `place` names the list in messages.
    ///
    /// # Errors
    /// The first line that is not of this form.
    pub fn lines(self, list: &str, place: &str) -> Result<Vec<Line>> {
        let mut lines = match self {
            Form::Txt => {
                let line = |(i, text): (usize, &str)| Line { n: i + 1, text: text.to_owned(), ..Line::default() };
                list.lines().enumerate().map(line).collect()
            }
            Form::Jsonl => rows::json(list, place)?,
            Form::Csv => rows::table(rows::csv(list, place)?, place)?,
            Form::Tsv => rows::table(rows::tsv(list), place)?,
        };
        for line in &mut lines {
            line.text = line.text.trim().to_owned();
        }
        // A blank line is layout; an object or a row whose text is empty is a mistake that must not go unseen.
        if self == Form::Txt {
            lines.retain(|line| !line.text.is_empty());
        }
        Ok(lines)
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

impl FromStr for Shard {
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
        let lines = Form::Txt.lines("one\n\n  three \n\t\nfive", "x").unwrap();
        let read: Vec<_> = lines.iter().map(|l| (l.n, l.text.as_str())).collect();
        assert_eq!(read, [(1, "one"), (3, "three"), (5, "five")]);
        assert_eq!(Form::Txt.lines("", "x").unwrap(), []);
    }

    #[test]
    fn forms_follow_the_name() {
        let of = |name: &str| Form::of(Path::new(name));
        assert_eq!(of("-").unwrap(), Form::Txt);
        assert_eq!(of("a/b.TXT").unwrap(), Form::Txt);
        assert_eq!((of("b.jsonl").unwrap(), of("b.csv").unwrap()), (Form::Jsonl, Form::Csv));
        assert_eq!(of("b.tsv").unwrap(), Form::Tsv);
        assert!(of("b.json").unwrap_err().cure().unwrap().contains("jq -c"));
        assert!(of("b.mp4").is_err());
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

    #[test]
    fn a_line_that_says_who_speaks_takes_nothing_of_that_from_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("here.wav"), "").unwrap();
        let like = Utterance { voice: Some("Ira".into()), ..Utterance::default() };
        let common = Sources { prompt: Some(("p.wav".into(), "Words.".into())), ..Sources::default() };
        let own = Own { reference: Some("here.wav".into()), ..Own::default() };
        assert_eq!(own.over(&like).voice, None);
        let found = Sources { reference: Some(folder.path().join("here.wav")), ..Sources::default() };
        assert_eq!(own.sources(&common, folder.path()), found);
        let own = Own { reference: Some("elsewhere.wav".into()), ..Own::default() };
        assert_eq!(own.sources(&common, folder.path()).reference.unwrap(), Path::new("elsewhere.wav"));
        assert_eq!(Own::default().sources(&common, folder.path()), common);
        assert_eq!(
            Own { voice: Some("Zoya".into()), ..Own::default() }.sources(&common, folder.path()),
            Sources::default()
        );
    }

    #[test]
    fn own_settings_go_before_shared_ones() {
        let like = Utterance { voice: Some("Ira".into()), top_k: Some(5), ..Utterance::default() };
        let own = Own { voice: Some("Zoya".into()), temperature: Some(0.5), ..Own::default() };
        let line = own.over(&like);
        assert_eq!((line.voice.as_deref(), line.temperature, line.top_k), (Some("Zoya"), Some(0.5), Some(5)));
    }
}
