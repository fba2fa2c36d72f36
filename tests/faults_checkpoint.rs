//! Checkpoints broken in every way that was met in the wild: each is refused with a message that names file and cause.
//!
//! The checkpoints are built here, tiny, in the TinyAya layout, and broken one fact at a time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::alloc::{GlobalAlloc, Layout as Wanted, System};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use rtts::checkpoint::{Checkpoint, Contract, Dtype, Layout, Packing, Source};
use rtts::error::{Error, Result};
use rtts::matrix::{Float, Matrix};
use rtts::nvfp4::{GlobalScale, InputScale};
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

/// Remembers the largest single allocation, to catch sizes taken from a damaged file.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, wanted: Wanted) -> *mut u8 {
        LARGEST.fetch_max(wanted.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise about `wanted` is passed on.
        unsafe { System.alloc(wanted) }
    }

    unsafe fn dealloc(&self, at: *mut u8, wanted: Wanted) {
        // SAFETY: `at` came from `alloc` above with the same `wanted`.
        unsafe { System.dealloc(at, wanted) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

// ---- building

const HIDDEN: usize = 32;
const INNER: usize = 48;
const LAYERS: usize = 2;
const VOCABULARY: usize = 20;
const WEIGHT_SCALE: f32 = 1.5e-4;
const INPUT_SCALE: f32 = 2e-3;

#[derive(Clone)]
struct Stored {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Stored {
    fn new(dtype: Dtype, shape: &[usize], byte: u8) -> Self {
        let bytes = vec![byte; shape.iter().product::<usize>() * dtype.bitsize() / 8];
        Self { dtype, shape: shape.to_vec(), bytes }
    }

    fn scalar(value: f32, shape: &[usize]) -> Self {
        Self { dtype: Dtype::F32, shape: shape.to_vec(), bytes: value.to_le_bytes().to_vec() }
    }
}

type Tensors = BTreeMap<String, Stored>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Bf16,
    Modelopt,
    Compressed,
}

/// A checkpoint in memory, to be broken and written.
#[derive(Clone)]
struct Tiny {
    config: Value,
    quantisation: Option<Value>,
    model: Tensors,
    codec: Tensors,
}

fn linears() -> Vec<(String, usize, usize)> {
    let mut all = Vec::new();
    for i in 0..LAYERS {
        all.push((format!("model.layers.{i}.self_attn.q_proj"), HIDDEN, HIDDEN));
        all.push((format!("model.layers.{i}.mlp.down_proj"), HIDDEN, INNER));
    }
    all
}

fn tiny(kind: Kind) -> Tiny {
    let mut model = Tensors::new();
    let mut put = |name: String, stored: Stored| assert!(model.insert(name, stored).is_none());
    put("model.embed_tokens.weight".into(), Stored::new(Dtype::BF16, &[VOCABULARY, HIDDEN], 0x3c));
    put("model.norm.weight".into(), Stored::new(Dtype::BF16, &[HIDDEN], 0x3c));
    put("stop_predictor.1.weight".into(), Stored::new(Dtype::BF16, &[8, HIDDEN], 0x3c));
    put("stop_predictor.1.bias".into(), Stored::new(Dtype::BF16, &[8], 0x3c));
    for (module, n, k) in linears() {
        let name = |suffix: &str| format!("{module}.{suffix}");
        match kind {
            Kind::Bf16 => put(name("weight"), Stored::new(Dtype::BF16, &[n, k], 0x3c)),
            Kind::Modelopt => {
                put(name("weight"), Stored::new(Dtype::U8, &[n, k / 2], 0x21));
                put(name("weight_scale"), Stored::new(Dtype::F8_E4M3, &[n, k / 16], 0x38));
                put(name("weight_scale_2"), Stored::scalar(WEIGHT_SCALE, &[]));
                put(name("input_scale"), Stored::scalar(INPUT_SCALE, &[]));
            }
            Kind::Compressed => {
                put(name("weight_packed"), Stored::new(Dtype::U8, &[n, k / 2], 0x21));
                put(name("weight_scale"), Stored::new(Dtype::F8_E4M3, &[n, k / 16], 0x38));
                put(name("weight_global_scale"), Stored::scalar(1.0 / WEIGHT_SCALE, &[1]));
            }
        }
    }
    let codec = Tensors::from([
        ("decoder.layers.0.conv.weight".to_owned(), Stored::new(Dtype::F32, &[4, 2, 3], 0x3c)),
        ("encoder.layers.0.conv.weight".to_owned(), Stored::new(Dtype::F32, &[4, 2, 3], 0x3c)),
    ]);
    let config = json!({
        "architectures": ["TinyAyaForCausalLM"], "hidden_size": HIDDEN, "intermediate_size": INNER,
        "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY, "layer_norm_eps": 1e-5, "first_unit_id": 4,
        "speakers": ["Ira"], "rope_parameters": {"rope_theta": 50000.0},
    });
    let quantisation = (kind == Kind::Modelopt).then(|| {
        json!({
            "producer": {"name": "modelopt", "version": "0.47.0"},
            "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": null, "group_size": 16,
                             "exclude_modules": ["lm_head", "model.embed_tokens", "stop_predictor*"]},
        })
    });
    Tiny { config, quantisation, model, codec }
}

fn serialised(tensors: &Tensors) -> Vec<u8> {
    let views = tensors.iter().map(|(name, t)| (name, TensorView::new(t.dtype, t.shape.clone(), &t.bytes).unwrap()));
    safetensors::serialize(views, None).unwrap()
}

impl Tiny {
    fn write(&self, folder: &Path) {
        std::fs::create_dir_all(folder.join("codec")).unwrap();
        std::fs::write(folder.join("config.json"), self.config.to_string()).unwrap();
        std::fs::write(folder.join("codec/config.json"), "{}").unwrap();
        if let Some(quantisation) = &self.quantisation {
            std::fs::write(folder.join("hf_quant_config.json"), quantisation.to_string()).unwrap();
        }
        std::fs::write(folder.join("model.safetensors"), serialised(&self.model)).unwrap();
        std::fs::write(folder.join("codec/model.safetensors"), serialised(&self.codec)).unwrap();
    }

    fn written(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        self.write(folder.path());
        folder
    }

    fn tensor(&mut self, name: &str) -> &mut Stored {
        self.model.get_mut(name).unwrap()
    }

    fn outcome(&self) -> Result<Vec<Matrix>> {
        load(self.written().path())
    }
}

/// Opens and asks, as a model would: sizes come from the configuration.
fn load(folder: &Path) -> Result<Vec<Matrix>> {
    let checkpoint = Checkpoint::open(Source::Folder(folder.to_path_buf()))?;
    let config = checkpoint.config();
    let (hidden, inner) = (config.usize("hidden_size")?, config.usize("intermediate_size")?);
    let (layers, vocabulary) = (config.usize("num_hidden_layers")?, config.usize("vocab_size")?);
    config.f32("layer_norm_eps")?;
    config.strings("speakers")?;
    if let Some(rope) = config.object("rope_parameters")? {
        rope.f32("rope_theta")?;
    }
    if layers > 1000 {
        return Err(config.wrong("num_hidden_layers", "is too large"));
    }
    checkpoint.contract(|c: &mut Contract<'_>| {
        c.ignore("codec/encoder*");
        c.plain("model.embed_tokens.weight", vocabulary, hidden);
        c.values("model.norm.weight", &[hidden]);
        let stop = c.opt_shape("stop_predictor.1.weight").and_then(|shape| shape.first().copied()).unwrap_or(8);
        c.plain("stop_predictor.1.weight", stop, hidden);
        c.values("stop_predictor.1.bias", &[stop]);
        c.values("codec/decoder.layers.0.conv.weight", &[4, 2, 3]);
        let mut all = Vec::new();
        for i in 0..layers {
            all.push(c.matrix(&format!("model.layers.{i}.self_attn.q_proj"), hidden, hidden));
            all.push(c.matrix(&format!("model.layers.{i}.mlp.down_proj"), hidden, inner));
        }
        all
    })
}

fn refused(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    assert!(error.cure().is_some(), "no cure for: {text}");
    for part in parts {
        assert!(text.contains(part), "{text}\nlacks\n{part}");
    }
}

/// Breaks a tiny checkpoint in memory and expects a refusal that holds all `parts`.
fn broken(kind: Kind, breakage: impl FnOnce(&mut Tiny), parts: &[&str]) {
    let mut tiny = tiny(kind);
    breakage(&mut tiny);
    refused(&tiny.outcome().unwrap_err(), parts);
}

/// Breaks the files of a tiny checkpoint and expects a refusal that holds all `parts`.
fn broken_files(breakage: impl FnOnce(&Path), parts: &[&str]) {
    let folder = tiny(Kind::Modelopt).written();
    breakage(folder.path());
    let error = load(folder.path()).unwrap_err();
    refused(&error, parts);
    refused(&error, &[&folder.path().display().to_string()]);
}

// ---- sound ones

#[test]
fn sound_checkpoints_load_in_every_packing() {
    let packings = [
        (Kind::Bf16, Packing::Plain(Float::Bf16)),
        (Kind::Modelopt, Packing::ModeloptNvfp4),
        (Kind::Compressed, Packing::CompressedNvfp4),
    ];
    for (kind, packing) in packings {
        let folder = tiny(kind).written();
        let checkpoint = Checkpoint::open(Source::Folder(folder.path().into())).unwrap();
        assert_eq!((checkpoint.layout(), checkpoint.packing()), (Layout::TinyAya, packing));
        assert_eq!(checkpoint.notes().len(), usize::from(kind == Kind::Compressed), "{:?}", checkpoint.notes());
        let matrices = load(folder.path()).unwrap();
        assert_eq!(matrices.len(), 4);
        for matrix in matrices {
            match (kind, matrix) {
                (Kind::Bf16, Matrix::Plain(m)) => assert_eq!(m.bytes.len(), m.n * m.k * 2),
                (Kind::Modelopt, Matrix::Nvfp4(m)) => {
                    assert_eq!(m.global, GlobalScale::Multiply(WEIGHT_SCALE));
                    assert_eq!(m.input, Some(InputScale::Multiply(INPUT_SCALE)));
                }
                (Kind::Compressed, Matrix::Nvfp4(m)) => {
                    assert_eq!((m.global, m.input), (GlobalScale::Divide(1.0 / WEIGHT_SCALE), None));
                }
                (_, other) => panic!("unexpected {other:?}"),
            }
        }
    }
}

#[test]
fn harmless_differences_are_accepted() {
    // Scalars with and without a dimension.
    let mut one = tiny(Kind::Modelopt);
    one.tensor("model.layers.0.mlp.down_proj.weight_scale_2").shape = vec![1];
    one.outcome().unwrap();
    let mut other = tiny(Kind::Compressed);
    other.tensor("model.layers.0.mlp.down_proj.weight_global_scale").shape = vec![];
    other.outcome().unwrap();

    // A scale byte of 0, the largest scale, and modelopt's leftovers of a calibrated cache.
    let mut odd = tiny(Kind::Modelopt);
    odd.tensor("model.layers.0.mlp.down_proj.weight_scale").bytes[..2].copy_from_slice(&[0x00, 0x7e]);
    odd.model.insert("model.layers.0.self_attn.k_scale".into(), Stored::scalar(1.0, &[]));
    odd.model.insert("model.layers.0.self_attn.q_proj.input_quantizer._amax".into(), Stored::scalar(1.0, &[]));
    odd.outcome().unwrap();

    // Weight-only export, four_over_six, mixed float types in one file, matrices that stayed plain.
    let mut variant = tiny(Kind::Modelopt);
    variant.model.retain(|name, _| !name.ends_with("input_scale"));
    variant.quantisation.as_mut().unwrap()["quantization"]["quant_algo"] = json!("W4A16_NVFP4");
    variant.quantisation.as_mut().unwrap()["quantization"]["four_over_six"] = json!(true);
    variant.model.retain(|name, _| !name.starts_with("model.layers.1.mlp.down_proj"));
    variant.model.insert("model.layers.1.mlp.down_proj.weight".into(), Stored::new(Dtype::F16, &[HIDDEN, INNER], 0x3c));
    variant.model.insert("model.norm.weight".into(), Stored::new(Dtype::F32, &[HIDDEN], 0x3c));
    let folder = variant.written();
    let matrices = load(folder.path()).unwrap();
    assert!(matches!(&matrices[3], Matrix::Plain(m) if m.float == Float::F16));
    assert!(matches!(&matrices[0], Matrix::Nvfp4(m) if m.input.is_none()));
    let notes = Checkpoint::open(Source::Folder(folder.path().into())).unwrap().notes().join("\n");
    assert!(notes.contains("four_over_six"), "{notes}");
}

#[test]
fn sharded_checkpoints_load() {
    let folder = sharded();
    assert_eq!(load(folder.path()).unwrap().len(), 4);
}

/// The BF16 checkpoint in two shards and an index.
fn sharded() -> tempfile::TempDir {
    let tiny = tiny(Kind::Bf16);
    let folder = tiny.written();
    std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let (mut map, mut shards) = (serde_json::Map::new(), [Tensors::new(), Tensors::new()]);
    for (i, (name, stored)) in tiny.model.iter().enumerate() {
        map.insert(name.clone(), json!(shard(i % 2)));
        shards[i % 2].insert(name.clone(), stored.clone());
    }
    for (i, tensors) in shards.iter().enumerate() {
        std::fs::write(folder.path().join(shard(i)), serialised(tensors)).unwrap();
    }
    let index = json!({"metadata": {"total_size": 1}, "weight_map": map});
    std::fs::write(folder.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
    folder
}

fn shard(i: usize) -> String {
    format!("model-{:05}-of-00002.safetensors", i + 1)
}

// ---- broken files

#[test]
fn damaged_model_files_are_refused() {
    let model = |folder: &Path| folder.join("model.safetensors");
    let whole = std::fs::read(model(tiny(Kind::Modelopt).written().path())).unwrap();
    let put = |content: Vec<u8>| move |folder: &Path| std::fs::write(model(folder), content).unwrap();
    let (full, short) = (format!("{} bytes", whole.len()), format!("the file has {}", whole.len() - 1));

    broken_files(put(whole[..whole.len() - 1].to_vec()), &["model.safetensors", "truncated", &full, &short]);
    broken_files(put(whole[..whole.len() / 2].to_vec()), &["truncated", &full]);
    broken_files(put(whole[..100].to_vec()), &["truncated", "the file has 100"]);
    broken_files(put(whole[..5].to_vec()), &["truncated", "5 bytes"]);
    broken_files(put(Vec::new()), &["model.safetensors", "empty"]);
    broken_files(put([whole.clone(), vec![0]].concat()), &["1 bytes too many"]);
    broken_files(put([&[0xff; 8][..], &whole[8..]].concat()), &["18446744073709551615", "not a safetensors file"]);
    broken_files(
        put((0..2000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()),
        &["not a safetensors file"],
    );
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 4580080592\n";
    broken_files(put(pointer.into()), &["model.safetensors", "Git LFS pointer", "4580080592"]);
    broken_files(put("<!DOCTYPE html><title>401</title>".into()), &["web page"]);
}

#[test]
fn missing_files_are_refused() {
    let remove = |file: &'static str| move |folder: &Path| std::fs::remove_file(folder.join(file)).unwrap();
    broken_files(remove("config.json"), &["config.json` is missing"]);
    broken_files(remove("model.safetensors"), &["no `model.safetensors`", "`config.json`"]);
    broken_files(
        remove("codec/model.safetensors"),
        &["`codec/decoder.layers.0.conv.weight`: missing, as there is no `codec/model.safetensors`"],
    );
    broken_files(
        |folder| {
            std::fs::rename(folder.join("model.safetensors"), folder.join("pytorch_model.bin")).unwrap();
        },
        &["pytorch_model.bin", "not a file of `torch.save`"],
    );
    let nowhere = PathBuf::from("/nonexistent/model");
    refused(&Checkpoint::open(Source::Folder(nowhere)).unwrap_err(), &["/nonexistent/model", "does not exist"]);
}

#[test]
fn broken_shards_are_refused() {
    let broken = |breakage: &dyn Fn(&Path), parts: &[&str]| {
        let folder = sharded();
        breakage(folder.path());
        refused(&load(folder.path()).unwrap_err(), parts);
    };
    let index = "model.safetensors.index.json";
    broken(&|f| std::fs::remove_file(f.join(shard(1))).unwrap(), &["1 of 2 model files is missing", &shard(1)]);
    broken(
        &|f| assert!(std::fs::copy(f.join(shard(0)), f.join(shard(1))).unwrap() > 0),
        &[&shard(0), &shard(1), "both hold the tensor `model.embed_tokens.weight`"],
    );
    broken(&|f| std::fs::write(f.join(index), r#"{"weight_map": {"a": 7}}"#).unwrap(), &[index, "weight_map", "`a`"]);
    broken(&|f| std::fs::write(f.join(index), "{}").unwrap(), &[index, "weight_map"]);
    broken(&|f| std::fs::write(f.join(index), "garbage").unwrap(), &[index, "not valid JSON"]);
    let outside = r#"{"weight_map": {"a": "../../../etc/passwd"}}"#;
    broken(&|f| std::fs::write(f.join(index), outside).unwrap(), &["etc/passwd"]);
    broken(
        &|f| {
            let text = std::fs::read_to_string(f.join(index)).unwrap();
            let mut value: Value = serde_json::from_str(&text).unwrap();
            value["weight_map"]["model.layers.7.extra"] = json!(shard(0));
            std::fs::write(f.join(index), value.to_string()).unwrap();
        },
        &[index, "`model.layers.7.extra`", "do not hold"],
    );
}

#[test]
fn broken_configurations_are_refused() {
    let set = |key: &'static str, value: Value| move |t: &mut Tiny| t.config[key] = value;
    broken(Kind::Bf16, set("hidden_size", json!(-1)), &["config.json", "`hidden_size`", "-1"]);
    broken(Kind::Bf16, set("hidden_size", json!(1e300)), &["config.json", "`hidden_size`"]);
    broken(Kind::Bf16, set("hidden_size", json!(u64::MAX)), &["config.json", "`hidden_size`", "absurdly large"]);
    broken(Kind::Bf16, set("vocab_size", Value::Null), &["config.json", "`vocab_size` is missing"]);
    broken(Kind::Bf16, set("layer_norm_eps", json!("small")), &["config.json", "`layer_norm_eps`", "`small`"]);
    broken(
        Kind::Bf16,
        set("rope_parameters", json!({"rope_theta": 1e39})),
        &["config.json", "`rope_parameters.rope_theta`"],
    );
    broken(Kind::Bf16, set("hidden_size", json!(64)), &["`model.norm.weight`: shape [32], needed [64]"]);
    broken(Kind::Bf16, set("num_hidden_layers", json!(5)), &["`model.layers.{2..4}.mlp.down_proj.weight`", "missing"]);
    broken(Kind::Bf16, set("num_hidden_layers", json!(1)), &["`model.layers.1.mlp.down_proj.weight`", "left over"]);
    broken_files(
        |f| std::fs::write(f.join("config.json"), r#"{"a": NaN}"#).unwrap(),
        &["config.json", "not valid JSON"],
    );
    broken_files(|f| std::fs::write(f.join("config.json"), "").unwrap(), &["config.json", "empty"]);
}

// ---- broken tensors

#[test]
fn wrong_tensors_are_refused_by_name() {
    broken(
        Kind::Bf16,
        |t| t.model.retain(|name, _| !name.starts_with("stop_predictor")),
        &["`stop_predictor.1.bias`, `stop_predictor.1.weight`: missing"],
    );
    broken(
        Kind::Bf16,
        |t| drop(t.model.insert("model.norm.weight".into(), Stored::new(Dtype::I32, &[HIDDEN], 0))),
        &["`model.norm.weight`: dtype I32, needed BF16, F16 or F32 (in `model.safetensors`)"],
    );
    broken(
        Kind::Bf16,
        |t| drop(t.codec.insert("decoder.layers.0.conv.weight".into(), Stored::new(Dtype::F32, &[4, 3, 2], 0))),
        &["`codec/decoder.layers.0.conv.weight`: shape [4, 3, 2], needed [4, 2, 3] (in `codec/model.safetensors`)"],
    );
    broken(
        Kind::Bf16,
        |t| drop(t.model.insert("model.layers.0.self_attn.q_norm.weight".into(), Stored::new(Dtype::BF16, &[4], 0))),
        &["`model.layers.0.self_attn.q_norm.weight`: left over"],
    );
    broken(
        Kind::Bf16,
        |t| t.tensor("model.norm.weight").bytes[6..8].fill(0xff),
        &["`model.norm.weight`: 1 of 32 values"],
    );
    broken(
        Kind::Bf16,
        |t| t.tensor("model.layers.1.mlp.down_proj.weight").bytes[..4].fill(0xff),
        &["`model.layers.1.mlp.down_proj.weight`: 2 of 1536 values are not finite"],
    );
}

#[test]
fn broken_scales_are_refused() {
    let scale = "model.layers.1.mlp.down_proj.weight_scale";
    for byte in [0x7f, 0xff] {
        broken(
            Kind::Modelopt,
            |t| t.tensor(scale).bytes[7] = byte,
            &[scale, "1 block scales are NaN", "row 2, block 1"],
        );
    }
    broken(Kind::Compressed, |t| t.tensor(scale).bytes[0] = 0x80, &[scale, "1 negative", "row 0, block 0"]);
    broken(
        Kind::Modelopt,
        |t| drop(t.model.insert(scale.into(), Stored::new(Dtype::F8_E4M3, &[128, 4], 0x38))),
        &[scale, "swizzled", "[32, 3]"],
    );
    broken(
        Kind::Modelopt,
        |t| drop(t.model.insert(scale.into(), Stored::new(Dtype::F8_E4M3, &[32, 2], 0x38))),
        &[scale, "shape [32, 2], needed [32, 3]"],
    );
    broken(
        Kind::Modelopt,
        |t| drop(t.model.insert(scale.into(), Stored::new(Dtype::U8, &[32, 3], 0x38))),
        &[scale, "dtype U8, needed F8_E4M3"],
    );
    for (kind, suffix) in [(Kind::Modelopt, "weight_scale_2"), (Kind::Compressed, "weight_global_scale")] {
        let name = format!("model.layers.1.mlp.down_proj.{suffix}");
        for value in [f32::NAN, f32::INFINITY, 0.0, -1e-4] {
            broken(kind, |t| t.tensor(&name).bytes = value.to_le_bytes().into(), &[&name, "finite number above 0"]);
        }
        broken(kind, |t| drop(t.model.remove(&name)), &[&name, "missing"]);
        broken(kind, |t| drop(t.model.insert(name.clone(), Stored::new(Dtype::F32, &[2], 0))), &[&name, "one value"]);
        broken(kind, |t| drop(t.model.insert(name.clone(), Stored::new(Dtype::F16, &[], 0))), &[&name, "needed F32"]);
    }
    broken(Kind::Modelopt, |t| drop(t.model.remove(scale)), &[scale, "missing"]);
    let codes = "model.layers.1.mlp.down_proj.weight_packed";
    broken(Kind::Compressed, |t| drop(t.model.remove(codes)), &[codes, "missing"]);
    let order = "model.layers.1.mlp.down_proj.weight_g_idx";
    broken(
        Kind::Compressed,
        |t| drop(t.model.insert(order.into(), Stored::new(Dtype::I32, &[INNER], 0))),
        &[order, "activation ordering"],
    );
}

#[test]
fn a_shifted_convention_is_refused_by_name() {
    let reciprocal = |t: &mut Tiny, suffix: &str| {
        for (name, stored) in &mut t.model {
            if name.ends_with(suffix) {
                let value = f32::from_le_bytes(stored.bytes[..].try_into().unwrap());
                stored.bytes = (1.0 / value).to_le_bytes().into();
            }
        }
    };
    broken(
        Kind::Modelopt,
        |t| reciprocal(t, "down_proj.weight_scale_2"),
        &[
            "`model.layers.0.mlp.down_proj.weight_scale_2`",
            "`model.layers.1.mlp.down_proj.weight_scale_2`",
            "divisor stored in its place",
            "shifted global-scale convention",
        ],
    );
    broken(
        Kind::Compressed,
        |t| reciprocal(t, "weight_global_scale"),
        &["`model.layers.1.mlp.down_proj.weight_global_scale`", "multiplier stored in its place"],
    );
    broken(
        Kind::Modelopt,
        |t| reciprocal(t, "input_scale"),
        &["4 of 4 input scales", "shifted global-scale convention"],
    );

    // One layer whose input really reaches thousands is no shift.
    let mut massive = tiny(Kind::Modelopt);
    massive.tensor("model.layers.1.mlp.down_proj.input_scale").bytes = 3.0_f32.to_le_bytes().into();
    massive.outcome().unwrap();
}

#[test]
fn calibration_of_some_matrices_only_is_refused() {
    let name = "model.layers.1.mlp.down_proj.input_scale";
    broken(Kind::Modelopt, |t| drop(t.model.remove(name)), &[name, "missing"]);
}

// ---- contradictions and strangers

#[test]
fn contradicting_quantisation_files_are_refused() {
    let set = |key: &'static str, value: Value| {
        move |t: &mut Tiny| t.quantisation.as_mut().unwrap()["quantization"][key] = value
    };
    broken(Kind::Modelopt, set("group_size", json!(32)), &["hf_quant_config.json", "32 values"]);
    broken(Kind::Modelopt, set("quant_algo", json!("FP8")), &["hf_quant_config.json", "`FP8`"]);
    broken(Kind::Modelopt, set("group_size", json!("x")), &["hf_quant_config.json", "group_size"]);
    broken(
        Kind::Modelopt,
        |t| {
            t.config["quantization_config"] =
                json!({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"})
        },
        &["config.json", "`compressed-tensors`", "`modelopt`"],
    );
    broken(
        Kind::Compressed,
        |t| {
            t.config["quantization_config"] = json!({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "group_size": 16}}}});
        },
        &["config.json", "8 bits"],
    );
    // Claims about a checkpoint that is plain after all are harmless.
    let mut plain = tiny(Kind::Bf16);
    plain.quantisation = tiny(Kind::Modelopt).quantisation;
    let folder = plain.written();
    assert_eq!(Checkpoint::open(Source::Folder(folder.path().into())).unwrap().notes().len(), 1);
}

#[test]
fn other_models_and_quantisations_are_explained() {
    let stranger = |t: &mut Tiny| {
        t.model.retain(|name, _| name.starts_with("model."));
        t.config = json!({"architectures": ["LlamaForCausalLM"]});
    };
    broken(
        Kind::Bf16,
        stranger,
        &["no model rtts knows", "`LlamaForCausalLM`", "`model.layers.{0,1}.mlp.down_proj.weight`"],
    );
    let empty = |t: &mut Tiny| {
        t.model.clear();
        t.codec.clear();
        t.config = json!({});
    };
    broken(Kind::Bf16, empty, &["no model rtts knows", "no `architectures`", "holds no tensors"]);
    let older = |t: &mut Tiny| {
        t.config = json!({"architecture": "voxcpm"});
        t.model.insert("feat_decoder.estimator.in_proj.weight".into(), Stored::new(Dtype::BF16, &[16, 16], 0));
    };
    broken(Kind::Bf16, older, &["older VoxCPM", "`fusion_concat_proj`"]);
    let with = |name: &'static str, dtype: Dtype| {
        move |t: &mut Tiny| drop(t.model.insert(name.to_owned(), Stored::new(dtype, &[16, 16], 0)))
    };
    let q = "model.layers.0.self_attn.q_proj";
    broken(Kind::Bf16, with("model.layers.0.self_attn.q_proj.qweight", Dtype::I32), &["GPTQ or AWQ", q]);
    broken(Kind::Bf16, with("model.layers.0.self_attn.q_proj.weight", Dtype::F8_E4M3), &["FP8", q]);
    broken(Kind::Bf16, with("model.layers.0.self_attn.q_proj.weight_packed", Dtype::I32), &["packed integers", q]);
    broken(Kind::Modelopt, with("model.layers.0.self_attn.q_proj.weight_packed", Dtype::U8), &["mixes two NVFP4", q]);
}

// ---- files of torch.save

/// A VoxCPM2 checkpoint as far as recognition looks, with this file of `tests/data/pth` as its codec.
fn voxcpm2(codec: Option<&str>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let names = ["base_lm.norm.weight", "feat_decoder.x", "fusion_concat_proj.weight"];
    let model = names.map(|name| (name.to_owned(), Stored::new(Dtype::BF16, &[4, 4], 0x3c)));
    std::fs::write(folder.path().join("config.json"), json!({"architecture": "voxcpm2"}).to_string()).unwrap();
    std::fs::write(folder.path().join("model.safetensors"), serialised(&model.into())).unwrap();
    if let Some(codec) = codec {
        std::fs::copy(torch_file(codec), folder.path().join("audiovae.pth")).unwrap();
    }
    folder
}

fn torch_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pth").join(name)
}

fn ask_codec(folder: &Path) -> Result<(Vec<f32>, Vec<i64>)> {
    Checkpoint::open(Source::Folder(folder.into()))?.contract(|c| {
        for glob in ["base_lm.*", "feat_decoder.*", "fusion_concat_proj.*"] {
            c.ignore(glob);
        }
        (c.values("audiovae/f16", &[3]), c.integers("audiovae/i32", &[2]))
    })
}

#[test]
fn the_codec_of_voxcpm2_joins_the_contract() {
    let folder = voxcpm2(Some("kinds.pth"));
    let left_over = ask_codec(folder.path()).unwrap_err();
    refused(&left_over, &["`audiovae/bf16`", "`audiovae/u8`", "left over", "(in `audiovae.pth`)"]);

    // The safetensors file is preferred, as the model's own loader prefers it.
    let codec = Tensors::from([
        ("f16".to_owned(), Stored::new(Dtype::F16, &[3], 0x3c)),
        ("i32".to_owned(), Stored { dtype: Dtype::I32, shape: vec![2], bytes: vec![0xfe, 255, 255, 255, 3, 1, 0, 0] }),
    ]);
    std::fs::write(folder.path().join("audiovae.safetensors"), serialised(&codec)).unwrap();
    let (floats, integers) = ask_codec(folder.path()).unwrap();
    assert_eq!((floats.len(), integers), (3, vec![-2, 259]));

    let nothing = ask_codec(voxcpm2(None).path()).unwrap_err();
    refused(&nothing, &["`audiovae/f16`, `audiovae/i32`: missing, as there is neither `audiovae.safetensors` nor"]);
    let other = ask_codec(voxcpm2(Some("plain.pth")).path()).unwrap_err();
    refused(&other, &["`audiovae/f16`, `audiovae/i32`: missing\n", "`audiovae/a`", "left over"]);
    let evil = voxcpm2(Some("evil.pth"));
    refused(&ask_codec(evil.path()).unwrap_err(), &["audiovae.pth", "`posix.system`", "nothing in it is executed"]);
}

#[test]
fn weights_of_torch_save_are_read_where_there_are_no_others() {
    let folder = voxcpm2(None);
    std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    std::fs::copy(torch_file("plain.pth"), folder.path().join("pytorch_model.bin")).unwrap();
    let error = Checkpoint::open(Source::Folder(folder.path().into())).unwrap_err();
    refused(&error, &["no model rtts knows", "its 3 tensors are `a`, `b`, `c`"]);
}

// ---- anything at all

/// Values that break careless readers.
fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![Just(u64::MAX), Just(1 << 63), Just(1 << 31), Just(i32::MAX as u64), Just(0), Just(1)]
            .prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!([])),
        Just(json!([u64::MAX, u64::MAX])),
        Just(json!([4, 4611686018427387904_u64, 4])),
        Just(json!({"rope_theta": -1, "weights": {"num_bits": {}}})),
    ]
}

#[derive(Clone, Debug)]
enum Damage {
    /// Bytes of a file change.
    Bytes { file: usize, changes: Vec<(prop::sample::Index, u8)> },
    /// A file ends early.
    Cut { file: usize, at: prop::sample::Index },
    /// A value anywhere in the JSON of a file, or of a safetensors header, is replaced.
    Json { file: usize, at: prop::sample::Index, value: Value },
    /// The header length is another number.
    Length { file: usize, length: u64 },
}

const FILES: [&str; 4] = ["config.json", "hf_quant_config.json", "model.safetensors", "codec/model.safetensors"];

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        1 => (0..4_usize, prop::collection::vec((index(), any::<u8>()), 1..8))
            .prop_map(|(file, changes)| Damage::Bytes { file, changes }),
        1 => (0..4_usize, index()).prop_map(|(file, at)| Damage::Cut { file, at }),
        4 => (0..4_usize, index(), odd_value()).prop_map(|(file, at, value)| Damage::Json { file, at, value }),
        1 => (2..4_usize, any::<u64>()).prop_map(|(file, length)| Damage::Length { file, length: length >> (length % 64) }),
    ]
}

/// Replaces the `at`-th value of a JSON text, counted depth first.
fn replace(text: &[u8], at: prop::sample::Index, value: Value) -> Vec<u8> {
    fn places(value: &Value, here: String, out: &mut Vec<String>) {
        out.push(here.clone());
        match value {
            Value::Object(map) => map.iter().for_each(|(key, v)| places(v, format!("{here}/{key}"), out)),
            Value::Array(items) => items.iter().enumerate().for_each(|(i, v)| places(v, format!("{here}/{i}"), out)),
            _ => {}
        }
    }
    let mut whole: Value = serde_json::from_slice(text).unwrap();
    let mut all = Vec::new();
    places(&whole, String::new(), &mut all);
    let place: &String = at.get(&all);
    *whole.pointer_mut(place).unwrap() = value;
    whole.to_string().into_bytes()
}

fn apply(damage: Damage, folder: &Path) {
    let edit = |file: usize, change: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        let path = folder.join(FILES[file]);
        let content = change(std::fs::read(&path).unwrap());
        std::fs::write(path, content).unwrap();
    };
    match damage {
        Damage::Bytes { file, changes } => edit(file, &|mut content| {
            for (at, byte) in &changes {
                // Half of the changes hit the header, where they matter most.
                let reach = if byte % 2 == 0 { content.len() } else { content.len().min(400) };
                content[at.index(reach)] = *byte;
            }
            content
        }),
        Damage::Cut { file, at } => edit(file, &|mut content| {
            content.truncate(at.index(content.len()));
            content
        }),
        Damage::Json { file, at, value } => edit(file, &|content| {
            if file < 2 {
                return replace(&content, at, value.clone());
            }
            let length = u64::from_le_bytes(content[..8].try_into().unwrap()) as usize;
            let header = replace(&content[8..8 + length], at, value.clone());
            [&(header.len() as u64).to_le_bytes()[..], &header, &content[8 + length..]].concat()
        }),
        Damage::Length { file, length } => edit(file, &|mut content| {
            content[..8].copy_from_slice(&length.to_le_bytes());
            content
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is damaged: no panic, no absurd allocation, and either a load or an error that names a file.
    #[test]
    fn damage_never_panics(kind in prop_oneof![Just(Kind::Bf16), Just(Kind::Modelopt)], damage in damage()) {
        let folder = tempfile::tempdir().unwrap();
        let mut tiny = tiny(kind);
        tiny.quantisation.get_or_insert_with(|| json!({"quantization": {"quant_algo": "NVFP4"}}));
        tiny.write(folder.path());
        apply(damage, folder.path());
        if let Err(error) = load(folder.path()) {
            let text = error.to_string();
            prop_assert!(text.contains(&folder.path().display().to_string()), "no file in: {text}");
            prop_assert!(error.cure().is_some(), "no cure for: {text}");
        }
        prop_assert!(LARGEST.load(Ordering::Relaxed) < 64 << 20, "allocated {} bytes at once", LARGEST.load(Ordering::Relaxed));
    }
}
