//! What this machine is and has: processor, memory, how much of it this process holds. Every answer may be "unknown".

use std::fs;
use std::path::{Path, PathBuf};

/// Memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What this process may have at most.
    pub total: u64,
    /// What can still be had without swapping; file caches count as free.
    pub available: u64,
}

/// Memory of the machine, or of the container where that has less.
pub fn memory() -> Option<Memory> {
    let machine = meminfo(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let limits = groups().into_iter().filter_map(|group| limit(&group));
    Some(limits.fold(machine, |least, limit| Memory {
        total: least.total.min(limit.total),
        available: least.available.min(limit.available),
    }))
}

/// Memory that this process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Now, file pages it has mapped included.
    pub now: u64,
    /// At most so far.
    pub peak: u64,
}

/// Memory that this process holds.
pub fn resident() -> Option<Resident> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(Resident { now: kilobytes(&status, "VmRSS:")?, peak: kilobytes(&status, "VmHWM:")? })
}

/// The processor's name.
pub fn processor() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

/// The operating system and its kernel, as far as it tells.
pub fn system() -> String {
    let field = |path: &str, key: &str| {
        let text = fs::read_to_string(path).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim_matches('"').to_owned())
    };
    let name = field("/etc/os-release", "PRETTY_NAME=").unwrap_or_else(|| std::env::consts::OS.to_owned());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned());
    match kernel {
        Ok(kernel) => format!("{name}, kernel {kernel}, {}", std::env::consts::ARCH),
        Err(_) => format!("{name}, {}", std::env::consts::ARCH),
    }
}

fn meminfo(text: &str) -> Option<Memory> {
    Some(Memory { total: kilobytes(text, "MemTotal:")?, available: kilobytes(text, "MemAvailable:")? })
}

/// `KEY:  123 kB`, in bytes.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The folders of the control groups (version 2) that hold this process, innermost first.
fn groups() -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(path) = groups.lines().find_map(|line| line.strip_prefix("0::/")) else { return Vec::new() };
    // In a container the path may be that of the host: the root is then the container's own.
    root.join(path).ancestors().take_while(|folder| folder.starts_with(root)).map(Path::to_path_buf).collect()
}

/// What a control group allows; `None` where it has no limit.
fn limit(group: &Path) -> Option<Memory> {
    let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    let total = number("memory.max")?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    // File pages that nobody used lately are given up before anything else.
    let cached =
        stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse::<u64>().ok()).unwrap_or(0);
    let used = number("memory.current")?.saturating_sub(cached);
    Some(Memory { total, available: total.saturating_sub(used) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_linux_writes() {
        let text = "MemTotal:       24661160 kB\nMemFree:         9 kB\nMemAvailable:   22020096 kB\n";
        assert_eq!(meminfo(text), Some(Memory { total: 24_661_160 << 10, available: 22_020_096 << 10 }));
        assert_eq!(meminfo("MemTotal: 1 kB\n"), None);
        assert_eq!(kilobytes("VmRSS:\tmany kB", "VmRSS:"), None);
    }

    #[test]
    fn a_container_has_less() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
        assert_eq!(limit(folder.path()), None);
        write("memory.max", "max\n");
        write("memory.current", "700\n");
        assert_eq!(limit(folder.path()), None);
        write("memory.max", "1000\n");
        write("memory.stat", "anon 300\ninactive_file 250\n");
        assert_eq!(limit(folder.path()), Some(Memory { total: 1000, available: 550 }));
        write("memory.current", "2000\n");
        assert_eq!(limit(folder.path()).unwrap().available, 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_answers() {
        let memory = memory().unwrap();
        assert!(memory.available > 0 && memory.available <= memory.total, "{memory:?}");
        let resident = resident().unwrap();
        assert!(resident.now > 0 && resident.now <= resident.peak && resident.peak < memory.total, "{resident:?}");
        assert!(!system().is_empty());
    }
}
