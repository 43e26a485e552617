use super::*;
use crate::fault::{Fault, FaultFs, Operation, Rule, When};
use crate::{AlignedFile, FileSystem, OpenMode, StdFileSystem};
use std::path::PathBuf;

/// A real file with known bytes, removed with the value.
struct Sample {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Sample {
    fn new(name: &str, len: usize) -> Sample {
        let path = std::env::temp_dir().join(format!("esker-reads-{name}-{}", std::process::id()));
        let bytes: Vec<u8> = (0..len).map(|at| (at * 31 % 251) as u8).collect();
        let file = StdFileSystem.open(&path, OpenMode::CreateOrTruncate).unwrap();
        file.write_at(&bytes, 0).unwrap();
        file.sync_data().unwrap();
        Sample { path, bytes }
    }

    fn open(&self, mode: OpenMode) -> Arc<dyn File> {
        let file = StdFileSystem.open(&self.path, mode).unwrap();
        if mode == OpenMode::ReadDirect { Arc::new(AlignedFile::over(file)) } else { file }
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        let _ = StdFileSystem.remove_file(&self.path);
    }
}

fn queues() -> Vec<Arc<ReadQueue>> {
    let env = Env::real();
    let ways = [AsyncReads::IoUring, AsyncReads::Threads];
    ways.into_iter().filter_map(|way| ReadQueue::new(way, &env).ok().flatten()).collect()
}

fn request(file: &Arc<dyn File>, offset: u64, len: usize) -> ReadRequest {
    ReadRequest { file: Arc::clone(file), offset, buffer: vec![0xEE; len] }
}

#[test]
fn all_bytes_come_in_the_order_of_the_requests() {
    let sample = Sample::new("order", 300_000);
    for queue in queues() {
        for mode in [OpenMode::Read, OpenMode::ReadDirect, OpenMode::ReadMapped] {
            let file = sample.open(mode);
            // More than a ring holds, of all lengths, overlapping.
            let places: Vec<(usize, usize)> =
                (0..700).map(|at| (at * 401 % 280_000, at * 97 % 17_000)).collect();
            let requests = places.iter().map(|&(offset, len)| request(&file, offset as u64, len)).collect();
            let pending = queue.submit(requests);
            for (read, (offset, len)) in pending.into_iter().zip(places) {
                assert_eq!(
                    read.wait().unwrap(),
                    &sample.bytes[offset..offset + len],
                    "{mode:?} {offset}+{len}"
                );
            }
        }
    }
}

#[test]
fn a_short_file_is_reported_with_offset_and_length() {
    let sample = Sample::new("end", 10_000);
    for queue in queues() {
        for mode in [OpenMode::Read, OpenMode::ReadDirect] {
            let file = sample.open(mode);
            let mut pending = queue.submit(vec![request(&file, 9_000, 1_000), request(&file, 9_990, 100)]);
            let cut = pending.pop().unwrap().wait().unwrap_err().to_string();
            assert!(cut.contains("100 bytes expected") && cut.contains("after 10"), "{cut}");
            assert_eq!(pending.pop().unwrap().wait().unwrap(), &sample.bytes[9_000..]);
        }
    }
}

#[test]
fn an_abandoned_read_is_finished_and_forgotten() {
    let sample = Sample::new("forgotten", 4 << 20);
    for queue in queues() {
        let file = sample.open(OpenMode::ReadDirect);
        for round in 0..50 {
            let pending = queue.submit((0..20).map(|at| request(&file, at * 4096, 200_000)).collect());
            drop(pending);
            let kept = queue.submit(vec![request(&file, round, 5_000)]);
            let bytes = kept.into_iter().next().unwrap().wait().unwrap();
            assert_eq!(bytes, &sample.bytes[round as usize..round as usize + 5_000]);
        }
        // The queue is dropped with requests in flight.
        drop(queue.submit((0..200).map(|at| request(&file, at * 4096, 100_000)).collect()));
        drop(queue);
    }
}

#[test]
fn many_threads_share_a_queue() {
    let sample = Sample::new("shared", 1 << 20);
    for queue in queues() {
        std::thread::scope(|scope| {
            for thread in 0..6usize {
                let (queue, sample) = (&queue, &sample);
                scope.spawn(move || {
                    let file =
                        sample.open(if thread % 2 == 0 { OpenMode::ReadDirect } else { OpenMode::Read });
                    for round in 0..200usize {
                        let places: Vec<usize> = (0..8)
                            .map(|at| (thread * 7919 + round * 613 + at * 104_729) % 1_000_000)
                            .collect();
                        let requests = places.iter().map(|&at| request(&file, at as u64, 3_000)).collect();
                        let mut pending: Vec<_> = queue.submit(requests).into_iter().zip(places).collect();
                        // Some wait for the last one first, so that results arrive in another order.
                        if thread % 3 == 0 {
                            pending.reverse();
                        }
                        for (read, at) in pending {
                            assert_eq!(read.wait().unwrap(), &sample.bytes[at..at + 3_000]);
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn file_system_errors_are_reported() {
    let sample = Sample::new("errors", 10_000);
    for queue in queues() {
        let fs = FaultFs::new(Arc::new(StdFileSystem));
        let file = fs.open(&sample.path, OpenMode::Read).unwrap();
        fs.add(Rule::new(Fault::Io, When::From(1)).on(Operation::Read));
        let pending = queue.submit(vec![request(&file, 0, 100)]);
        for read in pending {
            assert!(read.wait().is_err());
        }
    }
}

/// Reads of the page cache return all bytes or `false`, and never pass a wrapper that did not allow them.
#[test]
fn what_the_page_cache_has_is_read_without_waiting() {
    let sample = Sample::new("cached", 100_000);
    let mut buffer = vec![0; 10_000];
    let file = sample.open(OpenMode::Read);
    file.read_exact_at(&mut buffer, 0).unwrap();
    // Some file systems have no such reads; there all of them are refused.
    let is_offered = file.read_cached_at(&mut buffer, 0);
    for offset in [0usize, 1, 4_095, 40_000, 90_000] {
        buffer.fill(0xee);
        assert_eq!(file.read_cached_at(&mut buffer, offset as u64), is_offered, "at {offset}");
        assert!(!is_offered || buffer == sample.bytes[offset..offset + 10_000], "at {offset}");
    }
    assert!(!file.read_cached_at(&mut buffer, 90_001), "the file ends before");
    assert!(!file.read_cached_at(&mut buffer, u64::MAX - 5), "no file is so long");
    assert!(!sample.open(OpenMode::ReadDirect).read_cached_at(&mut buffer, 0), "past the page cache");
    let faulty = FaultFs::new(Arc::new(StdFileSystem)).open(&sample.path, OpenMode::Read).unwrap();
    assert!(!faulty.read_cached_at(&mut buffer, 0), "its faults would be passed by");
    let rates = Arc::new(crate::RateLimiter::default());
    let clock: Arc<dyn crate::Clock> = Arc::new(crate::SystemClock::new());
    let timed = crate::TimedFile::new(file, &rates, &clock);
    assert_eq!(timed.read_cached_at(&mut buffer, 0), is_offered);
    let _section = esker_base::ResidentOnly::enter();
    assert!(!timed.read_cached_at(&mut buffer, 0), "the caller accepts only what the process has");
}

#[test]
fn names_round_trip() {
    for way in AsyncReads::ALL {
        assert_eq!(way.to_string().parse::<AsyncReads>().unwrap(), way);
    }
    assert!("uring".parse::<AsyncReads>().unwrap_err().contains("io_uring"));
    for mode in ReadMode::ALL {
        assert_eq!(mode.to_string().parse::<ReadMode>().unwrap(), mode);
    }
    assert!(ReadQueue::new(AsyncReads::Off, &Env::real()).unwrap().is_none());
}

/// A file that records the niceness of the threads that read it.
#[cfg(all(target_os = "linux", feature = "io-uring"))]
#[derive(Debug)]
struct PriorityRecorder(Arc<dyn File>, parking_lot::Mutex<Vec<Option<i32>>>);

#[cfg(all(target_os = "linux", feature = "io-uring"))]
impl File for PriorityRecorder {
    fn path(&self) -> &std::path::Path {
        self.0.path()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.1.lock().push(crate::host::lower_thread_priority(0));
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.0.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> Result<bool> {
        self.0.allocate(offset, len, keep_len)
    }

    fn sync_data(&self) -> Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> Result<()> {
        self.0.sync_all()
    }

    fn map_writable(&self, len: usize) -> Result<crate::Mapping> {
        self.0.map_writable(len)
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.0.will_need(offset, len);
    }
}

/// Whichever thread submits first, all wait for the same threads.
#[cfg(all(target_os = "linux", feature = "io-uring"))]
#[test]
fn threads_read_at_the_priority_of_the_queues_creator() {
    use crate::host::lower_thread_priority;
    let sample = Sample::new("priority", 100_000);
    let readers = Arc::new(PriorityRecorder(sample.open(OpenMode::Read), parking_lot::Mutex::default()));
    let file: Arc<dyn File> = Arc::<PriorityRecorder>::clone(&readers);
    let queue = ReadQueue::new(AsyncReads::Threads, &Env::real()).unwrap().unwrap();
    let usual = lower_thread_priority(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lower_thread_priority(3);
            let requests = (0..50).map(|at| request(&file, at * 1_000, 1_000)).collect();
            queue.submit(requests).into_iter().for_each(|read| drop(read.wait().unwrap()));
        });
    });
    let seen = readers.1.lock();
    assert!(seen.len() >= 50 && seen.iter().all(|niceness| *niceness == usual), "{seen:?}, not {usual:?}");
}
