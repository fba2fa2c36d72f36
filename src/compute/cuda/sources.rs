//! The kernels' source text, and which targets a GPU takes.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// A kernel file.
pub struct Source {
    /// Its name without the ending.
    pub name: &'static str,
    /// CUDA C++.
    pub text: &'static str,
}

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        [$(Source { name: $name, text: include_str!(concat!("../../../kernels/", $name, ".cu")) }),*]
    };
}

/// All kernel files.
pub const SOURCES: &[Source] = &sources![
    "attend", "conv", "decode", "each", "enter", "gemm", "norm", "pack", "rope", "rows", "sample", "solver", "w4a16",
    "wide"
];

/// What they include.
pub const HEADERS: &[(&str, &str)] = &[
    ("attention.cuh", include_str!("../../../kernels/attention.cuh")),
    ("base.cuh", include_str!("../../../kernels/base.cuh")),
    ("decode.cuh", include_str!("../../../kernels/decode.cuh")),
    ("tile.cuh", include_str!("../../../kernels/tile.cuh")),
];

impl Source {
    /// Stands for the text and everything it includes.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for text in HEADERS.iter().map(|h| h.1).chain([self.text]) {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hex(&hash.finalize()[..8])
    }

    /// The name of its cubin for a target, in a folder or embedded.
    pub fn cubin(&self, target: &str) -> String {
        format!("{}.{target}.{}.cubin", self.name, self.digest())
    }
}

/// Options of the compiler.
pub fn options(target: &str) -> Vec<String> {
    [format!("--gpu-architecture={target}"), "--std=c++17".into()].into()
}

/// The targets whose code a GPU of this compute capability runs, the best first. A family target (`f`) holds what all of
/// 12.x have in common, the native FP4 instruction above all, which plain targets lack.
pub fn targets((major, minor): (i32, i32)) -> Vec<String> {
    let own = format!("sm_{major}{minor}");
    match (major, minor) {
        (8, 0) => vec![own],
        (8, 6 | 7) => vec![own, "sm_80".into()],
        (8, _) => vec![own, "sm_86".into(), "sm_80".into()],
        (9, 0) => vec!["sm_90a".into(), own],
        (10..=12, _) => vec![format!("sm_{major}0f"), format!("{own}a"), own],
        _ => vec![own],
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gpu_has_a_target_and_blackwell_its_family() {
        assert_eq!(targets((12, 1))[0], "sm_120f");
        assert_eq!(targets((12, 0))[0], "sm_120f");
        assert_eq!(targets((10, 3))[0], "sm_100f");
        assert_eq!(targets((9, 0))[0], "sm_90a");
        assert_eq!(targets((8, 9)), ["sm_89", "sm_86", "sm_80"]);
        assert_eq!(targets((8, 0)), ["sm_80"]);
    }

    #[test]
    fn a_cubin_is_named_by_what_it_was_made_from() {
        let (a, b) = (&SOURCES[0], &SOURCES[1]);
        assert_ne!(a.digest(), b.digest());
        let changed = Source { name: a.name, text: "int x;" };
        assert_ne!(a.cubin("sm_80"), changed.cubin("sm_80"));
        assert_ne!(a.cubin("sm_80"), a.cubin("sm_90a"));
    }
}
