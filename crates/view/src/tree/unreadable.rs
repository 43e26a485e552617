//! Quarantined files in a tree: parts whose file is not opened, and the keys at which readers stop for them.
//!
//! A part of a quarantined file stays where it is in its run, because older data lies below it and newer data
//! above. So a lookup that finds its key above never looks at it, one that gets to it fails, and none passes
//! it.
//!
//! # Invariants
//! * QU1. A read never passes a quarantined part without an error where the part may hold what decides the
//!   answer: a lookup fails when it opens the part's file, and a cursor stops at the first and at the last
//!   key of the part (`fenced_run` in `read`). Keys outside of the part's range are read as if it were
//!   not there. Where newer range tombstones hide all of it, it decides nothing.
//! * QU2. The refusal is set before the first tree refers to the file, and lifted together with the
//!   publication of a tree that has the file anew. So the facts of a run do not change under its readers.

use super::{TreePart, TreeRun};
use esker_base::limits::MAX_KEY_LEN;
use esker_base::{Error, QuarantinedRange, Result};
use esker_version::{Key, KeyEnd, LevelIndex};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a file is opened at all.
#[derive(Debug, Default)]
pub(super) struct Refusal {
    /// Tells without a lock that it is; nearly always.
    is_set: AtomicBool,
    range: RwLock<Option<Arc<QuarantinedRange>>>,
}

impl Refusal {
    pub(super) fn set(&self, range: Arc<QuarantinedRange>) {
        *self.range.write() = Some(range);
        self.is_set.store(true, Ordering::Release);
    }

    pub(super) fn lift(&self) {
        self.is_set.store(false, Ordering::Release);
        *self.range.write() = None;
    }

    pub(super) fn get(&self) -> Option<Arc<QuarantinedRange>> {
        if self.is_set.load(Ordering::Acquire) { self.range.read().clone() } else { None }
    }

    /// The error of a file that is not opened.
    pub(super) fn check(&self) -> Result<()> {
        self.get().map_or(Ok(()), |range| Err(quarantined(&range)))
    }
}

fn quarantined(range: &QuarantinedRange) -> Error {
    Error::Quarantined(Box::new(range.clone()))
}

/// The parts of a run that cannot be read.
#[derive(Debug)]
pub struct UnreadableParts {
    /// The run without them.
    pub readable: Arc<TreeRun>,
    /// One for each of them, in the order of their keys.
    pub barriers: Arc<[Barrier]>,
}

/// A part that cannot be read, as cursors see it.
#[derive(Clone, Debug)]
pub struct Barrier {
    /// The part.
    pub part: TreePart,
    /// The greatest key that the part may hold.
    pub last: Key,
    range: Arc<QuarantinedRange>,
}

impl Barrier {
    /// The least key that the part may hold.
    pub fn first(&self) -> &[u8] {
        self.part.meta.smallest()
    }

    /// The error of a reader that would have to pass.
    pub fn error(&self) -> Error {
        quarantined(&self.range)
    }
}

impl UnreadableParts {
    pub(super) fn of(level: LevelIndex, parts: &[TreePart]) -> Option<Box<UnreadableParts>> {
        if parts.iter().all(|part| part.file.refusal().is_none()) {
            return None;
        }
        let (mut readable, mut barriers) = (Vec::new(), Vec::new());
        for part in parts {
            match part.file.refusal() {
                None => readable.push(part.clone()),
                Some(range) => {
                    let last = last_key(&part.meta.range.end);
                    barriers.push(Barrier { part: part.clone(), last, range });
                }
            }
        }
        let readable = Arc::new(TreeRun::new(level, readable.into()));
        Some(Box::new(UnreadableParts { readable, barriers: barriers.into() }))
    }
}

/// The greatest key before or at an end. There is one, because the length of keys is limited.
fn last_key(end: &KeyEnd) -> Key {
    match end {
        KeyEnd::Included(last) => Key::clone(last),
        KeyEnd::Unbounded => vec![0xff; MAX_KEY_LEN].into(),
        KeyEnd::Excluded(border) => {
            let mut last = border.to_vec();
            match last.pop() {
                // Nothing lies between a key and the same key with a zero behind it.
                None | Some(0) => {}
                Some(byte) => {
                    last.push(byte - 1);
                    last.resize(MAX_KEY_LEN, 0xff);
                }
            }
            last.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_key_is_the_greatest_before_the_end() {
        let excluded = |border: &[u8]| last_key(&KeyEnd::Excluded(border.into()));
        assert_eq!(&*last_key(&KeyEnd::Included(b"abc".as_slice().into())), b"abc");
        assert_eq!(&*excluded(b"abc\0"), b"abc");
        let last = excluded(b"abc");
        assert!(last.starts_with(b"abb\xff\xff") && last.len() == MAX_KEY_LEN && *last < *b"abc".as_slice());
        assert!(*last_key(&KeyEnd::Unbounded) > *excluded(&[0xff; 9]));
    }
}
