//! Host resources: memory limit, open files, processors and thread priority.
#![allow(clippy::disallowed_methods, reason = "this crate is the door that the bans lead to")]

use crate::control_group;
use std::path::Path;

/// Assumed memory of a machine that does not report it.
const ASSUMED_MEMORY_BYTES: u64 = 4 << 30;

/// Memory for this process in bytes: the least limit of its control groups, otherwise the machine's memory.
pub fn memory_limit_bytes() -> u64 {
    let memberships = std::fs::read_to_string("/proc/self/cgroup").ok();
    let memberships = memberships.as_deref().unwrap_or(control_group::ROOT_MEMBERSHIPS);
    let groups = control_group::memory_limit_bytes(Path::new("/sys/fs/cgroup"), memberships);
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of_meminfo(&text));
    groups.into_iter().chain(machine).min().unwrap_or(ASSUMED_MEMORY_BYTES)
}

/// Anonymous memory of this process that is resident, in bytes: heap, stacks and caches, without the
/// program's text and mapped files. `None` where the system does not tell it.
pub fn anonymous_bytes() -> Option<u64> {
    anonymous_of_status(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Assumed limit of open files where the system does not report it: a usual default.
#[cfg(not(unix))]
const ASSUMED_OPEN_FILES: u64 = 1024;

/// The soft limit of descriptors of this process; `u64::MAX` if there is none.
#[cfg(unix)]
pub fn open_files_limit() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The assumed limit of descriptors of this process: the system does not report it.
#[cfg(not(unix))]
pub fn open_files_limit() -> u64 {
    ASSUMED_OPEN_FILES
}

/// Processors that this process may use at once, at least one.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Raises the limit of open files to the hard limit. For programs that own their process; a library leaves
/// the limit alone. If that is refused, the limit stays.
pub fn raise_open_files_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let maximum = getrlimit(Resource::Nofile).maximum;
        // Systems whose hard limit exceeds what they grant refuse this; the earlier limit is then enough.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Lowers the scheduling priority of the calling thread, and of threads that it starts from now on: `steps`
/// of niceness as in `nice(1)`, each of which makes its share of a busy processor a fifth smaller. Returns
/// the new niceness, from -20 to 19; `None` where niceness belongs to processes instead of threads, or is
/// refused, and then nothing has changed. Only the superuser can raise it again.
#[cfg(target_os = "linux")]
pub fn lower_thread_priority(steps: u8) -> Option<i32> {
    // POSIX niceness belongs to the process; Linux keeps it per thread, as `setpriority(2)` documents.
    rustix::process::nice(i32::from(steps)).ok()
}

/// As on Linux, where niceness belongs to threads; here it belongs to processes, so nothing changes.
#[cfg(not(target_os = "linux"))]
pub fn lower_thread_priority(_steps: u8) -> Option<i32> {
    None
}

fn anonymous_of_status(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn total_of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn priority_is_lowered_for_one_thread_and_those_it_starts() {
        let usual = lower_thread_priority(0).unwrap();
        let lowered = || {
            let lowered = lower_thread_priority(3);
            let inherited = std::thread::spawn(|| lower_thread_priority(0)).join().unwrap();
            (lowered, inherited)
        };
        let expected = Some((usual + 3).min(19));
        assert_eq!(std::thread::spawn(lowered).join().unwrap(), (expected, expected));
        assert_eq!(lower_thread_priority(0), Some(usual), "the starting thread keeps its priority");
    }

    #[test]
    fn meminfo_is_read() {
        assert_eq!(total_of_meminfo("MemFree: 1 kB\nMemTotal:       24576000 kB\n"), Some(24_576_000 * 1024));
        assert_eq!(total_of_meminfo("MemTotal: many"), None);
        assert!(memory_limit_bytes() > 1 << 20);
    }

    #[test]
    fn anonymous_memory_is_read() {
        assert_eq!(
            anonymous_of_status("VmRSS: 9 kB\nRssAnon:\t    2048 kB\nRssFile:\t 1 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(anonymous_of_status("VmRSS: 9 kB\n"), None);
        assert!(!cfg!(target_os = "linux") || anonymous_bytes() > Some(1 << 16));
    }

    #[test]
    fn the_open_files_limit_is_read_and_raised() {
        let before = open_files_limit();
        assert!(before > 8);
        raise_open_files_limit();
        assert!(open_files_limit() >= before);
    }
}
