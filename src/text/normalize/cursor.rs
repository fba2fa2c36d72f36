//! A reading position for the rules: takes digits, words and literals off the front of a text.

use super::fold::is_letter;
use super::numbers::Number;

/// The text still to read. Copying it is how a rule looks ahead.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a str,
    whole: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text, whole: text.len() }
    }

    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// Bytes read since the start.
    pub(super) fn read(&self) -> usize {
        self.whole - self.rest.len()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub(super) fn eat(&mut self, literal: &str) -> bool {
        let found = self.rest.strip_prefix(literal);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    /// The first of `chars` that comes next.
    pub(super) fn eat_any(&mut self, chars: &[char]) -> Option<char> {
        let c = self.peek().filter(|c| chars.contains(c))?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    /// At most one space: rules look over one, not over a gap.
    pub(super) fn space(&mut self) -> bool {
        self.eat(" ")
    }

    /// One or more ASCII digits.
    pub(super) fn digits(&mut self) -> Option<&'a str> {
        self.take(|c| c.is_ascii_digit())
    }

    /// `least..=most` digits, and no further one behind them, as a number.
    pub(super) fn figure(&mut self, least: usize, most: usize) -> Option<u64> {
        let mut ahead = *self;
        let digits = ahead.digits().filter(|digits| (least..=most).contains(&digits.len()))?;
        *self = ahead;
        digits.parse().ok()
    }

    /// One or more ASCII letters.
    pub(super) fn letters(&mut self) -> Option<&'a str> {
        self.take(|c| c.is_ascii_alphabetic())
    }

    /// A number in digits: `1984`, `1,234.5`, `12,34,567`, `.5`.
    pub(super) fn number(&mut self) -> Option<Number> {
        let (number, length) = Number::read(self.rest)?;
        self.rest = &self.rest[length..];
        Some(number)
    }

    /// Neither a letter nor a digit comes next.
    pub(super) fn word_ends(&self) -> bool {
        !self.peek().is_some_and(|c| is_letter(c) || c.is_numeric())
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> Option<&'a str> {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!taken.is_empty()).then_some(taken)
    }
}
