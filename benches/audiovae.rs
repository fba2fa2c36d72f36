//! Time of the full-size AudioVAE with random weights on the CPU: a patch of four frames, many slots, a recording.
//!
//! `cargo bench --bench audiovae [-- THREADS]` writes the codec once under the target folder (377 MB, in the real layout). A patch is
//! 0.16 s of speech. Floor of a patch of one slot: 183 MB of decoder weights over the read bandwidth that `cargo bench
//! --bench linear` prints, and 1.44 G multiply-adds and 7.8 M sines over what a core does of them. On a shared machine the
//! processor's time tells more than the clock's: with one thread, it is what the work takes on a free core.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rtts::checkpoint::{Checkpoint, Source};
use rtts::codecs::audiovae::{AudioVae, Chunk, Config, Weights};
use rtts::compute::Compute;
use rtts::compute::cpu::Cpu;
use rtts::models::Role;
use serde_json::{Map, Value, json};

/// Frames of a patch.
const PATCH: usize = 4;

fn main() {
    let begin = Instant::now();
    let checkpoint = Checkpoint::open(Source::Folder(folder())).unwrap();
    let config = Config::read(checkpoint.config()).unwrap();
    let weights = checkpoint
        .contract(|c| {
            c.ignore("*");
            Weights::ask(c, &config)
        })
        .unwrap();
    let threads = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let compute = Cpu::new(threads).unwrap();
    let mut vae = AudioVae::new(&compute, config, &weights, 8).unwrap();
    drop(weights);
    println!("{}: loaded in {:.2} s", compute.describe(), begin.elapsed().as_secs_f64());

    let latents: Vec<f32> = (0..64 * 25 * 4).map(|i| (i as f32 * 0.7).sin()).collect();
    for slots in [1, 2, 4, 8] {
        let chunks: Vec<Chunk<'_>> =
            (0..slots).map(|slot| Chunk { slot, latents: &latents[slot * 64..(slot + PATCH) * 64] }).collect();
        let what = format!("{slots} slots, a patch each");
        measured(&what, 0.16 * slots as f64, || drop(vae.decode_step(&compute, &chunks).unwrap()));
    }
    measured("4 s of speech at once", 4.0, || drop(vae.decode(&compute, 0, &latents).unwrap()));
    let samples: Vec<f32> = (0..16_000 * 4).map(|i| (i as f32 * 0.05).sin() * 0.3).collect();
    measured("encoding 4 s", 4.0, || drop(vae.encode(&compute, &samples, Role::Reference, PATCH).unwrap()));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!(
        "peak resident memory {}",
        status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("unknown").trim()
    );
}

/// Runs for a few seconds; prints the best time by the clock and the mean time of the processor, of all threads.
fn measured(what: &str, audio: f64, mut run: impl FnMut()) {
    run();
    let (all, busy) = (Instant::now(), processor());
    let (mut least, mut runs) = (f64::INFINITY, 0.0);
    while all.elapsed().as_secs_f64() < 4.0 {
        let begin = Instant::now();
        run();
        least = least.min(begin.elapsed().as_secs_f64());
        runs += 1.0;
    }
    let busy = (processor() - busy) / runs;
    println!("{what}: {:.1} ms (RTF {:.3}), processor {:.1} ms", least * 1e3, least / audio, busy * 1e3);
}

/// Seconds of user time so far, where Linux tells.
fn processor() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(11)?.parse::<f64>().ok());
    ticks.unwrap_or(f64::NAN) / 100.0
}

/// The folder of the random codec, written where it is missing.
fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = target.join("random-audiovae");
    if !folder.join("complete").exists() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.json"), json!({"architecture": "voxcpm2"}).to_string()).unwrap();
        let model = ["base_lm.norm.weight", "feat_decoder.x", "fusion_concat_proj.bias"];
        write(&folder.join("model.safetensors"), &model.map(|name| (name.to_owned(), vec![1])));
        write(&folder.join("audiovae.safetensors"), &codec());
        fs::write(folder.join("complete"), "").unwrap();
    }
    folder
}

/// Names and shapes of the real codec.
fn codec() -> Vec<(String, Vec<usize>)> {
    let mut out = Vec::new();
    let mut conv = |name: String, shape: [usize; 3], bias: usize| {
        out.push((format!("{name}.weight_g"), vec![shape[0], 1, 1]));
        out.push((format!("{name}.weight_v"), shape.to_vec()));
        out.push((format!("{name}.bias"), vec![bias]));
    };
    let mut alphas = Vec::new();
    let mut units = |conv: &mut dyn FnMut(String, [usize; 3], usize), p: &str, first: usize, c: usize| {
        for u in first..first + 3 {
            alphas.extend([0, 2].map(|i| (format!("{p}.{u}.block.{i}.alpha"), vec![1, c, 1])));
            conv(format!("{p}.{u}.block.1"), [c, 1, 7], c);
            conv(format!("{p}.{u}.block.3"), [c, c, 1], c);
        }
    };
    conv("encoder.block.0".into(), [128, 1, 7], 128);
    let mut scales = Vec::new();
    for (i, s) in [2, 5, 8, 8].into_iter().enumerate() {
        let (p, c) = (format!("encoder.block.{}.block", i + 1), 128 << i);
        units(&mut conv, &p, 0, c);
        conv(format!("{p}.4"), [2 * c, c, 2 * s], 2 * c);
        scales.push((format!("{p}.3.alpha"), vec![1, c, 1]));
    }
    conv("encoder.fc_mu".into(), [64, 2048, 3], 64);
    conv("decoder.model.0".into(), [64, 1, 7], 64);
    conv("decoder.model.1".into(), [2048, 64, 1], 2048);
    for (i, s) in [8, 6, 5, 2, 2, 2].into_iter().enumerate() {
        let (p, c) = (format!("decoder.model.{}.block", i + 2), 2048 >> i);
        scales.push((format!("{p}.0.alpha"), vec![1, c, 1]));
        conv(format!("{p}.1"), [c, c / 2, 2 * s], c / 2);
        units(&mut conv, &p, 2, c / 2);
        let condition = |part| (format!("decoder.sr_cond_model.{}.{part}_embed.weight", i + 2), vec![4, c]);
        scales.extend(["scale", "bias"].map(condition));
    }
    scales.push(("decoder.model.8.alpha".into(), vec![1, 32, 1]));
    conv("decoder.model.9".into(), [1, 32, 7], 1);
    out.extend(alphas);
    out.extend(scales);
    out.push(("decoder.sr_bin_boundaries".into(), vec![3]));
    out
}

/// Writes f32 tensors (the boundaries as integers) with random contents, streaming.
fn write(path: &Path, tensors: &[(String, Vec<usize>)]) {
    let (mut header, mut at) = (Map::new(), 0);
    let boundaries = |name: &str| name.ends_with("boundaries");
    for (name, shape) in tensors {
        let end = at + shape.iter().product::<usize>() * 4;
        let dtype = if boundaries(name) { "I32" } else { "F32" };
        header.insert(name.clone(), json!({"dtype": dtype, "shape": shape, "data_offsets": [at, end]}));
        at = end;
    }
    let text = Value::Object(header).to_string();
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    file.write_all(&(text.len() as u64).to_le_bytes()).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut state = 0x9E37_79B9_7F4A_7C15u64; // xorshift
    for (name, shape) in tensors {
        if boundaries(name) {
            [20_000i32, 30_000, 40_000].iter().for_each(|b| file.write_all(&b.to_le_bytes()).unwrap());
            continue;
        }
        for _ in 0..shape.iter().product() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let random = (state >> 40) as f32 / (1u64 << 24) as f32;
            let value = if name.ends_with("alpha") { 0.5 + random } else { random - 0.5 };
            file.write_all(&value.to_le_bytes()).unwrap();
        }
    }
    file.flush().unwrap();
}
