//! Numbers for people.

/// `2.81 G`: a count.
pub fn count(value: u64) -> String {
    match value {
        0..10_000 => value.to_string(),
        10_000..1_000_000 => format!("{:.1} k", value as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", value as f64 / 1e6),
        _ => format!("{:.2} G", value as f64 / 1e9),
    }
}

/// `1.65 GB`: decimal, as memory bandwidth is.
pub fn bytes(value: u64) -> String {
    match value {
        0..10_000 => format!("{value} B"),
        10_000..1_000_000 => format!("{:.1} kB", value as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", value as f64 / 1e6),
        _ => format!("{:.2} GB", value as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            (count(9_999), count(277_404), count(3_381_533_697)),
            ("9999".into(), "277.4 k".into(), "3.38 G".into())
        );
        assert_eq!(
            (bytes(512), bytes(73_728), bytes(1_651_281_000)),
            ("512 B".into(), "73.7 kB".into(), "1.65 GB".into())
        );
    }
}
