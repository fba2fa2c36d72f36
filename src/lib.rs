//! rtts: batched text to speech from NVFP4 and BF16 checkpoints, on the local GPU or the CPU.
//!
//! Text becomes token ids ([`models`]), the engine steps all live requests as one batch ([`engine`]), each step is
//! written in a small set of operations ([`compute`]), and codecs turn what comes out into samples ([`codecs`]).

pub mod audio;
pub mod builtin;
pub mod bytes;
pub mod checkpoint;
pub mod cli;
pub mod codecs;
pub mod compute;
pub mod engine;
pub mod error;
pub mod hub;
pub mod machine;
pub mod matrix;
pub mod models;
pub mod nvfp4;
pub mod suggest;
pub mod text;
