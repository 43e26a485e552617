//! Fast path through flat blocks whose key suffixes have one length.
//!
//! A step reads a tag and at most one offset, copies a fixed number of bytes, and has the first word of the
//! key without reading it back. Walks use it ([`BlockCursor::step`]); for one comparison more, merges learn
//! how the entry compares with another source's key ([`BlockCursor::step_towards`]).

use super::super::flat::Flat;
use super::super::tags::TagCoding;
use super::super::{LayoutView, flat_encode, raw};
use super::{BlockCursor, INLINE_KEY_BYTES};
use esker_iter::BoundOrder;

/// Most bytes of a suffix that a step copies at once.
const STEP_BYTES: usize = 32;

/// What a step needs where suffixes have one length and offsets are narrow or absent: an entry starts where
/// the one before ends, so one offset and one tag, or the tag alone, locate all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct UniformKeys {
    offsets: *const u8,
    payload_end: usize,
    /// Bytes of each entry, if all have the same; else 0.
    stride: usize,
    tags: TagCoding,
    pub(super) suffix_len: usize,
    /// Mask of the suffix's bytes in the big-endian word where it starts.
    word_mask: u64,
}

/// Assembly of a key's first word from a shorter prefix and the first bytes of the suffix.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinedHead {
    /// The prefix as a little-endian word, zero-padded.
    prefix: u64,
    /// Bits by which the suffix's word is shifted behind it.
    shift: u32,
    /// Bytes of the suffix in the first word, if it is that long.
    in_first: usize,
    /// Mask of the key's bytes in the big-endian first word.
    head_mask: u64,
}

impl JoinedHead {
    /// For a prefix shorter than a word, and keys of this length.
    #[inline]
    pub(super) fn of(flat: &Flat, key_len: usize) -> Option<JoinedHead> {
        let shift = 8 * flat.prefix_len() as u32;
        // SAFETY: the prefix lies in the payload, which has more than eight bytes behind it.
        let head = unsafe { raw::head_at(flat.base(), flat_encode::PAYLOAD_HEADER_BYTES, flat.prefix_len()) };
        (shift < u64::BITS).then(|| JoinedHead {
            prefix: head.swap_bytes(),
            shift,
            in_first: 8 - flat.prefix_len(),
            head_mask: if key_len >= 8 { u64::MAX } else { !(u64::MAX >> (8 * key_len)) },
        })
    }
}

impl UniformKeys {
    /// For a block that allows the fast path, given that the key buffer is inline.
    #[inline]
    pub(super) fn of(flat: &Flat) -> Option<UniformKeys> {
        let suffix_len = flat.uniform_suffix_len()?;
        let is_short = suffix_len <= STEP_BYTES
            && flat.prefix_len() + STEP_BYTES <= INLINE_KEY_BYTES + raw::COPY_SLACK
            && flat.prefix_len() + suffix_len <= INLINE_KEY_BYTES;
        let (offsets, payload_end) = flat.narrow_offsets();
        let word_mask = if suffix_len >= 8 { u64::MAX } else { !(u64::MAX >> (8 * suffix_len)) };
        let (stride, tags) = (flat.stride(), flat.tags());
        is_short.then_some(UniformKeys { offsets, payload_end, stride, tags, suffix_len, word_mask })
    }
}

impl BlockCursor {
    /// Moves to the following entry if the block allows the fast path and has that entry; else does nothing.
    ///
    /// # Safety
    /// See [`BlockCursor`].
    #[inline(always)]
    pub(crate) unsafe fn next_uniform(&mut self) -> bool {
        let index = self.index + 1;
        match self.uniform {
            Some(uniform) if index < self.count => {
                // SAFETY: the index is that of an entry, and the cursor is on the one before.
                unsafe { self.step(&uniform, index) };
                if self.fetches_ahead {
                    self.fetch_ahead();
                }
                true
            }
            _ => false,
        }
    }

    /// Moves from entry `index - 1` to entry `index`.
    ///
    /// # Safety
    /// The block of `uniform` must be alive, `index < count`, and the cursor on the entry before.
    #[inline(always)]
    pub(super) unsafe fn step(&mut self, uniform: &UniformKeys, index: usize) {
        // The entry starts where the one before ends.
        let at = self.end;
        let end = if uniform.stride != 0 {
            at + uniform.stride
        } else if index + 1 < self.count {
            // SAFETY: the offset read is that of an entry.
            usize::from(unsafe { raw::u16_at(uniform.offsets, 2 * (index + 1)) })
        } else {
            uniform.payload_end
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.set_entry(uniform, index, at, end) }
    }

    /// Moves from entry `index + 1` to entry `index`.
    ///
    /// # Safety
    /// The block of `uniform` must be alive, and the cursor on the entry behind.
    #[inline(always)]
    pub(super) unsafe fn step_back(&mut self, uniform: &UniformKeys, index: usize) {
        // The entry ends where the one after it starts.
        let end = self.own_at - uniform.tags.width();
        let at = if uniform.stride != 0 {
            debug_assert_eq!(
                end,
                uniform.payload_end - uniform.stride * (self.count - index - 1),
                "on the entry behind"
            );
            end - uniform.stride
        } else {
            // SAFETY: the index is that of an entry, whose offset this is.
            usize::from(unsafe { raw::u16_at(uniform.offsets, 2 * index) })
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.set_entry(uniform, index, at, end) }
    }

    /// Makes entry `index`, which starts at `at` and ends at `end`, the current one.
    ///
    /// # Safety
    /// The block of `uniform` must be alive, and `index`, `at` and `end` be those of an entry of it.
    #[inline(always)]
    unsafe fn set_entry(&mut self, uniform: &UniformKeys, index: usize, at: usize, end: usize) {
        // SAFETY: F2 and F3: all of the entry lies in the payload, which has `STEP_BYTES` and eight more
        // bytes behind it, as the key buffer has behind the prefix or the first word.
        unsafe {
            self.end = end;
            self.index = index;
            self.tag = uniform.tags.tag_at(self.base, at);
            self.own_at = at + uniform.tags.width();
            self.value_at = self.own_at + uniform.suffix_len;
            let (from, to) = (self.base.add(self.own_at), self.key.inline.as_mut_ptr());
            if let Some(joined) = &self.joined {
                let first = joined.prefix | raw::u64_at(from, 0) << joined.shift;
                let rest = from.add(joined.in_first).cast::<[u8; STEP_BYTES]>().read();
                to.cast::<[u8; 8]>().write(first.to_le_bytes());
                to.add(8).cast::<[u8; STEP_BYTES]>().write(rest);
                (self.head, self.has_head) = (first.swap_bytes() & joined.head_mask, true);
            } else {
                let suffix = from.cast::<[u8; STEP_BYTES]>().read();
                to.add(self.own_from).cast::<[u8; STEP_BYTES]>().write(suffix);
                // The prefix is at least a word.
                (self.head, self.has_head) = (self.prefix_head, true);
            }
        }
        self.key.len = self.own_from + uniform.suffix_len;
    }

    /// How the entry compares with `bound` in the direction of `BACKWARD`, in a block without two versions of
    /// a key, and the bound for [`BlockCursor::step_towards`]: the word behind the block's prefix, or the
    /// greatest or least word if the whole block lies before or behind it. Unknown where no fast comparison
    /// tells.
    ///
    /// # Safety
    /// See [`BlockCursor`].
    #[inline(always)]
    pub(crate) unsafe fn bound_order<const BACKWARD: bool>(&self, bound: Option<&[u8]>) -> (BoundOrder, u64) {
        let (Some(LayoutView::Flat(flat)), Some(uniform)) = (&self.view, &self.uniform) else {
            return (BoundOrder::Unknown, 0);
        };
        let Some(bound) = bound else {
            return (BoundOrder::Before, if BACKWARD { 0 } else { u64::MAX });
        };
        // SAFETY: the block is alive.
        let prefix = unsafe { flat.prefix() };
        let front = &bound[..prefix.len().min(bound.len())];
        let word = if raw::bytes_equal(front, prefix) {
            esker_base::key::head(bound, prefix.len())
        } else if front > prefix {
            u64::MAX
        } else {
            0
        };
        // SAFETY: guaranteed by the caller.
        (unsafe { self.bound_order_of::<BACKWARD>(uniform, word) }, word)
    }

    /// How the entry compares with a bound word.
    ///
    /// # Safety
    /// The block of `uniform` must be alive and the cursor on an entry of it.
    #[inline(always)]
    unsafe fn bound_order_of<const BACKWARD: bool>(&self, uniform: &UniformKeys, bound: u64) -> BoundOrder {
        // SAFETY: the suffix lies in the payload, which has more than eight bytes behind it.
        let word = unsafe { raw::u64_at(self.base, self.own_at) }.swap_bytes() & uniform.word_mask;
        BoundOrder::of_words::<BACKWARD>(word, bound)
    }

    /// Moves to the next entry in the direction of `BACKWARD` and compares it with a bound that
    /// [`BlockCursor::bound_order`] returned. If the result is unknown, because the block has no such entry,
    /// the cursor has not moved.
    ///
    /// # Safety
    /// See [`BlockCursor`].
    #[inline(always)]
    pub(crate) unsafe fn step_towards<const BACKWARD: bool>(&mut self, bound: u64) -> BoundOrder {
        let index = if BACKWARD { self.index.wrapping_sub(1) } else { self.index + 1 };
        // As in `prev`: from no entry there is no step backwards.
        let limit = if BACKWARD { self.count.wrapping_sub(1) } else { self.count };
        let Some(uniform) = self.uniform.filter(|_| index < limit) else { return BoundOrder::Unknown };
        // SAFETY: the index is that of an entry, and the cursor on the adjacent one.
        unsafe { if BACKWARD { self.step_back(&uniform, index) } else { self.step(&uniform, index) } }
        if self.fetches_ahead {
            if BACKWARD { self.fetch_behind() } else { self.fetch_ahead() }
        }
        // SAFETY: the cursor is on an entry now.
        unsafe { self.bound_order_of::<BACKWARD>(&uniform, bound) }
    }
}
