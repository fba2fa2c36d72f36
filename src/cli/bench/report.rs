//! The result, which is also the JSON form, and the floor below every step.
//!
//! ```text
//! floor = (weights a step reads + positions × bytes a position) / read rate        share = floor / step
//! ```
//!
//! The weights are read once for the whole batch, keys and values for every slot. No step can be faster on a memory of
//! that rate; at large batches arithmetic, which the floor does not know, may take longer than reading.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::measure::Run;
use super::statistics::Spread;

/// Everything that was measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// Version of this schema.
    pub v: u32,
    /// Version of the program.
    pub rtts: String,
    /// What the model was asked for by.
    pub model: String,
    /// How its weights are stored.
    pub packing: String,
    /// Bytes of its tensors.
    pub bytes: u64,
    /// Device and instruction set.
    pub device: String,
    /// How 4-bit linears took their input, as asked for.
    pub activations: String,
    /// Seconds until the model could speak.
    pub load_s: f64,
    /// Bytes a second that the device reads, measured after loading.
    pub read_rate: Option<Rate>,
    /// `token` or `patch`.
    pub step: String,
    /// Steps for a second of audio.
    pub steps_a_second: f64,
    /// Bytes of weights that a step reads.
    pub read_per_step: u64,
    /// Bytes of keys and values for a position, at 16 bits each.
    pub read_per_position: Option<u64>,
    /// Runs of a batch size.
    pub repeat: u32,
    /// Steps of a run before the clock started.
    pub warmup: u32,
    /// Steps of a run that were timed.
    pub timed: u32,
    /// Memory that the process held at the end.
    pub resident_bytes: Option<u64>,
    /// At most.
    pub peak_bytes: Option<u64>,
    /// A batch size each, in the order asked for.
    pub results: Vec<Row>,
}

/// A read rate, in bytes a second.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Rate {
    /// The fastest pass.
    pub best: f64,
    /// The pass in the middle.
    pub median: f64,
}

/// One batch size.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Row {
    /// Utterances side by side.
    pub slots: usize,
    /// A step of a run in the mean; over the runs.
    pub step_ms: Spread,
    /// The slowest single step of all runs.
    pub longest_step_ms: f64,
    /// Tokens or patches a second, all slots together.
    pub steps_per_s: f64,
    /// Time for a second of audio in each slot.
    pub rtf: f64,
    /// Seconds of audio a second, all slots together.
    pub times_real_time: f64,
    /// Reading one prompt.
    pub prefill_ms: Spread,
    /// Positions of one prompt.
    pub prompt_positions: Option<f64>,
    /// From the beginning, all prompts included, to a slot's first audio; none where no slot was heard.
    pub first_audio_ms: Option<Spread>,
    /// Positions of a slot in the mean of the timed steps.
    pub positions: Option<f64>,
    /// The least time a step can take on this memory.
    pub floor_ms: Option<f64>,
    /// The floor's share of the step: 1 is perfect.
    pub share: Option<f64>,
    /// The parts of a step, where the model tells them apart.
    pub stages: Vec<Stage>,
}

/// A part of a step.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Its time, in the mean of the timed steps of the run in the middle.
    pub ms: f64,
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Row {
    /// The runs of `slots` slots.
    pub fn of(slots: usize, runs: &[Run], report: &Report) -> Self {
        let step = Spread::of(runs.iter().map(|run| ms(run.step())));
        let each = slots.max(1) as f64;
        let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let all_positions = mean(runs.iter().filter_map(|run| run.positions).collect());
        let cached = all_positions.zip(report.read_per_position).map_or(0.0, |(n, bytes)| n * bytes as f64);
        let floor = report.read_rate.map(|rate| 1e3 * (report.read_per_step as f64 + cached) / rate.best);
        let per_second = if step.median > 0.0 { 1e3 * each / step.median } else { 0.0 };
        // The run whose step lies in the middle stands for the parts.
        let mut order: Vec<&Run> = runs.iter().collect();
        order.sort_by_key(|run| run.step());
        let stages = order.get(order.len() / 2).map_or_else(Vec::new, |run| {
            let count = run.steps.len().max(1) as f64;
            let stage = |(name, time): &(&str, Duration)| Stage { name: (*name).to_owned(), ms: ms(*time) / count };
            run.stages.iter().map(stage).collect()
        });
        let first_audio: Vec<f64> = runs.iter().flat_map(|run| &run.first_audio).copied().map(ms).collect();
        Self {
            slots,
            step_ms: step,
            longest_step_ms: runs.iter().flat_map(|run| &run.steps).copied().map(ms).fold(0.0, f64::max),
            steps_per_s: per_second,
            rtf: report.steps_a_second * step.median / 1e3,
            times_real_time: per_second / report.steps_a_second,
            prefill_ms: Spread::of(runs.iter().map(|run| ms(run.prefill) / each)),
            prompt_positions: mean(runs.iter().filter_map(|run| Some(run.prompt? as f64 / each)).collect()),
            first_audio_ms: (!first_audio.is_empty()).then(|| Spread::of(first_audio)),
            positions: all_positions.map(|n| n / each),
            floor_ms: floor,
            share: floor.filter(|_| step.median > 0.0).map(|floor| floor / step.median),
            stages,
        }
    }
}
