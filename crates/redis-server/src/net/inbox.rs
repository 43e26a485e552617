//! The inbox of an I/O thread: what other threads hand it, with one wake-up for many messages.

use super::connection::Work;
use super::socket::Socket;
use crate::clients::{Mailbox, Message};
use mio::Waker;
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What an I/O thread gets from other threads.
#[derive(Debug)]
pub(crate) enum Letter {
    /// A new connection.
    Connected(Socket),
    /// A message for a client.
    Message(u64, Message),
    /// What the slow lane has done for the client of this number.
    Executed(u64, Box<Work>),
}

/// The inbox.
pub(crate) struct Inbox {
    letters: Mutex<Vec<Letter>>,
    /// Whether a wake-up is under way, so that no second one is needed.
    is_woken: AtomicBool,
    waker: Waker,
    /// Connections of the thread, so that the next one goes to the thread with the fewest.
    pub(crate) connections: AtomicUsize,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

impl Inbox {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            letters: Mutex::default(),
            is_woken: AtomicBool::new(false),
            waker,
            connections: AtomicUsize::new(0),
        }
    }

    /// Hands a letter over.
    pub(crate) fn send(&self, letter: Letter) {
        self.letters.lock().push(letter);
        self.wake();
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            // It fails only if the thread's poll is gone, and then nothing is left to wake.
            let _result = self.waker.wake();
        }
    }

    /// Takes all letters.
    pub(crate) fn take(&self) -> Vec<Letter> {
        // First the mark, then the letters: one that comes between wakes the thread once more.
        self.is_woken.store(false, Ordering::Release);
        std::mem::take(&mut *self.letters.lock())
    }
}

impl Mailbox for Inbox {
    fn post(&self, client: u64, message: Message) {
        self.send(Letter::Message(client, message));
    }
}
