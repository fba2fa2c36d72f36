//! Parity with what the official package computes in float32 on the tiny checkpoints, tier by tier. How the references
//! were made: `tools/trim_voxcpm2.py`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors::SafeTensors;

use super::locdit::Solve;
use super::*;
use crate::checkpoint::{Checkpoint, Source};
use crate::compute::cpu::Cpu;
use crate::models::Prompt as Continued;

const FIXTURES: [&str; 2] = ["voxcpm2-bf16", "voxcpm2-nvfp4"];
const CASES: [&str; 6] = ["zero_shot_en", "zero_shot_zh", "control", "reference", "continuation", "combined"];
const CFG: f32 = 2.0;
const STEPS: usize = 10;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn open(name: &str) -> Checkpoint {
    Checkpoint::open(Source::Folder(fixture(name))).unwrap()
}

/// The recorded arrays of a fixture, by `CASE/NAME`.
struct Reference(Vec<u8>);

impl Reference {
    fn of(name: &str) -> Self {
        Self(std::fs::read(fixture(name).join("reference.safetensors")).unwrap())
    }

    fn shape(&self, case: &str, name: &str) -> Vec<usize> {
        SafeTensors::deserialize(&self.0).unwrap().tensor(&format!("{case}/{name}")).unwrap().shape().to_vec()
    }

    fn f32(&self, case: &str, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(&format!("{case}/{name}")).unwrap();
        tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    fn i32(&self, case: &str, name: &str) -> Vec<u32> {
        self.f32(case, name).into_iter().map(f32::to_bits).collect()
    }

    /// The noise of a case, frame-major as the model has it. `[steps, P, latent]`
    fn noise(&self, case: &str) -> Vec<f32> {
        let [_, latent, patch] = self.shape(case, "noise")[..] else { panic!() };
        let transposed = |step: &[f32]| -> Vec<f32> {
            (0..patch).flat_map(|p| (0..latent).map(move |d| (p, d))).map(|(p, d)| step[d * patch + p]).collect()
        };
        self.f32(case, "noise").chunks_exact(patch * latent).flat_map(transposed).collect()
    }

    /// The case as an utterance; recordings come as the reference's own latents.
    fn utterance(&self, case: &str, dim: usize) -> Utterance {
        let (mask, values) = (self.i32(case, "audio_mask"), self.f32(case, "audio_feat"));
        let ids = self.i32(case, "text_token");
        let count = mask.iter().filter(|m| **m == 1).count();
        let per_patch = values.len() / count.max(1);
        let first = ids.iter().position(|id| *id == 104).map_or(0, |end| end - 1);
        let latents = |values: &[f32]| Arc::new(Latents { values: values.to_vec(), dim });
        let (reference, continued) = values.split_at(first * per_patch);
        assert_eq!(self.shape(case, "noise")[0], self.shape(case, "patches")[0]);
        let (style, said, text) = match case {
            "zero_shot_en" => (None, None, "Hello, world! This is a test."),
            "zero_shot_zh" => (None, None, "今天天气很好，你好世界。"),
            "control" => (Some("A young woman, gentle"), None, "Hello there!"),
            "reference" => (None, None, "Hello, world!"),
            "continuation" => (None, Some("你好，世界！"), "This is a test."),
            _ => (None, Some("Hello, world!"), " This is a test."),
        };
        Utterance {
            text: text.into(),
            style: style.map(String::from),
            reference: (!reference.is_empty()).then(|| latents(reference)),
            prompt: said.map(|text| Continued { text: text.into(), latents: latents(continued) }),
            max_seconds: Some(1.28),
            ..Utterance::default()
        }
    }
}

/// The model without its codec.
struct Core {
    compute: Cpu,
    config: Config,
    tokenizer: Tokenizer,
    patches: Patches<Cpu>,
}

impl Core {
    fn load(name: &str, slots: usize) -> Self {
        let checkpoint = open(name);
        let config = Config::read(&checkpoint).unwrap();
        let tokenizer = Tokenizer::read(&checkpoint, config.vocabulary).unwrap();
        let weights = checkpoint
            .contract(|c| {
                c.ignore("audiovae/*");
                Weights::ask(c, &config)
            })
            .unwrap();
        let compute = Cpu::new(Some(2)).unwrap();
        let patches = Patches::new(&compute, &config, &weights, slots, Activations::Full).unwrap();
        Self { compute, config, tokenizer, patches }
    }

    fn prompt(&self, reference: &Reference, case: &str) -> Prompt {
        prompt(&self.tokenizer, &self.config, &reference.utterance(case, self.config.latent)).unwrap()
    }

    fn want(step: usize) -> Want {
        let draw = Draw { seed: 0, step: step as u32, scale: 1.0 };
        Want { slot: 0, draw, solve: Solve { steps: STEPS, cfg: CFG } }
    }

    fn states(&self) -> [Vec<f32>; 2] {
        let row = |state| self.compute.read(state).unwrap()[..self.config.base.hidden].to_vec();
        self.patches.language.states().each_ref().map(row)
    }
}

/// The largest difference.
fn difference(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).fold(0f32, |m, (a, b)| m.max((a - b).abs()))
}

#[test]
fn texts_become_the_references_ids() {
    let checkpoint = open(FIXTURES[0]);
    let config = Config::read(&checkpoint).unwrap();
    let tokenizer = Tokenizer::read(&checkpoint, config.vocabulary).unwrap();
    let cases: serde_json::Value =
        serde_json::from_slice(&std::fs::read(fixture(FIXTURES[0]).join("tokenizer_cases.json")).unwrap()).unwrap();
    for case in cases.as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let expected: Vec<u32> = case["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        assert_eq!(tokenizer.encode(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn every_mode_is_laid_out_as_the_reference() {
    for fixture in FIXTURES {
        let (core, reference) = (Core::load(fixture, 1), Reference::of(fixture));
        for case in CASES {
            let prompt = core.prompt(&reference, case);
            let mask = reference.i32(case, "audio_mask");
            let audio: Vec<usize> = (0..mask.len()).filter(|i| mask[*i] == 1).collect();
            assert_eq!(prompt.ids, reference.i32(case, "text_token"), "{case}");
            assert_eq!(prompt.audio, audio, "{case}");
            assert_eq!(prompt.patches, reference.f32(case, "audio_feat"), "{case}");
            assert_eq!(prompt.continues(), case == "continuation" || case == "combined");
        }
    }
}

#[test]
fn prefill_matches() {
    for fixture in FIXTURES {
        let (mut core, reference) = (Core::load(fixture, 2), Reference::of(fixture));
        for case in CASES {
            let prompt = core.prompt(&reference, case);
            let width = core.config.base.hidden;
            // In slot 1 first: what another slot held makes no difference.
            core.patches.admit(&core.compute, 1, &prompt, STEPS).unwrap();
            core.patches.admit(&core.compute, 0, &prompt, STEPS).unwrap();
            let [e, r] = core.states();
            let last = |name: &str| reference.f32(case, name)[..width].to_vec();
            let off = [difference(&e, &last("lm_hidden")), difference(&r, &last("residual_hidden"))];
            assert!(off.iter().all(|off| *off < 2e-5), "{fixture} {case}: {off:?}");
            let rows = reference.f32(case, "prefill_residual");
            assert!(difference(&r, &rows[rows.len() - width..]) < 2e-5, "{fixture} {case}");
        }
    }
}

#[test]
fn prefill_matches_at_every_position() {
    for fixture in FIXTURES {
        let (mut core, reference) = (Core::load(fixture, 1), Reference::of(fixture));
        let case = "combined";
        let prompt = core.prompt(&reference, case);
        let (width, compute) = (core.config.base.hidden, &core.compute);
        let (mut x, mut f) = (compute.buffer(), compute.buffer());
        compute.write(&prompt.patches, core.config.latent, &mut x).unwrap();
        core.patches.encoder.run(compute, &x, prompt.audio.len(), &mut f).unwrap();
        let embedded = reference.f32(case, "prefill_feat_embed");
        for (ours, at) in compute.read(&f).unwrap().chunks_exact(width).zip(&prompt.audio) {
            let off = difference(ours, &embedded[at * width..][..width]);
            assert!(off < 2e-5, "{fixture}: LocEnc at {at} is off by {off}");
        }
        // A prompt cut after any position ends in that position's states.
        let [fused, residual] = ["prefill_fsq_mixed", "prefill_residual"].map(|name| reference.f32(case, name));
        for len in 1..=prompt.positions() {
            let audio: Vec<usize> = prompt.audio.iter().copied().filter(|at| *at < len).collect();
            let patches = prompt.patches[..audio.len() * core.config.patch * core.config.latent].to_vec();
            let cut = Prompt { ids: prompt.ids[..len].to_vec(), audio, patches, target: prompt.target };
            core.patches.admit(&core.compute, 0, &cut, STEPS).unwrap();
            let [e, r] = core.states();
            let at = (len - 1) * width..len * width;
            let off = [difference(&e, &fused[at.clone()]), difference(&r, &residual[at])];
            assert!(off.iter().all(|off| *off < 2e-5), "{fixture}: position {} is off by {off:?}", len - 1);
        }
    }
}

#[test]
fn the_estimators_calls_match() {
    for fixture in FIXTURES {
        let (mut core, reference) = (Core::load(fixture, 1), Reference::of(fixture));
        let (case, compute) = ("combined", &core.compute);
        let (patch, latent) = (core.config.patch, core.config.latent);
        let (mu, x, v) = (reference.f32(case, "mu"), reference.f32(case, "dit_x"), reference.f32(case, "dit_v"));
        let prompt = core.prompt(&reference, case);
        let width = core.config.decoder.hidden;
        let buffer = |values: &[f32], cols| {
            let mut buffer = compute.buffer();
            compute.write(values, cols, &mut buffer).unwrap();
            buffer
        };
        let mu = [buffer(&mu[..width], width), buffer(&mu[width..2 * width], width)];
        let before = buffer(&prompt.patches[prompt.patches.len() - patch * latent..], latent);
        let size = patch * latent;
        let turned =
            |values: &[f32]| -> Vec<f32> { (0..size).map(|i| values[i % latent * patch + i / latent]).collect() };
        let dit = &mut core.patches.decoder;
        dit.prepare(compute, STEPS).unwrap();
        dit.begin(compute, [&mu[0], &mu[1]], &before, 1).unwrap();
        let solve = [Solve { steps: STEPS, cfg: CFG }];
        assert_eq!(x.len(), 9 * 2 * size);
        for (at, (x, v)) in x.chunks_exact(2 * size).zip(v.chunks_exact(2 * size)).enumerate() {
            let x = buffer(&turned(&x[..size]), latent);
            let ours = compute.read(dit.velocities(compute, &solve, &[0], at, &x).unwrap()).unwrap();
            for (half, (ours, theirs)) in ours.chunks(size).zip(v.chunks(size)).enumerate() {
                let off = difference(ours, &turned(theirs));
                assert!(off < 5e-5, "{fixture}: call {at}, half {half} is off by {off}");
            }
        }
        let times = times::times(STEPS);
        let points = |name: &str| reference.f32(case, name)[1..].to_vec();
        let ours = |of: fn(&times::Time) -> f32| times.iter().map(of).collect::<Vec<_>>();
        assert!(difference(&ours(|time| time.t), &points("euler_t")) < 1e-6);
        assert!(difference(&ours(|time| time.dt), &points("euler_dt")) < 1e-6);
    }
}

#[test]
fn steps_match_when_the_recorded_patches_are_fed() {
    for fixture in FIXTURES {
        let (mut core, reference) = (Core::load(fixture, 1), Reference::of(fixture));
        for case in CASES {
            let prompt = core.prompt(&reference, case);
            let (width, size) = (core.config.base.hidden, core.config.patch * core.config.latent);
            let [e, r, patches, stops] =
                ["lm_hidden", "residual_hidden", "patches", "stop_logits"].map(|name| reference.f32(case, name));
            core.patches.replay(reference.noise(case));
            core.patches.admit(&core.compute, 0, &prompt, STEPS).unwrap();
            for (step, patch) in patches.chunks_exact(size).enumerate() {
                let states = core.states();
                let got = core.patches.next(&core.compute, &[Core::want(step)]).unwrap().remove(0);
                let off = [
                    difference(&states[0], &e[step * width..][..width]),
                    difference(&states[1], &r[step * width..][..width]),
                    difference(&got.patch, patch),
                    difference(&got.stop, &stops[2 * step..][..2]),
                ];
                assert!(off.iter().all(|off| *off < 5e-5), "{fixture} {case} step {step}: {off:?}");
                core.patches.teach(&core.compute, 0, patch).unwrap();
                core.patches.embed(&core.compute, &[0]).unwrap();
                core.patches.feed(&core.compute, &[0], &[prompt.positions() + step]).unwrap();
            }
        }
    }
}

#[test]
fn free_running_latents_and_stop_logits_match() {
    for fixture in FIXTURES {
        let (mut core, reference) = (Core::load(fixture, 1), Reference::of(fixture));
        for case in CASES {
            let prompt = core.prompt(&reference, case);
            core.patches.replay(reference.noise(case));
            core.patches.admit(&core.compute, 0, &prompt, STEPS).unwrap();
            let (mut latents, mut stops) = (Vec::new(), Vec::new());
            let steps = reference.shape(case, "patches")[0];
            for step in 0..steps {
                let got = core.patches.next(&core.compute, &[Core::want(step)]).unwrap().remove(0);
                latents.extend(got.patch);
                stops.extend(got.stop);
                core.patches.embed(&core.compute, &[0]).unwrap();
                core.patches.feed(&core.compute, &[0], &[prompt.positions() + step]).unwrap();
            }
            let off = difference(&latents, &reference.f32(case, "patches"));
            assert!(off < 1e-4, "{fixture} {case}: latents off by {off}");
            let off = difference(&stops, &reference.f32(case, "stop_logits"));
            assert!(off < 1e-4, "{fixture} {case}: stop logits off by {off}");
        }
    }
}

/// Every seventh sample is recorded.
const EVERY: usize = 7;

fn model(name: &str, slots: usize) -> VoxCpm2<Cpu> {
    VoxCpm2::load(&open(name), Cpu::new(Some(2)).unwrap(), &Options { slots, ..Options::default() }).unwrap()
}

/// Speaks in one slot, patch by patch.
fn speak(model: &mut VoxCpm2<Cpu>, slot: usize, utterance: &Utterance) -> (Vec<f32>, Stop) {
    model.admit(slot, utterance).unwrap();
    let mut samples = Vec::new();
    loop {
        let step = model.step(&[slot]).unwrap().remove(0);
        samples.extend(step.audio);
        if let Some(end) = step.end {
            let said = model.spoken(slot).unwrap();
            assert_eq!(said.values.len() / said.dim * model.codec.config().hop_out, samples.len());
            model.retire(slot).unwrap();
            return (samples, end);
        }
    }
}

#[test]
fn free_running_speech_is_the_references() {
    for fixture in FIXTURES {
        let (mut model, reference) = (model(fixture, 1), Reference::of(fixture));
        for case in CASES {
            model.patches.replay(reference.noise(case));
            let utterance = reference.utterance(case, model.config.latent);
            let (samples, end) = speak(&mut model, 0, &utterance);
            let stopped = if case == "zero_shot_en" { (6, Stop::StopHead) } else { (8, Stop::Length) };
            assert_eq!((samples.len(), end), (stopped.0 * 7680, stopped.1), "{fixture} {case}");
            let kept: Vec<f32> = samples.into_iter().step_by(EVERY).collect();
            let off = difference(&kept, &reference.f32(case, "wav"));
            assert!(off < 1e-4, "{fixture} {case}: samples off by {off}");
        }
    }
}

#[test]
fn speech_begins_as_if_the_recording_were_decoded_too() {
    let (mut model, reference) = (model(FIXTURES[0], 2), Reference::of(FIXTURES[0]));
    for case in ["continuation", "combined", "reference"] {
        let utterance = reference.utterance(case, model.config.latent);
        model.admit(0, &utterance).unwrap();
        let (mut samples, mut end) = (Vec::new(), None);
        while end.is_none() {
            let step = model.step(&[0]).unwrap().remove(0);
            samples.extend(step.audio);
            end = step.end;
        }
        let size = model.config.patch * model.config.latent;
        let mut latents = match &utterance.prompt {
            // The fixture's reference is shorter than three patches; its prompt is longer.
            Some(continued) => continued.latents.values[continued.latents.values.len() - 3 * size..].to_vec(),
            None => Vec::new(),
        };
        let context = latents.len() / model.config.latent * model.codec.config().hop_out;
        latents.extend(model.spoken(0).unwrap().values);
        let whole = model.codec.decode(&model.compute, 1, &latents).unwrap();
        assert!(whole[context..] == samples, "{case}: streaming is not the whole");
        model.retire(0).unwrap();
    }
}

#[test]
fn recordings_become_the_references_latents() {
    let (mut model, reference) = (model(FIXTURES[0], 1), Reference::of(FIXTURES[0]));
    for (file, role, case) in
        [("prompt.wav", Role::Prompt, "continuation"), ("reference.wav", Role::Reference, "reference")]
    {
        let mut reader = hound::WavReader::open(fixture(FIXTURES[0]).join("audio").join(file)).unwrap();
        assert_eq!(Some(reader.spec().sample_rate), model.listens_at());
        let samples: Vec<f32> = reader.samples::<i16>().map(|s| f32::from(s.unwrap()) / 32768.0).collect();
        let latents = model.listen(&samples, role).unwrap();
        let expected = reference.f32(case, "audio_feat");
        let scale = expected.iter().fold(0f32, |m, v| m.max(v.abs()));
        let off = difference(&latents.values, &expected) / scale;
        assert!(off < 1e-4, "{file} is off by {off}");
    }
    assert_eq!(model.ear(), self::model(FIXTURES[1], 1).ear(), "both fixtures have one codec");
}

#[test]
fn utterances_that_make_no_sense_are_refused() {
    let model = model(FIXTURES[1], 1);
    let reference = Reference::of(FIXTURES[1]);
    let good = reference.utterance("combined", model.config.latent);
    model.check(&good).unwrap();
    let short = Arc::new(Latents { values: vec![0.0; 3 * model.config.latent], dim: model.config.latent });
    let other = Arc::new(Latents { values: vec![0.0; 16], dim: 2 });
    let long = Arc::new(Latents { values: vec![0.0; 1024 * model.config.latent], dim: model.config.latent });
    let said = |text: &str| {
        let latents = good.prompt.as_ref().unwrap().latents.clone();
        Some(Continued { text: text.into(), latents })
    };
    let cases: [(Utterance, &str); 17] = [
        (Utterance { text: " \n".into(), ..good.clone() }, "no text"),
        (Utterance { text: "a <|audio_start|> b".into(), ..good.clone() }, "`<|audio_start|>`"),
        (Utterance { text: "a <|audio_prompt_end|>".into(), ..good.clone() }, "`<|audio_prompt_end|>`"),
        (Utterance { text: "a </s>".into(), ..good.clone() }, "`</s>`"),
        (Utterance { style: Some("calm".into()), ..good.clone() }, "exclude"),
        (Utterance { style: Some("<s>".into()), prompt: None, ..good.clone() }, "the style"),
        (Utterance { voice: Some("Ira".into()), ..good.clone() }, "`Ira`"),
        (Utterance { prompt: said(" "), ..good.clone() }, "words of the recording"),
        (Utterance { prompt: said("<s>"), ..good.clone() }, "the prompt's text"),
        (Utterance { reference: Some(short), ..good.clone() }, "patches of 4"),
        (Utterance { reference: Some(other), ..good.clone() }, "frames of 2"),
        (Utterance { reference: Some(long), ..good.clone() }, "holds 256"),
        (Utterance { temperature: Some(-1.0), ..good.clone() }, "temperature"),
        (Utterance { cfg: Some(f32::NAN), ..good.clone() }, "guidance"),
        (Utterance { solver_steps: Some(1), ..good.clone() }, "solver steps"),
        (Utterance { max_seconds: Some(0.15), ..good.clone() }, "one patch"),
        (Utterance { max_seconds: Some(f32::NAN), ..good.clone() }, "one patch"),
    ];
    for (utterance, part) in cases {
        let text = model.check(&utterance).unwrap_err().to_string();
        assert!(text.contains(part), "{text} lacks {part}");
    }
    let describing = Utterance { text: "<|background|>quiet<|/background|>".into(), ..Utterance::default() };
    model.check(&describing).unwrap();
}

#[test]
fn styles_and_white_space_are_written_as_the_model_knows_them() {
    let core = Core::load(FIXTURES[0], 1);
    let layout = |text: &str, style: Option<&str>| {
        let utterance = Utterance { text: text.into(), style: style.map(String::from), ..Utterance::default() };
        prompt(&core.tokenizer, &core.config, &utterance).unwrap()
    };
    assert_eq!(
        layout("Hello there!", Some(" A (young) woman,\ngentle（）")),
        layout("(A young woman, gentle)Hello there!", None)
    );
    assert_eq!(layout("a\n\n\u{1f}b\u{3000} c", None), layout("a b c", None));
    assert_eq!(layout("a", Some("()")), layout("a", None));
}

#[test]
fn limits_end_utterances_and_say_which() {
    let mut model = model(FIXTURES[0], 1);
    let reference = Reference::of(FIXTURES[0]);
    let base = Utterance { max_seconds: None, temperature: Some(0.0), ..reference.utterance("zero_shot_zh", 16) };
    let plan = |model: &VoxCpm2<Cpu>, utterance: &Utterance| {
        let (prompt, limits) = model.plan(utterance).unwrap();
        (prompt.positions(), prompt.target, limits.patches, limits.stop)
    };
    let (positions, target, patches, stop) = plan(&model, &base);
    assert_eq!((patches, stop), (6 * target + 10, Stop::Runaway));
    assert_eq!(positions, target + 1);
    for (seconds, patches) in [(1.28, 8), (1.279, 7), (0.16, 1), (1.4399, 8), (1.44, 9)] {
        let limited = Utterance { max_seconds: Some(seconds), ..base.clone() };
        assert_eq!(plan(&model, &limited).2, patches, "{seconds} seconds");
    }
    let limited = Utterance { max_seconds: Some(0.32), ..base.clone() };
    let (samples, end) = speak(&mut model, 0, &limited);
    assert_eq!((samples.len(), end), (2 * 7680, Stop::Length));

    // A prompt that nearly fills the context: the last patch still has a place.
    let size = model.config.patch * model.config.latent;
    let room = model.config.max_positions - positions - 2 - 6;
    let latents = Arc::new(Latents { values: vec![0.1; room * size], dim: model.config.latent });
    let full = Utterance { reference: Some(latents), ..base };
    assert_eq!(plan(&model, &full), (model.config.max_positions - 6, target, 7, Stop::Context));
    let (samples, end) = speak(&mut model, 0, &full);
    assert!(samples.len() == 7 * 7680 && end == Stop::Context || end == Stop::StopHead, "{end:?}");
}
