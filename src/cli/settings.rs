//! Raw arguments become settings: command line, else environment, else `config.toml`, else defaults.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::batch::{self, Slots};
use super::config::Config;
use super::sound;
use crate::audio::pcm::Format;
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
    /// The sample format that holds where no flag names one.
    pub format: Option<Format>,
    /// The sample rate that holds where no flag names one.
    pub rate: Option<u32>,
    /// The silence between utterances that holds where no flag names one, in milliseconds.
    pub gap: Option<u32>,
    /// How many utterances a batch takes at a time where no flag says so.
    pub batch_size: Option<Slots>,
    /// Where values stand that are not from the command line, by their keys.
    places: BTreeMap<&'static str, String>,
}

/// What stands below the command line.
struct Below<'a> {
    variable: &'a dyn Fn(&str) -> Result<Option<String>>,
    config: &'a Config,
    places: BTreeMap<&'static str, String>,
}

impl Below<'_> {
    /// The value of `key`: the flag's, else the variable's, else the file's.
    fn pick<T>(
        &mut self,
        key: &'static str,
        flag: Option<T>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>> {
        if flag.is_some() {
            return Ok(flag);
        }
        let name = format!("RTTS_{}", key.to_uppercase());
        let (text, at) = match ((self.variable)(&name)?, self.config.values.get(key)) {
            (Some(text), _) => (text, format!("the variable `{name}`")),
            (None, Some(text)) => (text.clone(), self.config.at(key)),
            (None, None) => return Ok(None),
        };
        let value =
            parse(&text).map_err(|why| Error::usage(format!("`{text}` is no possible value of {at}")).hint(why))?;
        self.places.insert(key, at);
        Ok(Some(value))
    }
}

impl Settings {
    /// Resolves `machine` with the environment and configuration file of this process.
    ///
    /// # Errors
    /// An unreadable or wrong configuration file, or a wrong value in it or in a variable.
    pub fn resolve(machine: &MachineArgs) -> Result<Self> {
        Self::merge(machine, &variable, &Config::load()?)
    }

    fn merge(
        machine: &MachineArgs,
        variable: &dyn Fn(&str) -> Result<Option<String>>,
        config: &Config,
    ) -> Result<Self> {
        let mut below = Below { variable, config, places: BTreeMap::new() };
        let word = |text: &str| Ok(text.to_owned());
        let activations = |text: &str| {
            ActivationsChoice::from_str(text, false).map_err(|_| "auto, fp4 or bf16 is possible".to_owned())
        };
        let format = |text: &str| text.parse::<Format>().map_err(|_| "i16, i24 or f32 is possible".to_owned());
        Ok(Self {
            model: below.pick("model", machine.model.clone(), word)?,
            voice: below.pick("voice", None, word)?,
            device: below.pick("device", machine.device, Device::from_str)?.unwrap_or_default(),
            activations: below.pick("activations", machine.activations, activations)?.unwrap_or_default(),
            threads: below.pick("threads", machine.threads, threads)?,
            format: below.pick("format", None, format)?,
            rate: below.pick("rate", None, sound::rate)?,
            gap: below.pick("gap", None, sound::gap)?,
            batch_size: below.pick("batch_size", None, batch::slots)?,
            places: below.places,
        })
    }

    /// The voice: that of the flag, else the configured one.
    pub fn voice_over(&mut self, flag: Option<String>) -> Option<String> {
        if flag.is_some() {
            self.places.remove("voice");
            return flag;
        }
        self.voice.clone()
    }

    /// Puts the place of `key` before an error that its value led to, where it is not on the command line.
    pub fn blame(&self, key: &str, error: Error) -> Error {
        match self.places.get(key) {
            Some(place) => error.at(place),
            None => error,
        }
    }
}

/// A variable of this process; an empty one counts as unset.
///
/// # Errors
/// What is no text.
fn variable(name: &str) -> Result<Option<String>> {
    let Some(value) = std::env::var_os(name).filter(|v| !v.is_empty()) else { return Ok(None) };
    value.into_string().map(Some).map_err(|value| {
        Error::usage(format!("the variable `{name}` is not UTF-8: `{}`", value.to_string_lossy()))
            .hint("set it again, or unset it")
    })
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
    use std::path::Path;

    fn merge(machine: &MachineArgs, variables: &[(&str, &str)], file: &str) -> Result<Settings> {
        let variable = |name: &str| Ok(variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()));
        Settings::merge(machine, &variable, &Config::parse(file, "config.toml", Path::new(""))?)
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
        let more = merge(&none, &[("RTTS_GAP", "50")], "format = \"f32\"\nrate = 8000\nbatch_size = 3").unwrap();
        assert_eq!((more.format, more.rate, more.gap), (Some(Format::F32), Some(8000), Some(50)));
        assert_eq!(more.batch_size, Some(Slots::Exactly(3)));

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
        for (name, value) in [("RTTS_ACTIVATIONS", "fp8"), ("RTTS_RATE", "4"), ("RTTS_BATCH_SIZE", "0")] {
            let error = merge(&none, &[(name, value)], "").unwrap_err().to_string();
            assert!(error.contains(&format!("the variable `{name}`")), "{error}");
        }
    }

    #[test]
    fn what_a_value_leads_to_names_its_place() {
        let file = "model = \"file\"\nvoice = \"Ira\"";
        let mut settings = merge(&MachineArgs::default(), &[("RTTS_MODEL", "variable")], file).unwrap();
        let blamed = |settings: &Settings, key: &str| settings.blame(key, Error::new("no")).to_string();
        assert_eq!(blamed(&settings, "model"), "the variable `RTTS_MODEL`: no");
        assert_eq!(settings.voice_over(None).as_deref(), Some("Ira"));
        assert_eq!(blamed(&settings, "voice"), "`voice` in `config.toml`: no");
        assert_eq!(settings.voice_over(Some("Zoya".into())).as_deref(), Some("Zoya"));
        assert_eq!(blamed(&settings, "voice"), "no");
    }

    #[test]
    fn devices() {
        assert_eq!("cuda:1".parse(), Ok(Device::Cuda(1)));
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        assert!("cuda:".parse::<Device>().is_err() && "cuda:-1".parse::<Device>().is_err());
        assert!("cpuu".parse::<Device>().unwrap_err().contains("`cpu`"));
    }
}
