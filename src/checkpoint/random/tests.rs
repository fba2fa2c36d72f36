//! The sizes are those of the published files; the files are what their readers expect.
#![allow(clippy::unwrap_used)]

use std::str::FromStr;

use safetensors::Dtype;

use super::tensors::{Fill, Wanted, file, lay_out};
use super::*;
use crate::checkpoint::{Checkpoint, Layout, Packing, safetensors as reader};
use crate::compute::cpu::Cpu;
use crate::matrix::Float;
use crate::models::{self, Options};

fn of(text: &str) -> Random {
    text.parse().unwrap()
}

fn data(tensors: &[Wanted]) -> usize {
    tensors.iter().map(Wanted::bytes).sum()
}

#[test]
fn names() {
    for text in ["tinyaya:bf16", "tinyaya:nvfp4", "voxcpm2:bf16", "voxcpm2:nvfp4"] {
        assert_eq!(of(text).to_string(), text);
    }
    assert_eq!(of("tinyaya").to_string(), "tinyaya:nvfp4");
    let wrong = |text: &str| Random::from_str(text).unwrap_err();
    assert!(wrong("tinyayaa").contains("did you mean `tinyaya`"));
    assert!(wrong("voxcpm2:fp8").contains("`bf16` or `nvfp4`"), "{}", wrong("voxcpm2:fp8"));
    assert!(wrong("").contains("`tinyaya` or `voxcpm2`"));
}

#[test]
fn sizes_are_those_of_the_published_checkpoints() {
    // The specification's sums of the real headers.
    assert_eq!(data(&voxcpm2::model(false)), 4_580_009_088);
    assert_eq!(data(&voxcpm2::model(true)), 2_816_436_048);
    assert_eq!(voxcpm2::model(false).len(), 577);
    let codec = voxcpm2::audiovae();
    assert_eq!((codec.len(), codec.iter().filter(|t| t.dtype == Dtype::F32).count()), (312, 311));
    // What a step of rumik-oss-1 reads: 36 layers, the rows that can be emitted, the stop head.
    let layers = |packed| {
        tinyaya::backbone(packed)
            .iter()
            .filter(|t| t.name.starts_with("model.layers.") && t.name.contains("_proj"))
            .map(Wanted::bytes)
            .sum::<usize>()
    };
    let weights = 36 * (2 * 2048 * 2048 + 2 * 512 * 2048 + 3 * 2048 * 11008);
    assert_eq!((layers(false), layers(true)), (weights * 2, weights * 9 / 16 + 36 * 7 * 8));
}

#[test]
fn what_does_not_fit_is_not_taken() {
    let error = of("tinyaya:bf16").fits(4 << 30).unwrap_err();
    assert!(
        error.to_string().contains("`tinyaya:bf16` take") && error.to_string().contains("4.00 GiB are free"),
        "{error}"
    );
    assert!(error.cure().unwrap().contains("--random tinyaya:nvfp4"), "{error:?}");
    let error = of("tinyaya:bf16").fits(1 << 30).unwrap_err();
    assert!(error.cure().unwrap().contains("builtin"), "{error:?}");
    of("tinyaya:nvfp4").fits(4 << 30).unwrap();
}

#[test]
fn a_file_holds_what_was_asked_for() {
    let wanted = [
        Wanted::weights("a", Dtype::BF16, &[3, 5]),
        Wanted::weights("b", Dtype::F32, &[7]),
        Wanted::new("codes", Dtype::U8, &[1, 4096], Fill::Codes),
        Wanted::new("scales", Dtype::F8_E4M3, &[33], Fill::Scales),
        Wanted::new("scalar", Dtype::F32, &[], Fill::All(-2.5)),
        Wanted::new("rows", Dtype::BF16, &[2, 2], Fill::FirstRow(1.0, -1.0)),
        Wanted::new("integers", Dtype::I32, &[2], Fill::Integers(&[7, -7])),
    ];
    let tensors = reader::read("made up", &file(&wanted, 1).unwrap()).unwrap();
    let bytes = |name: &str| tensors.iter().find(|(n, _)| n == name).unwrap().1.bytes.clone();
    for (name, float) in [("a", Float::Bf16), ("b", Float::F32)] {
        let values = float.decode(&bytes(name));
        assert!(values.iter().all(|v| (0.0078..=0.0313).contains(&v.abs())), "{values:?}");
        assert!(values.iter().any(|v| *v < 0.0) && values.iter().any(|v| *v > 0.0), "{values:?}");
    }
    let seen: std::collections::BTreeSet<u8> = bytes("codes").iter().copied().collect();
    assert_eq!(seen.len(), 256);
    assert!(bytes("scales").iter().all(|b| (0x30..0x38).contains(b)));
    assert_eq!(Float::F32.decode(&bytes("scalar")), [-2.5]);
    assert_eq!(Float::Bf16.decode(&bytes("rows")), [1.0, 1.0, -1.0, -1.0]);
    assert_eq!(&*bytes("integers"), [7, 0, 0, 0, 249, 255, 255, 255]);
    // The same again, and others with another seed.
    let words = |seed| file(&wanted, seed).unwrap().to_vec();
    assert_eq!(words(1), words(1));
    assert_ne!(words(1), words(2));
}

#[test]
fn large_tensors_do_not_repeat_their_pieces() {
    let size = 20 << 20;
    let tensors = reader::read("x", &file(&[Wanted::new("c", Dtype::U8, &[size], Fill::Codes)], 3).unwrap()).unwrap();
    let bytes = &tensors[0].1.bytes;
    assert_ne!(bytes[..64], bytes[8 << 20..(8 << 20) + 64]);
    assert_ne!(bytes[..64], bytes[16 << 20..(16 << 20) + 64]);
}

/// The checkpoint with its large tensors left at zero, which takes no memory.
fn hollow(random: Random) -> Checkpoint {
    let file = |tensors: &[Wanted], seed| {
        lay_out(tensors, |pieces| {
            for (wanted, from, out) in pieces {
                if !matches!(wanted.fill, Fill::Weights | Fill::Codes | Fill::Scales) {
                    wanted.fill(from, seed, out);
                }
            }
        })
    };
    Checkpoint::open(random.source(&file).unwrap()).unwrap()
}

#[test]
fn every_one_is_recognised() {
    for (text, layout, packing) in [
        ("tinyaya:bf16", Layout::TinyAya, Packing::Plain(Float::Bf16)),
        ("tinyaya:nvfp4", Layout::TinyAya, Packing::ModeloptNvfp4),
        ("voxcpm2:bf16", Layout::VoxCpm2, Packing::Plain(Float::Bf16)),
        ("voxcpm2:nvfp4", Layout::VoxCpm2, Packing::CompressedNvfp4),
    ] {
        let checkpoint = hollow(of(text));
        assert_eq!((checkpoint.layout(), checkpoint.packing()), (layout, packing), "{text}");
        assert_eq!(checkpoint.origin(), format!("random {text}"));
    }
}

#[test]
fn the_model_finds_all_it_needs() {
    let speaker = models::load(&hollow(of("tinyaya:nvfp4")), Cpu::new(Some(1)).unwrap(), &Options::default()).unwrap();
    assert_eq!((speaker.sample_rate(), speaker.voices()), (24_000, &["Random".to_owned()][..]));
}
