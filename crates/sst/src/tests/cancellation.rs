//! Cancellation: the writer checks regularly, however long the end of its table is, counted in work between
//! two checks, not in time.

use super::{new_fs, options, path};
use crate::file_writer::WRITE_BACK_BYTES;
use crate::index::locator::KEYS_PER_CHECK;
use crate::{IndexKind, JobControl, TableOptions, TableWriter};
use esker_base::{Error, Result, SeqNo, Tag, ValueKind};
use esker_codec::Codec;
use esker_env::{File, FileSystem, FileWrapper, OpenMode, SeededRandom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts checks, and what was written between them.
#[derive(Debug, Default)]
struct CancelAt {
    looks: AtomicU64,
    since_look_bytes: AtomicU64,
    most_bytes: AtomicU64,
    /// The first check that cancels the job, if not zero.
    last: u64,
}

impl CancelAt {
    fn checks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }
}

impl JobControl for CancelAt {
    fn before_read(&self, _: u64) -> Result<()> {
        self.check_cancelled()
    }

    fn check_cancelled(&self) -> Result<()> {
        self.since_look_bytes.store(0, Ordering::Relaxed);
        let looks = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        if self.last > 0 && looks >= self.last { Err(Error::Closed) } else { Ok(()) }
    }
}

#[derive(Debug)]
struct CheckedFile {
    file: Arc<dyn File>,
    cancel: Arc<CancelAt>,
}

impl FileWrapper for CheckedFile {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let cancel = &self.cancel;
        let since =
            cancel.since_look_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed) + bytes.len() as u64;
        cancel.most_bytes.fetch_max(since, Ordering::Relaxed);
        self.file.write_at(bytes, offset)
    }
}

/// Writes a table of this many keys and value bytes; returns counter and file length.
fn write(options: TableOptions, keys: u64, value_bytes: usize, last: u64) -> (Arc<CancelAt>, Result<u64>) {
    let cancel = Arc::new(CancelAt { last, ..CancelAt::default() });
    let file = new_fs().open(path(), OpenMode::CreateNew).unwrap();
    let file = Arc::new(CheckedFile { file, cancel: Arc::clone(&cancel) });
    let mut writer = TableWriter::new(file, options).unwrap();
    writer.set_job_control(Arc::<CancelAt>::clone(&cancel));
    let random = SeededRandom::new(3);
    let mut value = vec![0; value_bytes];
    for key in 0..keys {
        let fresh = random.below(1000).to_string();
        let len = fresh.len().min(value.len());
        value[..len].copy_from_slice(&fresh.as_bytes()[..len]);
        let tag = Tag::new(SeqNo::new(key + 1), ValueKind::Put);
        if let Err(error) = writer.add(&key.to_be_bytes(), tag, &value) {
            return (cancel, Err(error));
        }
    }
    cancel.most_bytes.store(0, Ordering::Relaxed);
    let finished = writer.finish();
    (cancel, finished.map(|summary| summary.file_bytes))
}

/// Locator, index pages and filter of many keys: megabytes that are made and written at the end.
#[test]
fn a_long_end_is_made_and_written_in_pieces() {
    const KEYS: u64 = 200_000;
    let uncompressed = TableOptions { codec: Codec::None, block_size_bytes: 512, ..options() };
    let located = TableOptions { index: IndexKind::HashLocator, ..uncompressed };
    let (cancel, finished) = write(located.clone(), KEYS, 0, 0);
    finished.unwrap();
    let most = cancel.most_bytes.load(Ordering::Relaxed);
    assert!(most <= 2 * WRITE_BACK_BYTES, "{most} bytes in one go");
    let pieces = KEYS / KEYS_PER_CHECK as u64;
    assert!(cancel.checks() >= pieces + 3, "{} checks for {pieces} pieces of the locator", cancel.checks());
    // Each check can end the job.
    for last in 1..=write(located.clone(), KEYS / 20, 0, 0).0.checks() {
        let (stopped, finished) = write(located.clone(), KEYS / 20, 0, last);
        // The filter checks once more before it gives up.
        assert!(matches!(finished, Err(Error::Closed)) && stopped.checks() <= last + 2, "{last}");
    }
    let (few, many) = (write(uncompressed.clone(), KEYS, 0, 0).0, cancel);
    assert!(few.checks() < many.checks());
    let paged = TableOptions { index: IndexKind::BTreePages, ..uncompressed };
    let with_pages = write(paged, KEYS, 0, 0).0;
    assert!(with_pages.checks() > few.checks(), "{} and {}", with_pages.checks(), few.checks());
}

/// Blocks buffered for a dictionary are compressed twice, one at a time.
#[test]
fn each_block_that_waits_for_a_dictionary_is_a_piece() {
    let trained = TableOptions { codec: Codec::ZstdDictionary { level: 3 }, ..options() };
    let (cancel, finished) = write(trained.clone(), 8_000, 40, 0);
    let bytes = finished.unwrap();
    let blocks = 8_000 * 48 / trained.block_size_bytes as u64;
    assert!(bytes > 1000 && cancel.checks() >= 2 * blocks.min(64), "{} checks", cancel.checks());
}
