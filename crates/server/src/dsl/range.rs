//! The answer to `r A B`: pairs of one snapshot, in pieces.

use super::execute::{Executor, Progress, is_full};
use esker::{Keyspace, Snapshot};
use esker_protocol::{Layout, Scalar, answer};

/// A range in progress. Between two pieces it holds the snapshot and a key. Each piece seeks anew, which
/// costs little beside 64 KiB of pairs, and pins nothing while the client reads slowly.
#[derive(Debug)]
pub(super) struct Range {
    keyspace: Keyspace,
    layout: Layout,
    snapshot: Snapshot,
    next: Vec<u8>,
    end: Vec<u8>,
    /// A pair of the answer was sent.
    begun: bool,
}

impl Range {
    pub(super) fn new(executor: &Executor, start: &Scalar, end: &Scalar) -> Range {
        let (keyspace, layout) = executor.keyspace(start.kind());
        Range {
            keyspace: keyspace.clone(),
            layout,
            snapshot: executor.database().snapshot(),
            next: layout.key_bytes(start.borrowed()),
            end: layout.key_bytes(end.borrowed()),
            begun: false,
        }
    }

    pub(super) fn advance(&mut self, out: &mut Vec<u8>) -> Progress {
        let before = out.len();
        match self.piece(out) {
            Ok(true) => {
                answer::end_of_line(out);
                Progress::Finished
            }
            Ok(false) => {
                self.begun = true;
                Progress::More
            }
            Err(error) if self.begun => Progress::Broken(error),
            Err(error) => {
                out.truncate(before);
                answer::error(error, out);
                Progress::Finished
            }
        }
    }

    /// Appends pairs; returns whether the range is complete.
    fn piece(&mut self, out: &mut Vec<u8>) -> esker::Result<bool> {
        let mut cursor = self.keyspace.at(&self.snapshot).cursor()?;
        cursor.seek(&self.next)?;
        let mut separator = self.begun;
        while let Some((key, value)) = cursor.entry() {
            if key >= self.end.as_slice() {
                return Ok(true);
            }
            if is_full(out) {
                self.next = key.to_vec();
                return Ok(false);
            }
            if std::mem::replace(&mut separator, true) {
                out.push(b' ');
            }
            answer::pair(self.layout.key(key), self.layout.value(value), out);
            cursor.advance()?;
        }
        Ok(true)
    }
}
