//! The arguments everybody shares, the list of commands, and how a wrong command line is explained.
//!
//! The text of `-h`, `--help`, the manual pages and the completions comes from the comments here and in the commands.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use super::{batch, bench, completions, doctor, info, kernels, man, models, say, voice_save, voices};

const EXAMPLES: &str = "\
Examples:
  rtts say \"The library opens at nine.\" -o out.wav    speak to a file
  rtts say \"Good evening.\" --play                     speak aloud, as it is generated
  rtts batch lines.txt -d out/                        one WAV a line
  echo \"Hello\" | rtts say -o - | aplay                WAV to a pipe";

const MORE: &str = "\
Examples:
  rtts say \"The library opens at nine.\" -o out.wav    speak to a file
  rtts say \"Good evening.\" --play                     speak aloud, as it is generated
  rtts batch lines.txt -d out/                        one WAV a line
  echo \"Hello\" | rtts say -o - | aplay                WAV to a pipe

Settings come from the command line, else the environment, else config.toml, else the defaults.

Environment:
  RTTS_MODEL, RTTS_VOICE, RTTS_DEVICE, RTTS_ACTIVATIONS, RTTS_THREADS, RTTS_FORMAT, RTTS_RATE,
  RTTS_GAP, RTTS_BATCH_SIZE
                    as the flags of the same names
  RTTS_CONFIG       the configuration file, instead of rtts/config.toml in the user's
                    configuration folder
  HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE
                    as in Python; the cache is the same one
  CUDA_VISIBLE_DEVICES
                    the GPUs that may be used
  RTTS_NVRTC        the folder of NVRTC, NVIDIA's compiler, where it is not found by itself
  NO_COLOR, CLICOLOR_FORCE
                    no colours; colours even where stderr is no terminal

Configuration file (~/.config/rtts/config.toml on Linux), every line of it optional:
  model = \"deep\"             and voice, device, activations, threads, format, rate, gap, batch_size,
                             as the flags of the same names
  [aliases]
  deep = \"ORG/NAME\"          a short name for a model of the hub, or for a folder

Exit status:
  0    done
  1    failed
  2    wrong usage
  3    a batch ended, and some of its lines failed
  130  interrupted";

/// Text to speech from NVFP4 and BF16 checkpoints, on this machine
///
/// rtts speaks text with a neural voice. It runs checkpoints in 4-bit (NVFP4) or 16-bit (BF16) form, many lines as one
/// batch, without Python and without a network once the model is there.
#[derive(Debug, Parser)]
#[command(name = "rtts", version, after_help = EXAMPLES, after_long_help = MORE, max_term_width = 100)]
#[command(arg_required_else_help = true, disable_help_subcommand = true, infer_subcommands = false)]
pub struct Arguments {
    /// Flags that every command knows.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command knows.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Messages")]
pub struct Global {
    /// Say nothing but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more; twice for every step
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Colours on the terminal
    ///
    /// `auto` colours where stderr is a terminal, `NO_COLOR` is not set and `TERM` is not `dumb`.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = false)]
    pub color: When,
    /// Progress bars on stderr
    ///
    /// `auto` draws them where stderr is a terminal and `CI` is not set; a long batch then says a plain line every ten
    /// seconds instead.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub progress: When,
    /// Results as JSON, one object a line
    ///
    /// On stdout, or on stderr where audio goes to stdout. Every object carries `"v": 1`, the version of the schema.
    #[arg(long, global = true)]
    pub json: bool,
    /// Use only what is on this machine
    ///
    /// Models are looked for in folders and in the hub cache; nothing is asked of the network. The same as
    /// `HF_HUB_OFFLINE=1`.
    #[arg(long, global = true)]
    pub offline: bool,
}

/// Three ways to decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// As the terminal suggests.
    #[default]
    Auto,
    /// In any case.
    Always,
    /// Not at all.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Speak text to a file, a pipe or the speakers
    Say(say::Say),
    /// Speak every line of a list to a file of its own
    Batch(batch::Batch),
    /// Explain a model: its kind, its packing, its sizes
    Info(info::InfoArgs),
    /// Keep a recording's voice in a small file
    Voice(voice_save::VoiceCommand),
    /// List the speakers of a model, and the saved voices
    Voices(voices::Voices),
    /// Download, list, check and remove models
    Models(models::Models),
    /// Measure how fast a model speaks here
    Bench(bench::Bench),
    /// Look for what could keep rtts from working here
    Doctor(doctor::Doctor),
    /// Compile the GPU kernels, without a GPU
    Kernels(kernels::Kernels),
    /// Print a completion script for a shell
    Completions(completions::Completions),
    /// Write the manual pages into a folder
    Man(man::Man),
}

/// Reads the command line of this process.
///
/// # Errors
/// What clap found wrong with it, or the help that was asked for.
pub fn parse() -> Result<Arguments, clap::Error> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let matches = command().color(colour_of(&arguments)).try_get_matches_from(arguments)?;
    Arguments::from_arg_matches(&matches)
}

/// The definition of the whole command line.
pub fn command() -> clap::Command {
    let bold = AnsiColor::Green.on_default().bold();
    let styles = Styles::styled().header(bold).usage(bold).literal(AnsiColor::Cyan.on_default().bold());
    Arguments::command().styles(styles)
}

/// Shows what clap has to say; returns the exit status: 0 for help that was asked for, 2 for wrong usage.
pub fn explain(error: &clap::Error) -> u8 {
    // A reader that left (`rtts --help | head -1`) is no failure.
    let _ = error.print();
    u8::try_from(error.exit_code()).unwrap_or(2)
}

/// Help is printed before anything is parsed, so its colours need a look ahead at `--color`.
fn colour_of(arguments: &[std::ffi::OsString]) -> ColorChoice {
    let texts: Vec<_> = arguments.iter().map(|a| a.to_string_lossy()).take_while(|a| a != "--").collect();
    let joined = texts.iter().find_map(|a| a.strip_prefix("--color="));
    let apart = texts.windows(2).find(|pair| pair[0] == "--color").map(|pair| pair[1].as_ref());
    match joined.or(apart) {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn help_colours_follow_the_flag() {
        let of = |words: &[&str]| colour_of(&words.iter().map(Into::into).collect::<Vec<_>>());
        assert_eq!(of(&["rtts", "--color", "never", "--help"]), ColorChoice::Never);
        assert_eq!(of(&["rtts", "say", "--color=always", "-h"]), ColorChoice::Always);
        assert_eq!(of(&["rtts", "say", "--", "--color=always"]), ColorChoice::Auto);
    }
}
