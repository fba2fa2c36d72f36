//! Playback through ALSA into a file: what is heard are exactly the samples that were pushed.
#![cfg(all(target_os = "linux", feature = "playback"))]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod sound;

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use rtts::audio::pcm::{Format, Quantiser};
use rtts::audio::play::Player;
use rtts::audio::resample::Resampler;
use rtts::error::Kind;
use sound::Card;

/// Set in the process that plays; the test that started it looks at the recording.
const PLAYING: &str = "RTTS_TEST_PLAYING";

/// True in the process that is to play.
fn plays() -> bool {
    std::env::var_os(PLAYING).is_some()
}

/// Runs the test `name` again in a process of its own, which has `card` as its sound card.
fn play_in_child(card: &Card, name: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(PLAYING, "1");
    let out = card.plug_into(&mut command).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let complained = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() && said.contains("1 passed"), "{said}\n{complained}");
    assert_eq!(complained, "", "nothing but rtts itself may write to stderr");
    out
}

/// Loud noise, never exactly 0.
fn noise(n: usize) -> Vec<f32> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).map(|x| if x.abs() < 1e-3 { 0.5 } else { x }).collect()
}

fn as_i16(samples: &[f32]) -> Vec<i16> {
    let mut quantiser = Quantiser::new(Format::I16);
    samples.iter().map(|&x| quantiser.i16(x)).collect()
}

/// Everything pushed before the card starts: heard without a gap from the first sample on.
#[test]
fn one_push_is_heard_to_the_bit() {
    let samples = noise(82_523);
    if plays() {
        let mut player = Player::open(24_000).unwrap();
        player.push(&samples).unwrap();
        let played = player.drain().unwrap();
        assert_eq!((played.samples, played.rate, played.channels), (82_523, 24_000, 1));
        assert_eq!((played.underruns, played.complaint), (0, None));
        return;
    }
    let card = Card::plain();
    play_in_child(&card, "one_push_is_heard_to_the_bit");
    let (heard, channels, rate) = card.heard();
    assert_eq!((channels, rate), (1, 24_000));
    let (head, tail) = heard.split_at(samples.len());
    assert!(head == as_i16(&samples), "the samples differ");
    assert!(tail.iter().all(|&x| x == 0));
}

/// Chunk after chunk, while the card swallows all at once: gaps, but every sample is heard, in order.
#[test]
fn chunks_are_heard_completely() {
    let samples = noise(50_000);
    if plays() {
        let mut player = Player::open(24_000).unwrap();
        for chunk in samples.chunks(5_100) {
            player.push(chunk).unwrap();
            thread::sleep(Duration::from_millis(20));
        }
        let played = player.drain().unwrap();
        assert_eq!(played.samples, 50_000);
        // 10 chunks of 212 ms: the first starts it, each of the others comes after all before it was swallowed
        assert!((1..=9).contains(&played.underruns), "{}", played.underruns);
        return;
    }
    let card = Card::plain();
    play_in_child(&card, "chunks_are_heard_completely");
    let (mut heard, ..) = card.heard();
    heard.retain(|&x| x != 0);
    assert!(heard == as_i16(&samples), "the samples differ");
}

/// Less than the card wants to start with is heard, too.
#[test]
fn a_very_short_sound_is_heard() {
    let samples = noise(7);
    if plays() {
        let mut player = Player::open(24_000).unwrap();
        player.push(&samples).unwrap();
        assert_eq!(player.drain().unwrap().samples, 7);
        return;
    }
    let card = Card::plain();
    play_in_child(&card, "a_very_short_sound_is_heard");
    assert_eq!(card.heard().0[..7], as_i16(&samples));
}

#[test]
fn nothing_at_all_is_fine() {
    if plays() {
        assert_eq!(Player::open(24_000).unwrap().drain().unwrap().samples, 0);
        return;
    }
    play_in_child(&Card::plain(), "nothing_at_all_is_fine");
}

/// 3 kHz stand for any rate that a card refuses.
#[test]
fn a_card_that_refuses_the_rate_gets_its_own_on_all_channels() {
    let samples = noise(5_000);
    if plays() {
        let mut player = Player::open(3_000).unwrap();
        player.push(&samples).unwrap();
        let played = player.drain().unwrap();
        assert_eq!((played.samples, played.rate, played.channels), (80_000, 48_000, 2));
        return;
    }
    let card = Card::stereo_48k();
    play_in_child(&card, "a_card_that_refuses_the_rate_gets_its_own_on_all_channels");
    let (heard, channels, rate) = card.heard();
    assert_eq!((channels, rate), (2, 48_000));
    let mut resampler = Resampler::new(3_000, 48_000).unwrap();
    let mut want = Vec::new();
    resampler.push(&samples, &mut want).unwrap();
    resampler.finish(&mut want).unwrap();
    // the card may have swallowed all before the resampler gives its last samples: a gap
    let sound = |samples: &mut dyn Iterator<Item = i16>| -> Vec<i16> { samples.filter(|&x| x != 0).collect() };
    let want = sound(&mut as_i16(&want).into_iter());
    for channel in 0..2 {
        let got = sound(&mut heard.iter().copied().skip(channel).step_by(2));
        assert!(got == want, "channel {channel} differs");
    }
}

/// No more sound than the card holds: ALSA's `multi` over a device without a clock loses some after that.
#[test]
fn a_card_without_mono_gets_the_model_rate_on_both_channels() {
    let samples = noise(2_000);
    if plays() {
        let mut player = Player::open(24_000).unwrap();
        player.push(&samples).unwrap();
        let played = player.drain().unwrap();
        assert_eq!((played.samples, played.rate, played.channels), (2_000, 24_000, 2));
        return;
    }
    let card = Card::stereo();
    play_in_child(&card, "a_card_without_mono_gets_the_model_rate_on_both_channels");
    let (heard, channels, rate) = card.heard();
    assert_eq!((channels, rate), (2, 24_000));
    let twice: Vec<i16> = as_i16(&samples).into_iter().flat_map(|x| [x, x]).collect();
    assert!(heard[..twice.len()] == twice, "the samples differ");
}

#[test]
fn without_a_card_there_is_one_clear_error() {
    if plays() {
        let error = Player::open(24_000).unwrap_err();
        assert_eq!(error.kind(), Kind::Failed);
        assert_eq!(error.to_string(), "cannot play: there is no sound card");
        assert_eq!(error.cure().unwrap(), "write a file instead with `-o out.wav`");
        return;
    }
    play_in_child(&Card::missing(), "without_a_card_there_is_one_clear_error");
}

/// Where ALSA has no configuration at all, cpal's own default host would panic.
#[test]
fn without_a_sound_system_there_is_one_clear_error() {
    if plays() {
        assert!(Player::open(24_000).unwrap_err().to_string().starts_with("cannot play: "));
        return;
    }
    let card = Card::missing();
    std::fs::remove_file(card.configuration()).unwrap();
    play_in_child(&card, "without_a_sound_system_there_is_one_clear_error");
}

/// A generator that waits for room is woken by the stop.
#[test]
fn stopping_is_immediate() {
    if plays() {
        let player = Player::open(24_000).unwrap();
        let stopper = player.stopper();
        let pushing = thread::spawn(move || {
            let mut player = player;
            let endless = vec![0.5; 24_000];
            loop {
                if let Err(e) = player.push(&endless) {
                    return e;
                }
            }
        });
        thread::sleep(Duration::from_millis(50));
        let start = Instant::now();
        stopper.stop();
        assert_eq!(pushing.join().unwrap().kind(), Kind::Interrupted);
        assert!(start.elapsed() < Duration::from_secs(3));
        return;
    }
    play_in_child(&Card::plain(), "stopping_is_immediate");
}
