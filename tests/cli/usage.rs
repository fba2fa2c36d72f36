//! Help, wrong usage, settings and exit statuses; no model is needed.

use super::{Bench, closed_pipe, done, model, refused, stderr, stdout};

#[test]
fn every_command_has_help_with_examples() {
    let bench = Bench::new();
    for command in ["say", "batch", "info", "completions", "man", "voices", "models", "bench", "doctor", "kernels"] {
        let short = bench.run(&[command, "-h"]);
        let long = bench.run(&[command, "--help"]);
        done(&short);
        done(&long);
        assert!(stdout(&long).contains("Examples:"), "{command}");
        assert!(stdout(&long).len() > stdout(&short).len(), "{command}");
        assert_eq!(stderr(&long), "");
    }
    let long = stdout(&bench.run(&["--help"]));
    for part in ["say", "batch", "info", "RTTS_MODEL", "HF_HUB_OFFLINE", "Exit status", "130"] {
        assert!(long.contains(part), "{part}");
    }
    assert_eq!(stdout(&bench.run(&["--version"])), format!("rtts {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_usage_is_status_2_and_says_what_is_right() {
    let bench = Bench::new();
    refused(&bench.run(&[]), 2, &["Usage"]);
    refused(&bench.run(&["sai"]), 2, &["say"]);
    refused(&bench.run(&["say", "hi", "--voise", "Ira"]), 2, &["--voice"]);
    refused(&bench.run(&["say", "hi", "--device", "cudda"]), 2, &["did you mean `cuda`"]);
    refused(&bench.run(&["say", "hi", "--temperature", "-1"]), 2, &["temperature"]);
    refused(&bench.run(&["say", "hi", "--max-seconds", "0"]), 2, &["max-seconds"]);
    refused(&bench.run(&["say", "hi", "--format", "i32"]), 2, &["i16", "i24", "f32"]);
    refused(&bench.run(&["say", "hi", "--rate", "4"]), 2, &["--rate"]);
    refused(&bench.run(&["say", "hi", "-f", "x"]), 2, &["cannot be used with"]);
    for (flag, range) in [
        ("--seed", "from 0 to 18446744073709551615"),
        ("--threads", "from 1 to 1024"),
        ("--top-k", "from 0 up"),
        ("--rate", "from 8000 to 192000"),
        ("--gap", "from 0 to 60000"),
    ] {
        refused(&bench.run(&["say", "hi", flag, "-1"]), 2, &[flag, "'-1'", range]);
    }
    let arguments = ["batch", "list.txt", "-d", "out", "--batch-size", "-1"];
    refused(&bench.run(&arguments), 2, &["--batch-size", "'-1'", "from 1 to 1024"]);
    // clap takes `{n}` in a help text for a line end.
    for flag in ["-h", "--help"] {
        assert!(stdout(&bench.run(&["batch", flag])).contains("from {n:04}, {stem}, {voice} and {hash}"), "{flag}");
    }
    refused(&bench.run(&["batch", "list.txt"]), 2, &["--directory"]);
    refused(&bench.run(&["batch", "list.txt", "-d", "out", "--name", "{m}"]), 2, &["{m}", "{stem}"]);
    refused(&bench.run(&["say", "hi", "-q", "-v"]), 2, &["cannot be used with"]);
    assert_eq!(bench.names(), Vec::<String>::new());
}

#[test]
fn a_model_that_is_not_there_is_named() {
    let bench = Bench::new();
    refused(&bench.run(&["say", "hi", "-o", "x.wav", "-m", "./none"]), 1, &["./none"]);
    refused(&bench.run(&["voices", "-m", "nobody/nothing"]), 1, &["nobody/nothing"]);
    assert_eq!(bench.names(), Vec::<String>::new());
}

#[test]
fn without_a_model_the_built_in_voice_speaks() {
    let bench = Bench::new();
    let output = bench.run(&["voices"]);
    done(&output);
    assert_eq!(stdout(&output), "Clara\nRoss\n");
    assert!(stderr(&output).contains("built-in voice; `rtts models pull"), "{}", stderr(&output));
    // Which model it is stands there every time, the advice only once.
    assert_eq!(stderr(&bench.run(&["voices"])), "model: the built-in voice\n");
    assert_eq!(stdout(&bench.run(&["voices", "-m", "builtin", "-q"])), "Clara\nRoss\n");
}

#[test]
fn a_gpu_that_is_not_there_is_refused_with_the_cure() {
    let bench = Bench::new();
    let model = model();
    let arguments = ["say", "hi", "-o", "x.wav", "-m", model.to_str().unwrap(), "--device", "cuda:99"];
    // With or without GPUs: nobody has a hundred.
    refused(&bench.run(&arguments), 1, &["--device cpu"]);
}

#[test]
fn settings_come_from_flags_then_environment_then_file() {
    let bench = Bench::new();
    let model = model();
    let config = bench.write("config.toml", format!("model = {:?}\n", model.to_str().unwrap()));
    let voices = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = bench.command(arguments);
        command.envs(variables.iter().copied()).output().unwrap()
    };
    let file = ("RTTS_CONFIG", config.to_str().unwrap());
    assert_eq!(stdout(&voices(&[file], &["voices"])), "Ira\nAisha\nSiya\nZoya\n");
    refused(&voices(&[file, ("RTTS_MODEL", "./none")], &["voices"]), 1, &["./none"]);
    done(&voices(&[("RTTS_MODEL", "./none")], &["voices", "-m", model.to_str().unwrap()]));
    refused(&voices(&[("RTTS_CONFIG", "none.toml")], &["voices"]), 1, &["none.toml"]);
    refused(&voices(&[("RTTS_DEVICE", "gpu")], &["voices"]), 2, &["RTTS_DEVICE", "`gpu`"]);
    let broken = bench.write("broken.toml", "model = 'a'\nvoize = 'b'\n");
    let broken = ("RTTS_CONFIG", broken.to_str().unwrap());
    refused(&voices(&[broken], &["voices"]), 2, &["broken.toml", "`voize`", "did you mean `voice`"]);
}

#[test]
fn a_setting_that_turns_out_wrong_names_its_place() {
    let bench = Bench::new();
    let model = model();
    let with = |variables: &[(&str, &str)], arguments: &[&str]| {
        bench.command(arguments).envs(variables.iter().copied()).output().unwrap()
    };
    refused(&with(&[("RTTS_MODEL", "rumk")], &["voices"]), 2, &["the variable `RTTS_MODEL`: ", "did you mean `rumik`"]);
    refused(&with(&[("RTTS_MODEL", "./none")], &["info"]), 1, &["the variable `RTTS_MODEL`: ", "./none"]);
    let say = ["say", "hi", "-o", "x.wav", "-m", model.to_str().unwrap()];
    refused(&with(&[("RTTS_VOICE", "Iraa")], &say), 2, &["the variable `RTTS_VOICE`: ", "did you mean `Ira`"]);
    refused(&with(&[("RTTS_DEVICE", "cuda:99")], &say), 1, &["the variable `RTTS_DEVICE`: ", "--device cpu"]);
    refused(&with(&[("RTTS_RATE", "7")], &say), 2, &["`RTTS_RATE`", "8000"]);
    let config = bench.write("config.toml", "voice = \"Iraa\"\nmodel = \"my\"\n[aliases]\nmy = \"./none\"\n");
    let config = ("RTTS_CONFIG", config.to_str().unwrap());
    refused(&with(&[config], &say), 2, &["`voice` in `", "config.toml`: "]);
    refused(&with(&[config], &["voices"]), 1, &["`model` in `", "no folder", "none"]);
    assert_eq!(bench.names(), ["config.toml"]);
}

#[test]
fn short_names_and_defaults_from_the_configuration_file() {
    let bench = Bench::new();
    let model = model();
    let text =
        format!("model = \"Tiny\"\nformat = \"i24\"\nrate = 8000\n[aliases]\ntiny = {:?}\n", model.to_str().unwrap());
    let config = bench.write("config.toml", text);
    let with = |arguments: &[&str]| bench.command(arguments).env("RTTS_CONFIG", &config).output().unwrap();
    assert_eq!(stdout(&with(&["voices"])), "Ira\nAisha\nSiya\nZoya\n");
    assert_eq!(stdout(&with(&["models", "path", "tiny"])), format!("{}\n", model.display()));
    refused(&with(&["voices", "-m", "tyny"]), 2, &["did you mean `tiny`"]);
    done(&with(&["say", "Hello.", "-o", "x.wav", "--max-seconds", "0.4", "--device", "cpu"]));
    let spec = hound::WavReader::open(bench.path("x.wav")).unwrap().spec();
    assert_eq!((spec.sample_rate, spec.bits_per_sample), (8000, 24));
    done(&with(&["say", "Hello.", "-o", "x.wav", "--max-seconds", "0.4", "--format", "i16"]));
    assert_eq!(hound::WavReader::open(bench.path("x.wav")).unwrap().spec().bits_per_sample, 16);
    done(&with(&["say", "Hello.", "--raw", "--max-seconds", "0.4"]));
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new();
    for name in ["RTTS_MODEL", "RTTS_VOICE", "RTTS_DEVICE", "RTTS_THREADS", "RTTS_GAP"] {
        let mut command = bench.command(&["voices"]);
        let output = command.env(name, std::ffi::OsStr::from_bytes(b"a\xFF")).output().unwrap();
        refused(&output, 2, &[&format!("`{name}` is not UTF-8")]);
    }
}

#[test]
fn voices_as_json() {
    let bench = Bench::new();
    let output = bench.run(&["voices", "--json", "-m", model().to_str().unwrap()]);
    done(&output);
    let lines: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], serde_json::json!({"v": 1, "voice": "Ira", "default": true}));
    assert_eq!((lines.len(), &lines[3]["default"]), (4, &serde_json::json!(false)));
}

#[test]
fn info_explains_the_model() {
    let bench = Bench::new();
    let model = model();
    let output = bench.run(&["info", model.to_str().unwrap()]);
    done(&output);
    assert!(stdout(&output).contains("TinyAya") && stdout(&output).contains("BF16"), "{}", stdout(&output));
    let output = bench.run(&["info", "--json", model.to_str().unwrap()]);
    let facts: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(facts["device"].as_str().unwrap().contains("CPU"), "{facts}");
}

#[test]
fn a_reader_that_left_is_no_failure() {
    let bench = Bench::new();
    let model = model();
    for arguments in [&["completions", "bash"][..], &["voices", "-m", model.to_str().unwrap()], &["--help"]] {
        let output = bench.command(arguments).stdout(closed_pipe()).output().unwrap();
        done(&output);
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn a_full_disk_is_a_failure() {
    let bench = Bench::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    // Linux has the device; elsewhere there is nothing like it.
    if let Ok(full) = full {
        let output = bench.command(&["completions", "bash"]).stdout(full).output().unwrap();
        refused(&output, 1, &["stdout"]);
    }
}

#[test]
fn completions_for_every_shell_know_the_flags() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = bench.run(&["completions", shell]);
        done(&output);
        assert!(stdout(&output).contains("max-seconds"), "{shell}");
    }
}

#[test]
fn colours_only_where_they_are_wanted() {
    let bench = Bench::new();
    let plain = stderr(&bench.run(&["say", "", "-o", "x.wav"]));
    let coloured = stderr(&bench.run(&["say", "", "-o", "x.wav", "--color", "always"]));
    assert!(!plain.contains('\x1b') && coloured.contains('\x1b'));
    let mut command = bench.command(&["say", "", "-o", "x.wav"]);
    assert!(stderr(&command.env("CLICOLOR_FORCE", "1").output().unwrap()).contains('\x1b'));
    assert!(!stderr(&command.env("NO_COLOR", "1").output().unwrap()).contains('\x1b'));
}
