//! AudioVAE on the tiny checkpoint: every block and the whole against the recorded values, streaming equal to the whole,
//! and no tensor that could be left out.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;

use super::*;
use crate::checkpoint::{Checkpoint, Source, Tensor};
use crate::compute::cpu::{Buffer, Cpu};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn open(folder: &Path) -> Result<(Config, Weights)> {
    let checkpoint = Checkpoint::open(Source::Folder(folder.into()))?;
    let config = Config::read(checkpoint.config())?;
    let weights = checkpoint.contract(|c| {
        for glob in ["base_lm.*", "residual_lm.*", "feat_*", "fsq_layer.*", "stop_*", "*_proj.*"] {
            c.ignore(glob);
        }
        Weights::ask(c, &config)
    })?;
    Ok((config, weights))
}

fn codec(slots: usize) -> (Cpu, AudioVae<Cpu>) {
    let (config, weights) = open(&data("voxcpm2-bf16")).unwrap();
    let compute = Cpu::new(Some(1)).unwrap();
    let vae = AudioVae::new(&compute, config, &weights, slots).unwrap();
    (compute, vae)
}

/// Recorded values `[channels, time]`, by name, as rows `[time, channels]`, and how many channels.
struct Recorded(BTreeMap<String, (Vec<f32>, usize)>);

impl Recorded {
    fn load() -> Self {
        let bytes = std::fs::read(data("audiovae/blocks.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let rows = |view: TensorView<'_>| {
            let values: Vec<f32> =
                view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
            let channels = if view.shape().len() == 2 { view.shape()[0] } else { 1 };
            let time = values.len() / channels;
            ((0..values.len()).map(|i| values[i % channels * time + i / channels]).collect(), channels)
        };
        Self(file.tensors().into_iter().map(|(name, view)| (name, rows(view))).collect())
    }

    fn get(&self, name: &str) -> &[f32] {
        &self.0[name].0
    }

    fn write(&self, compute: &Cpu, name: &str, out: &mut Buffer) -> Rows {
        let (values, channels) = &self.0[name];
        compute.write(values, *channels, out).unwrap();
        Rows { segments: vec![Segment { slot: 0, start: 0, len: values.len() / channels }] }
    }
}

/// Equal to 1e-5 of the largest value or of 1.
fn close(ours: &[f32], theirs: &[f32], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let largest = theirs.iter().fold(1f32, |most, v| most.max(v.abs()));
    let error = ours.iter().zip(theirs).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
    assert!(error <= 1e-5 * largest, "{what}: off by {error}, the largest value is {largest}");
}

#[test]
fn every_block_of_the_decoder_matches_the_reference() {
    let recorded = Recorded::load();
    let (compute, mut vae) = codec(1);
    // Each block on the reference's own input, so that none hides behind another.
    let mut rows = recorded.write(&compute, "latents", &mut vae.work[0]);
    vae.decoder.widen(&compute, &mut vae.work, &rows).unwrap();
    close(&compute.read(&vae.work[0]).unwrap(), recorded.get("decoder/1"), "decoder/1");
    for (i, stage) in vae.decoder.stages.iter_mut().enumerate() {
        recorded.write(&compute, &format!("decoder/{}", i + 1), &mut vae.work[0]);
        rows = stage.run(&compute, &mut vae.work, rows).unwrap();
        let name = format!("decoder/{}", i + 2);
        close(&compute.read(&vae.work[0]).unwrap(), recorded.get(&name), &name);
    }
    let stages = vae.decoder.stages.len();
    recorded.write(&compute, &format!("decoder/{}", stages + 1), &mut vae.work[0]);
    let samples = vae.decoder.finish(&compute, &mut vae.work, &rows).unwrap();
    close(&samples, recorded.get(&format!("decoder/{}", stages + 4)), "finish");
}

#[test]
fn every_block_of_the_encoder_matches_the_reference() {
    let recorded = Recorded::load();
    let (compute, mut vae) = codec(1);
    let mut rows = recorded.write(&compute, "samples", &mut vae.work[0]);
    vae.encoder.first.run(&compute, &mut vae.work, &rows).unwrap();
    close(&compute.read(&vae.work[0]).unwrap(), recorded.get("encoder/0"), "encoder/0");
    for (i, stage) in vae.encoder.stages.iter_mut().enumerate() {
        recorded.write(&compute, &format!("encoder/{i}"), &mut vae.work[0]);
        rows = stage.run(&compute, &mut vae.work, rows).unwrap();
        let name = format!("encoder/{}", i + 1);
        close(&compute.read(&vae.work[0]).unwrap(), recorded.get(&name), &name);
    }
    recorded.write(&compute, &format!("encoder/{}", vae.encoder.stages.len()), &mut vae.work[0]);
    vae.encoder.mu.run(&compute, &mut vae.work, &rows).unwrap();
    close(&compute.read(&vae.work[0]).unwrap(), recorded.get("encoded"), "mu");
}

#[test]
fn whole_signals_match_the_reference() {
    let recorded = Recorded::load();
    let (compute, mut vae) = codec(2);
    // Twice: the second run must not hear the first.
    for _ in 0..2 {
        close(&vae.decode(&compute, 1, recorded.get("latents")).unwrap(), recorded.get("decoded"), "decoded");
        let encoded = vae.encode(&compute, recorded.get("samples"), Role::Reference, 1).unwrap();
        assert_eq!(encoded.dim, 16);
        close(&encoded.values, recorded.get("encoded"), "encoded");
    }
}

#[test]
fn silence_fills_whole_patches_on_the_side_of_the_role() {
    let recorded = Recorded::load();
    let (compute, mut vae) = codec(1);
    let samples = &recorded.get("samples")[..1000];
    let mut encode = |samples: &[f32], role, patch| vae.encode(&compute, samples, role, patch).unwrap().values;
    // The reference itself fills up to a whole frame, after the recording.
    close(&encode(samples, Role::Reference, 1), recorded.get("encoded_cut"), "cut");
    for (role, before, patch) in [(Role::Reference, 0, 4), (Role::Prompt, 1560, 4), (Role::Prompt, 280, 1)] {
        let mut filled = vec![0.0; before];
        filled.extend_from_slice(samples);
        filled.resize(filled.len().next_multiple_of(640 * patch), 0.0);
        let ours = encode(samples, role, patch);
        assert_eq!(ours.len() / 16 * 640, filled.len());
        assert_eq!(ours, encode(&filled, Role::Reference, 1), "{role:?} {patch}");
    }
    assert!(encode(&[], Role::Prompt, 4).is_empty());
}

#[test]
fn long_recordings_equal_their_parts() {
    // Longer than what is encoded at once; a part in the middle is the same whatever follows.
    let (compute, mut vae) = codec(1);
    let samples: Vec<f32> = (0..640 * 40).map(|i| (i as f32 * 0.37).sin() * (i as f32 * 1e-4).cos()).collect();
    let whole = vae.encode(&compute, &samples, Role::Reference, 1).unwrap().values;
    assert_eq!(whole.len(), 40 * 16);
    for frames in [1, TOGETHER - 1, TOGETHER, TOGETHER + 1, 39] {
        let part = vae.encode(&compute, &samples[..640 * frames], Role::Reference, 1).unwrap().values;
        assert_eq!(part, whole[..frames * 16], "{frames}");
    }
}

#[test]
fn another_output_rate_takes_another_row() {
    let recorded = Recorded::load();
    let (mut config, _) = open(&data("voxcpm2-bf16")).unwrap();
    config.sample_rate_out = 24_000;
    let checkpoint = Checkpoint::open(Source::Folder(data("voxcpm2-bf16"))).unwrap();
    let weights = checkpoint.contract(|c| {
        c.ignore("*");
        Weights::ask(c, &config)
    });
    let compute = Cpu::new(Some(1)).unwrap();
    let mut vae = AudioVae::new(&compute, config, &weights.unwrap(), 1).unwrap();
    let ours = vae.decode(&compute, 0, recorded.get("latents")).unwrap();
    close(&ours, recorded.get("decoded_at_24000"), "decoded at 24000");
}

/// The frames of three streams of different length.
fn streams() -> [Vec<f32>; 3] {
    [7, 23, 1].map(|frames| (0..frames * 16).map(|i| ((i * i + frames) as f32 * 0.61).sin()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn streaming_equals_the_whole_for_any_chunking(cuts in prop::collection::vec((0usize..3, 0usize..5), 1..20)) {
        let (compute, mut vae) = codec(3);
        let streams = streams();
        let whole: Vec<Vec<f32>> = streams.iter().map(|z| vae.decode(&compute, 1, z).unwrap()).collect();
        for slot in 0..3 {
            vae.reset(&compute, slot).unwrap();
        }
        let (mut at, mut said) = ([0; 3], [Vec::new(), Vec::new(), Vec::new()]);
        let mut feed = |slots: &[usize], count: usize| {
            let end = |slot: usize, at: &[usize; 3]| (at[slot] + count * 16).min(streams[slot].len());
            let chunks: Vec<Chunk<'_>> =
                slots.iter().map(|slot| Chunk { slot: *slot, latents: &streams[*slot][at[*slot]..end(*slot, &at)] }).collect();
            for (slot, part) in slots.iter().zip(vae.decode_step(&compute, &chunks).unwrap()) {
                said[*slot].extend(part);
                at[*slot] = end(*slot, &at);
            }
        };
        // Each cut feeds one stream, and every third one a second stream beside it; then the rest of all three at once.
        for (n, (slot, count)) in cuts.iter().enumerate() {
            let slots = if n % 3 == 0 { vec![*slot, (*slot + 1) % 3] } else { vec![*slot] };
            feed(&slots, *count);
        }
        feed(&[2, 0, 1], 1000);
        for (stream, whole) in said.iter().zip(&whole) {
            prop_assert_eq!(stream, whole);
        }
    }
}

// ---- the contract

/// A checkpoint whose codec holds these tensors.
fn with_codec(tensors: &BTreeMap<String, Tensor>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(data("voxcpm2-bf16").join(file), folder.path().join(file)).unwrap();
    }
    let views = tensors.iter().map(|(name, t)| (name, TensorView::new(t.dtype, t.shape.clone(), &t.bytes).unwrap()));
    std::fs::write(folder.path().join("audiovae.safetensors"), safetensors::serialize(views, None).unwrap()).unwrap();
    folder
}

fn tensors() -> BTreeMap<String, Tensor> {
    let checkpoint = Checkpoint::open(Source::Folder(data("voxcpm2-bf16"))).unwrap();
    let codec =
        checkpoint.tensors().filter_map(|(name, t)| Some((name.strip_prefix("audiovae/")?.to_owned(), t.clone())));
    codec.collect()
}

#[test]
fn every_missing_tensor_is_named() {
    let all = tensors();
    assert_eq!(all.len(), 312);
    assert!(open(with_codec(&all).path()).is_ok());
    // One at a time is slow for all of them; a tenth leaves every kind in both halves.
    for name in all.keys().filter(|name| !name.contains("fc_logvar")).step_by(10) {
        let mut fewer = all.clone();
        fewer.remove(name);
        let error = open(with_codec(&fewer).path()).err().unwrap().to_string();
        assert!(error.contains(&format!("`audiovae/{name}`: missing")), "{name}: {error}");
    }
    // All at once: each is in the list of what is asked for.
    let error = open(with_codec(&BTreeMap::new()).path()).err().unwrap().to_string();
    assert!(error.contains("(309 in all)") && error.contains("missing"), "{error}");
}

#[test]
fn wrong_codecs_are_refused_by_name() {
    let broken = |change: &dyn Fn(&mut BTreeMap<String, Tensor>), parts: &[&str]| {
        let mut all = tensors();
        change(&mut all);
        let error = open(with_codec(&all).path()).err().unwrap().to_string();
        for part in parts {
            assert!(error.contains(part), "{error}\nlacks\n{part}");
        }
    };
    let v = "decoder.model.2.block.1.weight_v";
    broken(
        &|t| t.get_mut(v).unwrap().shape.swap(0, 1),
        &["`audiovae/decoder.model.2.block.1.weight_v`: shape [32, 64, 16]"],
    );
    broken(
        &|t| {
            let extra = t[v].clone();
            t.insert("decoder.model.2.block.9.weight".into(), extra);
        },
        &["`audiovae/decoder.model.2.block.9.weight`: left over"],
    );
    let zeros = |t: &mut Tensor| t.bytes = vec![0; t.bytes.len()].into();
    broken(&|t| zeros(t.get_mut(v).unwrap()), &["`audiovae/decoder.model.2.block.1.weight_v` has a row of zeros"]);
    broken(
        &|t| zeros(t.get_mut("decoder.sr_bin_boundaries").unwrap()),
        &["`audiovae/decoder.sr_bin_boundaries` is [0, 0, 0]", "[20000, 30000, 40000]"],
    );
}

#[test]
fn every_spelling_of_weight_norm_is_the_same_codec() {
    let recorded = Recorded::load();
    let all = tensors();
    let renamed = all.iter().map(|(name, tensor)| {
        let name = name.replace("weight_g", "parametrizations.weight.original0");
        (name.replace("weight_v", "parametrizations.weight.original1"), tensor.clone())
    });
    let mut whole = all.clone();
    for name in ["decoder.model.3.block.1", "decoder.model.3.block.2.block.1", "encoder.block.2.block.4"] {
        let folder = std::fs::read(data("audiovae/blocks.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&folder).unwrap();
        whole.remove(&format!("{name}.weight_g"));
        let mut tensor = whole.remove(&format!("{name}.weight_v")).unwrap();
        tensor.bytes = file.tensor(&format!("folded/{name}")).unwrap().data().to_vec().into();
        whole.insert(format!("{name}.weight"), tensor);
    }
    for tensors in [renamed.collect(), whole] {
        let (config, weights) = open(with_codec(&tensors).path()).unwrap();
        let compute = Cpu::new(Some(1)).unwrap();
        let mut vae = AudioVae::new(&compute, config, &weights, 1).unwrap();
        close(&vae.decode(&compute, 0, recorded.get("latents")).unwrap(), recorded.get("decoded"), "decoded");
        let encoded = vae.encode(&compute, recorded.get("samples"), Role::Reference, 1).unwrap();
        close(&encoded.values, recorded.get("encoded"), "encoded");
    }
}
