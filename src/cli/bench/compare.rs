//! Two results side by side.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::report::Report;
use super::text::{short, steps};
use crate::error::{Error, Result};

/// An earlier result: what `rtts bench --json` printed.
///
/// # Errors
/// A file that cannot be read, or holds something else.
pub fn read(path: &Path) -> Result<Report> {
    let text = fs::read_to_string(path).map_err(|cause| Error::io("cannot read", path, &cause))?;
    let wrong = |why: String| {
        Error::new(format!("`{}` holds no result of `rtts bench`: {why}", path.display()))
            .hint("write one with `rtts bench --json > FILE`")
    };
    let report: Report = serde_json::from_str(text.trim()).map_err(|cause| wrong(cause.to_string()))?;
    if report.v != 1 {
        return Err(wrong(format!("its version is {}, and 1 is what this program reads", report.v)));
    }
    Ok(report)
}

/// What changed from `old` to `new`, and what makes the two hard to compare.
pub fn text(old: &Report, new: &Report) -> String {
    let mut out = String::new();
    for (what, was, is) in [
        ("model", &old.model, &new.model),
        ("packing", &old.packing, &new.packing),
        ("device", &old.device, &new.device),
        ("activations", &old.activations, &new.activations),
        ("rtts", &old.rtts, &new.rtts),
    ] {
        if was != is {
            let _ = writeln!(out, "{what:12}was `{was}`, is `{is}`");
        }
    }
    let _ = writeln!(
        out,
        "{:>6}{:>22}{:>24}{:>24}{:>10}",
        "slots",
        "ms a step",
        format!("{}/s", steps(&new.step)),
        "TTFA ms",
        "faster"
    );
    for row in &new.results {
        let Some(before) = old.results.iter().find(|before| before.slots == row.slots) else {
            let _ = writeln!(out, "{:>6}{:>22}", row.slots, "not measured before");
            continue;
        };
        let pair = |was: f64, is: f64| format!("{} → {}", short(was), short(is));
        let faster = if row.step_ms.median > 0.0 { before.step_ms.median / row.step_ms.median } else { 0.0 };
        let apart = row.step_ms.most < before.step_ms.least || row.step_ms.least > before.step_ms.most;
        let doubt = if apart { "" } else { "  (the spreads overlap)" };
        let _ = writeln!(
            out,
            "{:>6}{:>22}{:>24}{:>24}{:>10}{doubt}",
            row.slots,
            pair(before.step_ms.median, row.step_ms.median),
            pair(before.steps_per_s, row.steps_per_s),
            before.first_audio_ms.zip(row.first_audio_ms).map_or("?".into(), |(was, is)| pair(was.median, is.median)),
            format!("{faster:.2} ×"),
        );
    }
    out
}
