//! What the kernel says about this process and this machine (Linux).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often anonymous memory is looked at; a look takes about 20 microseconds.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);

/// The number behind a name in one of the kernel's files of names and numbers; 0 if it is not there.
fn field(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// MiB of anonymous memory that this process has now: what it allocated, not the files that it mapped.
pub(crate) fn anonymous_mib() -> f64 {
    anonymous_kib() as f64 / 1024.0
}

fn anonymous_kib() -> u64 {
    field("/proc/self/status", "RssAnon:")
}

/// MiB of memory that this process has now, mapped files included.
pub(crate) fn resident_mib() -> f64 {
    field("/proc/self/status", "VmRSS:") as f64 / 1024.0
}

/// What a process has used so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Seconds of processor time in its own code, all threads.
    pub(crate) user_seconds: f64,
    /// Seconds of processor time that the kernel spent for it.
    pub(crate) system_seconds: f64,
    /// Bytes that it caused to be read from the device.
    pub(crate) read_bytes: u64,
    /// Bytes that it caused to be written to the device.
    pub(crate) written_bytes: u64,
    /// Seconds of processor time that anybody used on this machine, time stolen by the hypervisor included.
    pub(crate) machine_seconds: f64,
}

impl Usage {
    /// Until now.
    pub(crate) fn now() -> Usage {
        let (user_seconds, system_seconds) = processor_seconds();
        Usage {
            user_seconds,
            system_seconds,
            read_bytes: field("/proc/self/io", "read_bytes:"),
            written_bytes: field("/proc/self/io", "write_bytes:"),
            machine_seconds: machine_seconds(),
        }
    }

    /// What was used since an earlier moment.
    pub(crate) fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            user_seconds: self.user_seconds - earlier.user_seconds,
            system_seconds: self.system_seconds - earlier.system_seconds,
            read_bytes: self.read_bytes - earlier.read_bytes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            machine_seconds: self.machine_seconds - earlier.machine_seconds,
        }
    }

    /// Processor time of this process.
    pub(crate) fn own_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

/// User and system seconds of all threads so far.
fn processor_seconds() -> (f64, f64) {
    // SAFETY: a structure of numbers, of which zero is one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives as long as the call takes.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

fn machine_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    let busy: f64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|place| ticks.get(*place)).sum();
    // SAFETY: a question without arguments in memory.
    busy / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

/// Bytes of the device that the files of a directory take.
pub(crate) fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let bytes_of = |entry: std::fs::DirEntry| match entry.path().symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        // Gone since it was listed.
        Err(_) => 0,
    };
    entries.flatten().map(bytes_of).sum()
}

/// The machine and its software, for those who read the results.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let information = read("/proc/cpuinfo");
    let model =
        information.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown processor");
    let memory_gib = field("/proc/meminfo", "MemTotal:") as f64 / f64::from(1 << 20);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "{cpus} CPUs ({}), {memory_gib:.0} GiB of memory, Linux {}",
        model.trim_start_matches([':', '\t', ' ']),
        kernel.trim()
    )
}

/// Looks at this process's anonymous memory again and again until it is dropped or asked for the most it saw. The kernel keeps a
/// peak of all resident memory only, in which mapped files count, which are the page cache's.
pub(crate) struct AnonymousPeak {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    peak_kib: AtomicU64,
    stop: AtomicBool,
}

impl AnonymousPeak {
    /// Begins to look.
    pub(crate) fn start() -> AnonymousPeak {
        let shared = Arc::new(Shared::default());
        let other = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !other.stop.load(Ordering::Relaxed) {
                other.peak_kib.fetch_max(anonymous_kib(), Ordering::Relaxed);
                std::thread::park_timeout(SAMPLE_EVERY);
            }
        });
        AnonymousPeak { shared, thread: Some(thread) }
    }

    /// The most MiB there were.
    pub(crate) fn mib(&self) -> f64 {
        self.shared.peak_kib.fetch_max(anonymous_kib(), Ordering::Relaxed);
        self.shared.peak_kib.load(Ordering::Relaxed) as f64 / 1024.0
    }
}

impl Drop for AnonymousPeak {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It only looks; there is nothing to do if it panicked.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AnonymousPeak, Usage, disk_bytes};

    #[test]
    fn a_peak_is_seen_after_it_has_passed() {
        let peak = AnonymousPeak::start();
        let before = peak.mib();
        let block = vec![1u8; 64 << 20];
        let during = peak.mib();
        drop(std::hint::black_box(block));
        assert!(during >= before + 60.0, "{before} MiB before, {during} MiB with 64 more");
        assert!(peak.mib() >= during);
    }

    #[test]
    fn usage_grows() {
        let start = Usage::now();
        let mut sum = 0u64;
        while Usage::now().since(&start).own_seconds() == 0.0 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(Usage::now().machine_seconds >= start.machine_seconds);
    }

    #[test]
    fn files_below_a_directory_count() {
        let directory = std::env::temp_dir().join(format!("peers-disk-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("below")).unwrap();
        std::fs::write(directory.join("below/file"), vec![1; 10_000]).unwrap();
        let bytes = disk_bytes(&directory);
        std::fs::remove_dir_all(&directory).unwrap();
        assert!((8_192..100_000).contains(&bytes), "{bytes} bytes for a file of 10,000");
    }
}
