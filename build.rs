//! Puts compiled kernels into the program: `RTTS_KERNELS` names a folder that `rtts kernels` filled. Without it the kernels
//! are compiled where they are needed.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-env-changed=RTTS_KERNELS");
    println!("cargo::rerun-if-changed=build.rs");
    let mut entries = String::new();
    if let Some(folder) = env::var_os("RTTS_KERNELS").filter(|folder| !folder.is_empty()) {
        let folder = Path::new(&folder).canonicalize()?;
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files: Vec<_> =
            fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?.iter().map(|f| f.path()).collect();
        files.retain(|file| file.extension().is_some_and(|e| e == "cubin"));
        files.sort();
        if files.is_empty() {
            return Err(io::Error::other(format!("`RTTS_KERNELS`: `{}` holds no kernels", folder.display())));
        }
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            entries.push_str(&format!("({name:?}, include_bytes!({:?})),", file.display().to_string()));
        }
    }
    let text = format!("/// Name and content of every cubin.\npub static CUBINS: &[(&str, &[u8])] = &[{entries}];");
    fs::write(Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join("cubins.rs"), text)
}
