//! `rtts say` with the tiny model: refusals before any work, files that appear whole, pipes that carry nothing but audio.

use std::fs;
use std::time::{Duration, Instant};

use hound::WavReader;

use super::{Bench, closed_pipe, done, refused, say_arguments, stderr, stdout};

#[test]
fn text_that_cannot_be_spoken_is_refused_before_a_model_is_looked_for() {
    let bench = Bench::new();
    for (text, why) in
        [("", "empty"), ("  \n ", "blank"), ("\u{1F389}\u{1F389}", "emoji"), ("\u{2026}!?", "punctuation")]
    {
        refused(&bench.run(&["say", text, "-o", "x.wav", "-m", "./none"]), 2, &[why, "hint:"]);
        refused(&bench.pipe(text.as_bytes(), &["say", "-o", "x.wav", "-m", "./none"]), 2, &[why]);
    }
    refused(&bench.pipe(b"", &["say", "-o", "x.wav", "-m", "./none"]), 2, &["empty"]);
    refused(
        &bench.pipe(b"good\nb\xE4d\n", &["say", "-", "-o", "x.wav", "-m", "./none"]),
        1,
        &["stdin", "line 2", "iconv"],
    );
    refused(&bench.pipe(b"\xFF\xFEh\0i\0", &["say", "-o", "x.wav", "-m", "./none"]), 1, &["UTF-16"]);
    refused(&bench.pipe(b"a\0b", &["say", "-o", "x.wav", "-m", "./none"]), 2, &["NUL"]);
    refused(&bench.run(&["say", "-f", "none.txt", "-o", "x.wav", "-m", "./none"]), 1, &["none.txt"]);
    assert_eq!(bench.names(), Vec::<String>::new());
}

#[test]
fn places_that_cannot_be_written_are_refused_before_a_model_is_looked_for() {
    let bench = Bench::new();
    fs::create_dir(bench.path("folder")).unwrap();
    let kept = bench.write("kept.wav", "as it was");
    let mut permissions = fs::metadata(&kept).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&kept, permissions).unwrap();
    let to = |path: &str| bench.run(&["say", "hi", "-o", path, "-m", "./none"]);
    refused(&to("no/such/out.wav"), 1, &["no/such", "mkdir"]);
    refused(&to("folder"), 1, &["folder"]);
    refused(&to("kept.wav"), 1, &["kept.wav", "read-only"]);
    refused(&to(""), 2, &["--output"]);
    refused(&to("song.mp3"), 2, &["WAV and FLAC", "ffmpeg"]);
    refused(&to("out.txt"), 2, &["WAV and FLAC", "`.txt`", "`.wav` or `.flac`"]);
    refused(&bench.run(&["say", "hi", "-o", "x.flac", "--format", "f32", "-m", "./none"]), 2, &["FLAC", "i24"]);
    let subtitles = |to: &str| bench.run(&["say", "hi", "-o", "x.wav", "--subtitles", to, "-m", "./none"]);
    refused(&subtitles("x.txt"), 2, &["x.txt", ".srt, .vtt or .json"]);
    refused(&subtitles("no/x.srt"), 1, &["no", "mkdir"]);
    refused(&bench.run(&["say", "hi", "--lufs", "-16", "-m", "./none"]), 2, &["--lufs", "-o FILE"]);
    refused(&bench.run(&["say", "hi", "--lufs", "16", "-o", "x.wav"]), 2, &["from -60 to -5"]);
    refused(&bench.run(&["say", "hi", "--raw", "-o", "x.raw", "-m", "./none"]), 2, &["--raw", "stdout"]);
    assert_eq!(bench.names(), ["folder", "kept.wav"]);
    assert_eq!(fs::read(&kept).unwrap(), b"as it was");
}

#[test]
fn speaks_into_a_file_and_reports() {
    let bench = Bench::new();
    let output = bench.say(&["Good evening.", "-o", "x.wav", "--voice", "zoya", "--seed", "7"]);
    done(&output);
    assert_eq!(stdout(&output), "");
    for part in ["`x.wav`", "s of audio", "RTF", "TTFA", "seed 7", "CPU"] {
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
    let wav = WavReader::open(bench.path("x.wav")).unwrap();
    let spec = wav.spec();
    assert_eq!((spec.channels, spec.sample_rate, spec.bits_per_sample), (1, 24_000, 16));
    assert!(wav.len() > 1000);
    assert_eq!(bench.names(), ["x.wav"]);
    // Another run replaces it, byte for byte the same.
    let first = fs::read(bench.path("x.wav")).unwrap();
    let output = bench.say(&["Good evening.", "-o", "x.wav", "--voice", "Zoya", "--seed", "7", "-q"]);
    done(&output);
    assert_eq!(stderr(&output), "");
    assert!(fs::read(bench.path("x.wav")).unwrap() == first);
}

#[test]
fn formats_and_rates() {
    let bench = Bench::new();
    done(&bench.say(&["Hello.", "-o", "a.wav"]));
    done(&bench.say(&["Hello.", "-o", "b.wav", "--format", "f32", "--rate", "48000"]));
    done(&bench.say(&["Hello.", "-o", "c.wav", "--format", "i24"]));
    let wav = |name: &str| WavReader::open(bench.path(name)).unwrap();
    assert_eq!((wav("b.wav").spec().sample_rate, wav("b.wav").spec().bits_per_sample), (48_000, 32));
    assert_eq!(wav("b.wav").len(), 2 * wav("a.wav").len());
    assert_eq!((wav("c.wav").spec().bits_per_sample, wav("c.wav").len()), (24, wav("a.wav").len()));
}

/// `rtts say` of a second and a half.
fn longer(bench: &Bench, arguments: &[&str]) -> std::process::Output {
    let mut usual = say_arguments(arguments);
    let at = usual.iter().position(|a| *a == "--max-seconds").unwrap();
    usual[at + 1] = "1.5";
    bench.run(&usual)
}

#[test]
fn flac_holds_the_same_samples() {
    let bench = Bench::new();
    let text = "Good evening, and welcome to the library.";
    for (format, scale) in [("i16", 32_768.0), ("i24", 8_388_608.0)] {
        done(&longer(&bench, &[text, "-o", "x.wav", "--seed", "3", "--format", format]));
        done(&longer(&bench, &[text, "-o", "x.flac", "--seed", "3", "--format", format]));
        let wav = WavReader::open(bench.path("x.wav")).unwrap();
        let wav: Vec<i32> = wav.into_samples::<i32>().map(Result::unwrap).collect();
        let flac = rtts::audio::read::read(&bench.path("x.flac")).unwrap();
        let flac: Vec<i32> = flac.samples.iter().map(|x| (x * scale).round() as i32).collect();
        assert!(wav.len() > 20_000 && wav == flac, "{format}: {} and {} samples", wav.len(), flac.len());
    }
}

#[test]
fn subtitles_tell_when_each_utterance_is_heard() {
    let bench = Bench::new();
    let text = "Good evening.\n\n[pause:1s] The library & the café close at 6.";
    done(&bench.say(&[text, "-o", "x.wav", "--subtitles", "x.json", "--gap", "100"]));
    done(&bench.say(&[text, "-o", "y.wav", "--subtitles", "x.srt", "--gap", "100"]));
    let json: serde_json::Value = serde_json::from_slice(&fs::read(bench.path("x.json")).unwrap()).unwrap();
    let cues = json["utterances"].as_array().unwrap();
    let texts: Vec<&str> = cues.iter().map(|cue| cue["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["Good evening.", "The library & the café close at 6."]);
    let time = |i: usize, key: &str| cues[i][key].as_f64().unwrap();
    let length = f64::from(WavReader::open(bench.path("x.wav")).unwrap().len()) / 24_000.0;
    assert!(time(0, "start") == 0.0 && (time(1, "end") - length).abs() < 1e-9, "{json}");
    // A cut utterance fades for 10 ms before the silence.
    assert!((time(1, "start") - time(0, "end") - 1.0).abs() < 0.011, "{json}");
    let srt = fs::read_to_string(bench.path("x.srt")).unwrap();
    assert!(srt.starts_with("1\n00:00:00,000 --> 00:00:00,") && srt.contains("\n2\n00:00:01,"), "{srt}");
}

#[test]
fn a_loudness_that_was_asked_for_is_reached() {
    let bench = Bench::new();
    let output = longer(&bench, &["Good evening to all.", "-o", "x.wav", "--lufs", "-30", "--json", "--format", "f32"]);
    done(&output);
    let summary: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!((summary["lufs"].as_f64().unwrap() + 30.0).abs() < 0.01, "{summary}");
    let wav = WavReader::open(bench.path("x.wav")).unwrap();
    let samples: Vec<f32> = wav.into_samples().map(Result::unwrap).collect();
    let mut meter = ebur128::EbuR128::new(1, 24_000, ebur128::Mode::I).unwrap();
    meter.add_frames_f32(&samples).unwrap();
    assert!((meter.loudness_global().unwrap() + 30.0).abs() < 0.05);
    // Through a pipe too, at the end.
    let piped = longer(&bench, &["Good evening to all.", "-o", "-", "--lufs", "-30", "--format", "f32"]);
    done(&piped);
    let bytes: Vec<u8> = samples.iter().flat_map(|x| x.to_le_bytes()).collect();
    assert!(piped.stdout.ends_with(&bytes));
    let mut short = say_arguments(&["Hi.", "-o", "y.wav", "--lufs", "-30"]);
    let at = short.iter().position(|a| *a == "--max-seconds").unwrap();
    short[at + 1] = "0.2";
    let output = bench.run(&short);
    done(&output);
    assert!(stderr(&output).contains("too short"), "{}", stderr(&output));
}

#[test]
fn letters_that_the_voice_cannot_read_are_named() {
    let bench = Bench::new();
    let say = ["say", "He said नमस्ते.", "-m", "builtin", "--device", "cpu", "-o", "x.wav", "--max-seconds", "0.2"];
    let output = bench.run(&say);
    done(&output);
    assert!(stderr(&output).contains("Latin letters only, and `नमस्ते` is Devanagari"), "{}", stderr(&output));
}

#[test]
fn unknown_voices_are_refused_with_a_suggestion() {
    let bench = Bench::new();
    refused(&bench.say(&["hi", "-o", "x.wav", "--voice", "Ayesha"]), 2, &["`Ayesha`", "did you mean `Aisha`", "Zoya"]);
    assert_eq!(bench.names(), Vec::<String>::new());
}

#[test]
fn stdout_carries_audio_and_nothing_else() {
    let bench = Bench::new();
    done(&bench.say(&["Hello.", "-o", "x.wav", "--seed", "1"]));
    let file = fs::read(bench.path("x.wav")).unwrap();
    let wav = bench.say(&["Hello.", "-o", "-", "-vv", "--seed", "1", "--progress", "always"]);
    done(&wav);
    assert_eq!(&wav.stdout[..4], b"RIFF");
    assert!(wav.stdout[44..] == file[44..]);
    assert!(stderr(&wav).contains("seed 1"));
    let raw = bench.say(&["Hello.", "--raw", "--seed", "1", "--json"]);
    done(&raw);
    assert!(raw.stdout == file[44..]);
    let last: serde_json::Value = serde_json::from_str(stderr(&raw).lines().last().unwrap()).unwrap();
    assert_eq!((&last["v"], &last["seed"], &last["rate"]), (&1.into(), &1.into(), &24_000.into()));
}

#[test]
fn json_goes_to_stdout_where_audio_does_not() {
    let bench = Bench::new();
    let output = bench.say(&["Hello.", "-o", "x.wav", "--json"]);
    done(&output);
    let summary: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&summary["file"], &summary["utterances"]), (&"x.wav".into(), &1.into()));
    let seconds = summary["seconds"].as_f64().unwrap();
    let length = WavReader::open(bench.path("x.wav")).unwrap().len();
    assert!((seconds - f64::from(length) / 24_000.0).abs() < 1e-9);
    // The seed was drawn; with it the same bytes come again, and another draw differs.
    let temperature = ["--temperature", "2", "--top-k", "0"];
    let warm = |file: &str, seed: Option<&str>| {
        let mut arguments = vec!["Hello.", "-o", file, "--json"];
        arguments.extend(temperature);
        arguments.extend(seed.iter().flat_map(|s| ["--seed", s]));
        let mut usual = say_arguments(&arguments);
        let at = usual.iter().position(|a| *a == "--temperature").unwrap();
        usual.drain(at..at + 2);
        let output = bench.run(&usual);
        done(&output);
        let summary: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        (summary["seed"].to_string(), fs::read(bench.path(file)).unwrap())
    };
    let (seed, bytes) = warm("a.wav", None);
    assert!(warm("b.wav", Some(&seed)).1 == bytes);
    assert!(warm("c.wav", None).1 != bytes);
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let bench = Bench::new();
    let output = bench.command(&say_arguments(&["Hello.", "-o", "-"])).stdout(closed_pipe()).output().unwrap();
    done(&output);
    assert_eq!(stderr(&output), "");
}

#[test]
fn long_text_is_cut_spoken_side_by_side_and_joined() {
    let bench = Bench::new();
    let text = "The library opens at nine and closes at six. ".repeat(111);
    assert!(text.len() > 4_990);
    bench.write("long.txt", &text);
    let long = |more: &[&str]| {
        let mut arguments = vec!["-f", "long.txt", "-o", "x.wav", "--json", "--max-seconds", "0.16"];
        arguments.extend(more);
        let mut usual = say_arguments(&arguments);
        let at = usual.iter().position(|a| *a == "--max-seconds").unwrap();
        usual.drain(at..at + 2);
        bench.run(&usual)
    };
    let output = long(&["--gap", "0"]);
    done(&output);
    let summary: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let pieces = summary["utterances"].as_u64().unwrap();
    assert!(pieces >= 10, "{summary}");
    // 0.16 s each, and a fade of 10 ms where one was cut and another follows.
    let seconds = summary["seconds"].as_f64().unwrap();
    assert!(seconds > 0.0 && seconds <= 0.17 * pieces as f64 + 1e-6, "{summary}");
    let gaps = long(&["--gap", "100"]);
    let wider: serde_json::Value = serde_json::from_str(&stdout(&gaps)).unwrap();
    let widened = wider["seconds"].as_f64().unwrap() - seconds;
    assert!((widened - 0.1 * (pieces - 1) as f64).abs() < 1e-6, "{wider}");
    // In one piece it does not fit: an error, and the file stays as it was.
    let before = fs::read(bench.path("x.wav")).unwrap();
    refused(&long(&["--split", "none"]), 1, &["tokens", "hint:"]);
    assert!(fs::read(bench.path("x.wav")).unwrap() == before);
    assert_eq!(bench.names(), ["long.txt", "x.wav"]);
}

#[test]
fn pauses_in_the_text_are_silence() {
    let bench = Bench::new();
    let samples = |text: &str, file: &str| {
        done(&bench.say(&[text, "-o", file, "--seed", "2"]));
        let wav = WavReader::open(bench.path(file)).unwrap();
        wav.into_samples::<i16>().map(Result::unwrap).collect::<Vec<_>>()
    };
    let plain = samples("Good evening.", "a.wav");
    let paused = samples("[pause:250ms] Good evening. [pause:0.5s]", "b.wav");
    let silence = |seconds: f64| vec![0; (seconds * 24_000.0) as usize];
    assert!(paused == [silence(0.25), plain, silence(0.5)].concat());
    refused(&bench.say(&["Wait [pause:soon].", "-o", "x.wav"]), 2, &["[pause:soon]"]);
}

#[test]
fn a_cut_is_reported_and_ends_at_the_limit() {
    let bench = Bench::new();
    let output = bench.say(&["Good evening, good evening.", "-o", "x.wav", "--voice", "Zoya", "--json"]);
    done(&output);
    let summary: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&summary["stop"], &summary["cuts"]), (&"length".into(), &1.into()), "{summary}");
    assert!(stderr(&output).contains("was cut"), "{}", stderr(&output));
    // 0.4 s are 5 frames.
    assert_eq!(WavReader::open(bench.path("x.wav")).unwrap().len(), 5 * 1920);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failure() {
    let bench = Bench::new();
    refused(&bench.say(&["Hello.", "-o", "/dev/full"]), 1, &["/dev/full"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = bench.command(&say_arguments(&["Hello.", "-o", "-"])).stdout(full).output().unwrap();
    refused(&output, 1, &["stdout"]);
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_nothing_behind() {
    let bench = Bench::new();
    bench.write("long.txt", "The library opens at nine and closes at six. ".repeat(400));
    let mut usual = say_arguments(&["-f", "long.txt", "-o", "x.wav"]);
    let at = usual.iter().position(|a| *a == "--max-seconds").unwrap();
    usual.drain(at..at + 2);
    let mut child = bench.command(&usual).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // The hidden file shows that it is at work.
    let begun = Instant::now();
    while bench.names().len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    super::signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    refused(&output, 130, &["interrupted"]);
    assert_eq!(bench.names(), ["long.txt"]);
}

#[cfg(all(target_os = "linux", feature = "playback"))]
#[test]
fn plays_what_it_writes() {
    let bench = Bench::new();
    let card = super::sound::Card::plain();
    let mut command = bench.command(&say_arguments(&["Hello.", "-o", "x.wav", "--play"]));
    done(&card.plug_into(&mut command).output().unwrap());
    let written: Vec<i16> = WavReader::open(bench.path("x.wav")).unwrap().samples().map(Result::unwrap).collect();
    let (heard, channels, rate) = card.heard();
    assert_eq!((channels, rate), (1, 24_000));
    // This card has no clock and takes silence wherever the model is slower than it is.
    let sounding = |samples: Vec<i16>| samples.into_iter().filter(|s| *s != 0).collect::<Vec<_>>();
    assert!(!written.is_empty() && sounding(heard) == sounding(written));
}

#[cfg(all(target_os = "linux", feature = "playback"))]
#[test]
fn without_a_sound_card_the_file_is_written_nevertheless() {
    let bench = Bench::new();
    let card = super::sound::Card::missing();
    let mut command = bench.command(&say_arguments(&["Hello.", "-o", "x.wav", "--play"]));
    let output = card.plug_into(&mut command).output().unwrap();
    done(&output);
    assert!(stderr(&output).contains("not played"), "{}", stderr(&output));
    assert_eq!(bench.names(), ["x.wav"]);
    let mut command = bench.command(&say_arguments(&["Hello."]));
    refused(&card.plug_into(&mut command).output().unwrap(), 1, &["sound", "-o out.wav"]);
    // Whoever redirects stdout may expect the audio there.
    let said = stderr(&card.plug_into(&mut command).output().unwrap());
    assert!(said.contains("`-o -` writes it there"), "{said}");
}

#[test]
fn the_text_is_never_overwritten() {
    let bench = Bench::new();
    for (text, flags) in [("t.wav", ["-o", "./t.wav"]), ("t.srt", ["--subtitles", "./t.srt"])] {
        bench.write(text, "Good evening.");
        let output = bench.say(&[["-f", text], flags].concat());
        refused(&output, 2, &[text, "input and output are the same file"]);
        assert_eq!(fs::read(bench.path(text)).unwrap(), b"Good evening.");
    }
}
