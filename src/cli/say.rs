//! `rtts say`: one text to a file, a pipe or the speakers.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::cast::{Cast, Model};
use super::console::Console;
use super::guards::{self, Guards};
use super::interrupt::Interrupt;
use super::outlet::{Finished, Outlet};
use super::progress::Progress;
use super::settings::{MachineArgs, Settings};
use super::sound::{self, Cutting, Storing};
use super::speak::{Event, Script, Told, speak};
use super::subtitles::Subtitles;
use super::voice::VoiceArgs;
use super::words::count;
use super::{Outcome, input, open, script, seed};
use crate::audio::file::Kind;
use crate::audio::pcm::Format;
use crate::audio::pipe::{Container, Reader};
use crate::audio::play::Player;
use crate::audio::{flac, place};
use crate::engine::Flow;
use crate::error::{Error, Result};
use crate::models::Speaker;
use crate::text;

/// The most utterances of one text that are generated side by side.
const SIDE_BY_SIDE: usize = 8;

/// About as many characters as one utterance of a long text will have, to know how many slots are worth their memory.
const USUAL_PIECE: usize = 300;

/// Arguments of `rtts say`.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "\
Examples:
  rtts say \"The library opens at nine.\" -o out.wav
  rtts say -f chapter.txt --voice Ross --style \"slow pace\" -o chapter.wav --play
  rtts say \"In my own voice.\" -m voxcpm2 --reference me.wav -o me-too.wav
  fortune | rtts say -o - | ffmpeg -i - fortune.mp3")]
pub struct Say {
    /// What to say; several are joined by spaces, `-` reads stdin
    ///
    /// Without TEXT and --file, stdin is read where it is no terminal. `[pause:500ms]` in the text is a silence.
    #[arg(value_name = "TEXT", help_heading = "Input")]
    pub text: Vec<String>,
    /// Read the text from a UTF-8 file; `-` is stdin
    #[arg(short, long, value_name = "FILE", help_heading = "Input", conflicts_with = "text")]
    pub file: Option<PathBuf>,
    /// How long text is cut.
    #[command(flatten)]
    pub cutting: Cutting,
    /// Write a .wav or .flac file; `-` is WAV on stdout
    ///
    /// The file appears when it is whole, or not at all. WAV on stdout is written as it is generated, with an unknown
    /// length in its header.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Play aloud as it is generated; the default without --output
    #[arg(long, help_heading = "Output")]
    pub play: bool,
    /// Samples without a header on stdout: mono, 16-bit little endian, at the rate that is reported
    #[arg(long, help_heading = "Output")]
    pub raw: bool,
    /// Write the time of every utterance, as .srt, .vtt or .json
    ///
    /// The times are those of the audio that is written or played; the words are those of the text.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub subtitles: Option<PathBuf>,
    /// Format and rate.
    #[command(flatten)]
    pub storing: Storing,
    /// Voice and sampling.
    #[command(flatten)]
    pub voice: VoiceArgs,
    /// What is done about slips of the model.
    #[command(flatten)]
    pub guards: Guards,
    /// Model and machine.
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// Where the audio goes, besides the speakers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Nowhere,
    File(PathBuf),
    Pipe(Container),
}

/// The last line of a run, as JSON.
#[derive(Serialize)]
struct Summary<'a> {
    v: u32,
    file: Option<&'a Path>,
    seconds: f64,
    wall: f64,
    rtf: f64,
    ttfa: f64,
    seed: u64,
    device: &'a str,
    rate: u32,
    utterances: usize,
    steps: usize,
    stop: &'static str,
    cuts: usize,
    retries: usize,
    trimmed: f64,
    clipped: u64,
    /// Where a loudness was asked for: the one that was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    lufs: Option<f64>,
    #[serde(skip)]
    acted: Option<String>,
}

impl Summary<'_> {
    /// For people. Whoever takes `raw` samples must know what they are.
    fn line(&self, raw: bool) -> String {
        let place = self.file.map(|path| format!("`{}`: ", path.display())).unwrap_or_default();
        let Self { seconds, wall, rtf, ttfa, seed, device, rate, .. } = self;
        let form = if raw { format!(", s16le mono {rate} Hz") } else { String::new() };
        let acted = self.acted.as_ref().map(|acted| format!("; {acted}")).unwrap_or_default();
        format!(
            "{place}{seconds:.2} s of audio in {wall:.2} s, RTF {rtf:.2}, TTFA {ttfa:.2} s, seed {seed}, {device}{form}{acted}"
        )
    }
}

/// Speaks.
///
/// # Errors
/// Whatever stands in the way; what can be checked is checked before a model is loaded.
pub fn run(say: &Say, offline: bool, console: &Console) -> Result<Outcome> {
    let target = say.target()?;
    match &target {
        Target::File(path) => {
            if let Some(file) = &say.file {
                input::check_output(file, path)?;
            }
            place::preflight(path)?;
        }
        Target::Pipe(_) if io::stdout().is_terminal() => {
            return Err(Error::usage("audio is not written to a terminal")
                .hint("pipe it into a player or a file, name a file with `-o FILE`, or use `--play`"));
        }
        Target::Pipe(_) => console.give_stdout_to_audio(),
        Target::Nowhere => {}
    }
    let subtitles = say.subtitles(&target)?;
    let interrupt = Interrupt::listen(console)?;
    let text = say.text()?;
    script::check(&text).map_err(|e| usage(&e))?;
    let mut settings = Settings::resolve(&say.machine)?;
    let say = &say.over(&settings);
    let mut like = say.voice.utterance();
    let mut sources = say.voice.sources();
    let mut cast = Cast::default();
    cast.look(&sources, console)?;
    if !say.voice.names_voice() {
        like.voice = settings.voice_over(like.voice);
    }
    let opened = open::open(settings, offline, console)?;
    let model = Model { voices: &opened.voices()?, clones: opened.clones() };
    model.fit(&mut like, &mut sources).map_err(|e| opened.settings.blame("voice", e))?;
    cast.look(&sources, console)?;
    let pieces = text::utterances(&text, say.cutting.split.split(), USUAL_PIECE, false)?.len();
    let mut speaker = opened.load(pieces.clamp(1, SIDE_BY_SIDE), console)?;
    let seed = say.voice.seed.unwrap_or_else(seed::draw);
    like.seed = seed;
    cast.give(&sources, &mut like, speaker.as_mut(), console)?;
    let script = script::write(speaker.as_ref(), 0, &text, &like, &say.cutting)?;
    if let Some(why) = script::unreadable(&script, speaker.as_ref()) {
        console.warn(why);
    }
    let work = Work { script, target: &target, subtitles, seed };
    say.perform(speaker.as_mut(), work, &interrupt, console)
}

/// What one run does, with everything checked.
struct Work<'a> {
    script: Script,
    target: &'a Target,
    subtitles: Option<Subtitles>,
    seed: u64,
}

/// A text that cannot be spoken is a wrong argument here.
fn usage(error: &Error) -> Error {
    let usage = Error::usage(error.to_string());
    match error.cure() {
        Some(cure) => usage.hint(cure),
        None => usage,
    }
}

impl Say {
    /// With what `settings` say where no flag does; bare samples are always the same.
    fn over(&self, settings: &Settings) -> Self {
        let mut storing = self.storing.over(settings);
        if self.raw {
            storing.format = None;
        }
        Self { storing, cutting: self.cutting.over(settings), ..self.clone() }
    }

    /// Where the audio goes, from the flags alone.
    fn target(&self) -> Result<Target> {
        let stdout = self.output.as_deref().is_some_and(|path| path.as_os_str() == input::STDIN);
        if self.raw {
            if self.output.is_some() && !stdout {
                return Err(Error::usage("--raw writes to stdout, not to a file")
                    .hint("leave --raw out for a WAV file, or redirect: `rtts say … --raw > FILE`"));
            }
            if self.storing.format.is_some_and(|format| format != Format::I16) {
                return Err(Error::usage("--raw writes 16-bit samples").hint("leave --format out"));
            }
            return Ok(Target::Pipe(Container::Raw));
        }
        match &self.output {
            None => Ok(Target::Nowhere),
            Some(_) if stdout => Ok(Target::Pipe(Container::Wav)),
            Some(path) => {
                if Kind::of(path)? == Kind::Flac && self.storing.format == Some(Format::F32) {
                    return Err(flac::no_floats(path));
                }
                Ok(Target::File(path.clone()))
            }
        }
    }

    /// Checks what goes together with `target`, and where the subtitles go.
    fn subtitles(&self, target: &Target) -> Result<Option<Subtitles>> {
        let plays = self.play || *target == Target::Nowhere;
        if plays && self.storing.lufs.is_some() {
            return Err(Error::usage("--lufs needs the whole speech, which is not there yet while it is played")
                .hint("write a file with `-o FILE`, or pipe it into a player: `rtts say … --lufs X -o - | aplay`"));
        }
        let Some(path) = &self.subtitles else { return Ok(None) };
        if let Some(file) = &self.file {
            input::check_output(file, path)?;
        }
        if self.output.as_ref() == Some(path) {
            return Err(Error::usage(format!("`{}`: audio and subtitles cannot share a file", path.display())));
        }
        Subtitles::at(path).map(Some)
    }

    fn text(&self) -> Result<String> {
        if let Some(file) = &self.file {
            return input::read(file);
        }
        match self.text.as_slice() {
            [] if input::stdin_is_terminal() => Err(Error::usage("there is no text to say")
                .hint("give it as an argument, with `-f FILE`, or on stdin; `rtts say --help` shows how")),
            [] => input::stdin(),
            [text] if text == input::STDIN => input::stdin(),
            words => Ok(words.join(" ")),
        }
    }

    /// Generates, writes and plays, with everything checked.
    fn perform(
        &self,
        speaker: &mut dyn Speaker,
        work: Work<'_>,
        interrupt: &Interrupt,
        console: &Console,
    ) -> Result<Outcome> {
        let Work { script, target, subtitles, seed } = work;
        let rate = speaker.sample_rate();
        let device = speaker.device();
        let utterances = script.utterances.len();
        let captions = script.captions.clone();
        let mut outlet = self.outlet(target, rate, console)?;
        // Nothing is kept of a speech that is not whole, so there is nothing to finish.
        interrupt.last_words("interrupted; nothing was kept");

        let begun = Instant::now();
        let mut progress = Progress::spinner(console);
        let (mut first, mut made, mut told) = (None, 0, None);
        let slots = speaker.slots();
        let manner = self.guards.manner(speaker, self.is_offline(target));
        speak(speaker, &mut std::iter::once(script), slots, manner, &mut |event| {
            match event {
                Event::Made { samples } => {
                    first.get_or_insert(begun.elapsed());
                    made += samples;
                    let seconds = made as f64 / f64::from(rate);
                    progress.show(0, &format!("{seconds:.1} s spoken, RTF {:.2}", rtf(begun.elapsed(), seconds)));
                }
                Event::Audio { samples, .. } => {
                    if outlet.push(samples)? == Reader::Gone {
                        return Ok(Flow::Stop);
                    }
                }
                Event::Done { told: how, .. } => told = Some(how),
                Event::Failed { error, .. } => return Err(error),
            }
            Ok(Flow::Continue)
        })?;
        drop(progress);
        let wall = begun.elapsed();
        // Without an end the reader of stdout left.
        let Some(told) = told else { return Ok(Outcome::Done) };
        let Finished { tally, levelled, player } = outlet.finish()?;
        if let Some(subtitles) = subtitles {
            subtitles.write(&told.spans, &captions, rate)?;
        }
        let lufs = levelled.zip(self.storing.lufs);
        if let Some(why) = lufs.and_then(|(levelled, wanted)| sound::explain(&levelled, wanted)) {
            console.warn(format_args!("loudness: {why}"));
        }
        if tally.non_finite > 0 {
            let samples = count(tally.non_finite, "sample");
            console.warn(format_args!("{samples} held no number; silence was written there"));
        }
        report_cuts(&told, utterances, console);
        let file = match target {
            Target::File(path) => Some(path.as_path()),
            Target::Pipe(_) | Target::Nowhere => None,
        };
        let seconds = told.samples as f64 / f64::from(rate);
        let summary = Summary {
            v: 1,
            file,
            seconds,
            wall: wall.as_secs_f64(),
            rtf: rtf(wall, seconds),
            ttfa: first.unwrap_or(wall).as_secs_f64(),
            seed,
            device: &device,
            rate: self.storing.rate.unwrap_or(rate),
            utterances,
            steps: told.steps,
            stop: told.stop.name(),
            cuts: told.cuts,
            retries: told.retries,
            trimmed: told.trimmed as f64 / f64::from(rate),
            clipped: tally.clipped,
            lufs: levelled.and_then(|levelled| levelled.after),
            acted: guards::acted(&told, rate),
        };
        if console.json() {
            console.object(&summary)?;
        } else {
            console.note(summary.line(*target == Target::Pipe(Container::Raw)));
        }
        match player {
            Some(player) => play_out(player, interrupt, console).map(|()| Outcome::Done),
            None => Ok(Outcome::Done),
        }
    }

    /// Whether nobody hears it before it is whole.
    fn is_offline(&self, target: &Target) -> bool {
        matches!(target, Target::File(_)) && !self.play
    }

    fn outlet<'a>(&self, target: &Target, rate: u32, console: &'a Console) -> Result<Outlet<'a>> {
        let outlet = match target {
            Target::Nowhere => {
                if !self.play && !console.json() && input::stdout_is_redirected() {
                    console.warn("nothing is written to stdout, the speech is played; `-o -` writes it there");
                }
                Outlet::default()
            }
            Target::File(path) => Outlet::file(path, rate, &self.storing)?,
            Target::Pipe(container) => Outlet::pipe(console.stdout(), *container, rate, &self.storing)?,
        };
        if !self.play && *target != Target::Nowhere {
            return Ok(outlet);
        }
        match Player::open(rate) {
            Ok(player) => Ok(outlet.with_player(player)),
            // The file is worth having although nothing is heard.
            Err(error) if *target != Target::Nowhere => {
                console.warn(format_args!("not played: {error}"));
                Ok(outlet)
            }
            Err(error) => Err(error),
        }
    }
}

/// Plays what is left. Everything else is done, so a signal may end the run at once.
fn play_out(mut player: Player, interrupt: &Interrupt, console: &Console) -> Result<()> {
    interrupt.release();
    let played = player.drain()?;
    if let Some(complaint) = played.complaint {
        console.warn(format_args!("the sound card complained: {complaint}"));
    }
    if played.underruns > 0 {
        let times = count(played.underruns, "time");
        console.detail(1, format_args!("the sound ran out {times} while it was played"));
    }
    Ok(())
}

/// Says which share of a text was cut short.
fn report_cuts(told: &Told, utterances: usize, console: &Console) {
    if told.cuts > 0 {
        let which =
            if utterances == 1 { "the speech".to_owned() } else { format!("{} of {utterances} utterances", told.cuts) };
        console.warn(format_args!("{which} {}", guards::cut(told.stop)));
    }
}

/// Wall time by length of the audio: below 1 is faster than real time.
pub fn rtf(wall: Duration, seconds: f64) -> f64 {
    if seconds > 0.0 { wall.as_secs_f64() / seconds } else { 0.0 }
}
