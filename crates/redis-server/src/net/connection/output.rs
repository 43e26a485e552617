//! Output queue of a connection: replies in the order of their requests, held until what they acknowledge is
//! durable, then sent; and messages of channels between them.

use esker::SeqNo;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Output {
    /// Replies that wait until the device has everything up to these numbers.
    held: VecDeque<(SeqNo, Vec<u8>)>,
    held_bytes: usize,
    /// Replies to send, and how many bytes of the first are sent.
    unsent: VecDeque<Piece>,
    sent_of_first: usize,
    unsent_bytes: usize,
    /// Messages of channels that came while the slow lane had the work.
    deferred: Vec<Arc<[u8]>>,
    deferred_bytes: usize,
}

/// Bytes to send, some of them shared with other clients.
#[derive(Debug)]
enum Piece {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Output {
    /// Adds replies, which are sent once everything up to `needed` is durable, and behind earlier ones.
    pub(super) fn reply(&mut self, bytes: Vec<u8>, needed: Option<SeqNo>) {
        match needed {
            None if self.held.is_empty() => self.queue(Piece::Own(bytes)),
            needed => self.hold(needed.unwrap_or(SeqNo::ZERO), bytes),
        }
    }

    /// Adds a message behind the replies so far.
    pub(super) fn push(&mut self, message: Arc<[u8]>) {
        match self.held.back() {
            Some(&(needed, _)) => self.hold(needed, message.to_vec()),
            None => self.queue(Piece::Shared(message)),
        }
    }

    /// Keeps a message until [`Output::take_deferred`].
    pub(super) fn defer(&mut self, message: Arc<[u8]>) {
        self.deferred_bytes += message.len();
        self.deferred.push(message);
    }

    pub(super) fn take_deferred(&mut self) -> Vec<Arc<[u8]>> {
        self.deferred_bytes = 0;
        std::mem::take(&mut self.deferred)
    }

    fn hold(&mut self, needed: SeqNo, bytes: Vec<u8>) {
        self.held_bytes += bytes.len();
        self.held.push_back((needed, bytes));
    }

    fn queue(&mut self, piece: Piece) {
        self.unsent_bytes += piece.bytes().len();
        self.unsent.push_back(piece);
    }

    /// Lets the replies go that are durable by now; `true` if none is held after that.
    pub(super) fn release(&mut self, durable: impl Fn() -> SeqNo) -> bool {
        while let Some((needed, _)) = self.held.front() {
            if *needed > durable() {
                return false;
            }
            if let Some((_, bytes)) = self.held.pop_front() {
                self.held_bytes -= bytes.len();
                self.queue(Piece::Own(bytes));
            }
        }
        true
    }

    /// The next bytes to send.
    pub(super) fn front(&self) -> Option<&[u8]> {
        self.unsent.front().map(|first| &first.bytes()[self.sent_of_first..])
    }

    /// Notes that the first `count` bytes of [`Output::front`] are sent.
    pub(super) fn note_sent(&mut self, count: usize) {
        self.sent_of_first += count;
        self.unsent_bytes -= count;
        if self.unsent.front().is_some_and(|first| first.bytes().len() == self.sent_of_first) {
            self.unsent.pop_front();
            self.sent_of_first = 0;
        }
    }

    /// Whether replies wait for a flush.
    pub(super) fn holds_replies(&self) -> bool {
        !self.held.is_empty()
    }

    /// Bytes that could be sent now.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    /// All bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.unsent_bytes + self.held_bytes + self.deferred_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends all that may be sent, in pieces of at most `len` bytes.
    fn sent(output: &mut Output, len: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(bytes) = output.front() {
            let count = bytes.len().min(len);
            all.extend_from_slice(&bytes[..count]);
            output.note_sent(count);
        }
        all
    }

    #[test]
    fn nothing_overtakes_a_held_reply() {
        let mut output = Output::default();
        output.reply(b"a".to_vec(), None);
        output.reply(b"bb".to_vec(), Some(SeqNo::new(5)));
        output.reply(b"cc".to_vec(), None);
        output.push(Arc::from(*b"dd"));
        assert_eq!((output.unsent_bytes(), output.bytes()), (1, 7));
        assert!(!output.release(|| SeqNo::new(4)));
        assert_eq!(sent(&mut output, 3), b"a");
        assert!(output.release(|| SeqNo::new(5)));
        assert_eq!(sent(&mut output, 1), b"bbccdd");
        assert_eq!((output.unsent_bytes(), output.bytes()), (0, 0));
    }

    #[test]
    fn deferred_messages_count_until_they_are_taken() {
        let mut output = Output::default();
        output.defer(Arc::from(*b"message"));
        assert_eq!((output.unsent_bytes(), output.bytes(), output.front()), (0, 7, None));
        for message in output.take_deferred() {
            output.push(message);
        }
        assert_eq!(sent(&mut output, 2), b"message");
        assert_eq!(output.bytes(), 0);
    }
}
