//! `rtts bench` and `rtts doctor` from outside.

use serde_json::{Value, json};

use super::{Bench, done, model, refused, stderr, stdout};

/// A short measurement of the tiny checkpoint.
fn short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    static MODEL: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| model().to_str().unwrap().to_owned());
    let usual = ["bench", MODEL.as_str(), "--device", "cpu", "--repeat", "2", "--warmup", "8", "--timed", "16"];
    usual.into_iter().chain(more.iter().copied()).collect()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_measurement_as_text() {
    let bench = Bench::new();
    let output = bench.run(&short(&["--batch", "1,2"]));
    done(&output);
    let text = stdout(&output);
    for part in [
        "BF16",
        "CPU, ",
        "of weights a token",
        "2 runs of 16 tokens, after 8 to warm up",
        "slots  ms a step",
        "1 side by side: backbone",
        "2 side by side: backbone",
    ] {
        assert!(text.contains(part), "{text}\nlacks {part}");
    }
    assert_eq!(bench.names(), Vec::<String>::new(), "a measurement leaves nothing behind");
}

#[test]
fn a_measurement_as_json_and_compared() {
    let bench = Bench::new();
    let output = bench.run(&short(&["--batch", "2", "--json"]));
    done(&output);
    let text = stdout(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        keys(&report),
        [
            "v",
            "rtts",
            "model",
            "packing",
            "bytes",
            "device",
            "activations",
            "load_s",
            "read_rate",
            "step",
            "steps_a_second",
            "read_per_step",
            "read_per_position",
            "repeat",
            "warmup",
            "timed",
            "resident_bytes",
            "peak_bytes",
            "results",
        ]
    );
    let row = &report["results"][0];
    assert_eq!(
        keys(row),
        [
            "slots",
            "step_ms",
            "longest_step_ms",
            "steps_per_s",
            "rtf",
            "times_real_time",
            "prefill_ms",
            "prompt_positions",
            "first_audio_ms",
            "positions",
            "floor_ms",
            "share",
            "stages",
        ]
    );
    assert_eq!((&report["v"], &report["step"], &row["slots"]), (&json!(1), &json!("token"), &json!(2)));
    let number = |value: &Value| value.as_f64().unwrap();
    let step = number(&row["step_ms"]["median"]);
    assert!(step > 0.0 && number(&row["step_ms"]["least"]) <= step && step <= number(&row["step_ms"]["most"]));
    assert!((number(&row["steps_per_s"]) - 2000.0 / step).abs() < 1e-6 * number(&row["steps_per_s"]));
    assert!((number(&row["rtf"]) - step / 10.0).abs() < 1e-6 * step);
    // Warm-up and half of what was timed lie before the middle.
    assert!((number(&row["positions"]) - number(&row["prompt_positions"]) - 8.0 - 7.5).abs() < 1e-9, "{row}");
    let stages: Vec<&str> = row["stages"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(stages, ["backbone", "codec"]);
    let parts: f64 = row["stages"].as_array().unwrap().iter().map(|s| number(&s["ms"])).sum();
    assert!(parts <= number(&row["longest_step_ms"]), "{row}");

    bench.write("old.json", &text);
    let output = bench.run(&short(&["--batch", "1,2", "--compare", "old.json"]));
    done(&output);
    assert!(stdout(&output).contains("not measured before") && stdout(&output).contains("→"), "{}", stdout(&output));
    let output = bench.run(&short(&["--batch", "2", "--compare", "old.json", "--json"]));
    assert_eq!(stdout(&output).lines().count(), 1);
    assert!(stderr(&output).contains("→"), "{}", stderr(&output));
}

#[test]
fn wrong_measurements_are_refused_before_a_model_is_loaded() {
    let bench = Bench::new();
    refused(&bench.run(&["bench", "--batch", "0"]), 2, &["--batch", "from 1 to 1024"]);
    refused(&bench.run(&["bench", "--batch", "1,-2"]), 2, &["--batch", "from 1 to 1024"]);
    refused(&bench.run(&["bench", "--repeat", "0"]), 2, &["--repeat"]);
    refused(&bench.run(&["bench", "--random", "tinyayaa"]), 2, &["did you mean `tinyaya`"]);
    refused(&bench.run(&["bench", "--random", "tinyaya:fp8"]), 2, &["`bf16` or `nvfp4`"]);
    refused(&bench.run(&["bench", "x", "--random", "tinyaya"]), 2, &["cannot be used with"]);
    refused(&bench.run(&["bench", "x", "-m", "y"]), 2, &["cannot be used with"]);
    refused(&bench.run(&["bench", "./none"]), 1, &["./none"]);
    refused(&bench.run(&short(&["--compare", "none.json"])), 1, &["none.json"]);
    bench.write("other.json", "{}");
    refused(&bench.run(&short(&["--compare", "other.json"])), 1, &["no result of `rtts bench`", "--json"]);
}

/// The lines of a report, by topic.
fn checks(report: &Value) -> Vec<(String, String)> {
    let word = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    report["checks"].as_array().unwrap().iter().map(|c| (word(c, "topic"), word(c, "state"))).collect()
}

#[test]
fn the_doctor_finds_this_machine_well() {
    let bench = Bench::new();
    let output = bench.run(&["doctor"]);
    done(&output);
    let text = stdout(&output);
    for part in [
        "agrees with plain arithmetic",
        "no `~/.config/rtts/config.toml`: defaults",
        "RTTS_THREADS=1",
        "`~/.cache/huggingface/hub`",
        "none but the built-in voice",
        "not asked: offline; no token",
        "`builtin`, chosen by itself: TinyAya, NVFP4 (modelopt)",
    ] {
        assert!(text.contains(part), "{text}\nlacks {part}");
    }
    assert!(text.lines().all(|line| ["ok ", "note ", "   "].iter().any(|start| line.starts_with(start))), "{text}");
    // A sound library may ask for its folder; the doctor itself makes none.
    assert!(!bench.path(".cache").exists() && !bench.path(".config/rtts").exists());

    let output = bench.run(&["doctor", "--json"]);
    done(&output);
    assert_eq!(stdout(&output).lines().count(), 1);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(keys(&report), ["v", "rtts", "problems", "notes", "checks"]);
    assert_eq!((&report["v"], &report["problems"]), (&json!(1), &json!(0)));
    let topics: Vec<String> = checks(&report).into_iter().map(|(topic, _)| topic).collect();
    let expected = [
        "program",
        "system",
        "memory",
        "processor",
        "arithmetic",
        "settings",
        "variables",
        "cache",
        "models",
        "hub",
        "model",
        "sound",
        "gpu",
    ];
    assert_eq!(topics, expected);
}

#[test]
fn the_doctor_names_what_is_broken() {
    let bench = Bench::new();
    bench.write("broken.toml", "modle = 'x'\n");
    let diagnose = |variables: &[(&str, &str)]| {
        let mut command = bench.command(&["doctor"]);
        command.envs(variables.iter().copied()).output().unwrap()
    };
    for (variables, parts) in [
        (
            &[("RTTS_CONFIG", "broken.toml")][..],
            &["problem  settings", "`modle` in `broken.toml`", "cure: did you mean `model`?"][..],
        ),
        (&[("RTTS_CONFIG", "none.toml")], &["problem  settings", "none.toml"]),
        (&[("RTTS_DEVICE", "gpu")], &["problem  settings", "`RTTS_DEVICE`"]),
        (&[("RTTS_CPU", "mmx")], &["problem  processor", "`mmx`", "cure: leave RTTS_CPU unset"]),
        (&[("RTTS_MODEL", "./none")], &["problem  model", "./none"]),
        (&[("RTTS_MODEL", "nobody/nothing")], &["problem  model", "nobody/nothing"]),
        (&[("HF_ENDPOINT", "nowhere")], &["problem  cache", "HF_ENDPOINT"]),
    ] {
        let output = diagnose(variables);
        refused(&output, 1, &["1 problem was found", "hint:"]);
        for part in parts {
            assert!(stdout(&output).contains(part), "{}\nlacks {part}", stdout(&output));
        }
    }
    let output = diagnose(&[("RTTS_CONFIG", "none.toml"), ("RTTS_MODEL", "./none")]);
    assert!(stderr(&output).contains("1 problem") || stderr(&output).contains("2 problems"), "{}", stderr(&output));
}

#[test]
fn the_doctor_keeps_secrets_and_asks_the_hub_only_where_it_may() {
    let bench = Bench::new();
    let mut command = bench.command(&["doctor", "--json"]);
    // Nobody listens on the discard port of this machine.
    command
        .env("HF_HUB_OFFLINE", "0")
        .env("HF_ENDPOINT", "http://me:hf_secret@127.0.0.1:9")
        .env("HF_TOKEN", "hf_secret");
    let output = command.output().unwrap();
    done(&output);
    let (text, said) = (stdout(&output), stderr(&output));
    assert!(!text.contains("hf_secret") && !said.contains("hf_secret"), "{text}{said}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let hub = report["checks"].as_array().unwrap().iter().find(|check| check["topic"] == "hub").unwrap();
    assert_eq!(hub["state"], "note", "{hub}");
    assert!(hub["text"].as_str().unwrap().contains("cannot be reached"), "{hub}");
    assert!(hub["text"].as_str().unwrap().contains("a token from `HF_TOKEN`"), "{hub}");
}
