//! Tombstone span cache: spans of keys without values that readers have walked over, invalidated by writers.
//!
//! # Why
//! Tombstones stay until a compaction removes them, and in memory until a flush. A queue deletes at its head
//! and is read from there, so each read of the head would walk over all deletes since the last flush: a
//! hundred thousand, a millisecond. With the span cached it walks over those since the last read.
//!
//! # The contents of a span
//! A span describes the contents of the keyspace, not memtables or tables, so no flush or compaction changes
//! it.
//!
//! * GP2: *no key of a kept span has a value for a reader at the span's sequence number or a later one.* A
//!   reader saw that at its own number (GP1), and nothing has been put there since:
//! * GP3: *every put after [`SpanWatch::since`] has been reported to the watch before it is visible.* Writers
//!   do it under the commit lock, before they publish. A put into a span cuts it.
//! * GP4: *a span is kept only if its reader reads at [`SpanWatch::since`] or later, and no put since then
//!   lies in it.* Such puts are recorded by the smallest and the greatest of their keys. So a put either came
//!   before the span was recorded, and then it is not in it, or it comes after, and then it cuts it. Both
//!   happen under one lock.
//!
//! A reader loads `visible` before its query (RV1), so every put it must see has been reported before.
//!
//! # Cost
//! A writer reads one word while watching is off: it is off until a reader had to walk over
//! [`esker_iter::tombstone_span`]' least number of keys, and again when no span has helped for
//! [`MAX_UNUSED_PUTS`] puts. While it is on, a put takes a short lock.
//!
//! Only forward readers use spans: queues are read from their heads. Rejected: spans in each memtable, which
//! would end with every seal; sealing a memtable with many tombstones, which makes a table of every few
//! thousand deletes.

use esker_base::SeqNo;
use esker_iter::TombstoneSpan;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

/// The number of spans kept: this many queues of one keyspace stay fast.
const MAX_GAPS: usize = 4;

/// After this many puts without a reader that a span has helped, watching ends.
const MAX_UNUSED_PUTS: u32 = 1 << 16;

/// Watching is off.
const OFF: u8 = 0;
/// A reader requests watching: the next writer begins it, or begins it anew.
const WANTED: u8 = 1;
/// Writers report their puts.
const ON: u8 = 2;

/// The tombstone spans of one keyspace.
#[derive(Debug, Default)]
pub struct TombstoneSpanCache {
    /// One of the constants above. Changed from [`OFF`] only to [`WANTED`], by readers; other changes happen
    /// under the lock.
    state: AtomicU8,
    watch: Mutex<SpanWatch>,
}

/// The first and the last of some keys.
type Span = (Box<[u8]>, Box<[u8]>);

#[derive(Debug, Default)]
struct SpanWatch {
    /// Puts with greater sequence numbers have been reported.
    since: SeqNo,
    /// The smallest and the greatest key put since then.
    put: Option<Span>,
    /// Most recently useful last.
    kept: Vec<(TombstoneSpan, SeqNo)>,
    puts_without_use: u32,
}

impl TombstoneSpanCache {
    /// Whether puts must be reported. Called under the commit lock.
    #[inline]
    pub fn is_watching(&self) -> bool {
        self.state.load(Ordering::Relaxed) != OFF
    }

    /// Reports a put that gets a sequence number greater than `before`. Called under the commit lock, before
    /// it is published.
    #[cold]
    pub fn note_put(&self, key: &[u8], before: SeqNo) {
        let mut watch = self.watch.lock();
        if self.state.load(Ordering::Relaxed) == WANTED {
            (watch.since, watch.put) = (before, None);
            self.state.store(ON, Ordering::Relaxed);
        }
        watch.take_put(key);
        watch.puts_without_use += 1;
        if watch.puts_without_use > MAX_UNUSED_PUTS {
            self.forget_all(&mut watch);
        }
    }

    /// Reports entries that are too many for [`TombstoneSpanCache::note_put`]: ingested tables.
    pub fn invalidate_all(&self) {
        // A span recorded from here on is kept once a put has begun to watch anew, and if its reader's
        // sequence number is recent enough.
        self.forget_all(&mut self.watch.lock());
    }

    fn forget_all(&self, watch: &mut SpanWatch) {
        *watch = SpanWatch { since: SeqNo::MAX, ..SpanWatch::default() };
        self.state.store(OFF, Ordering::Relaxed);
    }
}

impl esker_iter::TombstoneSpans for TombstoneSpanCache {
    #[inline]
    fn span_around(&self, key: &[u8], seqno: SeqNo) -> Option<TombstoneSpan> {
        if self.is_watching() { self.watch.lock().around(key, seqno) } else { None }
    }

    fn record_span(&self, start: &[u8], end: Option<&[u8]>, seqno: SeqNo) {
        let mut watch = self.watch.lock();
        if self.state.load(Ordering::Relaxed) != ON || !watch.keep(start, end, seqno) {
            self.state.store(WANTED, Ordering::Relaxed);
        }
    }
}

impl SpanWatch {
    fn around(&mut self, key: &[u8], seqno: SeqNo) -> Option<TombstoneSpan> {
        let holds = |(gap, since): &(TombstoneSpan, SeqNo)| {
            *since <= seqno && *gap.start <= *key && gap.end.as_ref().is_none_or(|end| key < &**end)
        };
        let at = self.kept.iter().position(holds)?;
        self.puts_without_use = 0;
        self.kept[at..].rotate_left(1);
        self.kept.last().map(|(gap, _)| gap.clone())
    }

    fn take_put(&mut self, key: &[u8]) {
        match &mut self.put {
            None => self.put = Some((key.into(), key.into())),
            Some((least, _)) if key < &**least => *least = key.into(),
            Some((_, most)) if key > &**most => *most = key.into(),
            Some(_) => {}
        }
        self.kept.retain_mut(|(gap, _)| {
            if *gap.start <= *key && gap.end.as_ref().is_none_or(|end| key < &**end) {
                gap.end = Some(key.into());
            }
            gap.end.as_ref().is_none_or(|end| gap.start < *end)
        });
    }

    /// Keeps a span if it is valid from here on (GP4), joined with those that it overlaps.
    fn keep(&mut self, start: &[u8], end: Option<&[u8]>, seqno: SeqNo) -> bool {
        let is_put_into = self
            .put
            .as_ref()
            .is_some_and(|(least, most)| **most >= *start && end.is_none_or(|end| **least < *end));
        if seqno < self.since || is_put_into {
            return false;
        }
        let mut joined = TombstoneSpan { start: start.into(), end: end.map(Box::from) };
        let mut newest = seqno;
        self.kept.retain(|(gap, since)| {
            let is_behind = joined.end.as_ref().is_some_and(|end| gap.start > *end);
            let is_before = gap.end.as_ref().is_some_and(|end| *end < joined.start);
            if is_behind || is_before {
                return true;
            }
            if gap.start < joined.start {
                joined.start = gap.start.clone();
            }
            if joined.end.is_some() && gap.end.as_ref().is_none_or(|end| Some(end) > joined.end.as_ref()) {
                joined.end = gap.end.clone();
            }
            newest = newest.max(*since);
            false
        });
        if self.kept.len() == MAX_GAPS {
            self.kept.remove(0);
        }
        self.kept.push((joined, newest));
        true
    }
}

#[cfg(test)]
mod tests;
