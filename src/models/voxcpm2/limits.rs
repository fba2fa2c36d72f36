//! How long an utterance may get and how it is solved, from what was asked and what the model can do (specification 4).

use super::config::Config;
use super::locdit::Solve;
use super::prompt::Prompt;
use super::times;
use crate::error::{Error, Result};
use crate::models::{Stop, Utterance};

/// Strength of the guidance where none is asked for.
const CFG: f32 = 2.0;
/// More is noise.
const LARGEST_CFG: f32 = 10.0;
/// Solver steps where no number is asked for.
const STEPS: usize = 10;
/// The longest utterance, in patches (11 minutes).
const MAX_PATCHES: usize = 4096;
/// An utterance has at least one patch more than this: before, the stop head is not trusted.
pub const MIN_PATCHES: usize = 3;
/// A text that needs more patches than 6 a token, and 10, has led the model astray.
const PER_TOKEN: f64 = 6.0;
const BESIDES: usize = 10;

/// What an utterance may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Patches at most.
    pub patches: usize,
    /// What that many stand for.
    pub stop: Stop,
    /// How patches are solved.
    pub solve: Solve,
    /// Factor on the noise.
    pub temperature: f32,
}

impl Limits {
    /// Settles an utterance's limits; a patch takes `patch_seconds`.
    ///
    /// # Errors
    /// Numbers no run could honour, and prompts that leave no room for audio.
    pub fn of(utterance: &Utterance, prompt: &Prompt, config: &Config, patch_seconds: f64) -> Result<Self> {
        let temperature = utterance.temperature.unwrap_or(1.0);
        if !temperature.is_finite() || temperature < 0.0 {
            return Err(Error::usage(format!("a temperature of {temperature} is not a number of 0 or more"))
                .hint("1 is the model's own; 0 takes all chance out"));
        }
        let cfg = utterance.cfg.unwrap_or(CFG);
        if !(0.0..=LARGEST_CFG).contains(&cfg) {
            return Err(Error::usage(format!("a guidance of {cfg} is not between 0 and {LARGEST_CFG}"))
                .hint("1 to 3 sound well; the model's own is 2"));
        }
        let steps = utterance.solver_steps.unwrap_or(STEPS);
        if !times::STEPS.contains(&steps) {
            let (least, most) = (times::STEPS.start(), times::STEPS.end());
            return Err(Error::usage(format!("{steps} solver steps are not between {least} and {most}"))
                .hint("4 to 30 sound well; the model's own is 10"));
        }
        // The last patch is never read again, so it may stand one past the last position.
        let room = (config.max_positions + 1).saturating_sub(prompt.positions());
        if room <= MIN_PATCHES {
            return Err(Error::new(format!(
                "the prompt has {} positions and the model holds {} with the audio",
                prompt.positions(),
                config.max_positions
            ))
            .hint("split the text into shorter utterances, or take shorter recordings"));
        }
        let asked = match utterance.max_seconds {
            None => MAX_PATCHES,
            Some(seconds) => {
                // A whole number of patches stays one, though its f32 may lie a little below.
                let patches = (f64::from(seconds) / patch_seconds + 1e-4).floor();
                if patches.is_nan() || patches < 1.0 {
                    return Err(Error::usage(format!("{seconds} seconds are shorter than one patch of audio"))
                        .hint(format!("allow at least {patch_seconds} seconds")));
                }
                patches.min(MAX_PATCHES as f64) as usize
            }
        };
        let needed = (PER_TOKEN * prompt.target as f64) as usize + BESIDES;
        let limits = [(asked, Stop::Length), (needed, Stop::Runaway), (room, Stop::Context)];
        let mut least = limits[0];
        for limit in limits {
            if limit.0 < least.0 {
                least = limit;
            }
        }
        Ok(Self { patches: least.0, stop: least.1, solve: Solve { steps, cfg }, temperature })
    }
}
