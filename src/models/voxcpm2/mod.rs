//! VoxCPM2: text to 48 kHz speech, one patch of continuous latents a step (0.16 s).
//!
//! ```text
//! text ids ─ embed ─┐
//!                   ├─► base (causal) ─► h ─► FSQ where there is audio ─► e
//! patches ─ LocEnc ─┴─ f ─────────────────────────────────────────────┐  │
//!                                        fusion([e; f]) ◄─────────────┴──┘
//!                                        residual (causal, no positions) ─► r
//! patch = LocDiT(noise, lm_to_dit(e), res_to_dit(r), patch before)        10 Euler steps with guidance
//! stop  = argmax stop_head(silu(stop_proj(e)))                            of the state that made the patch
//! ```
//!
//! Everything is computed in f32 on the checkpoint's weights, as the official program does when it is told to.
//! Sources: the official `voxcpm` package; the published configuration and tensor list of openbmb/VoxCPM2.

mod config;
mod language;
mod locdit;
mod locenc;
mod patches;
mod prompt;
mod stack;
mod times;
mod tokenizer;
mod weights;

pub use config::{Config, Shape};
pub use locdit::Solve;
pub use patches::{Got, Patches, Want};
pub use prompt::{Prompt, prompt};
pub use times::STEPS as SOLVER_STEPS;
pub use tokenizer::Tokenizer;
pub use weights::Weights;

#[cfg(test)]
mod tests;
