//! Tensor names for people: long lists become runs such as `model.layers.{0..35}.mlp.up_proj.weight`.

use std::collections::{BTreeMap, BTreeSet};

/// How many names or runs a list may show.
const LONGEST: usize = 8;

/// The names, shortened, in backticks, with the count where runs hide it.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.into_iter().collect();
    let runs = runs(&names);
    let mut shown: Vec<String> = runs.iter().take(LONGEST).map(|run| format!("`{run}`")).collect();
    if runs.len() > LONGEST {
        shown.push(format!("and {} more like these", runs.len() - LONGEST));
    }
    let text = shown.join(", ");
    if runs.len() == names.len() && runs.len() <= LONGEST { text } else { format!("{text} ({} in all)", names.len()) }
}

/// Names that differ in their first number only become one.
pub fn runs(names: &BTreeSet<&str>) -> Vec<String> {
    let mut groups: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    let mut out = Vec::new();
    for name in names {
        match split(name) {
            Some((before, number, after)) => groups.entry((before, after)).or_default().push(number),
            None => out.push((*name).to_owned()),
        }
    }
    for ((before, after), mut numbers) in groups {
        numbers.sort_unstable();
        out.push(match numbers.as_slice() {
            [one] => format!("{before}{one}{after}"),
            many => format!("{before}{{{}}}{after}", ranges(many)),
        });
    }
    out.sort();
    out
}

/// Around the first dotted part that is a number.
fn split(name: &str) -> Option<(&str, usize, &str)> {
    let mut start = 0;
    for part in name.split('.') {
        let end = start + part.len();
        if part.bytes().all(|b| b.is_ascii_digit())
            && let Ok(number) = part.parse()
        {
            return Some((&name[..start], number, &name[end..]));
        }
        start = end + 1;
    }
    None
}

/// `0..3,7` for 0, 1, 2, 3, 7; `numbers` ascend.
fn ranges(numbers: &[usize]) -> String {
    numbers
        .chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [first, _, .., last] => format!("{first}..{last}"),
            few => few.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
        })
        .collect::<Vec<_>>()
        .join(",")
}

/// Does `name` fit `glob`, where `*` stands for anything?
pub fn fits(glob: &str, name: &str) -> bool {
    let mut parts = glob.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_shortened() {
        let names: Vec<String> = (0..36).map(|i| format!("model.layers.{i}.mlp.up_proj.weight")).collect();
        assert_eq!(list(names.iter().map(String::as_str)), "`model.layers.{0..35}.mlp.up_proj.weight` (36 in all)");
        assert_eq!(list(["a.0.b", "a.1.b", "a.4.b", "c", "d.7"]), "`a.{0,1,4}.b`, `c`, `d.7` (5 in all)");
        assert_eq!(list(["x", "y"]), "`x`, `y`");
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..20).map(|i| format!("name{i:02}")).collect();
        let text = list(names.iter().map(String::as_str));
        assert!(text.starts_with("`name00`") && text.ends_with("and 12 more like these (20 in all)"), "{text}");
    }

    #[test]
    fn a_number_too_large_is_part_of_the_name() {
        assert_eq!(list(["a.99999999999999999999999.b"]), "`a.99999999999999999999999.b`");
    }

    #[test]
    fn globs() {
        assert!(fits("codec/encoder*", "codec/encoder.layers.0.conv.weight"));
        assert!(fits("*.k_scale", "model.layers.0.self_attn.k_scale"));
        assert!(fits("a*b*c", "a.b.b.c") && fits("*", "") && fits("ab", "ab"));
        assert!(!fits("ab", "abc") && !fits("a*a", "a") && !fits("*.k_scale", "k_scale") && !fits("b*", "ab"));
    }
}
