//! The sound card, through cpal.
//!
//! Mono floats at the model's own rate are asked for first: sound servers and ALSA's `plug` convert them well. A card
//! that refuses gets a configuration of its own at that rate or, failing that, its default one, resampled here; all its
//! channels carry the same samples. What is played are the samples a 16-bit file would hold, so that both sound alike.

use std::sync::Arc;
use std::time::Duration;

use cpal::traits::{DeviceTrait, HostTrait, StreamTrait};
use cpal::{BufferSize, ErrorKind, FromSample, SampleFormat, SizedSample, Stream, StreamConfig};

use super::queue::Queue;
use super::{Played, USE_A_FILE};
use crate::audio::fade::samples_in;
use crate::audio::pcm::{Format, Quantiser};
use crate::audio::resample::Resampler;
use crate::error::{Error, Result};

/// Sound held at most: a generator far ahead waits here instead of filling the memory.
const HELD_MS: u32 = 10_000;
/// Sound gathered before it flows.
const GATHERED_MS: u32 = 200;

/// The card asks for so much at a time and holds twice that, so that a busy machine causes no gaps. Left to themselves,
/// some of ALSA's plugins ask for single samples.
const BLOCK_MS: u32 = 50;

/// Plays one stream of mono samples. Dropped before [`Player::drain`] returns, it falls silent at once.
pub struct Player {
    queue: Arc<Queue>,
    stream: Stream,
    started: bool,
    config: StreamConfig,
    /// Taken by `drain`.
    resampler: Option<Resampler>,
    quantiser: Quantiser,
}

/// Stops a [`Player`] from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Queue>);

impl std::fmt::Debug for Player {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Player")
            .field("config", &self.config)
            .field("resampler", &self.resampler)
            .finish_non_exhaustive()
    }
}

impl Player {
    /// Opens the default sound card for mono samples at `rate`.
    ///
    /// # Errors
    /// There is no sound card, or it cannot be used.
    pub fn open(rate: u32) -> Result<Self> {
        hush();
        // not `cpal::default_host()`, which panics where ALSA has no configuration
        let host = cpal::ALL_HOSTS
            .iter()
            .find_map(|&id| cpal::host_from_id(id).ok())
            .ok_or_else(|| no_card("there is no sound system"))?;
        let device = host.default_output_device().ok_or_else(|| no_card("there is no sound card"))?;
        let mut refusal = cpal::Error::new(ErrorKind::UnsupportedConfig);
        let wanted =
            (StreamConfig { channels: 1, sample_rate: rate, buffer_size: BufferSize::Default }, SampleFormat::F32);
        // the others are asked for only after the first was refused
        let others = std::iter::once_with(|| configurations(&device, rate)).flatten();
        for (config, format) in std::iter::once(wanted).chain(others) {
            let buffer_size = BufferSize::Fixed(samples_in(BLOCK_MS, config.sample_rate) as u32);
            for config in [StreamConfig { buffer_size, ..config }, config] {
                match Self::with(&device, rate, config, format)? {
                    Ok(player) => return Ok(player),
                    Err(e) => refusal = e,
                }
            }
        }
        Err(match refusal.kind() {
            ErrorKind::UnsupportedConfig => no_card("the sound card takes no format that is known here"),
            _ => no_card(&refusal.to_string()),
        })
    }

    /// The outer error is final, the inner one leaves hope for another configuration.
    fn with(
        device: &cpal::Device,
        rate: u32,
        config: StreamConfig,
        format: SampleFormat,
    ) -> Result<Result<Self, cpal::Error>> {
        let held = samples_in(HELD_MS, config.sample_rate);
        let queue = Arc::new(Queue::new(held, samples_in(GATHERED_MS, config.sample_rate)));
        match open(device, config, format, &queue) {
            Ok(stream) => {
                let resampler =
                    if config.sample_rate == rate { None } else { Some(Resampler::new(rate, config.sample_rate)?) };
                let quantiser = Quantiser::new(Format::I16);
                Ok(Ok(Self { queue, stream, started: false, config, resampler, quantiser }))
            }
            Err(e) => match e.kind() {
                ErrorKind::DeviceNotAvailable | ErrorKind::HostUnavailable => Err(no_card("there is no sound card")),
                ErrorKind::DeviceBusy => Err(no_card("another program is using the sound card")),
                ErrorKind::PermissionDenied => Err(no_card("you may not use the sound card")),
                _ => Ok(Err(e)),
            },
        }
    }

    /// Adds the next samples. They are heard as soon as a little has gathered; where far more has gathered than was
    /// heard, this waits.
    ///
    /// # Errors
    /// Playing was stopped, or the sound card died.
    pub fn push(&mut self, samples: &[f32]) -> Result<()> {
        match &mut self.resampler {
            None => self.send(samples),
            Some(resampler) => {
                let mut resampled = Vec::new();
                resampler.push(samples, &mut resampled)?;
                self.send(&resampled)
            }
        }
    }

    /// Says that this was all, and returns when all of it has been heard.
    ///
    /// # Errors
    /// Playing was stopped, or the sound card died.
    pub fn drain(&mut self) -> Result<Played> {
        if let Some(resampler) = self.resampler.take() {
            let mut rest = Vec::new();
            resampler.finish(&mut rest)?;
            self.send(&rest)?;
        }
        if !self.started && !self.queue.is_empty() {
            self.start()?;
        }
        if self.started {
            self.queue.drain()?;
        }
        Ok(self.played())
    }

    /// Falls silent at once; what was not heard yet is forgotten.
    pub fn stop(&self) {
        self.queue.stop();
    }

    /// A handle that stops this player from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.queue))
    }

    /// How it went so far.
    pub fn played(&self) -> Played {
        let account = self.queue.account();
        Played {
            samples: account.taken,
            rate: self.config.sample_rate,
            channels: self.config.channels,
            underruns: account.underruns,
            complaint: account.complaint,
        }
    }

    /// Queues samples at the rate of the card.
    fn send(&mut self, samples: &[f32]) -> Result<()> {
        // Half of what the queue holds always fits until the card is started, which needs less than that.
        for piece in samples.chunks(samples_in(HELD_MS / 2, self.config.sample_rate)) {
            let piece: Vec<i16> = piece.iter().map(|&x| self.quantiser.i16(x)).collect();
            self.queue.push(&piece)?;
            if !self.started && self.queue.has_enough() {
                self.start()?;
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        self.stream.play().map_err(|e| no_card(&e.to_string()))?;
        self.started = true;
        Ok(())
    }
}

impl Stopper {
    /// Falls silent at once, and ends a `push` or `drain` that waits.
    pub fn stop(&self) {
        self.0.stop();
    }
}

fn no_card(why: &str) -> Error {
    Error::new(format!("cannot play: {why}")).hint(USE_A_FILE)
}

/// What else the device offers: first at `rate`, whatever the channels, then its default.
fn configurations(device: &cpal::Device, rate: u32) -> Vec<(StreamConfig, SampleFormat)> {
    let at_rate = device.supported_output_configs().ok().and_then(|ranges| {
        ranges
            .filter(|range| (range.min_sample_rate()..=range.max_sample_rate()).contains(&rate))
            .max_by(cpal::SupportedStreamConfigRange::cmp_default_heuristics)
            .map(|range| range.with_sample_rate(rate))
    });
    let default = device.default_output_config().ok();
    let plain = |c: cpal::SupportedStreamConfig| (c.config(), c.sample_format());
    at_rate.into_iter().chain(default).map(plain).collect()
}

fn open(
    device: &cpal::Device,
    config: StreamConfig,
    format: SampleFormat,
    queue: &Arc<Queue>,
) -> Result<Stream, cpal::Error> {
    match format {
        SampleFormat::F32 => stream::<f32>(device, config, queue),
        SampleFormat::F64 => stream::<f64>(device, config, queue),
        SampleFormat::I8 => stream::<i8>(device, config, queue),
        SampleFormat::I16 => stream::<i16>(device, config, queue),
        SampleFormat::I24 => stream::<cpal::I24>(device, config, queue),
        SampleFormat::I32 => stream::<i32>(device, config, queue),
        SampleFormat::U8 => stream::<u8>(device, config, queue),
        SampleFormat::U16 => stream::<u16>(device, config, queue),
        SampleFormat::U32 => stream::<u32>(device, config, queue),
        _ => Err(ErrorKind::UnsupportedConfig.into()),
    }
}

fn stream<T: SizedSample + FromSample<i16>>(
    device: &cpal::Device,
    config: StreamConfig,
    queue: &Arc<Queue>,
) -> Result<Stream, cpal::Error> {
    let channels = usize::from(config.channels.max(1));
    let rate = f64::from(config.sample_rate);
    let (for_data, for_errors) = (Arc::clone(queue), Arc::clone(queue));
    let mut block = Vec::new(); // one sample a frame
    let mut hushed = false;
    device.build_output_stream(
        config,
        move |out: &mut [T], info| {
            if !hushed {
                hush();
                hushed = true;
            }
            let time = info.timestamp();
            let ahead = time.playback.checked_duration_since(time.callback).unwrap_or_default();
            block.resize(out.len() / channels, 0);
            // half a block's time: the card holds a whole one yet
            let wait = Duration::from_secs_f64(0.5 * block.len() as f64 / rate);
            for_data.take(&mut block, (ahead.as_secs_f64() * rate).ceil() as u64, wait);
            for (frame, &sample) in out.chunks_exact_mut(channels).zip(&block) {
                frame.fill(T::from_sample(sample));
            }
        },
        move |e| match e.kind() {
            ErrorKind::Xrun => for_errors.underrun(),
            ErrorKind::DeviceNotAvailable | ErrorKind::StreamInvalidated => for_errors.die(e.to_string()),
            ErrorKind::DeviceChanged | ErrorKind::RealtimeDenied => {}
            _ => for_errors.complain(e.to_string()),
        },
        None,
    )
}

/// Keeps libasound from writing to stderr in this thread: what matters comes as an error.
fn hush() {
    #[cfg(target_os = "linux")]
    let _ = alsa::Output::local_error_handler();
}
