//! Text before the model: reading it, cleaning it, cutting it into utterances and, for voices that want words only,
//! writing numbers, dates and signs out.
//!
//! ```text
//! bytes ──decode──► text ──markers──► text · pause ──utterances──► split ─► (normalize) ─► clean ─► pieces
//! ```
//!
//! Nothing here knows a model: the caller says how long one utterance may be and whether to normalise.

pub mod clean;
mod cut;
pub mod decode;
mod emoji;
mod length;
pub mod letters;
pub mod markers;
pub mod normalize;
mod sentences;
pub mod split;
mod utterances;

pub use clean::clean;
pub use decode::decode;
pub use length::spoken_length;
pub use normalize::normalize;
pub use split::{Pause, Piece, Split, split};
pub use utterances::{captioned, utterances};
