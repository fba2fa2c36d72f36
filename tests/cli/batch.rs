//! `rtts batch` with the tiny model: a folder of files, a manifest, and runs that were broken off.

use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use hound::WavReader;
use serde_json::Value;

use super::{Bench, done, model, refused, stderr, stdout};

fn arguments<'a>(list: &'a str, more: &[&'a str]) -> Vec<String> {
    let model = model().to_str().unwrap().to_owned();
    let usual = ["batch", list, "-d", "out", "--device", "cpu", "--max-seconds", "0.4", "-m"];
    usual.into_iter().map(String::from).chain([model]).chain(more.iter().map(|a| (*a).to_owned())).collect()
}

fn batch(bench: &Bench, list: &str, more: &[&str]) -> Output {
    let words = arguments(list, more);
    bench.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn start(bench: &Bench, list: &str, more: &[&str]) -> Child {
    let words = arguments(list, more);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    bench.command(&words).stderr(Stdio::piped()).spawn().unwrap()
}

/// Whole lines of the manifest.
fn manifest(bench: &Bench) -> Vec<Value> {
    let text = fs::read_to_string(bench.path("out/manifest.jsonl")).unwrap_or_default();
    text.split_inclusive('\n').filter(|l| l.ends_with('\n')).map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// Files that are not hidden, without the manifest, sorted.
fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|n| !n.starts_with('.') && n != "manifest.jsonl").collect();
    names.sort();
    names
}

fn wait_for_lines(bench: &Bench, child: &mut Child, lines: usize) {
    let begun = Instant::now();
    while manifest(bench).len() < lines {
        assert!(begun.elapsed() < Duration::from_secs(120), "no {lines} lines in time");
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn long_list() -> String {
    (1..=60).map(|i| format!("Line {i} of a long list, spoken by a tiny model.\n")).collect()
}

#[test]
fn a_list_becomes_files_and_a_manifest_and_is_not_done_twice() {
    let bench = Bench::new();
    // A byte-order mark, CRLF and a blank line, as an editor may leave them.
    bench.write("lines.txt", "\u{FEFF}Good evening.\r\n\r\n\u{1F389}\r\nBoarding begins shortly.\r\n");
    let output = batch(&bench, "lines.txt", &["--seed", "3", "--name", "{stem}-{n:03}-{voice}", "--voice", "siya"]);
    refused(&output, 3, &["line 3", "emoji", "2 lines", "1 failed"]);
    assert_eq!(files(&bench.path("out")), ["lines-001-Siya.wav", "lines-004-Siya.wav"]);
    let mut entries = manifest(&bench);
    entries.sort_by_key(|e| e["n"].as_u64());
    assert_eq!(entries.iter().map(|e| e["n"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 3, 4]);
    assert_eq!((&entries[0]["text"], &entries[0]["seed"]), (&"Good evening.".into(), &3.into()));
    assert!(entries[1]["error"].as_str().unwrap().contains("emoji") && entries[0]["error"].is_null());
    let seconds = entries[2]["seconds"].as_f64().unwrap();
    let wav = WavReader::open(bench.path("out/lines-004-Siya.wav")).unwrap();
    assert!((seconds - f64::from(wav.len()) / 24_000.0).abs() < 1e-3);

    // A line of the batch, said alone with its seed.
    let seed = entries[2]["seed"].to_string();
    let alone = ["Boarding begins shortly.", "-o", "alone.wav", "--voice", "Siya", "--seed", &seed];
    let mut usual = super::say_arguments(&alone);
    let at = usual.iter().position(|a| *a == "--temperature").unwrap();
    usual.drain(at..at + 2);
    done(&bench.run(&usual));
    assert!(fs::read(bench.path("alone.wav")).unwrap() == fs::read(bench.path("out/lines-004-Siya.wav")).unwrap());

    let flags = ["--seed", "3", "--name", "{stem}-{n:03}-{voice}", "--voice", "siya", "--json"];
    let again = batch(&bench, "lines.txt", &flags);
    assert_eq!(again.status.code(), Some(3));
    let objects: Vec<Value> = stdout(&again).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let last = objects.last().unwrap();
    assert_eq!((&last["done"], &last["failed"], &last["skipped"]), (&0.into(), &1.into(), &2.into()));
    assert_eq!((objects.len(), &objects[0]["n"]), (2, &3.into()));
}

#[test]
fn batch_size_does_not_change_a_byte() {
    let bench = Bench::new();
    bench.write("lines.txt", "One.\nTwo, a little longer.\nThree.\nFour and more.\n");
    done(&batch(&bench, "lines.txt", &["--seed", "5", "--batch-size", "1"]));
    let read =
        || files(&bench.path("out")).iter().map(|f| fs::read(bench.path("out").join(f)).unwrap()).collect::<Vec<_>>();
    let one = read();
    done(&batch(&bench, "lines.txt", &["--seed", "5", "--batch-size", "3", "--force"]));
    assert_eq!(one.len(), 4);
    assert!(one == read());
}

#[test]
fn what_is_wrong_with_a_batch_is_said_before_it_begins() {
    let bench = Bench::new();
    bench.write("lines.txt", "One.\nTwo.\nOne.\n");
    bench.write("empty.txt", " \n\n");
    bench.write("latin.txt", b"fine\nna\xEFve\n");
    bench.write("out", "a file where the folder should be");
    refused(&batch(&bench, "none.txt", &[]), 1, &["none.txt"]);
    refused(&batch(&bench, "empty.txt", &[]), 1, &["empty.txt", "no text"]);
    refused(&batch(&bench, "latin.txt", &[]), 1, &["latin.txt", "line 2"]);
    refused(&batch(&bench, "lines.txt", &["--name", "{hash}"]), 2, &["lines 1 and 3"]);
    refused(&batch(&bench, "lines.txt", &["--name", "../{n}"]), 2, &["line 1", "out of the output folder"]);
    refused(&batch(&bench, "lines.txt", &["--voice", "Syia"]), 2, &["did you mean `Siya`"]);
    refused(&batch(&bench, "lines.txt", &["--join", "all.mp3"]), 2, &["all.mp3", "WAV and FLAC"]);
    refused(&batch(&bench, "lines.txt", &["--join", "all.wav", "--shard", "1/2"]), 2, &["cannot be used with"]);
    refused(&batch(&bench, "lines.txt", &["--subtitles", "all.srt"]), 2, &["--join"]);
    refused(&batch(&bench, "lines.txt", &["--name", "{n}.flac", "--format", "f32"]), 2, &["1.flac", "i24"]);
    refused(&batch(&bench, "lines.txt", &["--name", "{n}.flac", "--join", "a.wav"]), 2, &["only WAV files are joined"]);
    refused(&batch(&bench, "lines.txt", &[]), 1, &["out"]);
    assert_eq!(bench.names(), ["empty.txt", "latin.txt", "lines.txt", "out"]);
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_is_refused_before_a_model_is_loaded() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    bench.write("lines.txt", "One.\n");
    fs::create_dir(bench.path("out")).unwrap();
    fs::set_permissions(bench.path("out"), fs::Permissions::from_mode(0o555)).unwrap();
    let output = batch(&bench, "lines.txt", &[]);
    refused(&output, 1, &["out", "read-only"]);
    assert!(!stderr(&output).contains("line 1"), "{}", stderr(&output));
    assert_eq!(files(&bench.path("out")), Vec::<String>::new());
}

fn samples(path: &Path) -> Vec<i16> {
    WavReader::open(path).unwrap().into_samples::<i16>().map(Result::unwrap).collect()
}

#[test]
fn lines_are_joined_in_order_without_a_change() {
    let bench = Bench::new();
    bench.write("lines.txt", "One, a little longer.\n\nTwo.\nThree is here.\n");
    let flags = ["--seed", "4", "--batch-size", "3", "--join", "all.wav", "--subtitles", "all.json", "--gap", "50"];
    let output = batch(&bench, "lines.txt", &flags);
    done(&output);
    assert!(stderr(&output).contains("`all.wav`: 3 lines joined"), "{}", stderr(&output));
    let lines: Vec<Vec<i16>> = ["0001", "0003", "0004"].map(|n| samples(&bench.path(&format!("out/{n}.wav")))).into();
    assert!(samples(&bench.path("all.wav")) == lines.join([0; 1200].as_slice()));
    let json: Value = serde_json::from_slice(&fs::read(bench.path("all.json")).unwrap()).unwrap();
    let second = lines[0].len() as f64 / 24_000.0 + 0.05;
    assert!((json["utterances"][1]["start"].as_f64().unwrap() - second).abs() < 1e-9, "{json}");
    assert_eq!(json["utterances"][2]["text"], "Three is here.");

    // All lines are done, and the file is made again.
    fs::remove_file(bench.path("all.wav")).unwrap();
    let again = batch(&bench, "lines.txt", &flags);
    done(&again);
    assert!(stderr(&again).contains("nothing to do: 3 lines in `out` are done"), "{}", stderr(&again));
    assert!(bench.path("all.wav").is_file());

    // With a line missing it stays as it was.
    bench.write("lines.txt", "One, a little longer.\n\u{1F389}\n");
    fs::write(bench.path("all.wav"), "as it was").unwrap();
    refused(&batch(&bench, "lines.txt", &flags), 3, &["`all.wav` is not written"]);
    assert_eq!(fs::read(bench.path("all.wav")).unwrap(), b"as it was");
    let own = ["--join", "out/0001.wav"];
    refused(&batch(&bench, "lines.txt", &own), 2, &["`out/0001.wav` is the file of line 1"]);
}

#[test]
fn lines_can_be_flac() {
    let bench = Bench::new();
    bench.write("lines.txt", "One.\nTwo.\n");
    done(&batch(&bench, "lines.txt", &["--name", "{n}.flac"]));
    assert_eq!(files(&bench.path("out")), ["1.flac", "2.flac"]);
    assert_eq!(&fs::read(bench.path("out/1.flac")).unwrap()[..4], b"fLaC");
}

#[test]
fn a_changed_batch_says_what_it_does_again() {
    let bench = Bench::new();
    bench.write("lines.txt", "One.\nTwo.\n");
    done(&batch(&bench, "lines.txt", &["--seed", "1"]));
    let plan = batch(&bench, "lines.txt", &["--seed", "2", "--dry-run"]);
    done(&plan);
    for part in
        ["2 lines in `out` will be spoken again: settings or model", "2 lines to speak", "about", "iB, in about"]
    {
        assert!(stderr(&plan).contains(part), "{part}: {}", stderr(&plan));
    }
    let json = stdout(&batch(&bench, "lines.txt", &["--seed", "2", "--dry-run", "--json"]));
    let last: Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!((&last["lines"], &last["skipped"]), (&2.into(), &0.into()));
    assert!(last["seconds"].as_f64().unwrap() > 0.1 && last["wall"].as_f64().unwrap() > 0.0, "{last}");
    bench.write("lines.txt", "One.\nSecond.\n");
    let again = batch(&bench, "lines.txt", &["--seed", "1"]);
    done(&again);
    for part in ["1 line in `out` will be spoken again: their text is", "1 line in `out`: "] {
        assert!(stderr(&again).contains(part), "{part}: {}", stderr(&again));
    }
    assert!(!stderr(&batch(&bench, "lines.txt", &["--seed", "3", "--force"])).contains("spoken again"));
}

#[cfg(unix)]
#[test]
fn two_runs_keep_out_of_each_others_way() {
    let bench = Bench::new();
    bench.write("lines.txt", long_list());
    let mut child = start(&bench, "lines.txt", &["--batch-size", "2"]);
    wait_for_lines(&bench, &mut child, 1);
    refused(&batch(&bench, "lines.txt", &[]), 1, &["another `rtts batch` is at work in `out`", "--shard"]);
    refused(&batch(&bench, "lines.txt", &["--shard", "1/2"]), 1, &["another `rtts batch`"]);
    // Looking is allowed.
    done(&batch(&bench, "lines.txt", &["--dry-run"]));
    super::signal(&child, "INT");
    refused(&child.wait_with_output().unwrap(), 130, &["finishing the lines under way"]);
    let mut parts: Vec<Child> =
        ["1/20", "2/20"].iter().map(|part| start(&bench, "lines.txt", &["--shard", part])).collect();
    assert!(parts.iter_mut().all(|part| part.wait().unwrap().success()));
}

#[test]
fn lists_of_objects_and_tables() {
    let bench = Bench::new();
    bench.write("a.jsonl", "{\"text\": \"One.\", \"voice\": \"siya\", \"name\": \"one\"}\n{\"text\": \"Two.\"}\n");
    let output = batch(&bench, "a.jsonl", &["--dry-run", "--name", "{n}-{voice}"]);
    done(&output);
    assert_eq!(stdout(&output), "one.wav\tOne.\n2-Ira.wav\tTwo.\n");
    bench.write("b.csv", "text,voice\nOne.,Siya\nTwo.,Siyaa\n");
    refused(&batch(&bench, "b.csv", &["--dry-run"]), 3, &["`b.csv`, line 2", "did you mean `Siya`"]);
    bench.write("c.csv", "text,tempo\nOne.,5\n");
    refused(&batch(&bench, "c.csv", &[]), 1, &["c.csv", "line 2", "`tempo`", "max_seconds"]);
    bench.write("d.jsonl", "{\"text\": \"One.\"}\nTwo.\n");
    refused(&batch(&bench, "d.jsonl", &[]), 1, &["d.jsonl", "line 2"]);
    bench.write("e.json", "[]");
    refused(&batch(&bench, "e.json", &[]), 2, &["e.json", "jq -c"]);
    bench.write("f.tsv", "text\tname\nOne.\t../up\n");
    refused(&batch(&bench, "f.tsv", &[]), 2, &["`f.tsv`: line 1", "`../up.wav`", "out of the output folder"]);
    assert!(!bench.path("out").exists());
}

#[test]
fn a_dry_run_does_nothing() {
    let bench = Bench::new();
    let words = arguments("-", &["--dry-run", "--shard", "1/3"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = bench.pipe(b"One.\n\nThree.\nFour.\n", &words);
    done(&output);
    assert_eq!(stdout(&output), "0001.wav\tOne.\n0004.wav\tFour.\n");
    assert_eq!(bench.names(), Vec::<String>::new());
}

#[cfg(unix)]
#[test]
fn ctrl_c_finishes_what_is_under_way_and_the_next_run_goes_on() {
    let bench = Bench::new();
    bench.write("lines.txt", long_list());
    let mut child = start(&bench, "lines.txt", &["--seed", "1", "--batch-size", "2"]);
    wait_for_lines(&bench, &mut child, 2);
    super::signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    refused(&output, 130, &["finishing the lines under way", "left", "run the same command again"]);
    let finished = manifest(&bench).len();
    assert!((2..60).contains(&finished), "{finished}");
    assert_eq!(files(&bench.path("out")).len(), finished);
    let hidden = fs::read_dir(bench.path("out")).unwrap().count() - finished - 1;
    assert_eq!(hidden, 0, "{}", stderr(&output));

    let rest = batch(&bench, "lines.txt", &["--seed", "1", "--batch-size", "8"]);
    done(&rest);
    assert!(stderr(&rest).contains(&format!("{finished} skipped")), "{}", stderr(&rest));
    assert_eq!(files(&bench.path("out")).len(), 60);
}

#[cfg(unix)]
#[test]
fn a_kill_costs_only_the_lines_under_way() {
    let bench = Bench::new();
    bench.write("lines.txt", long_list());
    let mut child = start(&bench, "lines.txt", &["--seed", "1", "--batch-size", "2"]);
    wait_for_lines(&bench, &mut child, 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let entries = manifest(&bench);
    let whole = files(&bench.path("out"));
    assert!(whole.len() >= entries.len() && whole.len() < 60);
    for file in &whole {
        let wav = WavReader::open(bench.path("out").join(file)).unwrap();
        let samples = wav.into_samples::<i16>().map(Result::unwrap).count();
        assert!(samples > 0, "{file}");
    }
    let rest = batch(&bench, "lines.txt", &["--seed", "1", "--batch-size", "8"]);
    done(&rest);
    assert!(stderr(&rest).contains(&format!("{} skipped", entries.len())), "{}", stderr(&rest));
    assert_eq!(files(&bench.path("out")).len(), 60);
}

#[test]
fn a_reader_that_left_stops_no_batch() {
    let bench = Bench::new();
    bench.write("lines.txt", "One.\nTwo.\nThree.\n");
    let words = arguments("lines.txt", &["--json", "-q"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = bench.command(&words).stdout(super::closed_pipe()).output().unwrap();
    done(&output);
    assert_eq!(stderr(&output), "");
    assert_eq!(files(&bench.path("out")), ["0001.wav", "0002.wav", "0003.wav"]);

    // The status is that of the batch, not of the pipe.
    bench.write("lines.txt", "One.\n\u{1F389}\n");
    let output = bench.command(&words).stdout(super::closed_pipe()).output().unwrap();
    refused(&output, 3, &["`lines.txt`, line 2", "emoji"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_stdout_stops_no_batch() {
    let bench = Bench::new();
    bench.write("lines.txt", "One.\nTwo.\nThree.\n");
    let words = arguments("lines.txt", &["--json"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = bench.command(&words).stdout(full).output().unwrap();
    done(&output);
    assert_eq!(stderr(&output).matches("cannot write to stdout").count(), 1, "{}", stderr(&output));
    assert_eq!(files(&bench.path("out")).len(), 3);
}

#[test]
fn the_list_is_never_overwritten() {
    let bench = Bench::new();
    fs::create_dir(bench.path("out")).unwrap();
    let list = "{\"text\": \"One.\"}\n";
    for (file, more) in [("manifest.jsonl", &["--force"][..]), ("0001.wav", &["--force", "--form", "jsonl"])] {
        bench.write(&format!("out/{file}"), list);
        let place = format!("out/{file}");
        refused(&batch(&bench, &place, more), 2, &["input and output are the same file", file]);
        assert_eq!(fs::read_to_string(bench.path(&place)).unwrap(), list);
        fs::remove_file(bench.path(&place)).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_second_signal_leaves_nothing_half_written() {
    for name in ["INT", "HUP"] {
        let bench = Bench::new();
        // One line of many utterances, which are all under way once it has begun.
        bench.write("lines.txt", "A sentence of a line that takes a while. ".repeat(600));
        let mut child = start(&bench, "lines.txt", &["--split", "sentence", "--batch-size", "2"]);
        let hidden = || {
            let entries = fs::read_dir(bench.path("out")).map(|e| e.flatten().collect()).unwrap_or_else(|_| Vec::new());
            entries.iter().filter(|e| e.file_name().to_string_lossy().starts_with(".rtts-")).count()
        };
        let begun = Instant::now();
        while hidden() == 0 {
            assert!(begun.elapsed() < Duration::from_secs(120), "nothing was begun");
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(5));
        }
        super::signal(&child, name);
        std::thread::sleep(Duration::from_millis(100));
        super::signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
        assert_eq!(hidden(), 0);
    }
}

#[test]
fn what_a_killed_run_left_is_swept() {
    let bench = Bench::new();
    bench.write("lines.txt", "One.\n");
    fs::create_dir(bench.path("out")).unwrap();
    let file = fs::File::create(bench.path("out/.rtts-abc.part")).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(7200)).unwrap();
    done(&batch(&bench, "lines.txt", &[]));
    assert!(!bench.path("out/.rtts-abc.part").exists());
}

#[cfg(unix)]
#[test]
fn a_hangup_that_is_ignored_stays_so() {
    let bench = Bench::new();
    bench.write("lines.txt", long_list());
    let words = arguments("lines.txt", &["--batch-size", "2"]);
    let rtts = bench.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
    // As `nohup` does it.
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(rtts.get_program()).args(rtts.get_args());
    command.envs(rtts.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(bench.folder.path()).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    wait_for_lines(&bench, &mut child, 2);
    super::signal(&child, "HUP");
    done(&child.wait_with_output().unwrap());
    assert_eq!(files(&bench.path("out")).len(), 60);
}
