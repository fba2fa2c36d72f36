//! A line gives the same bytes alone and in any company, and its seed decides everything that is random.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;

use rtts::checkpoint::{Checkpoint, Source};
use rtts::compute::{Activations, cpu::Cpu};
use rtts::engine::{self, Event, Flow, Request};
use rtts::models::{self, Options, Speaker, Utterance};

const TEXTS: [&str; 7] =
    ["Good evening.", "ok, bye!", "नमस्ते", "see you at 10:45", "a", "Boarding will begin.", "shortly"];

fn load(fixture: &str, slots: usize, activations: Activations, codec_chunk: usize, threads: usize) -> Box<dyn Speaker> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(fixture);
    let checkpoint = Checkpoint::open(Source::Folder(folder)).unwrap();
    let options = Options { slots, activations: Some(activations), codec_chunk };
    models::load(&checkpoint, Cpu::new(Some(threads)).unwrap(), &options).unwrap()
}

fn request(id: usize, seed: u64) -> Request {
    let utterance = Utterance {
        text: TEXTS[id].into(),
        voice: Some(["Ira", "zoya"][id % 2].into()),
        seed,
        temperature: Some(0.8),
        top_k: Some(30),
        // Different lengths, so that slots fall free at different steps.
        max_seconds: Some(0.4 + 0.16 * id as f32),
        ..Utterance::default()
    };
    Request { id, utterance }
}

/// The bits of every request's samples.
fn speak(speaker: &mut dyn Speaker, requests: Vec<Request>) -> BTreeMap<usize, Vec<u32>> {
    let slots = speaker.slots();
    let mut said: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    engine::run(speaker, &mut requests.into_iter(), slots, &mut |event| {
        match event {
            Event::Audio { id, samples } => said.entry(id).or_default().extend(samples.iter().map(|s| s.to_bits())),
            Event::Failed { id, error } => panic!("{id}: {error}"),
            Event::Started { .. } | Event::Done { .. } => {}
        }
        Ok(Flow::Continue)
    })
    .unwrap();
    said
}

fn all() -> Vec<Request> {
    (0..TEXTS.len()).map(|id| request(id, 100 + id as u64)).collect()
}

#[test]
fn alone_equals_any_batch() {
    for (fixture, activations) in
        [("tinyaya-bf16", Activations::Full), ("tinyaya-nvfp4", Activations::Full), ("tinyaya-nvfp4", Activations::Fp4)]
    {
        let mut single = load(fixture, 1, activations, 4, 1);
        let alone: BTreeMap<_, _> = all().into_iter().flat_map(|r| speak(single.as_mut(), vec![r])).collect();
        assert_eq!(alone.len(), TEXTS.len());
        // Seven at once; three slots, so that four are admitted late; other codec chunks and threads.
        for (slots, codec_chunk, threads) in [(7, 4, 2), (3, 1, 2), (2, 16, 1)] {
            let mut speaker = load(fixture, slots, activations, codec_chunk, threads);
            assert!(speak(speaker.as_mut(), all()) == alone, "{fixture} {activations:?} in {slots} slots differs");
            // And again in slots that were used before, in the opposite order.
            let reversed: Vec<Request> = all().into_iter().rev().collect();
            assert!(speak(speaker.as_mut(), reversed) == alone, "{fixture} {activations:?} in used slots differs");
        }
    }
}

#[test]
fn seeds_decide() {
    let mut speaker = load("tinyaya-nvfp4", 2, Activations::Full, 4, 1);
    let mut of = |seed| speak(speaker.as_mut(), vec![request(3, seed)]).remove(&3).unwrap();
    let first = of(1);
    assert_eq!(first, of(1), "the same seed repeats");
    assert_ne!(first, of(2), "another seed differs");
    assert_ne!(first, of(1 << 40), "the upper half of the seed counts");
}
