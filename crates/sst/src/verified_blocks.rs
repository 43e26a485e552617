//! Verified blocks: which blocks of a mapped table were verified since it was opened (MP1 in
//! [`crate::mapped`]).

use crate::index::BlockIndex;
use esker_env::File;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bitmap of the verified blocks.
#[derive(Debug)]
pub(crate) struct VerifiedBlocks {
    words: Box<[AtomicU64]>,
}

impl VerifiedBlocks {
    /// An empty one, if the file is mapped and the index is a search tree in memory.
    pub(crate) fn begin(file: &dyn File, index: Option<&BlockIndex>) -> Option<VerifiedBlocks> {
        let blocks = index.filter(|index| index.tree().is_some() && file.mapped().is_some())?.blocks();
        Some(VerifiedBlocks { words: (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() })
    }

    pub(crate) fn contains(&self, block: usize) -> bool {
        self.words[block / 64].load(Ordering::Acquire) >> (block % 64) & 1 == 1
    }

    /// Release: a thread that finds the bit finds the block verified.
    pub(crate) fn insert(&self, block: usize) {
        self.words[block / 64].fetch_or(1 << (block % 64), Ordering::Release);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }
}
