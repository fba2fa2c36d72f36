//! Advice that is worth giving once: a mark in the user's cache folder remembers that it was given.

use std::fs;

/// Whether `advice` is given for the first time on this machine. Where no mark can be made it is given again.
pub fn first_time(advice: &str) -> bool {
    let Some(folder) = dirs::cache_dir().map(|folder| folder.join("rtts").join("told")) else { return true };
    let mark = folder.join(advice);
    if mark.exists() {
        return false;
    }
    let _ = fs::create_dir_all(&folder).and_then(|()| fs::write(mark, ""));
    true
}
