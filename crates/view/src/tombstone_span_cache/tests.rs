//! The span cache on its own.

use super::{MAX_UNUSED_PUTS, TombstoneSpanCache};
use esker_base::SeqNo;
use esker_iter::{TombstoneSpan, TombstoneSpans as _};

fn seqno(number: u64) -> SeqNo {
    SeqNo::new(number)
}

fn gap(start: &str, end: &str) -> Option<TombstoneSpan> {
    let end = (!end.is_empty()).then(|| end.as_bytes().into());
    Some(TombstoneSpan { start: start.as_bytes().into(), end })
}

/// Spans watched since sequence number 10, after a put of "p".
fn watched() -> TombstoneSpanCache {
    let gaps = TombstoneSpanCache::default();
    assert!(!gaps.is_watching());
    gaps.record_span(b"a", Some(b"c"), seqno(10));
    assert!(gaps.is_watching(), "the next writer is to watch");
    assert_eq!(gaps.span_around(b"b", seqno(10)), None, "but watching was off before");
    gaps.note_put(b"p", seqno(10));
    gaps
}

#[test]
fn a_gap_is_kept_if_its_reader_saw_all_that_is_not_watched_for() {
    let gaps = watched();
    gaps.record_span(b"a", Some(b"c"), seqno(9));
    assert_eq!(gaps.span_around(b"b", seqno(20)), None);
    gaps.note_put(b"q", seqno(12));
    gaps.record_span(b"a", Some(b"c"), seqno(11));
    assert_eq!(gaps.span_around(b"b", seqno(20)), None, "watching began at 12");
    gaps.note_put(b"q", seqno(13));
    gaps.record_span(b"a", Some(b"c"), seqno(13));
    assert_eq!(gaps.span_around(b"a", seqno(13)), gap("a", "c"));
    assert_eq!(gaps.span_around(b"c", seqno(13)), None);
    assert_eq!(gaps.span_around(b"b", seqno(12)), None, "an earlier reader may see what was there");
}

#[test]
fn concurrent_puts_are_in_no_span() {
    let gaps = watched();
    gaps.record_span(b"o", Some(b"z"), seqno(10));
    assert_eq!(gaps.span_around(b"o", seqno(20)), None);
    // Watching began anew, and later puts are not in it.
    gaps.note_put(b"a", seqno(11));
    gaps.record_span(b"o", Some(b"z"), seqno(11));
    assert_eq!(gaps.span_around(b"o", seqno(20)), gap("o", "z"));
    gaps.record_span(b"e", Some(b"p"), seqno(15));
    assert_eq!(gaps.span_around(b"f", seqno(20)), gap("e", "z"), "joined");
    assert_eq!(gaps.span_around(b"f", seqno(14)), None, "as new as the newer one");
    gaps.note_put(b"m", seqno(15));
    assert_eq!(gaps.span_around(b"f", seqno(20)), gap("e", "m"), "cut");
    assert_eq!(gaps.span_around(b"m", seqno(20)), None);
    gaps.note_put(b"e", seqno(16));
    assert_eq!(gaps.span_around(b"f", seqno(20)), None);
}

#[test]
fn watching_ends_without_use() {
    let gaps = watched();
    gaps.record_span(b"a", None, seqno(10));
    assert_eq!(gaps.span_around(b"b", seqno(10)), None, "a put lies in it");
    gaps.note_put(b"a", seqno(11));
    gaps.record_span(b"b", None, seqno(11));
    assert_eq!(gaps.span_around(b"zzz", seqno(11)), gap("b", ""));
    for _ in 0..MAX_UNUSED_PUTS {
        gaps.note_put(b"a", seqno(12));
    }
    assert!(gaps.is_watching() && gaps.span_around(b"c", seqno(20)).is_some());
    for _ in 0..=MAX_UNUSED_PUTS {
        gaps.note_put(b"a", seqno(12));
    }
    assert!(!gaps.is_watching());
    assert_eq!(gaps.span_around(b"c", seqno(20)), None);
}
