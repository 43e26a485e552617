//! Counters of the kernel for this process and this machine (Linux).

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between samples of anonymous memory; a sample takes about 20 microseconds.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);

/// The number of a name in one of the kernel's files; 0 if it is missing.
fn field(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// MiB of anonymous memory of this process: allocations, without mapped files.
pub(crate) fn anonymous_mib() -> f64 {
    anonymous_kib() as f64 / 1024.0
}

fn anonymous_kib() -> u64 {
    field("/proc/self/status", "RssAnon:")
}

/// MiB of resident memory of this process, mapped files included.
pub(crate) fn resident_mib() -> f64 {
    field("/proc/self/status", "VmRSS:") as f64 / 1024.0
}

/// Resources that a process has used.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Seconds of processor time in its own code, all threads.
    pub(crate) user_seconds: f64,
    /// Seconds of processor time that the kernel spent for it.
    pub(crate) system_seconds: f64,
    /// Bytes that it caused to be read from the device.
    pub(crate) read_bytes: u64,
    /// Processor seconds of all processes on this machine, time stolen by the hypervisor included.
    pub(crate) machine_seconds: f64,
}

impl Usage {
    pub(crate) fn now() -> Usage {
        let (user_seconds, system_seconds) = processor_seconds();
        Usage {
            user_seconds,
            system_seconds,
            read_bytes: field("/proc/self/io", "read_bytes:"),
            machine_seconds: machine_seconds(),
        }
    }

    pub(crate) fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            user_seconds: self.user_seconds - earlier.user_seconds,
            system_seconds: self.system_seconds - earlier.system_seconds,
            read_bytes: self.read_bytes - earlier.read_bytes,
            machine_seconds: self.machine_seconds - earlier.machine_seconds,
        }
    }

    pub(crate) fn own_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

/// Bytes of a sector in the kernel's counts, whatever the device's own are.
const SECTOR_BYTES: u64 = 512;

/// Syncs the file system of a directory, and returns how many bytes were ever written to its device, by any
/// process; `None` where the kernel does not count (a file system in memory, or one over several devices).
/// The per-process counters count dirtied pages instead: a page dirtied again before it is written counts
/// once, and a file removed before counts in full.
pub(crate) fn device_written_bytes(directory: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let file = File::open(directory).ok()?;
    let device = file.metadata().ok()?.dev();
    // SAFETY: the descriptor is that of an open directory.
    if unsafe { libc::syncfs(file.as_raw_fd()) } != 0 {
        return None;
    }
    let text = std::fs::read_to_string("/proc/diskstats").ok()?;
    written_sectors(&text, libc::major(device), libc::minor(device)).map(|sectors| sectors * SECTOR_BYTES)
}

/// Sectors written to a device, from the kernel's table of all devices: its numbers, its name, four numbers
/// of reads, then those of writes, of which the third counts sectors.
fn written_sectors(table: &str, major: u32, minor: u32) -> Option<u64> {
    table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.first()?.parse() == Ok(major) && words.get(1)?.parse() == Ok(minor);
        if is_it { words.get(9)?.parse().ok() } else { None }
    })
}

/// Lets all threads allocate from one heap of the C library, for a process that has started none yet.
///
/// By default a thread has a heap of its own, and what another heap has free is of no use to it. A store
/// whose cache is filled by one thread and turned over by the next then takes twice its memory.
///
/// # Errors
/// If the C library refuses.
pub(crate) fn share_one_heap() -> std::io::Result<()> {
    #[cfg(target_env = "gnu")]
    // SAFETY: a call without pointers.
    if unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) } != 1 {
        return Err(std::io::Error::other("the C library does not take a limit of its heaps"));
    }
    Ok(())
}

/// Whether a thread of this process waits for a device.
pub(crate) fn is_waiting_for_device() -> bool {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return false };
    threads.flatten().any(|thread| {
        let text = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name is in parentheses, and may contain anything; the state follows it.
        text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D'))
    })
}

/// User and system seconds of all threads so far.
fn processor_seconds() -> (f64, f64) {
    // SAFETY: a structure of integers, for which zero is valid.
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
    // SAFETY: a call without pointers.
    busy / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

/// Bytes that the files of a directory occupy on the device.
pub(crate) fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let bytes_of = |entry: std::fs::DirEntry| match entry.path().symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        // Removed since it was listed.
        Err(_) => 0,
    };
    entries.flatten().map(bytes_of).sum()
}

/// Writes the files of a directory to the device, and has the kernel drop their pages from its cache. Pages
/// that a process has mapped stay.
///
/// # Errors
/// If a file cannot be opened or synced, or the kernel refuses.
pub(crate) fn drop_cached_pages(directory: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            drop_cached_pages(&path)?;
            continue;
        }
        let file = File::open(&path)?;
        // Only clean pages are dropped.
        file.sync_all()?;
        // SAFETY: a call without pointers, on the descriptor of an open file.
        let error = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        if error != 0 {
            return Err(std::io::Error::from_raw_os_error(error));
        }
    }
    Ok(())
}

/// The machine and its software, for readers of the results.
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

/// Samples this process's anonymous memory until it is dropped or its peak is read. The kernel's own peak
/// counts all resident memory, including mapped files, which belong to the page cache.
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

    /// The peak in MiB.
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
            // The thread only samples; a panic of it changes nothing.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AnonymousPeak, Usage, disk_bytes, drop_cached_pages, written_sectors};
    use std::os::fd::AsRawFd;

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
    fn sectors_are_those_of_the_requested_device() {
        let table = " 254       0 vda 9 8 7 6 5 4 3000 2 0 1 1\n 254      16 vdb 1 1 1 1 1 1 77 1 0 1 1\n";
        assert_eq!(written_sectors(table, 254, 0), Some(3000));
        assert_eq!(written_sectors(table, 254, 16), Some(77));
        assert_eq!(written_sectors(table, 8, 0), None);
    }

    /// Whether the first byte of a file is in the page cache; `None` where the file system cannot tell.
    fn is_cached(path: &std::path::Path) -> Option<bool> {
        let file = std::fs::File::open(path).unwrap();
        let mut byte = 0u8;
        let part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        // SAFETY: one part, of a byte that lives as long as the call takes.
        let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const part, 1, 0, libc::RWF_NOWAIT) };
        match (read, std::io::Error::last_os_error().raw_os_error()) {
            (1, _) => Some(true),
            (_, Some(libc::EAGAIN)) => Some(false),
            _ => None,
        }
    }

    #[test]
    fn dropped_pages_are_read_from_the_device_again() {
        let directory = std::env::temp_dir().join(format!("peers-pages-{}", std::process::id()));
        let file = directory.join("below/file");
        std::fs::create_dir_all(directory.join("below")).unwrap();
        std::fs::write(&file, vec![1; 10_000]).unwrap();
        let before = is_cached(&file);
        drop_cached_pages(&directory).unwrap();
        let after = is_cached(&file);
        let content = std::fs::read(&file).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(content, [1; 10_000]);
        // A file system in memory has nowhere to read them from.
        if before == Some(true) && !is_in_memory(&std::env::temp_dir()) {
            assert_eq!(after, Some(false));
        }
    }

    fn is_in_memory(directory: &std::path::Path) -> bool {
        super::device_written_bytes(directory).is_none()
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
