//! What a batch will come to: length, size and, where lines of it were spoken before, time.

use std::collections::HashMap;
use std::fmt;

use indicatif::HumanBytes;
use serde::Serialize;

use super::manifest::Entry;
use super::plan::Task;

/// Letters spoken in a second where nothing was measured; most languages in letters are near it.
const USUAL_PACE: f64 = 14.0;

/// About as much as that letter takes a sign of a script that writes syllables or words.
const SIGN: f64 = 3.0;

/// An estimate, rough as it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Seconds of audio.
    seconds: f64,
    /// Bytes of all files.
    bytes: f64,
    /// Seconds of work, where lines of this folder tell how fast this machine is.
    wall: Option<f64>,
}

impl Estimate {
    /// For `tasks`, with what is `known` of lines that were spoken; `usual` is the size of a second of audio in bytes
    /// where none was.
    pub fn of(tasks: &[Task], known: &HashMap<String, Entry>, usual: f64) -> Self {
        let spoken = || known.values().filter(|entry| entry.error.is_none());
        let sum = |value: &dyn Fn(&Entry) -> f64| spoken().map(value).sum::<f64>();
        let (seconds, letters) = (sum(&|e| e.seconds.unwrap_or(0.0)), sum(&|e| weight(&e.text)));
        let bytes = sum(&|e| e.bytes.unwrap_or(0) as f64);
        let measured = seconds > 0.0 && letters > 0.0;
        let per_letter = if measured { seconds / letters } else { 1.0 / USUAL_PACE };
        let size = if measured && bytes > 0.0 { bytes / seconds } else { usual };
        let speeds: Vec<f64> = spoken().filter_map(|entry| entry.speed).filter(|speed| *speed > 0.0).collect();
        let speed = (!speeds.is_empty()).then(|| speeds.iter().sum::<f64>() / speeds.len() as f64);

        let seconds = per_letter * tasks.iter().map(|task| weight(&task.text)).sum::<f64>();
        Self { seconds, bytes: seconds * size, wall: speed.map(|speed| seconds / speed) }
    }
}

/// How many letters a text is worth.
fn weight(text: &str) -> f64 {
    let sign = |c: char| matches!(c, '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}');
    text.chars().map(|c| if sign(c) { SIGN } else { 1.0 }).sum()
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.seconds == 0.0 {
            return Ok(());
        }
        write!(f, "; about {} of audio, {}", length(self.seconds), HumanBytes(self.bytes as u64))?;
        match self.wall {
            Some(wall) => write!(f, ", in about {} at the speed of the lines spoken so far", length(wall)),
            None => Ok(()),
        }
    }
}

/// `12 s`, `3 min 20 s`, `2 h 5 min`
fn length(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{} s", whole.max(1)),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::cast::Sources;
    use crate::models::Utterance;

    fn task(text: &str) -> Task {
        let like = Utterance::default();
        Task {
            n: 1,
            text: text.into(),
            file: "1.wav".into(),
            like,
            sources: Sources::default(),
            key: String::new(),
            refused: None,
        }
    }

    #[test]
    fn without_measurements_letters_count() {
        let estimate = Estimate::of(&[task(&"a".repeat(1400))], &HashMap::new(), 48_000.0);
        assert_eq!(estimate.to_string(), "; about 1 min 40 s of audio, 4.58 MiB");
        let signs = Estimate::of(&[task("今天天气很好")], &HashMap::new(), 48_000.0);
        assert!((1.0..2.0).contains(&signs.seconds), "{signs:?}");
        assert_eq!(Estimate::of(&[], &HashMap::new(), 48_000.0).to_string(), "");
    }

    #[test]
    fn earlier_lines_tell_pace_size_and_time() {
        let entry = |text: &str, seconds, speed| Entry {
            text: text.into(),
            seconds: Some(seconds),
            bytes: Some((seconds * 1e6) as u64),
            speed: Some(speed),
            ..Entry::default()
        };
        let failed = Entry { error: Some("no".into()), text: "x".repeat(99), ..Entry::default() };
        let known = [entry("12345", 5.0, 2.0), entry("1234567890", 10.0, 4.0), failed];
        let known = known.into_iter().enumerate().map(|(i, e)| (i.to_string(), e)).collect();
        let estimate = Estimate::of(&[task("123456789"), task("123456789")], &known, 1.0);
        assert_eq!(
            estimate.to_string(),
            "; about 18 s of audio, 17.17 MiB, in about 6 s at the speed of the lines spoken so far"
        );
    }

    #[test]
    fn lengths_for_people() {
        assert_eq!(
            [length(0.2), length(59.0), length(200.0), length(7500.0)],
            ["1 s", "59 s", "3 min 20 s", "2 h 5 min"]
        );
    }
}
