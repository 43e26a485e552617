//! Window buffers: memory for the windows of a walk (`read_ahead`), which each thread keeps from walk to
//! walk.
//!
//! A short scan beyond the cache reads a few windows and frees their memory soon after. Allocated anew, it is
//! cleared before it is read into, and what the allocator has returned to the system is touched for the first
//! time again, page by page: together as much as the read itself.
//!
//! * WN1. A thread keeps one buffer at most, of [`KEPT_BYTES`] at most, and only while no walk uses it.

use crate::block::SLACK_BYTES;
use esker_base::{large_buffer, with_thread_buffer};
use std::cell::RefCell;
use std::ops::Range;

/// Most bytes of one read of a scan, unless a block is larger. Two of them, and the block that is decoded,
/// fit half of a second-level cache of a mebibyte, so what the kernel has copied is still cached when it is
/// decoded.
pub(crate) const MAX_SCAN_WINDOW_BYTES: u64 = 128 << 10;
/// Most bytes of a buffer that a thread keeps: the largest window of a scan whose blocks are of usual size.
const KEPT_BYTES: usize = MAX_SCAN_WINDOW_BYTES as usize + SLACK_BYTES;

thread_local! {
    static KEPT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Memory for one window.
#[derive(Debug, Default)]
pub(crate) struct WindowBuffer {
    bytes: Vec<u8>,
}

impl WindowBuffer {
    /// The window that a read has filled, with [`SLACK_BYTES`] behind it.
    pub(crate) fn of(mut bytes: Vec<u8>) -> WindowBuffer {
        bytes.resize(bytes.len() + SLACK_BYTES, 0);
        WindowBuffer { bytes }
    }

    /// The memory for a window of `len` bytes, whatever it held; behind it [`SLACK_BYTES`] can be read.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        let needed = len + SLACK_BYTES;
        if self.bytes.capacity() == 0 {
            self.bytes = with_thread_buffer(&KEPT, Vec::new, std::mem::take);
        }
        // A buffer is replaced instead of grown, which would copy it, and when a usual window follows a large
        // block.
        let is_too_large = self.bytes.capacity() > KEPT_BYTES && needed <= KEPT_BYTES;
        if self.bytes.capacity() < needed || is_too_large {
            self.bytes = Vec::new();
        }
        if self.bytes.len() < needed {
            large_buffer::resize(&mut self.bytes, needed);
        }
        &mut self.bytes[..len]
    }

    /// The memory as a vector of `len` bytes, with room for [`SLACK_BYTES`] more.
    pub(crate) fn into_request(mut self, len: usize) -> Vec<u8> {
        self.room(len);
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(len);
        bytes
    }

    /// Bytes of it, which must have been made room for.
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

impl Drop for WindowBuffer {
    #[inline]
    fn drop(&mut self) {
        if self.bytes.capacity() > 0 {
            keep(std::mem::take(&mut self.bytes));
        }
    }
}

/// Keeps the buffer for this thread, if it has no larger one (WN1).
#[cold]
#[inline(never)]
fn keep(bytes: Vec<u8>) {
    if bytes.capacity() > KEPT_BYTES {
        return;
    }
    let mut bytes = bytes;
    with_thread_buffer(&KEPT, Vec::new, |kept| {
        if kept.capacity() < bytes.capacity() {
            std::mem::swap(kept, &mut bytes);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_bytes() -> usize {
        with_thread_buffer(&KEPT, Vec::new, |kept| kept.capacity())
    }

    #[test]
    fn a_thread_keeps_the_largest_buffer_of_usual_size() {
        let mut first = WindowBuffer::default();
        first.room(8_000).fill(1);
        let address = first.room(8_000).as_ptr();
        assert_eq!(kept_bytes(), 0, "a walk uses it");
        let mut second = WindowBuffer::default();
        assert_ne!(second.room(4_000).as_ptr(), address, "two walks at once have a buffer each");
        drop(first);
        let kept = kept_bytes();
        assert!((8_000 + SLACK_BYTES..=KEPT_BYTES).contains(&kept), "{kept}");
        drop(second);
        assert_eq!(kept_bytes(), kept, "the smaller one goes");
        let mut third = WindowBuffer::default();
        assert_eq!(third.room(100).as_ptr(), address);
        assert_eq!(third.slice(0..100 + SLACK_BYTES).len(), 100 + SLACK_BYTES);
    }

    #[test]
    fn a_large_block_leaves_nothing_behind() {
        let mut buffer = WindowBuffer::default();
        assert_eq!(buffer.room(3 << 20).len(), 3 << 20);
        drop(buffer);
        assert_eq!(kept_bytes(), 0);
        let mut buffer = WindowBuffer::default();
        buffer.room(3 << 20);
        buffer.room(9_000);
        assert!(buffer.capacity() <= KEPT_BYTES, "{} bytes for a usual window", buffer.capacity());
    }

    #[test]
    fn a_request_has_the_length_of_the_window_and_room_for_the_slack() {
        let mut buffer = WindowBuffer::default();
        buffer.room(KEPT_BYTES - SLACK_BYTES);
        let request = buffer.into_request(70_000);
        assert!(request.len() == 70_000 && request.capacity() >= 70_000 + SLACK_BYTES);
        let address = request.as_ptr();
        let read = WindowBuffer::of(request);
        let image = read.slice(0..70_000 + SLACK_BYTES);
        assert_eq!(image.as_ptr(), address, "what was read stays where it is");
    }
}
