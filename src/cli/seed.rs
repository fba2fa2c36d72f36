//! Seeds: drawn where none is given, and derived for the pieces of a text and the lines of a batch.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::compute::random::{Purpose, words};

/// A fresh seed, short enough to be read aloud and exact in any JSON reader.
pub fn draw() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish() >> 32
}

/// The seed of piece `i`, from 0, of a text with `seed`. Piece 0 has the text's own.
pub fn of_piece(seed: u64, i: usize) -> u64 {
    derive(seed, i, Purpose::Token)
}

/// The seed of line `n`, from 1, of a batch with `seed`. Line 1 has the batch's own.
pub fn of_line(seed: u64, n: usize) -> u64 {
    derive(seed, n.saturating_sub(1), Purpose::Noise)
}

fn derive(seed: u64, i: usize, purpose: Purpose) -> u64 {
    if i == 0 {
        return seed;
    }
    // A model numbers its steps from 0, so it never meets the numbers of the last step.
    u64::from(words(seed, u32::MAX, purpose, i as u32)[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn derived_seeds_repeat_and_differ() {
        assert_eq!((of_piece(7, 0), of_line(7, 1)), (7, 7));
        let pieces = (1..1000).map(|i| of_piece(7, i));
        let lines = (2..1001).map(|n| of_line(7, n));
        assert_eq!(pieces.chain(lines).collect::<HashSet<_>>().len(), 1998);
        assert_eq!(of_piece(7, 3), of_piece(7, 3));
        assert_ne!(of_piece(7, 3), of_piece(8, 3));
    }

    #[test]
    fn drawn_seeds_are_short_and_differ() {
        assert!(draw() <= u64::from(u32::MAX));
        assert_ne!(draw(), draw());
    }
}
