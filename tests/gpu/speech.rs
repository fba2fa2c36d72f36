//! Speech of the tiny checkpoints on the GPU: as on the CPU, and the same bytes in any company.

use std::collections::BTreeMap;
use std::path::Path;

use rtts::checkpoint::{Checkpoint, Source};
use rtts::compute::cpu::Cpu;
use rtts::compute::cuda::Cuda;
use rtts::compute::{Activations, Compute};
use rtts::engine::{self, Event, Flow, Report, Request};
use rtts::models::{self, Options, Speaker, Utterance};

/// Names and functions.
pub const CHECKS: [(&str, &dyn Fn()); 6] = [
    ("speech::voxcpm2_is_the_cpus", &voxcpm2_is_the_cpus),
    ("speech::voxcpm2_alone_equals_any_batch", &voxcpm2_alone_equals_any_batch),
    ("speech::greedy_is_the_cpus", &greedy_is_the_cpus),
    ("speech::seeds_give_the_cpus_speech", &seeds_give_the_cpus_speech),
    ("speech::alone_equals_any_batch", &alone_equals_any_batch),
    ("speech::the_last_line_is_the_first", &the_last_line_is_the_first),
];

const KINDS: [(&str, Activations); 3] =
    [("tinyaya-bf16", Activations::Full), ("tinyaya-nvfp4", Activations::Full), ("tinyaya-nvfp4", Activations::Fp4)];

const TEXTS: [&str; 7] =
    ["Good evening.", "ok, bye!", "नमस्ते", "see you at 10:45", "a", "Boarding will begin.", "shortly"];

fn load<C: Compute>(compute: C, fixture: &str, slots: usize, activations: Activations) -> Box<dyn Speaker> {
    // Tests run in the package's folder.
    let folder = Path::new("tests/data").join(fixture);
    let checkpoint = Checkpoint::open(Source::Folder(folder)).unwrap();
    let options = Options { slots, activations: Some(activations), codec_chunk: 4 };
    models::load(&checkpoint, compute, &options).unwrap()
}

fn gpu() -> Cuda {
    Cuda::first(&mut |_| ()).unwrap()
}

fn request(id: usize, temperature: f32) -> Request {
    let utterance = Utterance {
        text: TEXTS[id % TEXTS.len()].into(),
        voice: Some(["Ira", "zoya"][id % 2].into()),
        seed: 100 + id as u64,
        temperature: Some(temperature),
        top_k: Some(30),
        // Different lengths, so that slots fall free at different steps.
        max_seconds: Some(0.4 + 0.16 * (id % 7) as f32),
        ..Utterance::default()
    };
    Request { id, utterance, ..Request::default() }
}

/// Samples and report of every request.
fn speak(speaker: &mut dyn Speaker, requests: Vec<Request>) -> BTreeMap<usize, (Vec<f32>, Report)> {
    let slots = speaker.slots();
    let mut audio: BTreeMap<usize, Vec<f32>> = BTreeMap::new();
    let mut said = BTreeMap::new();
    engine::run(speaker, &mut requests.into_iter(), slots, &mut |event| {
        match event {
            Event::Audio { id, samples } => audio.entry(id).or_default().extend(samples),
            Event::Done { id, report } => {
                said.insert(id, (audio.remove(&id).unwrap_or_default(), report));
            }
            Event::Failed { id, error } => panic!("{id}: {error}"),
            Event::Started { .. } | Event::Again { .. } => {}
        }
        Ok(Flow::Continue)
    })
    .unwrap();
    said
}

/// Both devices' speech of the same requests: the same length and end, samples near each other. One other token changes
/// the samples of its frame by as much as they are large.
fn compare(kinds: &[(&str, Activations)], temperature: f32) {
    for (fixture, activations) in kinds.iter().copied() {
        let requests = || (0..TEXTS.len()).map(|id| request(id, temperature)).collect::<Vec<_>>();
        // Rounded keys and values would tip choices that are nearly even, of which such a small random model has many.
        let ours = speak(load(gpu().exact(), fixture, 4, activations).as_mut(), requests());
        let theirs = speak(load(Cpu::new(None).unwrap(), fixture, 4, activations).as_mut(), requests());
        let mut worst = 0f32;
        for (id, (samples, report)) in &ours {
            let (expected, their_report) = &theirs[id];
            assert_eq!(report.steps, their_report.steps, "{fixture} {activations:?} line {id}: steps");
            assert_eq!(report.stop, their_report.stop, "{fixture} {activations:?} line {id}: end");
            assert_eq!(samples.len(), expected.len(), "{fixture} {activations:?} line {id}: samples");
            let size = expected.iter().fold(0f32, |m, v| m.max(v.abs()));
            let off = samples.iter().zip(expected).fold(0f32, |m, (a, b)| m.max((a - b).abs())) / size;
            worst = worst.max(off);
            assert!(off < 1e-3, "{fixture} {activations:?} line {id}: samples are off by {off} of {size}");
        }
        println!("  {fixture} {activations:?} at {temperature}: samples off by {worst:.1e} at most");
    }
}

fn greedy_is_the_cpus() {
    compare(&KINDS, 0.0);
}

fn seeds_give_the_cpus_speech() {
    // Not with 4-bit inputs: there the last bit of a sum can move a code by a whole step, and the draw with it.
    compare(&KINDS[..2], 0.8);
}

const VOXCPM2: [&str; 2] = ["voxcpm2-bf16", "voxcpm2-nvfp4"];

/// A line without a reference or a voice; its noise comes from the seed.
fn vox_request(id: usize) -> Request {
    let text = ["Good evening.", "Boarding will begin.", "ok, bye!"][id % 3].into();
    let max_seconds = Some(0.5 + 0.2 * (id % 4) as f32);
    let utterance = Utterance { text, seed: 7 + id as u64, max_seconds, ..Utterance::default() };
    Request { id, utterance, ..Request::default() }
}

/// Latents are not chosen but added up: what differs in the last bits stays small.
fn voxcpm2_is_the_cpus() {
    for fixture in VOXCPM2 {
        let requests = || (0..3).map(vox_request).collect::<Vec<_>>();
        let ours = speak(load(gpu().exact(), fixture, 3, Activations::Full).as_mut(), requests());
        let theirs = speak(load(Cpu::new(None).unwrap(), fixture, 3, Activations::Full).as_mut(), requests());
        for (id, (samples, report)) in &ours {
            let (expected, their_report) = &theirs[id];
            assert_eq!((report.steps, report.stop), (their_report.steps, their_report.stop), "{fixture} line {id}");
            assert_eq!(samples.len(), expected.len(), "{fixture} line {id}: samples");
            let size = expected.iter().fold(0f32, |m, v| m.max(v.abs()));
            let off = samples.iter().zip(expected).fold(0f32, |m, (a, b)| m.max((a - b).abs())) / size;
            println!("  {fixture} line {id}: {} samples off by {off:.1e}", samples.len());
            assert!(off < 1e-2, "{fixture} line {id}: samples are off by {off} of {size}");
        }
    }
}

fn voxcpm2_alone_equals_any_batch() {
    for fixture in VOXCPM2 {
        let all = || (0..9).map(vox_request);
        let mut single = load(gpu(), fixture, 1, Activations::Full);
        let alone: BTreeMap<_, _> = all().flat_map(|r| bits(speak(single.as_mut(), vec![r]))).collect();
        for slots in [3, 9] {
            let together = bits(speak(load(gpu(), fixture, slots, Activations::Full).as_mut(), all().collect()));
            assert!(together == alone, "{fixture}: lines in {slots} slots differ");
        }
    }
}

fn bits(said: BTreeMap<usize, (Vec<f32>, Report)>) -> BTreeMap<usize, Vec<u32>> {
    said.into_iter().map(|(id, (samples, _))| (id, samples.iter().map(|s| s.to_bits()).collect())).collect()
}

fn alone_equals_any_batch() {
    for (fixture, activations) in KINDS {
        let all = || (0..70).map(|id| request(id, 0.8));
        let mut single = load(gpu(), fixture, 1, activations);
        let alone: BTreeMap<_, _> = all().step_by(3).flat_map(|r| bits(speak(single.as_mut(), vec![r]))).collect();
        assert_eq!(alone.len(), 24);
        for slots in [3, 8, 33, 64] {
            let mut speaker = load(gpu(), fixture, slots, activations);
            let together = bits(speak(speaker.as_mut(), all().collect()));
            for (id, samples) in &alone {
                assert!(together[id] == *samples, "{fixture} {activations:?}: line {id} in {slots} slots differs");
            }
        }
    }
}

fn the_last_line_is_the_first() {
    let mut speaker = load(gpu(), "tinyaya-nvfp4", 5, Activations::Full);
    let line = |id| Request { id, ..request(0, 0.8) };
    let said = bits(speak(speaker.as_mut(), (0..200).map(line).collect()));
    assert_eq!(said.len(), 200);
    assert!(said.values().all(|samples| *samples == said[&0]));
}
