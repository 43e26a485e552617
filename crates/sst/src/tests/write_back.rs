//! The file writer writes aligned pieces, into space that was allocated ahead, and starts write-back early.

use super::{new_fs, open, options, path};
use crate::file_writer::{MAX_RESERVED_BYTES, MIN_RESERVED_BYTES, PIECE_BYTES, WRITE_BACK_BYTES};
use crate::testing::{Shape, entries};
use crate::{TableOptions, TableWriter};
use esker_base::{Error, Result};
use esker_codec::Codec;
use esker_env::{File, FileSystem, FileWrapper, OpenMode, SeededRandom};
use parking_lot::Mutex;
use std::sync::Arc;

/// A file that checks the order of its calls.
#[derive(Debug)]
struct Sent {
    file: Arc<dyn File>,
    state: Mutex<State>,
    reserving: Reserving,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Reserving {
    #[default]
    Granted,
    Unknown,
    Failing,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    written: u64,
    sent: u64,
    /// Bytes without write-back when the file was synced.
    left: Option<u64>,
    /// Writes so far that did not begin or end at a multiple of the piece.
    unaligned: u64,
    longest: u64,
    /// End of the allocation, number of allocations, and whether the unused rest was released.
    reserved: u64,
    asked: u64,
    is_trimmed: bool,
}

impl FileWrapper for Sent {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut state = self.state.lock();
        assert!(offset >= state.sent, "{offset} is written again after it was sent: {state:?}");
        let piece = PIECE_BYTES as u64;
        let is_whole = offset.is_multiple_of(piece) && (bytes.len() as u64).is_multiple_of(piece);
        state.unaligned += u64::from(!is_whole);
        state.longest = state.longest.max(bytes.len() as u64);
        state.written = state.written.max(offset + bytes.len() as u64);
        self.file.write_at(bytes, offset)
    }

    fn begin_write_back(&self, offset: u64, len: u64) {
        let mut state = self.state.lock();
        assert_eq!(offset, state.sent, "in order and without gaps");
        state.sent += len;
        assert!(len >= WRITE_BACK_BYTES, "{len} bytes are not worth a call");
        assert!(state.sent <= state.written, "sent before it is written: {state:?}");
        self.file.begin_write_back(offset, len);
    }

    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> Result<bool> {
        let mut state = self.state.lock();
        state.asked += 1;
        match self.reserving {
            Reserving::Unknown => return Ok(false),
            Reserving::Failing => return Err(Error::Closed),
            Reserving::Granted => {}
        }
        assert!(keep_len, "the length tells how much is written");
        assert_eq!(offset, state.reserved, "in order and without gaps");
        let ahead = (state.written / 8).clamp(MIN_RESERVED_BYTES, MAX_RESERVED_BYTES);
        let most = state.written + WRITE_BACK_BYTES + ahead;
        assert!(offset + len <= most, "{len} bytes at {offset} reserved for {state:?}");
        state.reserved += len;
        self.file.allocate(offset, len, keep_len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.state.lock();
        assert_eq!(
            (len, state.left),
            (state.written, None),
            "nothing but what is reserved goes, before the sync"
        );
        state.is_trimmed = true;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.left = Some(state.written - state.sent);
        self.file.sync_data()
    }
}

/// Writes a table of some pieces; returns the calls, its length, and the space allocated.
fn write(reserving: Reserving) -> (State, u64, u64) {
    let fs = new_fs();
    let file = fs.open(path(), OpenMode::CreateNew).unwrap();
    let file = Arc::new(Sent { file, state: Mutex::default(), reserving });
    let uncompressed = TableOptions { codec: Codec::None, ..options() };
    let mut writer = TableWriter::new(Arc::clone(&file) as _, uncompressed).unwrap();
    let entries = entries(Shape::Random, 60_000, 0, &SeededRandom::new(5));
    for entry in &entries {
        writer.add(&entry.key, entry.tag, &[7; 100]).unwrap();
    }
    let bytes = writer.finish().unwrap().file_bytes;
    assert_eq!(open(&fs, 100_000).properties().entries, entries.len() as u64);
    let state = *file.state.lock();
    (state, bytes, fs.used_bytes())
}

#[test]
fn little_is_left_for_the_sync() {
    let (state, bytes, _) = write(Reserving::Granted);
    assert!(bytes > 4 * WRITE_BACK_BYTES, "{bytes}");
    assert_eq!(state.written, bytes);
    assert!(state.left.is_some_and(|left| left < WRITE_BACK_BYTES), "{state:?}");
}

#[test]
fn all_but_the_end_goes_in_whole_pieces() {
    let (state, _, _) = write(Reserving::Granted);
    assert!(state.unaligned <= 1, "{state:?}");
}

/// OG4: a filter of a mebibyte is not copied together with what precedes it.
#[test]
fn a_long_end_goes_in_pieces_as_well() {
    let fs = new_fs();
    let file = fs.open(path(), OpenMode::CreateNew).unwrap();
    let file = Arc::new(Sent { file, state: Mutex::default(), reserving: Reserving::Granted });
    let mut writer = TableWriter::new(Arc::clone(&file) as _, options()).unwrap();
    for entry in entries(Shape::Random, 1000, 0, &SeededRandom::new(5)) {
        writer.add(&entry.key, entry.tag, &[7; 100]).unwrap();
    }
    (0..1_000_000u64).for_each(|hash| writer.add_to_filter(hash << 32));
    let bytes = writer.finish().unwrap().file_bytes;
    assert!(open(&fs, 100_000).filter().is_some_and(|filter| filter.memory_bytes() > 1 << 20));
    let state = *file.state.lock();
    assert_eq!((state.written, state.longest), (bytes, PIECE_BYTES as u64));
    assert!(state.unaligned <= 1, "{state:?}");
}

#[test]
fn unused_reservation_is_released() {
    let (state, bytes, used_bytes) = write(Reserving::Granted);
    assert!(state.reserved > bytes && state.is_trimmed, "{state:?}");
    assert!(state.asked < 10, "{state:?}");
    assert!(used_bytes < bytes + (64 << 10), "{used_bytes} for {bytes}");
}

#[test]
fn reservation_is_not_retried_after_a_refusal() {
    let granted = write(Reserving::Granted);
    for reserving in [Reserving::Unknown, Reserving::Failing] {
        let (state, bytes, _) = write(reserving);
        assert_eq!((state.asked, state.is_trimmed), (1, false), "{reserving:?}");
        assert_eq!(bytes, granted.1);
    }
}
