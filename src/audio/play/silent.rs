//! In place of a sound card, where the feature `playback` is off.

use std::convert::Infallible;

use super::{Played, USE_A_FILE};
use crate::error::{Error, Result};

/// Never made: [`Player::open`] always fails.
#[derive(Debug)]
pub struct Player(Infallible);

/// Never made.
#[derive(Clone, Debug)]
pub struct Stopper(Infallible);

impl Player {
    /// Says that there is no playback.
    ///
    /// # Errors
    /// Always.
    pub fn open(_rate: u32) -> Result<Self> {
        Err(Error::new("this build of rtts cannot play sound")
            .hint(format!("{USE_A_FILE}, or build it with the feature `playback`")))
    }

    /// Cannot be reached.
    ///
    /// # Errors
    /// None.
    pub fn push(&mut self, _samples: &[f32]) -> Result<()> {
        match self.0 {}
    }

    /// Cannot be reached.
    ///
    /// # Errors
    /// None.
    pub fn drain(&mut self) -> Result<Played> {
        match self.0 {}
    }

    /// Cannot be reached.
    pub fn stop(&self) {
        match self.0 {}
    }

    /// Cannot be reached.
    pub fn stopper(&self) -> Stopper {
        match self.0 {}
    }

    /// Cannot be reached.
    pub fn played(&self) -> Played {
        match self.0 {}
    }
}

impl Stopper {
    /// Cannot be reached.
    pub fn stop(&self) {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_names_its_cure() {
        let error = Player::open(24_000).map(|_| ()).map_err(|e| (e.to_string(), e.cure().map(str::to_owned)));
        let cure = "write a file instead with `-o out.wav`, or build it with the feature `playback`";
        assert_eq!(error, Err(("this build of rtts cannot play sound".to_owned(), Some(cure.to_owned()))));
    }
}
