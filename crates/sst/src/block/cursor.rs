//! Block cursor: walks the entries of one block in both directions.
//!
//! The cursor holds positions and a copy of the key, and borrows nothing: the table cursor owns the block's
//! memory beside it. Keys are stored in pieces, so the current one is assembled in a buffer. Reading eight
//! bytes back that two stores have just written stalls (17-30 ns an entry of a merge instead of 11-21). So
//! [`BlockCursor::head`] reads the pieces; if the common prefix is shorter than a word ([`JoinedHead`]), the
//! first word is assembled in a register.

mod uniform;

use super::delta::Delta;
use super::flat::Flat;
use super::raw;
use super::{BlockBytes, LayoutView, SLACK_BYTES, delta_encode, flat_encode};
use crate::simd::{Kernel, prefetch};
use esker_base::Tag;
use uniform::{JoinedHead, UniformKeys};

/// Prefetch distance ahead of the entry in the block that a seek led to: four entries of 116 bytes.
const AHEAD_BYTES: usize = 512;

/// Longer keys need memory of their own.
const INLINE_KEY_BYTES: usize = 96;

#[derive(Debug)]
struct KeyBuffer {
    inline: [u8; INLINE_KEY_BYTES + raw::COPY_SLACK],
    /// Replaces `inline` after a longer key; empty until then.
    long: Vec<u8>,
    len: usize,
}

impl KeyBuffer {
    #[inline(always)]
    fn new() -> KeyBuffer {
        KeyBuffer { inline: [0; INLINE_KEY_BYTES + raw::COPY_SLACK], long: Vec::new(), len: 0 }
    }

    #[inline(always)]
    fn as_slice(&self) -> &[u8] {
        if self.long.is_empty() { &self.inline[..self.len] } else { &self.long[..self.len] }
    }

    /// Keeps the first `keep` bytes and appends the `len` bytes at `from`.
    ///
    /// # Safety
    /// `keep` must not exceed the present length, and `len + COPY_SLACK` bytes must be readable at `from`, or
    /// be in one allocation with it.
    #[inline(always)]
    unsafe fn assemble(&mut self, keep: usize, from: *const u8, len: usize) {
        debug_assert!(keep <= self.len);
        let end = keep + len;
        if self.long.is_empty() && end <= INLINE_KEY_BYTES {
            // SAFETY: the inline buffer has `COPY_SLACK` bytes more than `end`.
            unsafe { raw::copy_in_steps(from, self.inline.as_mut_ptr().add(keep), len) };
            self.len = end;
        } else {
            // SAFETY: guaranteed by the caller.
            unsafe { self.assemble_long(keep, std::slice::from_raw_parts(from, len)) };
        }
    }

    #[cold]
    #[inline(never)]
    fn assemble_long(&mut self, keep: usize, rest: &[u8]) {
        let end = keep + rest.len();
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.inline[..keep]);
        }
        if self.long.len() < end {
            // Room for the next longer keys as well. Never empty, because empty means the inline buffer.
            self.long.resize(end.next_power_of_two(), 0);
        }
        self.long[keep..end].copy_from_slice(rest);
        self.len = end;
    }
}

/// The payload of a cursor without a block: as many bytes as any method reads from positions of zero.
static NOTHING: [u8; SLACK_BYTES] = [0; SLACK_BYTES];

/// A position in a block.
///
/// Every unsafe method requires only that the block given to [`BlockCursor::open`] is alive. Without a block
/// or an entry the result is meaningless, because positions are those of an entry of the present block or
/// zero.
#[derive(Debug)]
pub(crate) struct BlockCursor {
    view: Option<LayoutView>,
    base: *const u8,
    /// The fast path between entries, if the block allows it.
    uniform: Option<UniformKeys>,
    /// Assembly of a key's first word, if the fast path applies and the prefix is shorter than it.
    joined: Option<JoinedHead>,
    /// Whether entries ahead are prefetched, because the block was not just read as a whole.
    fetches_ahead: bool,
    /// Address of the block that the walk will enter next, if it is known: each step prefetches the same
    /// offset there as the current one here. Null after a seek; then each step prefetches ahead in this
    /// block.
    towards: *const u8,
    /// Head of the prefix of a flat block.
    prefix_head: u64,
    /// Head of the current key, if a fast step led to it.
    head: u64,
    has_head: bool,
    count: usize,
    index: usize,
    /// Position of the current entry's own key bytes in the payload; `own_from` shared bytes precede them.
    own_at: usize,
    own_from: usize,
    value_at: usize,
    end: usize,
    tag: Tag,
    key: KeyBuffer,
}

impl BlockCursor {
    /// A cursor on no block. `fetches_ahead` costs time where the memory is cached already.
    #[inline(always)]
    pub(crate) fn new(fetches_ahead: bool) -> BlockCursor {
        BlockCursor {
            view: None,
            base: NOTHING.as_ptr(),
            uniform: None,
            joined: None,
            fetches_ahead,
            towards: std::ptr::null(),
            prefix_head: 0,
            head: 0,
            has_head: false,
            count: 0,
            index: 0,
            own_at: 0,
            own_from: 0,
            value_at: 0,
            end: 0,
            tag: Tag::OLDEST,
            key: KeyBuffer::new(),
        }
    }

    #[inline]
    pub(crate) fn close(&mut self) {
        self.view = None;
        (self.uniform, self.joined) = (None, None);
        self.base = NOTHING.as_ptr();
        self.count = 0;
        self.index = 0;
        self.forget_entry();
    }

    #[inline(always)]
    fn forget_entry(&mut self) {
        self.own_at = 0;
        self.own_from = 0;
        self.value_at = 0;
        self.end = 0;
    }

    /// Enters a block, on no entry yet.
    ///
    /// # Safety
    /// The block must outlive every further use of the cursor up to the next `open` or `close`.
    #[inline]
    pub(crate) unsafe fn open(&mut self, block: &BlockBytes) {
        self.forget_entry();
        self.has_head = false;
        self.towards = std::ptr::null();
        let view = block.view();
        match &view {
            LayoutView::Flat(flat) => {
                self.count = flat.count();
                self.own_from = flat.prefix_len();
                self.key.len = 0;
                // SAFETY: the prefix lies in the payload, which has more than `COPY_SLACK` bytes behind it.
                unsafe {
                    let prefix = flat.base().add(flat_encode::PAYLOAD_HEADER_BYTES);
                    self.key.assemble(0, prefix, flat.prefix_len());
                    self.prefix_head =
                        raw::head_at(flat.base(), flat_encode::PAYLOAD_HEADER_BYTES, flat.prefix_len());
                }
                self.base = flat.base();
                self.uniform = if self.key.long.is_empty() { UniformKeys::of(flat) } else { None };
                self.joined = self
                    .uniform
                    .and_then(|uniform| JoinedHead::of(flat, flat.prefix_len() + uniform.suffix_len));
            }
            LayoutView::Delta(delta) => {
                (self.count, self.base) = (delta.count(), delta.base());
                (self.uniform, self.joined) = (None, None);
            }
        }
        self.view = Some(view);
        self.index = self.count;
    }

    /// Sets whether memory ahead is prefetched: see [`BlockCursor::new`].
    #[inline]
    pub(crate) fn set_fetches_ahead(&mut self, fetches_ahead: bool) {
        self.fetches_ahead = fetches_ahead;
    }

    /// The walk will continue in the block at this address; 0 if that is not known.
    #[inline]
    pub(crate) fn walk_towards(&mut self, address: usize) {
        self.towards = std::ptr::without_provenance(address);
    }

    #[inline(always)]
    pub(crate) fn is_valid(&self) -> bool {
        self.index < self.count
    }

    /// Number of entries of the block; 0 without one.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Position of the entry in the block; [`BlockCursor::count`] if it is on none.
    #[inline(always)]
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    #[inline(always)]
    pub(crate) fn key(&self) -> &[u8] {
        self.key.as_slice()
    }

    #[inline(always)]
    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }

    /// The value of the entry.
    ///
    /// # Safety
    /// See [`BlockCursor`].
    #[inline(always)]
    pub(crate) unsafe fn value(&self) -> &[u8] {
        // SAFETY: the range of a validated entry of a living block.
        unsafe { raw::slice_at(self.base, self.value_at, self.end - self.value_at) }
    }

    /// Eight bytes of the key behind its first `skip`, as [`esker_base::key::head`].
    ///
    /// # Safety
    /// See [`BlockCursor`].
    #[inline(always)]
    pub(crate) unsafe fn head(&self, skip: usize) -> u64 {
        if skip == 0 && self.has_head {
            return self.head;
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.head_of_pieces(skip) }
    }

    /// # Safety
    /// See [`BlockCursor`].
    #[inline]
    unsafe fn head_of_pieces(&self, skip: usize) -> u64 {
        let (base, own_len) = (self.base, self.value_at - self.own_at);
        // SAFETY: own bytes lie in the payload of a living block, which has more than eight bytes behind it;
        // what lies behind `own_len` is masked out.
        unsafe {
            if skip >= self.own_from {
                let skipped = (skip - self.own_from).min(own_len);
                return raw::head_at(base, self.own_at + skipped, own_len - skipped);
            }
            let own = raw::head_at(base, self.own_at, own_len);
            let shared_len = self.own_from - skip;
            let shared = match &self.view {
                Some(LayoutView::Flat(_)) if skip == 0 => self.prefix_head,
                Some(LayoutView::Flat(_)) => {
                    raw::head_at(base, flat_encode::PAYLOAD_HEADER_BYTES + skip, shared_len)
                }
                // The shared bytes are older. The mask hides what was just written: only short keys are worth
                // it.
                _ => esker_base::key::head(&self.key.as_slice()[..self.own_from], skip),
            };
            if shared_len >= 8 { shared } else { shared | own >> (8 * shared_len) }
        }
    }

    /// # Safety
    /// See [`BlockCursor`].
    #[inline]
    pub(crate) unsafe fn move_to_first(&mut self) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.move_to_index(0) }
    }

    /// # Safety
    /// See [`BlockCursor`].
    #[inline]
    pub(crate) unsafe fn move_to_last(&mut self) {
        // SAFETY: guaranteed by the caller; blocks have at least one entry.
        unsafe { self.move_to_index(self.count.wrapping_sub(1)) }
    }

    /// Moves to entry `index`; to no entry if there is none.
    ///
    /// # Safety
    /// See [`BlockCursor`].
    #[inline]
    pub(crate) unsafe fn move_to_index(&mut self, index: usize) {
        if index >= self.count {
            self.index = self.count;
            return;
        }
        // SAFETY: the index is that of an entry.
        unsafe {
            match self.view {
                Some(LayoutView::Flat(flat)) => self.load_flat(&flat, index),
                Some(LayoutView::Delta(delta)) => self.walk_to(&delta, index),
                None => {}
            }
        }
    }

    /// Moves to the following entry; to none at the end.
    ///
    /// # Safety
    /// See [`BlockCursor`].
    #[inline(always)]
    pub(crate) unsafe fn next(&mut self) {
        let index = self.index + 1;
        if index >= self.count {
            self.index = self.count;
            return;
        }
        if let Some(uniform) = self.uniform {
            // SAFETY: the index is that of an entry, and the cursor is on the one before.
            unsafe { self.step(&uniform, index) };
            if self.fetches_ahead {
                self.fetch_ahead();
            }
            return;
        }
        // SAFETY: the index is that of an entry, and the cursor is on the one before.
        unsafe { self.next_general(index) }
    }

    /// # Safety
    /// The block must be alive, `index < count`, and the cursor on the entry before.
    #[inline(never)]
    unsafe fn next_general(&mut self, index: usize) {
        // SAFETY: the index is that of an entry.
        unsafe {
            match &self.view {
                Some(LayoutView::Flat(flat)) => {
                    let flat = *flat;
                    self.load_flat(&flat, index);
                    self.fetch_ahead();
                }
                Some(LayoutView::Delta(delta)) => {
                    let delta = *delta;
                    self.load_delta(&delta, index, self.end);
                }
                None => {}
            }
        }
    }

    /// Prefetches for a forward walk. Hardware streams end with a page, and blocks are hardly longer.
    #[inline(always)]
    fn fetch_ahead(&self) {
        let own = self.base.wrapping_add(AHEAD_BYTES);
        let ahead = if self.towards.is_null() { own } else { self.towards }.wrapping_add(self.end);
        prefetch(ahead);
        prefetch(ahead.wrapping_add(64));
    }

    #[inline(always)]
    fn fetch_behind(&self) {
        let own = self.base.wrapping_sub(AHEAD_BYTES);
        let behind = if self.towards.is_null() { own } else { self.towards }.wrapping_add(self.own_at);
        prefetch(behind);
        prefetch(behind.wrapping_add(64));
    }

    /// Moves to the preceding entry; to none before the first, and from none.
    ///
    /// # Safety
    /// See [`BlockCursor`].
    #[inline(always)]
    pub(crate) unsafe fn prev(&mut self) {
        let index = self.index.wrapping_sub(1);
        // One comparison for both ends: from no entry, the end of the entry before is not known.
        if index >= self.count.wrapping_sub(1) {
            self.index = self.count;
            return;
        }
        if let Some(uniform) = self.uniform {
            // SAFETY: the index is that of an entry, and the cursor is on the one behind it.
            unsafe { self.step_back(&uniform, index) };
            if self.fetches_ahead {
                self.fetch_behind();
            }
            return;
        }
        // SAFETY: as above.
        unsafe { self.prev_general(index) }
    }

    /// # Safety
    /// The block must be alive and `index < count`.
    #[inline(never)]
    unsafe fn prev_general(&mut self, index: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.move_to_index(index) }
        if self.fetches_ahead {
            self.fetch_behind();
        }
    }

    /// Moves to the first entry that is not before the version `newest` of `key`; to none if all are.
    ///
    /// # Safety
    /// See [`BlockCursor`]; the kernel's instructions must be available.
    #[inline(always)]
    pub(crate) unsafe fn seek<K: Kernel>(&mut self, key: &[u8], newest: Tag) {
        self.towards = std::ptr::null();
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.view {
                Some(LayoutView::Flat(flat)) => {
                    let index = flat.lower_bound::<K>(key, newest);
                    if index < self.count {
                        self.load_flat(&flat, index);
                        // Short scans follow: the next entries are likely read.
                        for line in 1..AHEAD_BYTES / 64 {
                            prefetch(self.base.wrapping_add(self.end + 64 * line));
                        }
                    } else {
                        self.index = self.count;
                    }
                }
                Some(LayoutView::Delta(delta)) => self.seek_delta(&delta, key, newest),
                None => {}
            }
        }
    }

    /// # Safety
    /// The block of `flat` must be alive and `index < count`.
    #[inline(always)]
    unsafe fn load_flat(&mut self, flat: &Flat, index: usize) {
        // SAFETY: entry and suffix are those of a validated block; the key buffer holds the prefix since
        // `open`.
        unsafe {
            let entry = flat.entry(index);
            self.index = index;
            self.tag = entry.tag;
            self.own_at = entry.suffix_at;
            self.value_at = entry.value_at();
            self.end = entry.end;
            self.has_head = false;
            self.key.assemble(self.own_from, flat.base().add(entry.suffix_at), entry.suffix_len);
        }
    }

    /// # Safety
    /// The block of `delta` must be alive, `index < count`, entry `index` must start at `at`, and the key
    /// buffer must hold the key before it unless that is a restart point.
    #[inline(always)]
    unsafe fn load_delta(&mut self, delta: &Delta, index: usize, at: usize) {
        // SAFETY: D2; D3 keeps `shared_len` within the key before.
        unsafe {
            let entry = delta.entry(at);
            self.index = index;
            self.tag = entry.tag;
            self.own_from = entry.shared_len;
            self.own_at = entry.unshared_at;
            self.value_at = entry.value_at();
            self.end = entry.end;
            self.key.assemble(entry.shared_len, delta.base().add(entry.unshared_at), entry.unshared_len);
        }
    }

    /// Moves to entry `index` from the restart point before it.
    ///
    /// # Safety
    /// The block of `delta` must be alive and `index < count`.
    unsafe fn walk_to(&mut self, delta: &Delta, index: usize) {
        let restart = index / delta.interval();
        // SAFETY: the restart point of an entry exists; each entry follows the one before.
        unsafe {
            self.load_delta(delta, restart * delta.interval(), delta.restart(restart));
            while self.index < index {
                self.load_delta(delta, self.index + 1, self.end);
            }
        }
    }

    /// # Safety
    /// The block of `delta` must be alive.
    unsafe fn seek_delta(&mut self, delta: &Delta, key: &[u8], newest: Tag) {
        // SAFETY: as in `walk_to`.
        unsafe {
            let restart = delta.restart_before(key, newest);
            self.load_delta(delta, restart * delta.interval(), delta.restart(restart));
            while (self.key(), std::cmp::Reverse(self.tag)) < (key, std::cmp::Reverse(newest)) {
                if self.index + 1 == self.count {
                    self.index = self.count;
                    return;
                }
                self.load_delta(delta, self.index + 1, self.end);
            }
        }
    }

    /// Prefetches what a seek in the block reads after the directory.
    ///
    /// # Safety
    /// The kernel's instructions must be available.
    #[inline(always)]
    pub(crate) unsafe fn prefetch_seek<K: Kernel>(block: &BlockBytes, key: &[u8]) {
        match block.view() {
            // SAFETY: the block is borrowed and validated; the caller has the instructions.
            LayoutView::Flat(flat) => unsafe { flat.prefetch_lower_bound::<K>(key) },
            LayoutView::Delta(delta) => {
                let at = delta_encode::PAYLOAD_HEADER_BYTES;
                prefetch(delta.base().wrapping_add(at));
            }
        }
    }
}
