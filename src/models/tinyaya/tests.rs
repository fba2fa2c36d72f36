//! Parity with what the official packages computed on the tiny checkpoints of `tests/data` (see `tools/trim_reference.py`).

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use std::path::{Path, PathBuf};

use safetensors::SafeTensors;

use super::*;
use crate::checkpoint::Source;
use crate::compute::View;
use crate::compute::cpu::Cpu;

/// (speaker, style, text) of the recorded prompts.
const PROMPTS: [(&str, &str, &str); 3] = [
    ("Ira", "happy, Hindi accent, steady pace", "नमस्ते, आज आपका दिन कैसा रहा?"),
    ("Zoya", "", "Good evening. <laugh> Boarding will begin shortly, see you at 10:45."),
    ("Aisha", "sad, Telugu accent, slow pace", "నమస్కారం <sigh> ok, bye!"),
];

/// The recorded run, the fixture it belongs to and how it took the linears' input.
const RUNS: [(&str, &str, Activations); 3] = [
    ("f32", "tinyaya-bf16", Activations::Full),
    ("w4a16", "tinyaya-nvfp4", Activations::Full),
    ("w4a4", "tinyaya-nvfp4", Activations::Fp4),
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn load(name: &str, activations: Activations, slots: usize) -> TinyAya<Cpu> {
    let checkpoint = Checkpoint::open(Source::Folder(fixture(name))).unwrap();
    let options = Options { slots, activations: Some(activations), ..Options::default() };
    TinyAya::load(&checkpoint, Cpu::new(Some(2)).unwrap(), &options).unwrap()
}

fn utterance(prompt: usize) -> Utterance {
    let (voice, style, text) = PROMPTS[prompt];
    Utterance {
        text: text.into(),
        voice: Some(voice.into()),
        style: Some(style.into()),
        temperature: Some(0.0),
        max_seconds: Some(1.6),
        ..Utterance::default()
    }
}

/// The recorded arrays of a fixture.
struct Reference(Vec<u8>);

impl Reference {
    fn of(name: &str) -> Self {
        Self(std::fs::read(fixture(name).join("reference.safetensors")).unwrap())
    }

    fn f32(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap();
        tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    fn ids(&self, name: &str) -> Vec<u32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap();
        tensor.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32).collect()
    }

    /// `[Q, F]` codes as frames.
    fn frames(&self, name: &str, quantizers: usize) -> Vec<Vec<u32>> {
        let codes = self.ids(name);
        let count = codes.len() / quantizers;
        (0..count).map(|f| (0..quantizers).map(|q| codes[q * count + f]).collect()).collect()
    }
}

/// Largest difference, as a share of the reference's largest value.
fn difference(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let scale = theirs.iter().fold(0f32, |m, v| m.max(v.abs()));
    ours.iter().zip(theirs).fold(0f32, |m, (a, b)| m.max((a - b).abs())) / scale
}

#[test]
fn prompts_become_the_reference_ids() {
    for (_, name, activations) in RUNS {
        let (model, reference) = (load(name, activations, 1), Reference::of(name));
        for i in 0..PROMPTS.len() {
            assert_eq!(model.prompter.prompt(&utterance(i)).unwrap(), reference.ids(&format!("p{i}/prompt_ids")));
        }
    }
}

#[test]
fn control_tokens_in_the_text_are_refused_and_sounds_are_not() {
    let model = load("tinyaya-nvfp4", Activations::Full, 1);
    let say = |text: &str| model.prompter.prompt(&Utterance { text: text.into(), ..Utterance::default() });
    for marker in ["<text>", "</audio>", "<12_4>", "<EOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<PAD>"] {
        let error = say(&format!("Good {marker} evening")).unwrap_err().to_string();
        assert!(error.contains(marker), "{error}");
    }
    assert!(say("Good evening <laugh> and a < b > c <x_y>").is_ok());
}

#[test]
fn the_shortest_limit_is_one_frame() {
    let model = load("tinyaya-nvfp4", Activations::Full, 1);
    let plan = |seconds| model.plan(&Utterance { max_seconds: Some(seconds), ..utterance(0) });
    assert_eq!(plan(0.08).unwrap().1, MIN_TOKENS);
    assert!(plan(0.07).is_err());
    assert!(plan(f32::NAN).is_err());
}

#[test]
fn prefill_matches_at_every_position() {
    for (run, name, activations) in [RUNS[0], RUNS[2]] {
        let (mut model, reference) = (load(name, activations, 2), Reference::of(name));
        let ids = reference.ids("p0/prompt_ids");
        let expected = reference.f32(&format!("{run}/p0/prefill_hidden"));
        let width = model.config.hidden;
        // Position by position in slot 0, in two uneven pieces in slot 1: the same bytes, and near the reference.
        for (position, id) in ids.iter().enumerate() {
            let rows = Rows { segments: vec![Segment { slot: 0, start: position, len: 1 }] };
            model.backbone.forward(&model.compute, &[*id], &rows).unwrap();
            let hidden = model.compute.read(model.backbone.hidden()).unwrap();
            let error = difference(&hidden, &expected[position * width..][..width]);
            assert!(error < 1e-3, "{run}: position {position} is off by {error}");
        }
        let last = |model: &mut TinyAya<Cpu>, slot, start, ids: &[u32]| {
            let rows = Rows { segments: vec![Segment { slot, start, len: ids.len() }] };
            model.backbone.forward(&model.compute, ids, &rows).unwrap();
            model.compute.read(model.backbone.hidden()).unwrap()
        };
        model.backbone.reset(&model.compute, 0).unwrap();
        let whole = last(&mut model, 0, 0, &ids);
        last(&mut model, 1, 0, &ids[..17]);
        assert_eq!(whole, last(&mut model, 1, 17, &ids[17..]));
    }
}

#[test]
fn teacher_forced_logits_and_stop_decisions_match() {
    for (run, name, activations) in RUNS {
        let (mut model, reference) = (load(name, activations, 1), Reference::of(name));
        for i in 0..PROMPTS.len() {
            let key = |what: &str| format!("{run}/p{i}/{what}");
            let (mut feed, tokens) = (reference.ids(&format!("p{i}/prompt_ids")), reference.ids(&key("tokens")));
            let (logits, stops) = (reference.f32(&key("logits")), reference.f32(&key("stop_logit")));
            let columns = model.ids.units() + 1;
            let scale = logits.iter().fold(0f32, |m, v| m.max(v.abs()));
            model.backbone.reset(&model.compute, 0).unwrap();
            let mut start = 0;
            for (step, token) in tokens.iter().enumerate() {
                let rows = Rows { segments: vec![Segment { slot: 0, start, len: feed.len() }] };
                let heads = model.backbone.forward(&model.compute, &feed, &rows).unwrap();
                let tolerance = 1e-3;
                if step % 4 == 0 {
                    let ours = model.compute.read(&heads.logits).unwrap();
                    let theirs = &logits[step / 4 * columns..][..columns];
                    let error = ours.iter().zip(theirs).fold(0f32, |m, (a, b)| m.max((a - b).abs())) / scale;
                    assert!(error < tolerance, "{run} p{i} step {step}: logits off by {error}");
                }
                let stop = model.compute.read(&heads.stop).unwrap()[0];
                assert_eq!(stop > 0.0, stops[step] > 0.0, "{run} p{i} step {step}: stop decision");
                assert!((stop - stops[step]).abs() < 10.0 * tolerance, "{run} p{i} step {step}: stop logit");
                start += feed.len();
                feed = vec![*token];
            }
        }
    }
}

/// Speaks prompt `i` alone and returns the tokens, the end and the samples.
fn speak(model: &mut TinyAya<Cpu>, i: usize) -> (Vec<u32>, Stop, Vec<f32>) {
    model.admit(0, &utterance(i)).unwrap();
    let (mut tokens, mut samples) = (vec![model.slots[0].as_ref().unwrap().last], Vec::new());
    loop {
        let step = model.step(&[0]).unwrap().pop().unwrap();
        samples.extend(step.audio);
        let slot = model.slots[0].as_ref().unwrap();
        match step.end {
            None => tokens.push(slot.last),
            Some(Stop::StopHead | Stop::EndToken) => tokens.push(model.ids.end),
            Some(_) => tokens.push(slot.last),
        }
        if let Some(end) = step.end {
            model.retire(0).unwrap();
            return (tokens, end, samples);
        }
    }
}

#[test]
fn greedy_speech_is_the_references() {
    for (run, name, activations) in RUNS {
        let (mut model, reference) = (load(name, activations, 1), Reference::of(name));
        for i in 0..PROMPTS.len() {
            let (tokens, end, samples) = speak(&mut model, i);
            let expected = reference.ids(&format!("{run}/p{i}/tokens"));
            assert_eq!(tokens, expected, "{run} p{i}");
            assert_eq!(end.truncated(), expected.last() != Some(&model.ids.end), "{run} p{i}");
            let wav = reference.f32(&format!("{run}/p{i}/wav"));
            assert_eq!(samples.len(), wav.len());
            let error = samples.iter().zip(&wav).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
            assert!(error < 1e-4, "{run} p{i}: samples off by {error}");
        }
    }
}

#[test]
fn frames_resynchronise_as_the_reference_does() {
    let (model, reference) = (load("tinyaya-bf16", Activations::Full, 1), Reference::of("tinyaya-bf16"));
    let mut assembler = Assembler::default();
    let tokens = reference.ids("resync/tokens");
    let until_end = tokens.iter().take_while(|t| **t != model.ids.end);
    let frames: Vec<Vec<u32>> = until_end.filter_map(|t| assembler.push(*t, &model.ids)).collect();
    assert_eq!(frames, reference.frames("resync/codes", model.ids.quantizers));
}

#[test]
fn linears_match_the_recorded_vectors() {
    let checkpoint = Checkpoint::open(Source::Folder(fixture("tinyaya-nvfp4"))).unwrap();
    let config = Config::read(&checkpoint).unwrap();
    let codec = mimi::Config::read(&checkpoint.json("codec/config.json").unwrap()).unwrap();
    let (weights, _) = checkpoint.contract(|c| (Weights::ask(c, &config), mimi::Weights::ask(c, &codec, 8))).unwrap();
    let reference = Reference::of("tinyaya-nvfp4");
    let compute = Cpu::new(Some(1)).unwrap();
    let x = reference.f32("linear/x");
    for (activations, name) in [(Activations::Full, "linear/y_w4a16"), (Activations::Fp4, "linear/y_w4a4")] {
        let linear = compute.prepare_linear(std::slice::from_ref(&weights.layers[0].q), None, activations).unwrap();
        let (mut input, mut output) = (compute.buffer(), compute.buffer());
        compute.write(&x, config.hidden, &mut input).unwrap();
        compute.linear(&linear, View { buffer: &input, at: 0, width: config.hidden }, &mut output).unwrap();
        let ours = compute.read(&output).unwrap();
        // The rows differ in magnitude by 2^24: each has its own scale.
        for (row, (a, b)) in ours.chunks(config.hidden).zip(reference.f32(name).chunks(config.hidden)).enumerate() {
            let error = difference(a, b);
            assert!(error < 2e-6, "{name} row {row}: off by {error}");
        }
    }
}
