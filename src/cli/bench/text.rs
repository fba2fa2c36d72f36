//! The result, written for people.

use std::fmt::Write;

use super::report::{Report, Row};
pub use crate::cli::info::bytes;

/// All of it.
pub fn write(report: &Report) -> String {
    let mut out = String::new();
    let mut say = |label: &str, text: String| {
        let _ = writeln!(out, "{label:10}{text}");
    };
    let Report { model, packing, step, .. } = report;
    say("model", format!("{model}, {packing}, {}", bytes(report.bytes)));
    say("device", report.device.clone());
    say("load", format!("{:.2} s", report.load_s));
    if let (Some(now), Some(peak)) = (report.resident_bytes, report.peak_bytes) {
        say("resident", format!("{}, at most {}", bytes(now), bytes(peak)));
    }
    say("reads", format!("{} of weights a {step}{}", bytes(report.read_per_step), cached(report)));
    match report.read_rate {
        Some(rate) => {
            let (best, median) = (bytes(rate.best as u64), bytes(rate.median as u64));
            say("memory", format!("{best}/s read in the best pass, {median}/s in the middle one"));
        }
        None => say("memory", "read rate not measured: this device has no way to, or too little is free".into()),
    }
    let Report { repeat, warmup, timed, .. } = report;
    say(
        "method",
        format!("{repeat} runs of {timed} {}, after {warmup} to warm up; the middle run counts", steps(step)),
    );

    let unit = format!("{}/s", steps(step));
    let _ = writeln!(
        out,
        "\n{:>6}{:>11}{:>20}{unit:>12}{:>11}{:>9}{:>9}{:>12}{:>10}{:>8}",
        "slots", "ms a step", "least … most", "× real", "RTF", "TTFA ms", "prefill ms", "floor ms", "share",
    );
    for row in &report.results {
        line(row, &mut out);
    }
    for row in report.results.iter().filter(|row| !row.stages.is_empty()) {
        let all: f64 = row.stages.iter().map(|stage| stage.ms).sum();
        let share = |ms: f64| if all > 0.0 { 100.0 * ms / all } else { 0.0 };
        let parts: Vec<String> =
            row.stages.iter().map(|s| format!("{} {} ms ({:.0} %)", s.name, short(s.ms), share(s.ms))).collect();
        let _ = writeln!(out, "\n{} side by side: {}", row.slots, parts.join(", "));
    }
    out
}

fn line(row: &Row, out: &mut String) {
    let spread = format!("{} … {}", short(row.step_ms.least), short(row.step_ms.most));
    let _ = writeln!(
        out,
        "{:>6}{:>11}{spread:>20}{:>12}{:>11}{:>9}{:>9}{:>12}{:>10}{:>8}",
        row.slots,
        short(row.step_ms.median),
        short(row.steps_per_s),
        short(row.times_real_time),
        short(row.rtf),
        row.first_audio_ms.map_or("?".into(), |time| short(time.median)),
        short(row.prefill_ms.median),
        row.floor_ms.map_or("?".into(), short),
        row.share.map_or("?".into(), |share| format!("{:.0} %", 100.0 * share)),
    );
}

fn cached(report: &Report) -> String {
    report
        .read_per_position
        .map_or_else(String::new, |size| format!(", {} for each position of the context", bytes(size)))
}

/// The plural of a step's name.
pub fn steps(step: &str) -> &'static str {
    if step == "patch" { "patches" } else { "tokens" }
}

/// Three digits that count.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0..0.1 => format!("{value:.4}"),
        0.1..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
