//! Numbers in words: cardinals, ordinals, years, decimals, digit by digit.
//!
//! Crates for this exist; `num2words` 1.2 was tried and left: "and" appears in `1,234,567` but not in `101`, and it
//! counts in floating point.

const ONES: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 10] = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const SCALES: [(u64, &str); 6] = [
    (1_000_000_000_000_000_000, "quintillion"),
    (1_000_000_000_000_000, "quadrillion"),
    (1_000_000_000_000, "trillion"),
    (1_000_000_000, "billion"),
    (1_000_000, "million"),
    (1_000, "thousand"),
];

/// `1205` is "one thousand two hundred five".
pub(super) fn cardinal(n: u64) -> String {
    let name = |table: &[&str], i: u64| table.get(i as usize).copied().unwrap_or_default().to_owned();
    if n < 20 {
        return name(&ONES, n);
    }
    if n < 100 {
        return join(name(&TENS, n / 10), '-', n % 10);
    }
    if n < 1000 {
        return join(format!("{} hundred", cardinal(n / 100)), ' ', n % 100);
    }
    let (size, scale) = SCALES.into_iter().find(|&(size, _)| n >= size).unwrap_or((1000, "thousand"));
    join(format!("{} {scale}", cardinal(n / size)), ' ', n % size)
}

fn join(head: String, between: char, rest: u64) -> String {
    if rest == 0 { head } else { format!("{head}{between}{}", cardinal(rest)) }
}

/// `22` is "twenty-second".
pub(super) fn ordinal(n: u64) -> String {
    let words = cardinal(n);
    let cut = words.rfind([' ', '-']).map_or(0, |i| i + 1);
    let (head, last) = words.split_at(cut);
    let last = match last {
        "one" => "first".to_owned(),
        "two" => "second".to_owned(),
        "three" => "third".to_owned(),
        "five" => "fifth".to_owned(),
        "eight" => "eighth".to_owned(),
        "nine" => "ninth".to_owned(),
        "twelve" => "twelfth".to_owned(),
        _ => last.strip_suffix('y').map_or_else(|| format!("{last}th"), |stem| format!("{stem}ieth")),
    };
    format!("{head}{last}")
}

/// `1984` is "nineteen eighty-four", `2005` "two thousand five", `1900` "nineteen hundred".
pub(super) fn year(n: u64) -> String {
    let (century, rest) = (n / 100, n % 100);
    match (century, rest) {
        (0..10 | 100.., _) => cardinal(n),
        (_, 0) if century % 10 == 0 => cardinal(n),
        (20, 1..10) => cardinal(n),
        (_, 0) => format!("{} hundred", cardinal(century)),
        (_, 1..10) => format!("{} oh {}", cardinal(century), cardinal(rest)),
        _ => format!("{} {}", cardinal(century), cardinal(rest)),
    }
}

/// Digit by digit: `007` is "zero zero seven".
pub(super) fn spell(digits: &str) -> String {
    let words: Vec<String> = digits.chars().filter_map(|c| c.to_digit(10)).map(|d| cardinal(u64::from(d))).collect();
    words.join(" ")
}

/// "cities" of "city", "feet" of "foot": the plurals this program needs.
pub(super) fn plural(word: &str) -> String {
    match word.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o'])) {
        Some(stem) => format!("{stem}ies"),
        None if word.ends_with(['x', 's']) || word.ends_with("ch") => format!("{word}es"),
        None => format!("{word}s"),
    }
}

/// A number as it stands in the text.
pub(super) struct Number {
    /// Digits before the point, without separators; empty for `.5`.
    pub(super) whole: String,
    /// Digits after the point.
    pub(super) fraction: Option<String>,
    /// Thousands were separated: a quantity, never a year or a code.
    pub(super) grouped: bool,
}

impl Number {
    /// The number `text` starts with, and its length in bytes.
    pub(super) fn read(text: &str) -> Option<(Self, usize)> {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let plain = digits(text);
        let grouped = grouped_length(text).filter(|&length| length > plain).or_else(|| spaced_length(text));
        let length = grouped.unwrap_or(plain);
        let whole: String = text[..length].chars().filter(char::is_ascii_digit).collect();
        let decimals = text[length..].strip_prefix('.').map_or(0, digits);
        let fraction = (decimals > 0).then(|| text[length + 1..length + 1 + decimals].to_owned());
        if whole.is_empty() && fraction.is_none() {
            return None;
        }
        let length = length + fraction.as_ref().map_or(0, |digits| digits.len() + 1);
        Some((Self { whole, fraction, grouped: grouped.is_some() }, length))
    }

    /// As a quantity; leading zeros and what is too long for names are read digit by digit.
    pub(super) fn words(&self) -> String {
        let whole = match self.whole.parse() {
            Ok(n) if self.whole.len() == 1 || !self.whole.starts_with('0') => cardinal(n),
            _ => spell(&self.whole),
        };
        match &self.fraction {
            Some(digits) if whole.is_empty() => format!("point {}", spell(digits)),
            Some(digits) => format!("{whole} point {}", spell(digits)),
            None => whole,
        }
    }

    /// Exactly one, so that the unit stays singular.
    pub(super) fn is_one(&self) -> bool {
        self.whole == "1" && self.fraction.is_none()
    }

    /// The value of a plain whole number.
    pub(super) fn integer(&self) -> Option<u64> {
        self.whole.parse().ok().filter(|_| self.fraction.is_none())
    }
}

/// Length of a number with separated thousands: `1,234,567` or, as in India, `12,34,567`.
fn grouped_length(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == ',')).unwrap_or(text.len());
    let figures = text[..end].trim_end_matches(',');
    let groups: Vec<&str> = figures.split(',').collect();
    let (first, rest) = groups.split_first()?;
    let (last, middle) = rest.split_last()?;
    let fits = (1..=3).contains(&first.len()) && last.len() == 3;
    let even = middle.iter().all(|group| group.len() == 3) || middle.iter().all(|group| group.len() == 2);
    (fits && even && !first.starts_with('0')).then_some(figures.len())
}

/// Length of a number with spaces between its thousands: `12 345 678`. Two groups at least, or it may be two numbers.
fn spaced_length(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == ' ')).unwrap_or(text.len());
    let mut groups = text[..end].trim_end().split(' ');
    let first = groups.next().filter(|first| (1..=2).contains(&first.len()) && !first.starts_with('0'))?;
    let rest: Vec<&str> = groups.collect();
    (rest.len() > 1 && rest.iter().all(|group| group.len() == 3)).then(|| first.len() + 4 * rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cardinals_and_ordinals() {
        for (n, words, nth) in [
            (0, "zero", "zeroth"),
            (3, "three", "third"),
            (12, "twelve", "twelfth"),
            (20, "twenty", "twentieth"),
            (42, "forty-two", "forty-second"),
            (100, "one hundred", "one hundredth"),
            (205, "two hundred five", "two hundred fifth"),
            (1_000_000, "one million", "one millionth"),
            (1_234_567, "one million two hundred thirty-four thousand five hundred sixty-seven", ""),
            (
                u64::MAX,
                "eighteen quintillion four hundred forty-six quadrillion seven hundred forty-four trillion \
              seventy-three billion seven hundred nine million five hundred fifty-one thousand six hundred fifteen",
                "",
            ),
        ] {
            assert_eq!(cardinal(n), words);
            assert!(nth.is_empty() || ordinal(n) == nth, "{}", ordinal(n));
        }
    }

    #[test]
    fn years() {
        for (n, words) in [
            (1066, "ten sixty-six"),
            (1900, "nineteen hundred"),
            (1905, "nineteen oh five"),
            (1984, "nineteen eighty-four"),
            (2000, "two thousand"),
            (2005, "two thousand five"),
            (2026, "twenty twenty-six"),
            (2100, "twenty-one hundred"),
            (476, "four hundred seventy-six"),
            (12_000, "twelve thousand"),
        ] {
            assert_eq!(year(n), words);
        }
    }

    #[test]
    fn numbers_are_read_with_their_separators() {
        for (text, length, words) in [
            ("1,234 x", 5, "one thousand two hundred thirty-four"),
            ("12,34,567", 9, "twelve lakh"),
            ("1 000 000 x", 9, "one million"),
            ("1 800 555 0199", 1, "one"),
            ("5 100", 1, "five"),
            ("1,23", 1, "one"),
            ("3.14.", 4, "three point one four"),
            (".5", 2, "point five"),
            ("7.", 1, "seven"),
            ("007", 3, "zero zero seven"),
            ("0.5", 3, "zero point five"),
        ] {
            let read = Number::read(text).map(|(number, length)| (number.words(), length));
            let words = if words == "twelve lakh" { cardinal(1_234_567) } else { words.to_owned() };
            assert_eq!(read, Some((words, length)), "{text}");
        }
        assert!(Number::read(".").is_none());
        assert!(Number::read("x").is_none());
    }
}
