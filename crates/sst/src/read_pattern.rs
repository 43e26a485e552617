//! Read pattern of a table's file: what the system is told of it, so that its readahead serves long walks
//! only.
//!
//! The kernel takes two reads behind one another for the beginning of a long one, and reads ahead up to what
//! the device's setting allows, mebibytes on some machines: a scan of a hundred entries then reads ten times
//! what it uses. So the file's reads are told to be scattered, and each reads what is asked for. While walks
//! of full windows are under way ([`LongWalk`]), they are told to be consecutive: the kernel keeps more reads
//! in flight than the one window that is requested ahead, and in larger pages. Lookups meanwhile are not
//! affected, because they are not consecutive.

use esker_env::{File, ReadPattern};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A table's file and the long walks in it.
#[derive(Debug)]
pub(crate) struct ReadPatterns {
    file: Arc<dyn File>,
    long_walks: AtomicUsize,
}

impl ReadPatterns {
    /// Of a file without long walks.
    pub(crate) fn begin(file: Arc<dyn File>) -> Arc<ReadPatterns> {
        let patterns = ReadPatterns { file, long_walks: AtomicUsize::new(0) };
        patterns.expect(ReadPattern::Scattered);
        Arc::new(patterns)
    }

    /// Of a mapped file nothing is told: it is not read by calls.
    fn expect(&self, pattern: ReadPattern) {
        if self.file.mapped().is_none() {
            self.file.expect_reads(pattern);
        }
    }
}

/// A walk that reads full windows. Where one begins just as the last one ends, the hints may be given in the
/// wrong order: until the next one begins, the kernel reads less ahead, and nothing else.
#[derive(Debug)]
pub(crate) struct LongWalk {
    patterns: Arc<ReadPatterns>,
}

impl LongWalk {
    #[cold]
    pub(crate) fn begin(patterns: &Arc<ReadPatterns>) -> LongWalk {
        if patterns.long_walks.fetch_add(1, Ordering::Relaxed) == 0 {
            patterns.expect(ReadPattern::Consecutive);
        }
        LongWalk { patterns: Arc::clone(patterns) }
    }
}

impl Drop for LongWalk {
    #[cold]
    fn drop(&mut self) {
        if self.patterns.long_walks.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.patterns.expect(ReadPattern::Scattered);
        }
    }
}
