//! Raw arguments become settings: command line, else environment, else `config.toml`, else defaults.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::compute::Activations;
use crate::error::{Error, Result};
use crate::suggest::nearest;

/// Choosing model and machine.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Model and machine")]
pub struct MachineArgs {
    /// The model: a folder, a hub id ORG/NAME[@REVISION], an alias or `builtin` [env: RTTS_MODEL]
    ///
    /// Without it: the model that was pulled last, else the built-in voice; one line says which.
    #[arg(short, long, value_name = "NAME")]
    pub model: Option<String>,
    /// Where to compute: auto, cpu or cuda[:N] [env: RTTS_DEVICE] [default: auto]
    ///
    /// `auto` takes the first GPU that works, else the CPU, and says so in one line.
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<Device>,
    /// How 4-bit linears take their input [env: RTTS_ACTIVATIONS] [default: auto]
    ///
    /// `auto`: as the checkpoint was made for where the device does it natively, else 16-bit. `fp4` works everywhere;
    /// where it is emulated it is slow, and meant for comparison.
    #[arg(long, value_name = "HOW")]
    pub activations: Option<ActivationsChoice>,
    /// CPU threads [env: RTTS_THREADS] [default: one for each core]
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub threads: Option<usize>,
}

/// Where to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The first GPU that works, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU with this number.
    Cuda(usize),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Device::Auto),
            "cpu" => Ok(Device::Cpu),
            "cuda" => Ok(Device::Cuda(0)),
            _ => match text.strip_prefix("cuda:").map(str::parse) {
                Some(Ok(number)) => Ok(Device::Cuda(number)),
                Some(Err(_)) => Err("the number of the GPU is missing or wrong, for example `cuda:0`".into()),
                None => Err(match nearest(text, ["auto", "cpu", "cuda"]) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "auto, cpu, cuda or cuda:N is possible".into(),
                }),
            },
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Auto => f.write_str("auto"),
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

/// What `--activations` takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ActivationsChoice {
    /// As the checkpoint and the device prefer.
    #[default]
    Auto,
    /// 4-bit.
    Fp4,
    /// 16-bit: only the weights are 4 bits wide.
    Bf16,
}

impl ActivationsChoice {
    /// What the model is asked for.
    pub fn wanted(self) -> Option<Activations> {
        match self {
            ActivationsChoice::Auto => None,
            ActivationsChoice::Fp4 => Some(Activations::Fp4),
            ActivationsChoice::Bf16 => Some(Activations::Full),
        }
    }

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ActivationsChoice::Auto => "auto",
            ActivationsChoice::Fp4 => "fp4",
            ActivationsChoice::Bf16 => "bf16",
        }
    }
}

/// What a run uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The model's name, where one was chosen.
    pub model: Option<String>,
    /// The voice that holds where no flag names one.
    pub voice: Option<String>,
    /// Where to compute.
    pub device: Device,
    /// How 4-bit linears take their input.
    pub activations: ActivationsChoice,
    /// CPU threads, where limited.
    pub threads: Option<usize>,
}

/// `config.toml`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
struct File {
    model: Option<String>,
    voice: Option<String>,
    device: Option<String>,
    activations: Option<String>,
    threads: Option<i64>,
}

impl Settings {
    /// Resolves `machine` with the environment and configuration file of this process.
    ///
    /// # Errors
    /// An unreadable or wrong configuration file, or a wrong value in it or in a variable.
    pub fn resolve(machine: &MachineArgs) -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let (path, required) = match variable("RTTS_CONFIG") {
            Some(path) => (Some(PathBuf::from(path)), true),
            None => (dirs::config_dir().map(|d| d.join("rtts").join("config.toml")), false),
        };
        let (file, place) = match path {
            Some(path) => (read(&path, required)?, path.display().to_string()),
            None => (File::default(), String::new()),
        };
        Self::merge(machine, &variable, &file, &place)
    }

    /// `place` is the name of the file in messages.
    fn merge(
        machine: &MachineArgs,
        variable: &dyn Fn(&str) -> Option<String>,
        file: &File,
        place: &str,
    ) -> Result<Self> {
        // The word that holds below the command line, with where it stands.
        let below = |name: &str, key: &str, in_file: Option<String>| {
            variable(name)
                .map(|text| (text, format!("the variable `{name}`")))
                .or_else(|| in_file.map(|text| (text, format!("`{key}` in `{place}`"))))
        };
        let device = match (machine.device, below("RTTS_DEVICE", "device", file.device.clone())) {
            (Some(device), _) => device,
            (None, Some((text, at))) => text.parse().map_err(|why: String| wrong(&text, &at, &why))?,
            (None, None) => Device::default(),
        };
        let lower = below("RTTS_ACTIVATIONS", "activations", file.activations.clone());
        let activations = match (machine.activations, lower) {
            (Some(choice), _) => choice,
            (None, Some((text, at))) => ActivationsChoice::from_str(&text, false)
                .map_err(|_| wrong(&text, &at, "auto, fp4 or bf16 is possible"))?,
            (None, None) => ActivationsChoice::default(),
        };
        let lower = below("RTTS_THREADS", "threads", file.threads.map(|n| n.to_string()));
        let threads = match (machine.threads, lower) {
            (Some(count), _) => Some(count),
            (None, Some((text, at))) => Some(threads(&text).map_err(|why| wrong(&text, &at, &why))?),
            (None, None) => None,
        };
        let model = machine.model.clone().or_else(|| below("RTTS_MODEL", "model", file.model.clone()).map(|v| v.0));
        let voice = below("RTTS_VOICE", "voice", file.voice.clone()).map(|v| v.0);
        Ok(Self { model, voice, device, activations, threads })
    }
}

fn read(path: &Path, required: bool) -> Result<File> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound && !required => return Ok(File::default()),
        Err(e) => return Err(Error::io("cannot read", path, &e)),
    };
    toml::from_str(&text).map_err(|e| {
        let line = e.span().map_or(1, |span| 1 + text.bytes().take(span.start).filter(|b| *b == b'\n').count());
        Error::new(format!("`{}`, line {line}: {}", path.display(), e.message().trim()))
            .hint("the keys are model, voice, device, activations and threads")
    })
}

fn wrong(value: &str, at: &str, why: &str) -> Error {
    Error::usage(format!("`{value}` is no possible value of {at}")).hint(why)
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1024) => Ok(count),
        _ => Err("a number from 1 to 1024 is needed".into()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn merge(machine: &MachineArgs, variables: &[(&str, &str)], file: &str) -> Result<Settings> {
        let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Settings::merge(machine, &variable, &toml::from_str(file).unwrap(), "config.toml")
    }

    #[test]
    fn command_line_then_environment_then_file_then_default() {
        let none = MachineArgs::default();
        assert_eq!(merge(&none, &[], "").unwrap(), Settings::default());

        let file = "model = \"file\"\ndevice = \"cuda:3\"\nthreads = 2\nvoice = \"Ira\"";
        let from_file = merge(&none, &[], file).unwrap();
        assert_eq!(from_file.model.as_deref(), Some("file"));
        assert_eq!(from_file.device, Device::Cuda(3));
        assert_eq!((from_file.threads, from_file.voice.as_deref()), (Some(2), Some("Ira")));

        let variables = [("RTTS_MODEL", "variable"), ("RTTS_DEVICE", "cpu"), ("RTTS_THREADS", "5")];
        let from_variables = merge(&none, &variables, file).unwrap();
        assert_eq!(from_variables.model.as_deref(), Some("variable"));
        assert_eq!((from_variables.device, from_variables.threads), (Device::Cpu, Some(5)));

        let flags = MachineArgs {
            model: Some("flag".into()),
            device: Some(Device::Auto),
            activations: Some(ActivationsChoice::Fp4),
            threads: Some(9),
        };
        let from_flags = merge(&flags, &variables, file).unwrap();
        assert_eq!(from_flags.model.as_deref(), Some("flag"));
        assert_eq!((from_flags.device, from_flags.threads), (Device::Auto, Some(9)));
        assert_eq!(from_flags.activations.wanted(), Some(Activations::Fp4));
    }

    #[test]
    fn wrong_values_name_their_place() {
        let none = MachineArgs::default();
        let error = merge(&none, &[("RTTS_DEVICE", "gpu")], "").unwrap_err();
        assert!(error.to_string().contains("`RTTS_DEVICE`") && error.to_string().contains("`gpu`"));
        let error = merge(&none, &[], "threads = 0").unwrap_err();
        assert!(error.to_string().contains("`threads` in `config.toml`"));
        assert!(merge(&none, &[("RTTS_ACTIVATIONS", "fp8")], "").is_err());
    }

    #[test]
    fn a_broken_file_names_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        fs::write(&path, "model = \"a\"\nmodle = \"b\"\n").unwrap();
        let error = read(&path, true).unwrap_err().to_string();
        assert!(error.contains("config.toml`, line 2") && error.contains("modle"), "{error}");
        assert!(read(&folder.path().join("none.toml"), true).is_err());
        assert_eq!(read(&folder.path().join("none.toml"), false).unwrap(), File::default());
    }

    #[test]
    fn devices() {
        assert_eq!("cuda:1".parse(), Ok(Device::Cuda(1)));
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        assert!("cuda:".parse::<Device>().is_err() && "cuda:-1".parse::<Device>().is_err());
        assert!("cpuu".parse::<Device>().unwrap_err().contains("`cpu`"));
    }
}
