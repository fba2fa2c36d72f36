//! Files and speakers: recordings in, WAV and FLAC out, loudness, pipes, playback, sample formats and rates.
//!
//! Everything here takes mono `&[f32]` chunks as they are generated; where the chunks are cut never shows in the result.

pub mod fade;
pub mod file;
pub mod flac;
pub mod loudness;
pub mod pcm;
pub mod pipe;
pub mod place;
pub mod play;
pub mod read;
pub mod resample;
pub mod temporary;
pub mod trim;
pub mod wav;
