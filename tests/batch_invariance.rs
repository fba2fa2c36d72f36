//! A line gives the same bytes alone and in any company, and its seed decides everything that is random.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rtts::checkpoint::{Checkpoint, Source};
use rtts::compute::{Activations, cpu::Cpu};
use rtts::engine::{self, Event, Flow, Request};
use rtts::models::{self, Latents, Options, Prompt, Role, Speaker, Utterance};

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
    Request { id, utterance, ..Request::default() }
}

/// The bits of every request's samples.
fn speak(speaker: &mut dyn Speaker, requests: Vec<Request>) -> BTreeMap<usize, Vec<u32>> {
    let slots = speaker.slots();
    let mut said: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    engine::run(speaker, &mut requests.into_iter(), slots, &mut |event| {
        match event {
            Event::Audio { id, samples } => said.entry(id).or_default().extend(samples.iter().map(|s| s.to_bits())),
            Event::Failed { id, error } => panic!("{id}: {error}"),
            Event::Started { .. } | Event::Again { .. } | Event::Done { .. } => {}
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

// ---- VoxCPM2

/// A recording: hums of another pitch each.
fn hum(samples: usize, turns: f32) -> Vec<f32> {
    (0..samples).map(|i| 0.3 * (i as f32 * turns).sin() + 0.1 * (i as f32 * turns * 2.7).sin()).collect()
}

/// Eight lines of different mode, length, guidance and solver.
fn lines(speaker: &mut dyn Speaker) -> Vec<Request> {
    let voice: Arc<Latents> = Arc::new(speaker.listen(&hum(14_000, 0.05), Role::Reference).unwrap());
    let said: Arc<Latents> = Arc::new(speaker.listen(&hum(9_000, 0.08), Role::Prompt).unwrap());
    let prompt = |text: &str| Some(Prompt { text: text.into(), latents: said.clone() });
    let base = Utterance::default();
    let utterances = [
        Utterance { text: "Hello, world! This is a test.".into(), ..base.clone() },
        Utterance { text: "今天天气很好，你好世界。".into(), ..base.clone() },
        Utterance { text: "Hello there!".into(), style: Some("A young woman".into()), cfg: Some(1.5), ..base.clone() },
        Utterance { text: "Hello, world!".into(), reference: Some(voice.clone()), ..base.clone() },
        Utterance { text: "This is a test.".into(), prompt: prompt("你好，世界！"), ..base.clone() },
        Utterance { text: " A test.".into(), reference: Some(voice), prompt: prompt("Hello!"), ..base.clone() },
        Utterance { text: "fox".into(), solver_steps: Some(4), temperature: Some(0.7), ..base.clone() },
        Utterance { text: "The lazy dog.".into(), solver_steps: Some(6), temperature: Some(0.0), ..base },
    ];
    let request = |(id, utterance): (usize, Utterance)| {
        // Different lengths, so that slots fall free at different steps.
        let max_seconds = Some(0.16 * [5, 3, 6, 2, 4, 7, 5, 3][id] as f32);
        Request { id, utterance: Utterance { seed: 7 + id as u64, max_seconds, ..utterance }, ..Request::default() }
    };
    utterances.into_iter().enumerate().map(request).collect()
}

#[test]
fn every_mode_of_voxcpm2_alone_equals_any_batch() {
    for fixture in ["voxcpm2-bf16", "voxcpm2-nvfp4"] {
        let mut single = load(fixture, 1, Activations::Full, 4, 1);
        let requests = lines(single.as_mut());
        let alone: BTreeMap<_, _> = requests.iter().flat_map(|r| speak(single.as_mut(), vec![r.clone()])).collect();
        assert!(alone.len() == 8 && alone.values().all(|said| said.len() % 7680 == 0 && !said.is_empty()));
        // The engine admits the first line alone, so the others come late; in three slots, five later still.
        for (slots, threads) in [(8, 2), (3, 2), (2, 1)] {
            let mut speaker = load(fixture, slots, Activations::Full, 4, threads);
            assert!(speak(speaker.as_mut(), requests.clone()) == alone, "{fixture} in {slots} slots differs");
            let reversed: Vec<Request> = requests.iter().rev().cloned().collect();
            assert!(speak(speaker.as_mut(), reversed) == alone, "{fixture} in used slots differs");
        }
    }
}

#[test]
fn seeds_of_voxcpm2_decide_unless_there_is_no_noise() {
    let mut speaker = load("voxcpm2-nvfp4", 1, Activations::Full, 4, 2);
    let mut of = |seed, temperature| {
        let utterance =
            Utterance { text: "Hello!".into(), seed, temperature, max_seconds: Some(0.48), ..Utterance::default() };
        speak(speaker.as_mut(), vec![Request { id: 0, utterance, ..Request::default() }]).remove(&0).unwrap()
    };
    let first = of(1, None);
    assert_eq!(first, of(1, None), "the same seed repeats");
    assert_ne!(first, of(2, None), "another seed differs");
    assert_ne!(first, of(1, Some(0.5)), "the temperature counts");
    assert_eq!(of(1, Some(0.0)), of(2, Some(0.0)), "without noise nothing is random");
}
