//! From source text to a cubin: embedded at build time, else cached, else compiled now and cached.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::nvrtc::{Nvrtc, Refusal};
use super::sources::{HEADERS, SOURCES, Source, hex, options};
use crate::error::{Error, Result};

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/cubins.rs"));
}

/// A cubin before its content in a cache file.
const SUM: usize = 32;

/// All cubins, in the order of [`SOURCES`], for a GPU that runs `targets`, the best first. `driver` is the CUDA version of
/// its driver. `note` hears when something takes long.
///
/// # Errors
/// Nothing embedded and no compiler, or a kernel that does not compile.
pub fn obtain(targets: &[String], driver: i32, note: &mut dyn FnMut(&str)) -> Result<Vec<Vec<u8>>> {
    let folder = folder();
    let mut cubins: Vec<Option<Vec<u8>>> = SOURCES.iter().map(|source| embedded(source, targets)).collect();
    if cubins.iter().any(Option::is_none) {
        let nvrtc = Nvrtc::get(Some(driver))?;
        for (cubin, source) in cubins.iter_mut().zip(SOURCES) {
            if cubin.is_none() {
                *cubin = targets.iter().find_map(|t| load(&folder.as_ref()?.join(key(source, t, nvrtc))));
            }
        }
        let missing: Vec<usize> = (0..SOURCES.len()).filter(|i| cubins[*i].is_none()).collect();
        if !missing.is_empty() {
            note("compiling the GPU kernels, once for this GPU");
            let sources: Vec<&Source> = missing.iter().map(|i| &SOURCES[*i]).collect();
            let compiled = compile_side_by_side(nvrtc, &sources, targets)?;
            for (i, (target, cubin)) in missing.into_iter().zip(compiled) {
                if let Some(folder) = &folder {
                    let path = folder.join(key(&SOURCES[i], &target, nvrtc));
                    if let Err(error) = store(&path, &cubin) {
                        note(&format!("the compiled kernels cannot be kept in `{}`: {error}", path.display()));
                    }
                }
                cubins[i] = Some(cubin);
            }
        }
    }
    Ok(cubins.into_iter().flatten().collect())
}

/// Target and cubin of every source.
fn compile_side_by_side(nvrtc: &Nvrtc, sources: &[&Source], targets: &[String]) -> Result<Vec<(String, Vec<u8>)>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            sources.iter().map(|source| scope.spawn(|| compile_for(nvrtc, source, targets))).collect();
        let panicked = || Error::new("a thread that compiled kernels ended too early");
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(panicked()))).collect()
    })
}

/// Compiles every kernel for one target, without a GPU. Returns file names and contents.
///
/// # Errors
/// No compiler, one that does not know the target, or a kernel that does not compile.
pub fn compile_all(target: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let nvrtc = Nvrtc::get(None)?;
    SOURCES
        .iter()
        .map(|source| Ok((source.cubin(target), compile_for(nvrtc, source, &[target.to_owned()])?.1)))
        .collect()
}

/// How many cubins are part of this program.
pub fn embedded_count() -> usize {
    embedded::CUBINS.len()
}

fn embedded(source: &Source, targets: &[String]) -> Option<Vec<u8>> {
    targets.iter().find_map(|target| {
        let name = source.cubin(target);
        embedded::CUBINS.iter().find(|(file, _)| *file == name).map(|(_, bytes)| bytes.to_vec())
    })
}

/// For the first target that the compiler knows.
fn compile_for(nvrtc: &Nvrtc, source: &Source, targets: &[String]) -> Result<(String, Vec<u8>)> {
    for target in targets {
        match nvrtc.compile(&format!("{}.cu", source.name), source.text, HEADERS, &options(target)) {
            Ok(cubin) => return Ok((target.clone(), cubin)),
            Err(Refusal::UnknownTarget) => {}
            Err(Refusal::Failed(error)) => return Err(error),
        }
    }
    let (major, minor) = nvrtc.version();
    Err(Error::new(format!("NVRTC {major}.{minor} compiles for none of {}", targets.join(", ")))
        .hint("take a newer one: `pip install -U nvidia-cuda-nvrtc`"))
}

/// Where compiled kernels are kept.
pub fn folder() -> Option<PathBuf> {
    dirs::cache_dir().map(|cache| cache.join("rtts").join("kernels"))
}

/// The file name of a cached cubin: it changes with the text, the target and the compiler.
fn key(source: &Source, target: &str, nvrtc: &Nvrtc) -> String {
    let (major, minor) = nvrtc.version();
    let options = Sha256::digest(options(target).join(" "));
    format!("{}.{target}.{}.nvrtc{major}{minor}.{}", source.name, source.digest(), hex(&options[..4]))
}

/// A cubin from the cache; one that is not what was stored counts as missing.
fn load(path: &Path) -> Option<Vec<u8>> {
    let file = fs::read(path).ok()?;
    let (sum, cubin) = file.split_at_checked(SUM)?;
    (sum == Sha256::digest(cubin).as_slice()).then(|| cubin.to_vec())
}

/// Appears whole or not at all, whoever else writes it.
fn store(path: &Path, cubin: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&Sha256::digest(cubin))?;
    file.write_all(cubin)?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_loaded_and_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("a.cubin");
        assert!(load(&path).is_none());
        store(&path, b"machine code").unwrap();
        assert_eq!(load(&path).unwrap(), b"machine code");
        for damage in [b"".to_vec(), b"short".to_vec(), {
            let mut file = fs::read(&path).unwrap();
            file[40] ^= 1;
            file
        }] {
            fs::write(&path, damage).unwrap();
            assert!(load(&path).is_none());
        }
        store(&path, b"anew").unwrap();
        assert_eq!(load(&path).unwrap(), b"anew");
    }
}
