//! What a writer has written goes to the device while it writes on.

use super::{new_fs, options, path};
use crate::testing::{Shape, entries};
use crate::writer::WRITE_BACK_BYTES;
use crate::{TableOptions, TableWriter};
use esker_base::Result;
use esker_codec::Codec;
use esker_env::{File, FileOver, FileSystem, OpenMode, SeededRandom};
use parking_lot::Mutex;
use std::sync::Arc;

/// A file that checks the order of what happens to it.
#[derive(Debug)]
struct Sent {
    file: Arc<dyn File>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    written: u64,
    sent: u64,
    /// Bytes that were left to send when the file was synced.
    left: Option<u64>,
}

impl FileOver for Sent {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut state = self.state.lock();
        assert!(offset >= state.sent, "{offset} is written again after it was sent: {state:?}");
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

    fn sync_data(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.left = Some(state.written - state.sent);
        self.file.sync_data()
    }
}

#[test]
fn little_is_left_for_the_sync() {
    let file = new_fs().open(path(), OpenMode::CreateNew).unwrap();
    let file = Arc::new(Sent { file, state: Mutex::default() });
    let uncompressed = TableOptions { codec: Codec::None, ..options() };
    let mut writer = TableWriter::new(Arc::clone(&file) as _, uncompressed).unwrap();
    for entry in entries(Shape::Random, 60_000, 0, &SeededRandom::new(5)) {
        writer.add(&entry.key, entry.tag, &[7; 100]).unwrap();
    }
    let bytes = writer.finish().unwrap().file_bytes;
    assert!(bytes > 4 * WRITE_BACK_BYTES, "{bytes}");
    let state = *file.state.lock();
    assert_eq!(state.written, bytes);
    assert!(state.left.is_some_and(|left| left < WRITE_BACK_BYTES), "{state:?}");
}
