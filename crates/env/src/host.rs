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

fn total_of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read() {
        assert_eq!(total_of_meminfo("MemFree: 1 kB\nMemTotal:       24576000 kB\n"), Some(24_576_000 * 1024));
        assert_eq!(total_of_meminfo("MemTotal: many"), None);
        assert!(memory_limit_bytes() > 1 << 20);
    }
}
