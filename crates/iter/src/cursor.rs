//! The cursor contract: how sources of entries are walked.

use esker_base::{Result, SeqNo, Tag};

/// How an entry compares with a bound, a key, in the direction of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundOrder {
    /// Its key comes before the bound, and it is the only version of its key in the source.
    Before,
    /// It is the only version of its key in the source; whole keys must be compared.
    Near,
    /// Its key comes after the bound, and it is the only version of its key in the source.
    Behind,
    /// Nothing is known.
    Unknown,
}

impl BoundOrder {
    /// Compares eight bytes of key and bound; all bytes before are equal.
    #[inline(always)]
    pub fn of_words<const BACKWARD: bool>(word: u64, bound: u64) -> BoundOrder {
        let is_before = if BACKWARD { word > bound } else { word < bound };
        if is_before {
            BoundOrder::Before
        } else if word == bound {
            BoundOrder::Near
        } else {
            BoundOrder::Behind
        }
    }
}

/// A position among the entries of one source.
///
/// # Contract
/// * C1. A new cursor is invalid until a seek succeeds.
/// * C2. Entries come in internal order: key ascending, then tag descending. No two entries are equal in
///   both.
/// * C3. `key`, `tag`, `value` and `head` may only be called while `is_valid`; the slices live until the next
///   call that moves the cursor.
/// * C4. Moving past either end makes the cursor invalid without an error; only a seek makes it valid again.
/// * C5. An error leaves the cursor invalid, and the call that met it returns it: a read error never looks
///   like the end of the data.
/// * C6. Entries written after the cursor was created may or may not appear; callers filter by sequence
///   number.
pub trait Cursor {
    /// Moves to the first entry.
    fn seek_to_first(&mut self) -> Result<()>;

    /// Moves to the last entry.
    fn seek_to_last(&mut self) -> Result<()>;

    /// Moves to the first entry whose key is greater than `key`, or equal with a sequence number of at most
    /// `seqno`: the newest version of `key` that a reader at `seqno` sees, or what follows it.
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()>;

    /// Moves to the last entry whose key is less than `key`, whatever its version.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;

    /// Moves to the following entry. The cursor must be valid.
    fn next(&mut self) -> Result<()>;

    /// As [`next`](Cursor::next), for the one loop that all entries of a flush or compaction pass through.
    /// Cursors with a fast path override it, so that the fast path is inlined into that loop and only there.
    #[inline(always)]
    fn pass(&mut self) -> Result<()> {
        self.next()
    }

    /// As [`next`](Cursor::next), for a caller that is done with the current key: it may skip other versions
    /// of that key where that is cheaper than returning them, but no entry of a greater key. The cursor must
    /// be valid.
    #[inline(always)]
    fn next_key(&mut self) -> Result<()> {
        self.next()
    }

    /// Moves to the preceding entry. The cursor must be valid.
    fn prev(&mut self) -> Result<()>;

    /// As [`prev`](Cursor::prev), for a reader at `seqno`, which sees of each key the newest version up to
    /// that number: it may skip other versions, of this key and of lesser ones, where that is cheaper than
    /// returning them, and [`prev`](Cursor::prev) does not return them either before a seek or a step
    /// forwards. The cursor must be valid.
    #[inline(always)]
    fn prev_key(&mut self, seqno: SeqNo) -> Result<()> {
        let _ = seqno;
        self.prev()
    }

    /// Whether the cursor is on an entry.
    fn is_valid(&self) -> bool;

    /// The user key.
    fn key(&self) -> &[u8];

    /// Sequence number and kind.
    fn tag(&self) -> Tag;

    /// The value; empty for tombstones. With [`esker_base::kind::FLAG_EXPIRY`] after the expiry time.
    fn value(&self) -> &[u8];

    /// Key, tag and value in one call: a cursor that is one of several kinds dispatches only once.
    #[inline]
    fn entry(&self) -> (&[u8], Tag, &[u8]) {
        (self.key(), self.tag(), self.value())
    }

    /// Eight bytes of the key after its first `skip` bytes, as [`esker_base::key::head`] returns them.
    /// Sources that hold the key in pieces override it, so that a merge compares without assembling keys.
    #[inline]
    fn head(&self, skip: usize) -> u64 {
        esker_base::key::head(self.key(), skip)
    }

    /// How the current entry compares with `bound` in the direction of `BACKWARD` (before it if there is
    /// none), and the bound in the form that [`step_towards`](Cursor::step_towards) takes. Reads only memory
    /// that is loaded already. The cursor must be valid.
    #[inline(always)]
    fn bound_order<const BACKWARD: bool>(&self, bound: Option<&[u8]>) -> (BoundOrder, u64) {
        let _ = bound;
        (BoundOrder::Unknown, 0)
    }

    /// Moves to the next entry in the direction of `BACKWARD` and returns how it compares with the bound; if
    /// that is unknown, the cursor has not moved. The bound is what [`bound_order`](Cursor::bound_order)
    /// returned for that direction; no other call has moved the cursor since.
    #[inline(always)]
    fn step_towards<const BACKWARD: bool>(&mut self, bound: u64) -> BoundOrder {
        let _ = bound;
        BoundOrder::Unknown
    }

    /// Moves on and returns `true` if it is known that no other version of the current key lies ahead in the
    /// direction of `BACKWARD` and of the walk so far, and that a next entry is loaded; otherwise does
    /// nothing. For a reader at `seqno` that is done with the key, as [`prev_key`](Cursor::prev_key). The
    /// cursor must be valid.
    #[inline(always)]
    fn step_alone<const BACKWARD: bool>(&mut self, seqno: SeqNo) -> Result<bool> {
        let _ = seqno;
        Ok(false)
    }

    /// Whether it is known that no other version of the current key lies ahead in the direction of the walk.
    #[inline(always)]
    fn is_alone(&self) -> bool {
        false
    }

    /// Prefetches, without waiting, the memory that a following [`seek`](Cursor::seek) or
    /// [`seek_before`](Cursor::seek_before) to `key` will read; returns whether a further round can prefetch
    /// more once this round's data has arrived.
    ///
    /// A merge runs round 0 over all its sources, then round 1, and so on while any source returns true, and
    /// only then seeks them, so that the cache misses of all sources overlap: four runs cost about half of
    /// four seeks in a row. A table finds its block in round 0, prefetches the block's directory in round 1,
    /// and the entry that the directory points to in round 2. This is a hint: it may do nothing, returns no
    /// errors, does no input or output, and the cursor is invalid afterwards until a seek. That seek is to
    /// `key`, in either direction, or to an end; or the seek is prepared anew from round 0 on: a cursor may
    /// keep intermediate results.
    #[inline]
    fn prepare_seek(&mut self, key: &[u8], round: u32) -> bool {
        let _ = (key, round);
        false
    }
}

impl<C: Cursor> Cursor for Box<C> {
    fn seek_to_first(&mut self) -> Result<()> {
        (**self).seek_to_first()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        (**self).seek_to_last()
    }

    #[inline]
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        (**self).seek(key, seqno)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        (**self).seek_before(key)
    }

    #[inline(always)]
    fn next(&mut self) -> Result<()> {
        (**self).next()
    }

    #[inline(always)]
    fn pass(&mut self) -> Result<()> {
        (**self).pass()
    }

    #[inline(always)]
    fn next_key(&mut self) -> Result<()> {
        (**self).next_key()
    }

    #[inline(always)]
    fn prev(&mut self) -> Result<()> {
        (**self).prev()
    }

    #[inline(always)]
    fn prev_key(&mut self, seqno: SeqNo) -> Result<()> {
        (**self).prev_key(seqno)
    }

    #[inline(always)]
    fn is_valid(&self) -> bool {
        (**self).is_valid()
    }

    #[inline(always)]
    fn key(&self) -> &[u8] {
        (**self).key()
    }

    #[inline(always)]
    fn tag(&self) -> Tag {
        (**self).tag()
    }

    #[inline(always)]
    fn value(&self) -> &[u8] {
        (**self).value()
    }

    #[inline(always)]
    fn entry(&self) -> (&[u8], Tag, &[u8]) {
        (**self).entry()
    }

    #[inline(always)]
    fn head(&self, skip: usize) -> u64 {
        (**self).head(skip)
    }

    #[inline(always)]
    fn bound_order<const BACKWARD: bool>(&self, bound: Option<&[u8]>) -> (BoundOrder, u64) {
        (**self).bound_order::<BACKWARD>(bound)
    }

    #[inline(always)]
    fn step_towards<const BACKWARD: bool>(&mut self, bound: u64) -> BoundOrder {
        (**self).step_towards::<BACKWARD>(bound)
    }

    #[inline(always)]
    fn step_alone<const BACKWARD: bool>(&mut self, seqno: SeqNo) -> Result<bool> {
        (**self).step_alone::<BACKWARD>(seqno)
    }

    #[inline(always)]
    fn is_alone(&self) -> bool {
        (**self).is_alone()
    }

    #[inline]
    fn prepare_seek(&mut self, key: &[u8], round: u32) -> bool {
        (**self).prepare_seek(key, round)
    }
}
