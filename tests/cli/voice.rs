//! Recordings and saved voices from outside, with a model that cannot clone: what is refused, when, and with which cure.

use std::fs;

use super::{Bench, done, refused, stderr, stdout};

/// A recording of the tests.
fn recording(name: &str) -> String {
    format!("{}/tests/data/recordings/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn recordings_that_are_of_no_use_are_refused_before_a_model_is_looked_for() {
    let bench = Bench::new();
    bench.write("text.wav", "this is not audio\n");
    bench.write("empty.wav", "");
    fs::create_dir(bench.path("folder")).unwrap();
    let say = |audio: &str| bench.run(&["say", "Hello.", "-o", "x.wav", "-m", "./none", "--reference", audio]);
    refused(&say("text.wav"), 1, &["`text.wav`", "text, not audio", "hint:"]);
    refused(&say("empty.wav"), 1, &["`empty.wav`", "empty"]);
    refused(&say("folder"), 1, &["`folder`", "a folder"]);
    refused(&say("none.wav"), 1, &["none.wav"]);
    refused(&say(&recording("voice.opus")), 1, &["Opus", "ffmpeg"]);
    // A good one gets as far as the model.
    refused(&say(&recording("voice.mp3")), 1, &["./none"]);
    let save = |audio: &str| bench.run(&["voice", "save", audio, "-o", "./v.safetensors", "-m", "./none"]);
    refused(&save("text.wav"), 1, &["text, not audio"]);
    refused(&save(&recording("voice.mp3")), 1, &["./none"]);
    assert_eq!(bench.names(), ["empty.wav", "folder", "text.wav"]);
}

#[test]
fn flags_that_belong_together() {
    let bench = Bench::new();
    let audio = recording("voice.wav");
    let say = |more: &[&str]| bench.run(&[&["say", "Hello.", "-o", "x.wav"], more].concat());
    refused(&say(&["--prompt-audio", &audio]), 2, &["--prompt-text"]);
    refused(&say(&["--prompt-text", "Words."]), 2, &["--prompt-audio"]);
    refused(&say(&["--prompt-audio", &audio, "--prompt-text", " "]), 2, &["the words of the recording"]);
    refused(&say(&["--cfg", "-1"]), 2, &["from 0 to 10"]);
    refused(&say(&["--steps", "1"]), 2, &["from 2 to 100"]);
    refused(&say(&["--retry", "-1"]), 2, &["from 0 to 20"]);
}

#[test]
fn a_model_that_does_not_clone_says_which_does() {
    let bench = Bench::new();
    let audio = recording("voice.wav");
    for more in [
        &["--reference", audio.as_str()][..],
        &["--prompt-audio", &audio, "--prompt-text", "Words."],
        &["--cfg", "2"],
        &["--steps", "8"],
    ] {
        refused(&bench.say(&[&["Hello.", "-o", "x.wav"], more].concat()), 2, &[more[0], "-m voxcpm2"]);
    }
    let model = super::model();
    let model = model.to_str().unwrap();
    refused(&bench.run(&["voice", "save", &audio, "-o", "me", "-m", model]), 2, &["does not clone", "-m voxcpm2"]);
    refused(
        &bench.say(&["Hello.", "-o", "x.wav", "--voice", "./me.safetensors"]),
        2,
        &["./me.safetensors", "voice save"],
    );
    // In a batch the flags fail as a whole, and columns their lines.
    refused(&bench.run(&["batch", "-d", "out", "l.txt", "-m", model]), 1, &["l.txt"]);
    bench.write("l.csv", "text,reference\nHello.,me.wav\n");
    bench.write("me.wav", fs::read(&audio).unwrap());
    let output = bench.run(&["batch", "l.csv", "-d", "out", "-m", model, "--dry-run"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("line 1") && stderr(&output).contains("`--reference`"), "{}", stderr(&output));
    assert!(!bench.path("x.wav").exists());
}

#[test]
fn saved_voices_are_listed_and_not_replaced_by_accident() {
    let bench = Bench::new();
    let folder = bench.path(".local/share/rtts/voices");
    fs::create_dir_all(&folder).unwrap();
    // As the program writes it: a header, and two frames of two numbers.
    let header = "{\"__metadata__\":{\"format\":\"rtts-voice-1\",\"ear\":\"x\",\"rate\":\"16000\",\"seconds\":\"3.250\"},\
                  \"reference\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}";
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 16]].concat();
    fs::write(folder.join("anna.safetensors"), file).unwrap();
    fs::write(folder.join("broken.safetensors"), "x").unwrap();
    let output = bench.run(&["voices", "-m", "builtin"]);
    done(&output);
    if cfg!(target_os = "linux") {
        assert_eq!(stdout(&output), "Clara\nRoss\nanna\tsaved, 3.2 s\n");
        assert!(stderr(&output).contains("broken.safetensors"), "{}", stderr(&output));
        refused(
            &bench.run(&["voice", "save", &recording("voice.wav"), "-o", "anna", "-m", "./none"]),
            2,
            &["there already", "--force"],
        );
        refused(
            &bench.run(&["say", "Hi.", "-o", "x.wav", "-m", "builtin", "--voice", "anna"]),
            2,
            &["`anna`", "does not clone"],
        );
    }
}

/// A model without speakers, where no voice is saved, says how to get one.
#[test]
fn a_model_without_speakers_says_where_voices_come_from() {
    let bench = Bench::new();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/voxcpm2-bf16");
    let output = bench.run(&["voices", "-m", model]);
    done(&output);
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("rtts voice save"), "{}", stderr(&output));
}
