//! Mimi on the tiny checkpoint: the recorded samples, and streaming equal to the whole.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use proptest::prelude::*;
use safetensors::SafeTensors;

use super::*;
use crate::checkpoint::{Checkpoint, Source};
use crate::compute::cpu::Cpu;

const QUANTIZERS: usize = 8;

fn decoder(slots: usize) -> (Cpu, Mimi<Cpu>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tinyaya-bf16");
    let checkpoint = Checkpoint::open(Source::Folder(folder)).unwrap();
    let config = Config::read(&checkpoint.json("codec/config.json").unwrap()).unwrap();
    let weights = checkpoint
        .contract(|c| {
            c.ignore("*");
            Weights::ask(c, &config, QUANTIZERS)
        })
        .unwrap();
    let compute = Cpu::new(Some(1)).unwrap();
    let mimi = Mimi::new(&compute, config, &weights, QUANTIZERS, slots).unwrap();
    (compute, mimi)
}

/// The recorded codes and samples of prompt `i`.
fn recorded(i: usize) -> (Vec<Vec<u32>>, Vec<f32>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tinyaya-bf16/reference.safetensors");
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let codes = file.tensor(&format!("f32/p{i}/codes")).unwrap();
    let flat: Vec<u32> =
        codes.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32).collect();
    let count = flat.len() / QUANTIZERS;
    let frames = (0..count).map(|f| (0..QUANTIZERS).map(|q| flat[q * count + f]).collect()).collect();
    let wav = file.tensor(&format!("f32/p{i}/wav")).unwrap();
    (frames, wav.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect())
}

#[test]
fn whole_utterances_match_the_reference() {
    let (compute, mut mimi) = decoder(1);
    for i in 0..3 {
        let (frames, wav) = recorded(i);
        // Twice: the second run must not hear the first.
        for _ in 0..2 {
            let ours = mimi.decode(&compute, 0, &frames).unwrap();
            assert_eq!(ours.len(), wav.len());
            let error = ours.iter().zip(&wav).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
            assert!(error < 1e-4, "prompt {i}: off by {error}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn streaming_equals_the_whole_for_any_chunking(
        cuts in proptest::collection::vec((0usize..3, 0usize..5), 1..40),
    ) {
        let (compute, mut mimi) = decoder(3);
        let streams: Vec<Vec<Vec<u32>>> = (0..3).map(|i| recorded(i).0).collect();
        let whole: Vec<Vec<f32>> = streams.iter().map(|f| mimi.decode(&compute, 1, f).unwrap()).collect();
        for slot in 0..3 {
            mimi.reset(&compute, slot).unwrap();
        }
        let (mut at, mut said) = ([0; 3], [Vec::new(), Vec::new(), Vec::new()]);
        // Each cut feeds one stream, and every third one a second stream beside it; then the rest of all three at once.
        for (n, (slot, count)) in cuts.iter().enumerate() {
            let slots = if n % 3 == 0 { vec![*slot, (*slot + 1) % 3] } else { vec![*slot] };
            feed(&compute, &mut mimi, &streams, &mut at, &mut said, &slots, *count);
        }
        feed(&compute, &mut mimi, &streams, &mut at, &mut said, &[2, 0, 1], usize::MAX);
        for (stream, whole) in said.iter().zip(&whole) {
            prop_assert_eq!(stream, whole);
        }
    }
}

/// Decodes the next `count` frames of the streams in `slots` as one call.
fn feed(
    compute: &Cpu,
    mimi: &mut Mimi<Cpu>,
    streams: &[Vec<Vec<u32>>],
    at: &mut [usize; 3],
    said: &mut [Vec<f32>; 3],
    slots: &[usize],
    count: usize,
) {
    let end = |slot: usize, at: &[usize; 3]| at[slot].saturating_add(count).min(streams[slot].len());
    let chunks: Vec<Chunk<'_>> =
        slots.iter().map(|slot| Chunk { slot: *slot, frames: &streams[*slot][at[*slot]..end(*slot, at)] }).collect();
    let parts = mimi.decode_step(compute, &chunks).unwrap();
    for (slot, part) in slots.iter().zip(parts) {
        said[*slot].extend(part);
        at[*slot] = end(*slot, at);
    }
}
