//! Numbers in messages.

use std::fmt::Display;

/// "1 line", "2 lines".
pub fn count(number: impl Display, thing: &str) -> String {
    let number = number.to_string();
    let ending = if number == "1" { "" } else { "s" };
    format!("{number} {thing}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_alone() {
        assert_eq!([count(0, "line"), count(1, "line"), count(11, "line")], ["0 lines", "1 line", "11 lines"]);
    }
}
