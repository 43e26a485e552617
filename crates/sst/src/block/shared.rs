//! Reference-counted blocks in memory of their own: what the cache holds, slots point to and values pin.
//!
//! Count, header fields and bytes are one allocation, so a lookup with the block's address touches nothing
//! before the directory. The memory comes from [`esker_env::slabs`], in huge pages once there is much of it;
//! an `Arc` would use the global allocator only.
//!
//! # Invariants
//! * BR1. Each [`BlockRef`] owns one count, and a slot as many as its reserve says ([`crate::slots`]);
//!   releasing the last count frees the block.
//! * BR2. A count is released after the last access through it, and the block is freed after all of them: the
//!   decrement has release ordering, and freeing acquires.
//! * BR3. `bytes` has [`BlockBytes::memory_len`] of the header's raw length, so the address determines the
//!   length.

use super::header::RAW_LEN_AT;
use super::{BlockBytes, BlockHeader, check, raw};
use crate::decode_error::{DecodeError, damaged};
use crate::simd::prefetch;
use crate::slots::Pointer;
use crate::table_slots::TableSlots;
use esker_cache::Charge;
use esker_env::slabs::{self, Origin};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// A block with its reference count.
///
/// Block sizes vary, so the directories of blocks do not all map to the same sets of the first-level cache,
/// as they would at strides of 4096 bytes.
#[repr(C)]
pub struct Block {
    count: AtomicUsize,
    /// The slots of its table, one of which may point to the block.
    slots: Weak<TableSlots<BlockRef>>,
    /// Whether a lookup used it through its slot, unknown to the cache.
    used: AtomicBool,
    resident: AtomicBool,
    origin: Origin,
    bytes: BlockBytes,
}

/// Where [`Block::bytes`] starts.
const BYTES_AT: usize = size_of::<AtomicUsize>() + size_of::<Weak<TableSlots<BlockRef>>>() + 3;

const _: () = assert!(align_of::<AtomicUsize>() <= slabs::PIECE_ALIGNMENT_BYTES);

/// More references than this are a leak that is about to overflow the count.
const MAX_REFERENCES: usize = isize::MAX as usize;

/// A counted reference to a [`Block`].
pub struct BlockRef(NonNull<Block>);

// SAFETY: blocks are immutable but for atomics, and their count is atomic.
unsafe impl Send for BlockRef {}
// SAFETY: as above.
unsafe impl Sync for BlockRef {}

/// Memory for a block that is to be filled and validated.
pub(crate) struct BlockBuffer {
    /// [`BYTES_AT`] bytes for the fields, then `len` bytes, then padding.
    piece: NonNull<u8>,
    origin: Origin,
    len: usize,
}

// SAFETY: the buffer is the only owner of its memory.
unsafe impl Send for BlockBuffer {}
// SAFETY: as above.
unsafe impl Sync for BlockBuffer {}

/// Bytes of the allocation of a block with `len` bytes after the fields: its `size_of_val`.
fn piece_len(len: usize) -> usize {
    (BYTES_AT + len).next_multiple_of(align_of::<AtomicUsize>())
}

impl BlockBuffer {
    /// Memory for a block whose payload has `raw_len` bytes; its content is arbitrary.
    pub(crate) fn new(raw_len: usize) -> BlockBuffer {
        let len = BlockBytes::memory_len(raw_len);
        let (piece, origin) = slabs::allocate(piece_len(len));
        BlockBuffer { piece, origin, len }
    }

    /// The bytes to fill: header, payload and slack.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `new` allocated `len` initialised bytes behind the fields, and no other pointer to them
        // exists.
        unsafe { std::slice::from_raw_parts_mut(self.piece.as_ptr().add(BYTES_AT), self.len) }
    }

    /// The block, if its header and payload are valid and the header states the length that the buffer was
    /// made for. The checksum has been verified before.
    pub(crate) fn finish(mut self, slots: Weak<TableSlots<BlockRef>>) -> Result<BlockRef, DecodeError> {
        let (len, header) = (self.len, check(self.bytes_mut())?);
        if len != BlockBytes::memory_len(header.raw_len as usize) {
            return damaged(format!("a block of {} bytes does not fit its memory", header.raw_len));
        }
        let (piece, origin) = (self.piece, self.origin);
        std::mem::forget(self);
        // SAFETY: no other pointer to the piece exists. It has `BYTES_AT` bytes for the fields, is aligned
        // for them, and they are written here; its bytes were validated.
        unsafe {
            let block = pointer(piece, len);
            (&raw mut (*block.as_ptr()).count).write(AtomicUsize::new(1));
            (&raw mut (*block.as_ptr()).slots).write(slots);
            (&raw mut (*block.as_ptr()).used).write(AtomicBool::new(false));
            (&raw mut (*block.as_ptr()).resident).write(AtomicBool::new(false));
            (&raw mut (*block.as_ptr()).origin).write(origin);
            Ok(BlockRef(block))
        }
    }
}

impl Drop for BlockBuffer {
    fn drop(&mut self) {
        // SAFETY: the piece was allocated with this length, and no block was made of it.
        unsafe { slabs::free(self.piece, piece_len(self.len), self.origin) };
    }
}

#[inline(always)]
fn pointer(piece: NonNull<u8>, len: usize) -> NonNull<Block> {
    let block = std::ptr::slice_from_raw_parts_mut(piece.as_ptr(), len) as *mut Block;
    // SAFETY: `block` has the address of `piece`, which is not null.
    unsafe { NonNull::new_unchecked(block) }
}

impl BlockRef {
    /// The address, for [`BlockRef::from_address`].
    pub(crate) fn exposed_address(&self) -> usize {
        self.0.cast::<u8>().as_ptr().expose_provenance()
    }

    /// Adds counts, for the holder of the address.
    #[inline(always)]
    pub(crate) fn add_counts(&self, counts: usize) {
        // Relaxed: the caller has a count already, so it sees the block.
        if self.count.fetch_add(counts, Ordering::Relaxed) > MAX_REFERENCES {
            std::process::abort();
        }
    }

    /// Releases so many counts of the block with this address.
    ///
    /// # Safety
    /// The address must come from [`BlockRef::exposed_address`], and the caller must own the counts and not
    /// use them again.
    pub(crate) unsafe fn release_counts(address: usize, counts: usize) {
        // SAFETY: the caller owns the counts, so the block is alive; `ManuallyDrop` leaves their release to
        // the subtraction below.
        let block = unsafe { ManuallyDrop::new(BlockRef::from_address(address)) };
        if block.count.fetch_sub(counts, Ordering::Release) == counts {
            // SAFETY: those were the last counts (BR1).
            unsafe { free_block(block.0) };
        }
    }

    /// A reference that owns a count which was added for the holder of the address.
    ///
    /// # Safety
    /// The address must come from [`BlockRef::exposed_address`], and each count be made a reference of once.
    #[inline(always)]
    pub(crate) unsafe fn from_address(address: usize) -> BlockRef {
        // SAFETY: the address is that of a block, which the count keeps alive and whose bytes start with a
        // header (BR3).
        unsafe {
            let piece = NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut::<u8>(address));
            let raw_len = raw::u32_at(piece.as_ptr(), BYTES_AT + RAW_LEN_AT);
            BlockRef(pointer(piece, BlockBytes::memory_len(raw_len as usize)))
        }
    }
}

impl Deref for BlockRef {
    type Target = Block;

    #[inline(always)]
    fn deref(&self) -> &Block {
        // SAFETY: BR1: the reference's count keeps the block alive.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for BlockRef {
    #[inline(always)]
    fn clone(&self) -> BlockRef {
        self.add_counts(1);
        BlockRef(self.0)
    }
}

impl Drop for BlockRef {
    #[inline(always)]
    fn drop(&mut self) {
        if self.count.fetch_sub(1, Ordering::Release) == 1 {
            // SAFETY: that was the last count (BR1).
            unsafe { free_block(self.0) };
        }
    }
}

/// Frees a block.
///
/// # Safety
/// All its counts must have been released.
#[cold]
#[inline(never)]
unsafe fn free_block(block: NonNull<Block>) {
    // BR2: all accesses by other threads happened before.
    fence(Ordering::Acquire);
    // SAFETY: no count is left, so no other thread accesses the block. Of its fields only `slots` needs
    // dropping.
    unsafe {
        let (len, origin) = (size_of_val(block.as_ref()), block.as_ref().origin);
        (&raw mut (*block.as_ptr()).slots).drop_in_place();
        slabs::free(block.cast::<u8>(), len, origin);
    }
}

impl Block {
    #[inline]
    pub(crate) fn is_resident(&self) -> bool {
        self.resident.load(Ordering::Relaxed)
    }

    /// Records that a lookup used the block through its slot.
    #[inline(always)]
    pub(crate) fn mark_used(&self) {
        // Stored only if it changes, so that a hot block's line is rarely written.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// The block's header.
    pub fn header(&self) -> BlockHeader {
        self.bytes.header()
    }

    #[inline(always)]
    pub(crate) fn contents(&self) -> &BlockBytes {
        &self.bytes
    }

    /// Bytes of memory that a block with a payload of `raw_len` bytes takes.
    pub(crate) fn memory_bytes_of(raw_len: usize) -> usize {
        piece_len(BlockBytes::memory_len(raw_len))
    }

    /// Bytes of memory that the block takes.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(self)
    }
}

// SAFETY: the address of a block is that of a slab piece, which is not 0 and not reused while a count exists;
// a count keeps the block alive, and blocks may be shared among threads.
unsafe impl Pointer for BlockRef {
    #[inline]
    fn address(&self) -> usize {
        self.exposed_address()
    }

    unsafe fn add_counts(address: usize, counts: usize) {
        // SAFETY: the caller owns a count, so the block is alive. `ManuallyDrop` keeps the temporary
        // reference from releasing the caller's count.
        unsafe { ManuallyDrop::new(BlockRef::from_address(address)).add_counts(counts) };
    }

    #[inline(always)]
    unsafe fn from_count(address: usize) -> BlockRef {
        // SAFETY: the caller owns the count and gives it up here.
        unsafe { BlockRef::from_address(address) }
    }

    unsafe fn release_counts(address: usize, counts: usize) {
        // SAFETY: the caller owns the counts and gives them up here.
        unsafe { BlockRef::release_counts(address, counts) };
    }
}

impl Charge for Block {
    fn charge_bytes(&self) -> usize {
        self.memory_bytes()
    }

    fn entered(&self) {
        self.resident.store(true, Ordering::Relaxed);
    }

    fn left(&self) {
        self.resident.store(false, Ordering::Relaxed);
        if let Some(slots) = self.slots.upgrade() {
            slots.empty(self.header().number as usize, std::ptr::from_ref(self).addr());
        }
    }

    #[inline]
    fn prefetch(&self) {
        prefetch(std::ptr::from_ref(self).cast::<u8>());
    }

    fn take_use(&self) -> bool {
        self.is_used() && self.used.swap(false, Ordering::Relaxed)
    }

    #[inline]
    fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Block").field(&self.header()).finish()
    }
}

impl std::fmt::Debug for BlockRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::staged::{LayoutOptions, Staged};
    use super::super::{BlockLayout, Compression, Scratch, append_image};
    use super::*;
    use esker_base::{SeqNo, Tag};
    use esker_codec::Codec;
    use std::sync::Arc;

    /// A block of some entries. It holds a weak reference to the slots, which tests count.
    fn block(slots: &Arc<TableSlots<BlockRef>>, entries: u32) -> BlockRef {
        let mut staged = Staged::new(LayoutOptions::Flat);
        for at in 0..entries {
            staged.add(&at.to_be_bytes(), u64::from(at), Tag::visible_at(SeqNo::new(7)), &[at as u8; 100], 0);
        }
        let raw = Compression { codec: Codec::None, dictionary: None };
        let mut image = Vec::new();
        let scratch = &mut Scratch::default();
        let header = append_image(&mut staged, BlockLayout::Flat, 0, &raw, scratch, &mut image);
        let mut buffer = BlockBuffer::new(header.raw_len as usize);
        buffer.bytes_mut()[..image.len()].copy_from_slice(&image);
        buffer.finish(Arc::downgrade(slots)).expect("what was just encoded")
    }

    #[test]
    fn the_last_reference_frees_the_block_and_its_reference_to_the_slots() {
        let slots = TableSlots::new();
        let first = block(&slots, 30);
        assert_eq!(Arc::weak_count(&slots), 1);
        let second = first.clone();
        let address = first.exposed_address();
        first.add_counts(3);
        drop(first);
        // SAFETY: the three added counts are owned here: two are released, one becomes a reference.
        let first = unsafe {
            BlockRef::release_counts(address, 2);
            BlockRef::from_address(address)
        };
        assert_eq!((first.header(), first.memory_bytes()), (second.header(), second.memory_bytes()));
        assert!(std::ptr::eq(&raw const *first, &raw const *second), "address and length");
        drop(first);
        assert_eq!(Arc::weak_count(&slots), 1, "one reference is left");
        drop(second);
        assert_eq!(Arc::weak_count(&slots), 0);
    }

    #[test]
    fn references_come_and_go_on_all_threads() {
        let slots = TableSlots::new();
        let first = block(&slots, 30);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let own = first.clone();
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        assert_eq!(own.clone().header().entries, 30);
                    }
                });
            }
        });
        assert_eq!(first.count.load(Ordering::Relaxed), 1);
        drop(first);
        assert_eq!(Arc::weak_count(&slots), 0);
    }
}
