//! Order of sources: ranks first, then the next eight bytes, then whole keys and tags.

use crate::cursor::Cursor;
use std::cmp::Ordering;

/// The rank of an exhausted source.
pub(super) const EXHAUSTED: u64 = u64::MAX;

/// Order of a source's current entry among the sources: the lesser the earlier.
#[inline]
pub(super) fn rank<C: Cursor, const BACKWARD: bool>(source: &C, skip: usize) -> u64 {
    if !source.is_valid() {
        return EXHAUSTED;
    }
    let head = source.head(skip);
    if BACKWARD { !head } else { head }
}

/// The tie-breaker behind the rank of a source's current entry: the lesser the earlier.
#[inline]
pub(super) fn tail<C: Cursor, const BACKWARD: bool>(source: &C, skip: usize) -> u64 {
    let tail = source.head(skip + size_of::<u64>());
    if BACKWARD { !tail } else { tail }
}

/// Whether source `a` comes before source `b` with equal ranks: by the next eight bytes of their keys, which
/// decide most cases for keys with an undeclared common prefix. Out of line: equal ranks are rare, and the
/// step of a merge is faster the shorter it is.
#[inline(never)]
pub(super) fn precedes<C: Cursor, const BACKWARD: bool>(sources: &[C], skip: usize, a: u32, b: u32) -> bool {
    let (x, y) = (&sources[a as usize], &sources[b as usize]);
    if x.is_valid() && y.is_valid() {
        let (first, second) = (x.head(skip + 8), y.head(skip + 8));
        if first != second {
            return (first < second) != BACKWARD;
        }
        let len = x.key().len();
        if len == y.key().len() && len <= skip + 16 {
            // All of both keys was compared: an update and the version it replaces.
            return is_newer(sources, a, b) != BACKWARD;
        }
    }
    precedes_in_full::<C, BACKWARD>(sources, a, b)
}

/// Whether source `a` is on the newer version of the key on which `b` is as well.
#[inline(always)]
fn is_newer<C: Cursor>(sources: &[C], a: u32, b: u32) -> bool {
    let (own, others) = (sources[a as usize].tag(), sources[b as usize].tag());
    own > others || own == others && a < b
}

#[cold]
#[inline(never)]
fn precedes_in_full<C: Cursor, const BACKWARD: bool>(sources: &[C], a: u32, b: u32) -> bool {
    let (x, y) = (&sources[a as usize], &sources[b as usize]);
    if !x.is_valid() || !y.is_valid() {
        return x.is_valid();
    }
    let order = x.key().cmp(y.key()).then_with(|| y.tag().cmp(&x.tag())).then(a.cmp(&b));
    if BACKWARD { order == Ordering::Greater } else { order == Ordering::Less }
}
