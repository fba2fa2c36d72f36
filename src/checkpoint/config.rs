//! JSON settings that know which file they came from, so that a wrong value is named with file and key.

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Counts and sizes above this are damage: no checkpoint has two thousand million of anything.
const LARGEST_COUNT: u64 = i32::MAX as u64;

/// A JSON object of a checkpoint file. Keys with the value `null` count as absent.
#[derive(Clone, Debug)]
pub struct Config {
    /// For messages: the path of the file.
    place: String,
    /// For messages: `rope_parameters.` inside that object, empty at the top.
    prefix: String,
    values: Map<String, Value>,
}

impl Config {
    /// Parses the content of a file; `place` names it in messages.
    ///
    /// # Errors
    /// The content is not a JSON object.
    pub fn parse(place: &str, content: &[u8]) -> Result<Self> {
        if content.is_empty() {
            return Err(Error::new(format!("`{place}` is empty"))
                .hint("the download was interrupted: download the checkpoint again"));
        }
        if let Some(pointer) = super::pointer::explain(place, content) {
            return Err(pointer);
        }
        let value: Value = serde_json::from_slice(content).map_err(|cause| {
            Error::new(format!("`{place}` is not valid JSON: {cause}")).hint(
                "download the file again; JSON has no NaN and no Infinity, in case it was edited or written by hand",
            )
        })?;
        match value {
            Value::Object(values) => Ok(Self { place: place.to_owned(), prefix: String::new(), values }),
            other => Err(Error::new(format!("`{place}` should hold a JSON object, but holds {}", kind(&other)))
                .hint("download the file again")),
        }
    }

    /// The file, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The value as it stands, `null` included.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// The keys, in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// An error about `key`, in the form all getters use.
    pub fn wrong(&self, key: &str, why: impl std::fmt::Display) -> Error {
        Error::new(format!("`{}`: `{}{key}` {why}", self.place, self.prefix))
            .hint("the file is damaged or made for another model; download it again")
    }

    /// A count or size.
    ///
    /// # Errors
    /// Absent, negative, fractional or absurdly large.
    pub fn usize(&self, key: &str) -> Result<usize> {
        self.need(key, self.opt_usize(key)?)
    }

    /// A finite number.
    ///
    /// # Errors
    /// Absent, not a number or beyond the range of f32.
    pub fn f32(&self, key: &str) -> Result<f32> {
        self.need(key, self.opt_f32(key)?)
    }

    /// A finite number.
    ///
    /// # Errors
    /// Absent or not a number.
    pub fn f64(&self, key: &str) -> Result<f64> {
        self.need(key, self.opt_f64(key)?)
    }

    /// A truth value.
    ///
    /// # Errors
    /// Absent or of another kind.
    pub fn bool(&self, key: &str) -> Result<bool> {
        self.need(key, self.opt_bool(key)?)
    }

    /// A text.
    ///
    /// # Errors
    /// Absent or of another kind.
    pub fn str(&self, key: &str) -> Result<&str> {
        self.need(key, self.opt_str(key)?)
    }

    /// A list of texts.
    ///
    /// # Errors
    /// Absent or of another kind.
    pub fn strings(&self, key: &str) -> Result<Vec<String>> {
        self.need(key, self.opt_strings(key)?)
    }

    /// Like [`Config::usize`], where the key may be absent.
    ///
    /// # Errors
    /// The value is no count.
    pub fn opt_usize(&self, key: &str) -> Result<Option<usize>> {
        self.present(key).map(|value| count(value).map_err(|why| self.wrong(key, why))).transpose()
    }

    /// Like [`Config::f32`], where the key may be absent.
    ///
    /// # Errors
    /// The value is no number or beyond the range of f32.
    pub fn opt_f32(&self, key: &str) -> Result<Option<f32>> {
        let Some(wide) = self.opt_f64(key)? else { return Ok(None) };
        let value = wide as f32;
        if value.is_finite() {
            Ok(Some(value))
        } else {
            Err(self.wrong(key, format_args!("is {wide:e}, too large to compute with")))
        }
    }

    /// Like [`Config::f64`], where the key may be absent.
    ///
    /// # Errors
    /// The value is no number.
    pub fn opt_f64(&self, key: &str) -> Result<Option<f64>> {
        match self.present(key) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) if number.is_finite() => Ok(Some(number)),
                _ => Err(self.wrong(key, format_args!("should be a number, but is {}", kind(value)))),
            },
        }
    }

    /// Like [`Config::bool`], where the key may be absent.
    ///
    /// # Errors
    /// The value is of another kind.
    pub fn opt_bool(&self, key: &str) -> Result<Option<bool>> {
        match self.present(key) {
            None => Ok(None),
            Some(Value::Bool(truth)) => Ok(Some(*truth)),
            Some(other) => Err(self.wrong(key, format_args!("should be true or false, but is {}", kind(other)))),
        }
    }

    /// Like [`Config::str`], where the key may be absent.
    ///
    /// # Errors
    /// The value is of another kind.
    pub fn opt_str(&self, key: &str) -> Result<Option<&str>> {
        match self.present(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, format_args!("should be a text, but is {}", kind(other)))),
        }
    }

    /// Like [`Config::strings`], where the key may be absent.
    ///
    /// # Errors
    /// The value is no list of texts.
    pub fn opt_strings(&self, key: &str) -> Result<Option<Vec<String>>> {
        self.opt_list(key, |value| {
            value.as_str().map(str::to_owned).ok_or_else(|| format!("should be a text, but is {}", kind(value)))
        })
    }

    /// A list of counts; the key may be absent.
    ///
    /// # Errors
    /// The value is no list of counts.
    pub fn opt_usizes(&self, key: &str) -> Result<Option<Vec<usize>>> {
        self.opt_list(key, count)
    }

    /// An object inside this one; the key may be absent.
    ///
    /// # Errors
    /// The value is of another kind.
    pub fn object(&self, key: &str) -> Result<Option<Config>> {
        match self.present(key) {
            None => Ok(None),
            Some(Value::Object(values)) => Ok(Some(Config {
                place: self.place.clone(),
                prefix: format!("{}{key}.", self.prefix),
                values: values.clone(),
            })),
            Some(other) => Err(self.wrong(key, format_args!("should be an object, but is {}", kind(other)))),
        }
    }

    fn present(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    fn need<T>(&self, key: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.wrong(key, "is missing"))
    }

    fn opt_list<T>(&self, key: &str, read: impl Fn(&Value) -> Result<T, String>) -> Result<Option<Vec<T>>> {
        let items = match self.present(key) {
            None => return Ok(None),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(self.wrong(key, format_args!("should be a list, but is {}", kind(other)))),
        };
        let read = |(at, item)| read(item).map_err(|why| self.wrong(&format!("{key}[{at}]"), why));
        items.iter().enumerate().map(read).collect::<Result<_>>().map(Some)
    }
}

/// A count; `8.0` is accepted, as some writers turn whole numbers into floats.
fn count(value: &Value) -> Result<usize, String> {
    let whole = match (value.as_u64(), value.as_f64()) {
        (Some(number), _) => Some(number),
        // Above 2^53 an f64 is no longer a count, and the limit is below that anyway.
        (None, Some(number)) if number.fract() == 0.0 && (0.0..=9e15).contains(&number) => Some(number as u64),
        _ => None,
    };
    match whole {
        Some(number) if number <= LARGEST_COUNT => Ok(number as usize),
        Some(number) => Err(format!("is {number}, which is absurdly large")),
        None => Err(format!("should be a whole number of 0 or more, but is {}", kind(value))),
    }
}

/// What a value is, short enough for a message.
fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.chars().count() <= 40 => format!("the text `{text}`"),
        Value::String(_) => "a long text".to_owned(),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse("dir/config.json", text.as_bytes()).unwrap()
    }

    #[test]
    fn reads_every_kind() {
        let c = config(
            r#"{"n": 8, "whole": 8.0, "x": 1e-5, "yes": true, "name": "é", "list": ["a", "b"], "sizes": [8, 6],
                "inner": {"theta": 50000}, "nothing": null}"#,
        );
        assert_eq!((c.usize("n").unwrap(), c.usize("whole").unwrap()), (8, 8));
        assert_eq!((c.f32("x").unwrap(), c.f64("n").unwrap()), (1e-5, 8.0));
        assert!(c.bool("yes").unwrap());
        assert_eq!(c.str("name").unwrap(), "é");
        assert_eq!(c.strings("list").unwrap(), ["a", "b"]);
        assert_eq!(c.opt_usizes("sizes").unwrap().unwrap(), [8, 6]);
        assert_eq!(c.object("inner").unwrap().unwrap().f32("theta").unwrap(), 50000.0);
        assert!(c.opt_usize("nothing").unwrap().is_none() && c.opt_str("absent").unwrap().is_none());
        assert!(c.value("nothing").unwrap().is_null());
    }

    #[test]
    fn wrong_values_are_named_with_file_and_key() {
        let c = config(
            r#"{"neg": -1, "half": 0.5, "huge": 18446744073709551615, "big": 1e300, "s": "x", "list": [1, "x"],
                "inner": {"theta": "no"}}"#,
        );
        let errors = [
            (c.usize("absent").unwrap_err(), "`absent` is missing"),
            (c.usize("neg").unwrap_err(), "-1"),
            (c.usize("half").unwrap_err(), "0.5"),
            (c.usize("huge").unwrap_err(), "18446744073709551615"),
            (c.usize("big").unwrap_err(), "1e+300"),
            (c.f32("big").unwrap_err(), "1e300"),
            (c.f32("s").unwrap_err(), "the text `x`"),
            (c.bool("s").unwrap_err(), "true or false"),
            (c.strings("list").unwrap_err(), "`list[0]`"),
            (c.opt_usizes("list").unwrap_err(), "`list[1]`"),
            (c.object("s").unwrap_err(), "an object"),
            (c.object("inner").unwrap().unwrap().f32("theta").unwrap_err(), "`inner.theta`"),
        ];
        for (error, part) in errors {
            let text = error.to_string();
            assert!(text.contains("dir/config.json") && text.contains(part), "{text} lacks {part}");
        }
    }

    #[test]
    fn damage_is_named() {
        let cases: [(&[u8], &str); 5] = [
            (b"", "is empty"),
            (b"{\"a\": NaN}", "not valid JSON"),
            (b"[1]", "a list of 1"),
            (b"\xff\xfe", "not valid JSON"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "Git LFS"),
        ];
        for (content, part) in cases {
            let text = Config::parse("dir/config.json", content).unwrap_err().to_string();
            assert!(text.contains("dir/config.json") && text.contains(part), "{text} lacks {part}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let text = "[".repeat(100_000);
        assert!(Config::parse("c", text.as_bytes()).is_err());
    }
}
