//! Playback as the sound is generated: [`Player::open`], [`Player::push`] chunk after chunk, [`Player::drain`].
//!
//! `queue` holds what is generated but not yet taken, and decides when sound flows and when it has all been heard;
//! `card` is the sound card behind it (cpal). Without the feature `playback` the same interface refuses politely.

#[cfg(feature = "playback")]
mod card;
#[cfg(feature = "playback")]
mod queue;
#[cfg(not(feature = "playback"))]
mod silent;

#[cfg(feature = "playback")]
pub use card::{Player, Stopper};
#[cfg(not(feature = "playback"))]
pub use silent::{Player, Stopper};

/// The cure for all that can be wrong with a sound card.
const USE_A_FILE: &str = "write a file instead with `-o out.wav`";

/// How playing went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Samples handed to the sound card, at its own rate; silence not counted.
    pub samples: u64,
    /// The rate of the sound card in Hz.
    pub rate: u32,
    /// The channels of the sound card; all carry the same sound.
    pub channels: u16,
    /// How often the sound ran out before its end, and silence was played instead.
    pub underruns: u64,
    /// The first thing the sound system complained of without stopping, for one line of warning.
    pub complaint: Option<String>,
}
