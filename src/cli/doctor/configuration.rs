//! The configuration file and the environment: what is in force, and what is spelled wrongly.

use std::ffi::OsString;

use super::{Check, State, shown};
use crate::cli::config::Config;
use crate::cli::settings::Settings;
use crate::suggest::nearest;

/// Variables of this program.
const OWN: [&str; 13] = [
    "RTTS_MODEL",
    "RTTS_DEVICE",
    "RTTS_ACTIVATIONS",
    "RTTS_THREADS",
    "RTTS_VOICE",
    "RTTS_FORMAT",
    "RTTS_RATE",
    "RTTS_GAP",
    "RTTS_BATCH_SIZE",
    "RTTS_NVRTC",
    "RTTS_CONFIG",
    "RTTS_CPU",
    "RTTS_KERNELS",
];
/// Variables of others that it heeds.
const OTHERS: [&str; 14] = [
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "HF_ENDPOINT",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HF_TOKEN_PATH",
    "HF_HUB_OFFLINE",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN",
    "TRANSFORMERS_OFFLINE",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "CUDA_VISIBLE_DEVICES",
    "NO_COLOR",
];
/// Variables whose values may hold a password: only that they are set is said.
const SECRET: [&str; 2] = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];

/// Lines, and the settings where they can be read.
pub fn look() -> (Vec<Check>, Option<Settings>) {
    let mut checks = Vec::new();
    let resolved = super::settings();
    match Config::path() {
        Some((path, _)) => checks.push(match &resolved {
            // Also wrong values of variables: the message says which.
            Err(error) => Check::of("settings", State::Problem, error),
            Ok(_) if path.exists() => Check::ok("settings", format!("`{}`", shown(&path))),
            Ok(_) => Check::ok("settings", format!("no `{}`: defaults", shown(&path))),
        }),
        None => checks.push(match &resolved {
            Err(error) => Check::of("settings", State::Problem, error),
            Ok(_) => Check::note("settings", "this user has no configuration folder: defaults")
                .cure("set `RTTS_CONFIG` to a file"),
        }),
    }
    checks.extend(variables(std::env::vars_os().collect()));
    (checks, resolved.ok())
}

/// The variables in force on one line, and a line for each that is wrong.
pub fn variables(all: Vec<(OsString, OsString)>) -> Vec<Check> {
    let mut named: Vec<(String, OsString)> = all
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, value)| !value.is_empty() && (name.starts_with("RTTS_") || OTHERS.contains(&name.as_str())))
        .collect();
    named.sort();
    let mut checks = Vec::new();
    let mut shown = Vec::new();
    for (name, value) in &named {
        if name.starts_with("RTTS_") && !OWN.contains(&name.as_str()) {
            let check = Check::note("variables", format!("`{name}` is set, and rtts knows no such variable"));
            checks.push(match nearest(name, OWN) {
                Some(near) => check.cure(format!("did you mean `{near}`?")),
                None => check.cure(format!("the variables are {}", OWN.join(", "))),
            });
            continue;
        }
        match value.to_str() {
            _ if SECRET.contains(&name.as_str()) => shown.push(format!("{name} (set, not shown)")),
            Some(value) => shown.push(format!("{name}={}", without_password(value))),
            None => checks.push(
                Check::note("variables", format!("`{name}` is not UTF-8, and is ignored"))
                    .cure("set it again, or unset it"),
            ),
        }
    }
    let text = if shown.is_empty() { "none in force".to_owned() } else { shown.join(", ") };
    checks.insert(0, Check::ok("variables", text));
    checks
}

/// An address without the name and password it may carry.
pub fn without_password(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://…{}", &rest[at..]),
        None => value.to_owned(),
    }
}
