//! What the machine offers.
#![allow(clippy::disallowed_methods, reason = "this crate is the door that the bans lead to")]

/// Taken for the memory of a machine that does not tell.
const ASSUMED_MEMORY_BYTES: u64 = 4 << 30;

/// Memory that this process may use, in bytes: what its control group allows, else what the machine has.
pub fn memory_limit_bytes() -> u64 {
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.or_else(|| std::fs::read_to_string("/sys/fs/cgroup/memory/memory.limit_in_bytes").ok());
    let group = group.and_then(|text| text.trim().parse::<u64>().ok());
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of_meminfo(&text));
    // An unlimited group says "max" or a number beyond all memory.
    group.into_iter().chain(machine).min().unwrap_or(ASSUMED_MEMORY_BYTES)
}

/// Taken for the files that a process may have open where the system does not tell: what most systems begin
/// with.
#[cfg(not(unix))]
const ASSUMED_OPEN_FILES: u64 = 1024;

/// Files, sockets and the like that this process may have open at once: the soft limit, `u64::MAX` if there
/// is none.
#[cfg(unix)]
pub fn open_files_limit() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Files, sockets and the like that this process may have open at once: assumed, because the system does not
/// tell.
#[cfg(not(unix))]
pub fn open_files_limit() -> u64 {
    ASSUMED_OPEN_FILES
}

/// Processors that this process may use at once, at least one.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Lets this process have as many files open as the system allows it to have for the asking, its hard limit.
/// For programs that own their process; a library leaves the limit as it finds it. Where that is refused, the
/// limit stays.
pub fn raise_open_files_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let maximum = getrlimit(Resource::Nofile).maximum;
        // Refused by systems whose hard limit is beyond what they grant: then what was granted before is
        // enough.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Gives the calling thread, and threads that it starts from now on, less of processors that others want as
/// well: `steps` of what `nice(1)` calls niceness, each of which makes its share a fifth smaller. Answers the
/// niceness it has now, from -20 to 19; `None` where that belongs to processes instead of threads, or is
/// refused, and then nothing has changed. Only the superuser can take it back.
#[cfg(target_os = "linux")]
pub fn lower_thread_priority(steps: u8) -> Option<i32> {
    // POSIX means the process; Linux keeps niceness by thread, and says so in `setpriority(2)`.
    rustix::process::nice(i32::from(steps)).ok()
}

/// As on Linux, where niceness belongs to threads; here to processes, and the caller's is left as it is.
#[cfg(not(target_os = "linux"))]
pub fn lower_thread_priority(_steps: u8) -> Option<i32> {
    None
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
        assert_eq!(lower_thread_priority(0), Some(usual), "whoever started it keeps what it has");
    }

    #[test]
    fn meminfo_is_read() {
        assert_eq!(total_of_meminfo("MemFree: 1 kB\nMemTotal:       24576000 kB\n"), Some(24_576_000 * 1024));
        assert_eq!(total_of_meminfo("MemTotal: many"), None);
        assert!(memory_limit_bytes() > 1 << 20);
    }

    #[test]
    fn the_open_files_limit_is_read_and_raised() {
        let before = open_files_limit();
        assert!(before > 8);
        raise_open_files_limit();
        assert!(open_files_limit() >= before);
    }
}
