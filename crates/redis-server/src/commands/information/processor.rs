//! What the kernel accounts for the process: its processor time, for the section `cpu` of INFO, and its
//! memory.

use crate::server::Server;

/// Clock ticks of a second in `/proc`: fixed by the interface to programs on all architectures of Linux.
const TICKS_OF_A_SECOND: f64 = 100.0;

/// Seconds in the kernel and outside of it: of the process, and of children that have ended.
#[derive(Debug, Default, PartialEq)]
struct Seconds {
    system: f64,
    user: f64,
    children_system: f64,
    children_user: f64,
}

pub(super) fn section(_: &Server, text: &mut String) {
    let of_process = std::fs::read_to_string("/proc/self/stat").ok();
    let of_process = of_process.and_then(|line| seconds(&line)).unwrap_or_default();
    let line = |value: f64| format!("{value:.6}");
    super::lines(
        text,
        "CPU",
        &[
            ("used_cpu_sys", line(of_process.system)),
            ("used_cpu_user", line(of_process.user)),
            ("used_cpu_sys_children", line(of_process.children_system)),
            ("used_cpu_user_children", line(of_process.children_user)),
        ],
    );
}

/// Memory as the kernel counts it, in bytes; zero where it does not tell.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Memory {
    /// Resident pages of the process, those of mapped files included.
    pub(super) resident_bytes: u64,
    /// The most that was resident.
    pub(super) peak_bytes: u64,
    /// The memory of the machine.
    pub(super) system_bytes: u64,
}

/// The memory of the process and of the machine.
pub(super) fn memory() -> Memory {
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    let (status, system) = (text("/proc/self/status"), text("/proc/meminfo"));
    Memory {
        resident_bytes: kibibytes(&status, "VmRSS").unwrap_or_default(),
        peak_bytes: kibibytes(&status, "VmHWM").unwrap_or_default(),
        system_bytes: kibibytes(&system, "MemTotal").unwrap_or_default(),
    }
}

/// The bytes of a line `NAME:   NUMBER kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.into_iter().find(|(known, _)| *known == name)?;
    value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Takes a line of `/proc/PID/stat` apart. The program's name, in brackets, may have brackets and spaces
/// itself; the fields behind it are numbered from 3.
fn seconds(line: &str) -> Option<Seconds> {
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let seconds = |number: usize| Some(fields.get(number - 3)?.parse::<f64>().ok()? / TICKS_OF_A_SECOND);
    Some(Seconds {
        user: seconds(14)?,
        system: seconds(15)?,
        children_user: seconds(16)?,
        children_system: seconds(17)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_a_name_with_brackets_and_spaces() {
        let line = "7 (a) b) R 1 7 7 0 -1 4194304 2 3 4 5 150 25 3 1 20 0 1 0 9";
        let expected = Seconds { user: 1.5, system: 0.25, children_user: 0.03, children_system: 0.01 };
        assert_eq!(seconds(line), Some(expected));
        assert_eq!(seconds("7 (a) R 1"), None);
        assert_eq!(seconds(""), None);
    }

    #[test]
    fn memory_is_read_by_its_name() {
        let text = "Name:\ta: b\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t3\n";
        assert_eq!(kibibytes(text, "VmRSS"), Some(1 << 20));
        assert_eq!(kibibytes(text, "VmHWM"), Some(2 << 20));
        assert_eq!((kibibytes(text, "Threads"), kibibytes(text, "VmPeak")), (None, None));
    }
}
