//! Seeds: drawn where none is given, and derived for the pieces of a text and the lines of a batch.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::compute::random::{Purpose, words};

/// A fresh seed, short enough to be read aloud and exact in any JSON reader.
pub fn draw() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish() >> 32
}

/// The seed of piece `i` of what was asked for with `seed`. Piece 0 is `seed` itself, so that a reported seed repeats
/// what it was reported for.
pub fn derive(seed: u64, i: usize) -> u64 {
    if i == 0 {
        return seed;
    }
    // Step and index of this use never meet those of the models: a model numbers its steps from 0.
    let word = words(seed, u32::MAX, Purpose::Token, i as u32);
    u64::from(word[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn derived_seeds_repeat_and_differ() {
        assert_eq!(derive(7, 0), 7);
        let seeds: HashSet<u64> = (0..1000).map(|i| derive(7, i)).collect();
        assert_eq!(seeds.len(), 1000);
        assert_eq!(derive(7, 3), derive(7, 3));
        assert_ne!(derive(7, 3), derive(8, 3));
    }

    #[test]
    fn drawn_seeds_are_short_and_differ() {
        assert!(draw() <= u64::from(u32::MAX));
        assert_ne!(draw(), draw());
    }
}
