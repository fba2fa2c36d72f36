//! The sound card that `--play` would use. It is opened, and nothing is played.

use super::{Check, State};
use crate::audio::play::Player;

/// A model's usual rate.
const RATE: u32 = 24_000;

pub fn look() -> Check {
    match Player::open(RATE) {
        Ok(player) => {
            let played = player.played();
            Check::ok("sound", format!("the default sound card takes {} Hz, {} channels", played.rate, played.channels))
        }
        Err(error) => Check::of("sound", State::Note, &error),
    }
}
