//! Whether the hub answers at all.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ureq::Agent;

use super::Hub;
use super::failure::Failure;

/// Nobody who waits for a diagnosis wants to wait longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the hub takes to answer; any answer will do.
///
/// # Errors
/// Why it does not, in words.
pub fn reach(hub: &Hub) -> Result<Duration, String> {
    let agent = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("rtts/", env!("CARGO_PKG_VERSION")))
        .timeout_global(Some(PATIENCE))
        .build()
        .new_agent();
    let begun = Instant::now();
    match agent.head(&hub.endpoint).call() {
        Ok(_) => Ok(begun.elapsed()),
        Err(error) => Err(match Failure::from(error) {
            Failure::Unreachable { why, .. } => why,
            Failure::Status { code, .. } => format!("status {code}"),
            Failure::Final(error) => error.to_string(),
        }),
    }
}

/// Whether files can be made in `folder`, or where it is not there yet, in what would hold it. Nothing stays behind.
///
/// # Errors
/// Why not.
pub fn writable(folder: &Path) -> io::Result<()> {
    let there = folder.ancestors().find(|path| path.exists()).unwrap_or(folder);
    tempfile::tempfile_in(there).map(drop)
}
