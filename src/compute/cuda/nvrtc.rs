//! NVRTC, the compiler library: CUDA C++ to a cubin for one target, without a GPU.

use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use super::driver::{Handle, entry_points};
use super::library;
use crate::error::{Error, Result};

entry_points! {
    /// The compiler, as far as it is used. Signatures: NVRTC documentation.
    Nvrtc {
        nvrtcVersion(*mut i32, *mut i32);
        nvrtcCreateProgram(*mut Handle, *const c_char, *const c_char, i32, *const *const c_char, *const *const c_char);
        nvrtcDestroyProgram(*mut Handle);
        nvrtcCompileProgram(Handle, i32, *const *const c_char);
        nvrtcGetProgramLogSize(Handle, *mut usize);
        nvrtcGetProgramLog(Handle, *mut c_char);
        nvrtcGetCUBINSize(Handle, *mut usize);
        nvrtcGetCUBIN(Handle, *mut c_char);
    }
}

/// `NVRTC_ERROR_INVALID_OPTION`
const INVALID_OPTION: i32 = 5;

/// Why a program was not compiled.
pub enum Refusal {
    /// This compiler does not know the target.
    UnknownTarget,
    /// Anything else, in words.
    Failed(Error),
}

impl Nvrtc {
    /// The compiler of this machine. `driver` is the CUDA version of the driver that shall load what is compiled, if that
    /// is known: a compiler of a later major version would make what the driver refuses.
    ///
    /// # Errors
    /// That there is none, and the cure.
    pub fn get(driver: Option<i32>) -> Result<&'static Self> {
        static NVRTC: OnceLock<Result<Nvrtc>> = OnceLock::new();
        NVRTC.get_or_init(|| Self::open(driver)).as_ref().map_err(Clone::clone)
    }

    fn open(driver: Option<i32>) -> Result<Self> {
        let majors: &[i32] = match driver {
            Some(version) if version < 13_000 => &[12],
            _ => &[13, 12],
        };
        let folders = folders();
        let mut why = None;
        for major in majors {
            let name = if cfg!(windows) { format!("nvrtc64_{major}0_0.dll") } else { format!("libnvrtc.so.{major}") };
            let found = folders.iter().map(|folder| folder.join(&name)).filter(|file| file.is_file());
            for file in found.chain([PathBuf::from(&name)]) {
                open_builtins(&file);
                match library::open([file]) {
                    Ok(library) => {
                        return Self::from(library).map_err(|symbol| {
                            Error::new(format!("`{name}` is too old: it has no `{symbol}`")).hint(CURE)
                        });
                    }
                    Err(error) => {
                        why.get_or_insert(error);
                    }
                }
            }
        }
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        Err(Error::new(format!("the kernels must be compiled once, and NVRTC, the compiler, was not found{why}"))
            .hint(CURE))
    }

    /// Major and minor.
    pub fn version(&self) -> (i32, i32) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are to variables of ours.
        unsafe { (self.nvrtcVersion)(&raw mut major, &raw mut minor) };
        (major, minor)
    }

    /// Compiles `text`, called `name` in messages, which may include the `headers`.
    pub fn compile(
        &self,
        name: &str,
        text: &str,
        headers: &[(&str, &str)],
        options: &[String],
    ) -> Result<Vec<u8>, Refusal> {
        let string = |text: &str| {
            CString::new(text).map_err(|_| Refusal::Failed(Error::new(format!("kernel `{name}` holds a zero byte"))))
        };
        let strings = |texts: Vec<&str>| texts.into_iter().map(string).collect::<Result<Vec<_>, _>>();
        let (text, title) = (string(text)?, string(name)?);
        let names = strings(headers.iter().map(|h| h.0).collect())?;
        let bodies = strings(headers.iter().map(|h| h.1).collect())?;
        let options = strings(options.iter().map(String::as_str).collect())?;
        let pointers = |strings: &[CString]| strings.iter().map(|s| s.as_ptr()).collect::<Vec<_>>();

        let mut program = Program { nvrtc: self, handle: std::ptr::null_mut() };
        // SAFETY: every pointer is to a string or an array of strings that lives to the end of this function.
        let code = unsafe {
            (self.nvrtcCreateProgram)(
                &raw mut program.handle,
                text.as_ptr(),
                title.as_ptr(),
                names.len() as i32,
                pointers(&bodies).as_ptr(),
                pointers(&names).as_ptr(),
            )
        };
        if code != 0 {
            return Err(failed(name, &format!("NVRTC error {code}")));
        }
        // SAFETY: the program was just created; the options live to the end of this function.
        let code =
            unsafe { (self.nvrtcCompileProgram)(program.handle, options.len() as i32, pointers(&options).as_ptr()) };
        match code {
            0 => program.cubin().map_err(|code| failed(name, &format!("no code came out, NVRTC error {code}"))),
            INVALID_OPTION => Err(Refusal::UnknownTarget),
            _ => {
                let log = program.log();
                let first = log.lines().find(|l| l.contains("error")).or(log.lines().next()).unwrap_or_default();
                Err(failed(name, &format!("{first} (NVRTC error {code})")))
            }
        }
    }
}

const CURE: &str = "`pip install nvidia-cuda-nvrtc` into an active environment, or install the CUDA toolkit; `RTTS_NVRTC` \
                    may name the folder; or compute with `--device cpu`";

fn failed(name: &str, why: &str) -> Refusal {
    Refusal::Failed(
        Error::new(format!("kernel `{name}` does not compile: {why}")).hint("report this with `rtts doctor`"),
    )
}

/// A program under way.
struct Program<'a> {
    nvrtc: &'a Nvrtc,
    handle: Handle,
}

impl Program<'_> {
    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: the program exists; the buffer has the size that the library asks for.
        let bytes = unsafe {
            (self.nvrtc.nvrtcGetProgramLogSize)(self.handle, &raw mut size);
            let mut bytes = vec![0u8; size];
            (self.nvrtc.nvrtcGetProgramLog)(self.handle, bytes.as_mut_ptr().cast());
            bytes
        };
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }

    fn cubin(&self) -> Result<Vec<u8>, i32> {
        let mut size = 0;
        // SAFETY: the program exists and was compiled; the buffer has the size that the library asks for.
        unsafe {
            let code = (self.nvrtc.nvrtcGetCUBINSize)(self.handle, &raw mut size);
            let mut bytes = vec![0u8; size];
            match code {
                0 => match (self.nvrtc.nvrtcGetCUBIN)(self.handle, bytes.as_mut_ptr().cast()) {
                    0 => Ok(bytes),
                    code => Err(code),
                },
                code => Err(code),
            }
        }
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the program exists and is not used again.
            unsafe { (self.nvrtc.nvrtcDestroyProgram)(&raw mut self.handle) };
        }
    }
}

/// Where NVRTC may lie beside the loader's own places: the toolkit, and NVIDIA's Python packages.
fn folders() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let mut folders: Vec<PathBuf> = variable("RTTS_NVRTC").into_iter().collect();
    for toolkit in ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(|name| variable(name)) {
        folders.extend(["lib64", "lib", "bin"].map(|lib| toolkit.join(lib)));
    }
    for environment in ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|name| variable(name)) {
        let Ok(versions) = std::fs::read_dir(environment.join("lib")) else { continue };
        for version in versions.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("python")) {
            let nvidia = version.path().join("site-packages").join("nvidia");
            folders.extend(["cu13", "cuda_nvrtc"].map(|package| nvidia.join(package).join("lib")));
        }
    }
    folders.extend(["/usr/local/cuda/lib64", "/opt/cuda/lib64"].map(PathBuf::from));
    folders
}

/// NVRTC opens a second library by name and does not always look beside itself: opened before, it is found.
fn open_builtins(nvrtc: &Path) {
    let Some(Ok(files)) = nvrtc.parent().map(std::fs::read_dir) else { return };
    for file in files.flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        if name.starts_with("libnvrtc-builtins.so") && !name.contains(".alt.") {
            // Where it does not open, NVRTC itself will say so.
            let _ = library::open([file.path()]);
        }
    }
}
