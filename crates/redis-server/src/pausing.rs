//! CLIENT PAUSE: until when commands are held back, and which clients wait for the end of that.
//!
//! What holds:
//! * PZ1. A pause begins under the stripes of all keys, and every command asks under the stripes of its own
//!   keys whether it is held back. So once CLIENT PAUSE is answered, nothing changes a key that it holds.
//! * PZ2. A client is listed under the lock under which a pause ends, so none waits for one that is over.

use crate::clients::{Client, Message};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Which commands a pause holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    /// Those that may change data or send messages.
    Writes,
    /// All.
    All,
}

/// What CLIENT PAUSE and CLIENT UNPAUSE do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PauseChange {
    /// Commands are held back until a time in milliseconds since 1970.
    Begin { until_ms: u64, held: Held },
    /// No command is held back any more.
    End,
}

/// The present pause as one number: twice its last millisecond, plus one if it holds all commands back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    until_ms: u64,
    held: Held,
}

impl Pause {
    /// Later times are this one, which does not come.
    const LATEST_MS: u64 = u64::MAX >> 1;

    fn from_word(word: u64) -> Self {
        Self { until_ms: word >> 1, held: if word & 1 == 1 { Held::All } else { Held::Writes } }
    }

    fn word(self) -> u64 {
        (self.until_ms.min(Self::LATEST_MS) << 1) | u64::from(self.held == Held::All)
    }
}

/// Clients whose commands are held back, in the order in which they came.
#[derive(Debug, Default)]
struct PausedLine {
    last_ticket: u64,
    by_ticket: BTreeMap<u64, Arc<Client>>,
    tickets: BTreeMap<u64, u64>,
}

/// The pause of a server.
#[derive(Debug, Default)]
pub(crate) struct Pausing {
    /// [`Pause::word`]; zero if there is none. One that is over may stand here still.
    word: AtomicU64,
    /// Clients in the line.
    count: AtomicUsize,
    line: Mutex<PausedLine>,
}

impl Pausing {
    /// Whether there may be a pause.
    pub(crate) fn is_used(&self) -> bool {
        self.word.load(Ordering::Acquire) != 0
    }

    /// What is held back at this time.
    fn at(&self, now_ms: u64) -> Option<Held> {
        let word = self.word.load(Ordering::Acquire);
        let pause = Pause::from_word(word);
        (word != 0 && now_ms <= pause.until_ms).then_some(pause.held)
    }

    /// Whether data stand still: commands that may change some are held back.
    pub(crate) fn is_on(&self, now_ms: u64) -> bool {
        self.at(now_ms).is_some()
    }

    /// Clients whose commands are held back.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Begins or ends a pause. One that begins while another holds lasts until the later of their ends and
    /// holds back what either does. The caller of `Begin` has the stripes of all keys. `tell` gets the
    /// time until which data stand still, zero if they do not, before another change comes.
    pub(crate) fn change(&self, change: PauseChange, now_ms: u64, tell: impl FnOnce(u64)) {
        let mut line = self.line.lock();
        let before = self.at(now_ms).map(|_| Pause::from_word(self.word.load(Ordering::Acquire)));
        let after = match (change, before) {
            (PauseChange::End, _) => None,
            (PauseChange::Begin { until_ms, held }, None) => Some(Pause { until_ms, held }),
            (PauseChange::Begin { until_ms, held }, Some(before)) => {
                Some(Pause { until_ms: until_ms.max(before.until_ms), held: held.max(before.held) })
            }
        };
        let after = after.filter(|pause| pause.until_ms >= now_ms);
        self.word.store(after.map_or(0, Pause::word), Ordering::Release);
        if before.is_none() || after.is_none() {
            self.release(&mut line);
        }
        tell(after.map_or(0, |pause| pause.until_ms));
    }

    /// Lets the clients of a pause that is over go on.
    pub(crate) fn end_if_over(&self, now_ms: u64) {
        if self.count() > 0 && !self.is_on(now_ms) {
            let mut line = self.line.lock();
            if !self.is_on(now_ms) {
                self.release(&mut line);
            }
        }
    }

    fn release(&self, line: &mut PausedLine) {
        for client in std::mem::take(&mut *line).by_ticket.into_values() {
            client.post(Message::PauseOver);
        }
        self.count.store(0, Ordering::Release);
    }

    /// Whether a client's command is held back. Then the client is in the line afterwards, unless it is gone.
    pub(crate) fn hold_back(&self, client: Option<&Arc<Client>>, may_write: bool, now_ms: u64) -> bool {
        let mut line = self.line.lock();
        let is_held = match self.at(now_ms) {
            None => false,
            Some(Held::All) => true,
            Some(Held::Writes) => may_write,
        };
        // A client is marked as gone before it is taken out of the line, so that one of the two sees the
        // other.
        if let Some(client) = client.filter(|client| is_held && !client.is_gone())
            && !line.tickets.contains_key(&client.id)
        {
            line.last_ticket += 1;
            let ticket = line.last_ticket;
            line.by_ticket.insert(ticket, Arc::clone(client));
            line.tickets.insert(client.id, ticket);
            self.count.store(line.by_ticket.len(), Ordering::Release);
        }
        is_held
    }

    /// Whether a client is in the line.
    pub(crate) fn is_waiting(&self, client: u64) -> bool {
        self.count() > 0 && self.line.lock().tickets.contains_key(&client)
    }

    /// Takes a client out of the line that is gone.
    pub(crate) fn remove(&self, client: u64) {
        let mut line = self.line.lock();
        if let Some(ticket) = line.tickets.remove(&client) {
            line.by_ticket.remove(&ticket);
            self.count.store(line.by_ticket.len(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Held, PauseChange, Pausing};

    #[test]
    fn pauses_add_up_until_one_is_over() {
        let pausing = Pausing::default();
        let told = |change, now_ms| {
            let mut told = 1;
            pausing.change(change, now_ms, |until_ms| told = until_ms);
            told
        };
        let begin = |until_ms, held, now_ms| told(PauseChange::Begin { until_ms, held }, now_ms);
        assert_eq!(begin(99, Held::All, 100), 0, "its end is past");
        assert_eq!(pausing.at(100), None);
        assert_eq!(begin(200, Held::Writes, 100), 200);
        assert_eq!((pausing.at(200), pausing.at(201)), (Some(Held::Writes), None));
        assert_eq!(begin(0, Held::All, 150), 200, "more is held back, not for longer");
        assert_eq!(pausing.at(200), Some(Held::All));
        assert_eq!(begin(300, Held::Writes, 201), 300, "the former pause is over");
        assert_eq!(pausing.at(250), Some(Held::Writes));
        assert_eq!(begin(u64::MAX, Held::Writes, 250), u64::MAX);
        assert!(pausing.is_on(u64::MAX >> 1));
        assert_eq!(told(PauseChange::End, 250), 0);
        assert!(!pausing.is_used());
    }

    #[test]
    fn a_pause_of_writes_holds_no_reads_back() {
        let pausing = Pausing::default();
        pausing.change(PauseChange::Begin { until_ms: 10, held: Held::Writes }, 5, |_| {});
        assert!(pausing.hold_back(None, true, 10) && !pausing.hold_back(None, false, 10));
        assert!(!pausing.hold_back(None, true, 11));
        pausing.change(PauseChange::Begin { until_ms: 10, held: Held::All }, 5, |_| {});
        assert!(pausing.hold_back(None, false, 10));
        assert_eq!(pausing.count(), 0, "a client that is gone does not wait");
    }
}
