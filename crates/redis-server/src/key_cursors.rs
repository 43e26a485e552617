//! Cursors of SCAN: numbers that stand for the last key of a page.
//!
//! SCAN goes through the keys in their order, and a cursor is a number of 63 bits. The last keys of recent
//! pages are remembered by a serial number that is part of the cursor, so the next page begins exactly
//! behind them. A cursor whose key is forgotten, after a restart or many other pages, still holds two bytes
//! of it: those behind the bytes with which all keys of the database began, and how many these were.
//!
//! ```text
//! 39 bits   serial number, from a random beginning in each process
//!  8 bits   length of the common beginning, at most 255
//! 16 bits   the two bytes of the key behind it
//! ```
//!
//! * SC1. **A scan skips no key that is there from its beginning to its end.** A page begins behind the last
//!   key before it, or at a place that is not behind it. For the second: a key that stays has the common
//!   beginning of then and that of now, so the shorter of both is the beginning of the longer. If that of
//!   then is the shorter, it is known now; otherwise the scan begins anew. Keys may come twice.

use esker_redis_store::random_seed;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Keys that are remembered at most, and bytes of them: what some thousand scans at a time need.
const KEYS: usize = 65_536;
const BYTES: usize = 16 << 20;

const SERIAL_BITS: u32 = 39;
const SERIALS: u64 = 1 << SERIAL_BITS;
const HINT_BYTES: usize = 2;

/// Keys at which scans go on.
#[derive(Debug)]
pub(crate) struct KeyCursors(Mutex<Ring>);

#[derive(Debug)]
struct Ring {
    /// Keys with their database, by ascending serial number.
    keys: VecDeque<(u16, Box<[u8]>)>,
    first_serial: u64,
    bytes: usize,
}

/// Where a page begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PageStart {
    /// At the first key from here on.
    At(Vec<u8>),
    /// At the first key behind this one.
    Behind(Vec<u8>),
}

impl Default for KeyCursors {
    fn default() -> Self {
        let first_serial = (random_seed() % SERIALS).max(1);
        Self(Mutex::new(Ring { keys: VecDeque::new(), first_serial, bytes: 0 }))
    }
}

impl KeyCursors {
    /// A cursor for `last`, the last key of a page in a database whose keys all begin with `common`.
    pub(crate) fn cursor(&self, db: u16, last: &[u8], common: &[u8]) -> u64 {
        let mut ring = self.0.lock();
        // A cursor of zero means the beginning.
        if (ring.first_serial + ring.keys.len() as u64).is_multiple_of(SERIALS) {
            ring.push(db, &[]);
        }
        let serial = (ring.first_serial + ring.keys.len() as u64) % SERIALS;
        ring.push(db, last);
        let length = common.len().min(usize::from(u8::MAX));
        serial << 24 | (length as u64) << 16 | hint(last, length)
    }

    /// Where the page of a cursor begins, in a database whose keys all begin with `common` now.
    pub(crate) fn position(&self, db: u16, cursor: u64, common: impl FnOnce() -> Vec<u8>) -> PageStart {
        let (length, bytes) = ((cursor >> 16 & 0xff) as usize, cursor & 0xffff);
        if let Some(last) = self.0.lock().get(db, cursor >> 24 & (SERIALS - 1))
            && hint(last, length) == bytes
        {
            return PageStart::Behind(last.to_vec());
        }
        let common = common();
        let Some(beginning) = common.get(..length) else { return PageStart::At(Vec::new()) };
        // Zeros may stand for bytes that the key had not.
        let bytes = (bytes as u16).to_be_bytes();
        let significant = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        PageStart::At([beginning, &bytes[..significant]].concat())
    }
}

/// Two bytes of a key, zeros behind its end.
fn hint(key: &[u8], at: usize) -> u64 {
    let mut bytes = [0; HINT_BYTES];
    key.iter().skip(at).zip(&mut bytes).for_each(|(from, to)| *to = *from);
    u64::from(u16::from_be_bytes(bytes))
}

impl Ring {
    fn push(&mut self, db: u16, key: &[u8]) {
        self.bytes += key.len();
        self.keys.push_back((db, key.into()));
        while self.keys.len() > KEYS || self.bytes > BYTES {
            let Some((_, oldest)) = self.keys.pop_front() else { break };
            self.bytes -= oldest.len();
            self.first_serial = (self.first_serial + 1) % SERIALS;
        }
    }

    fn get(&self, db: u16, serial: u64) -> Option<&[u8]> {
        let index = serial.wrapping_sub(self.first_serial) % SERIALS;
        let (of, key) = self.keys.get(usize::try_from(index).ok()?)?;
        (*of == db).then_some(&**key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lcp(keys: &[&[u8]]) -> Vec<u8> {
        let (first, last) = (keys.iter().min().unwrap(), keys.iter().max().unwrap());
        first.iter().zip(*last).take_while(|(a, b)| a == b).map(|(byte, _)| *byte).collect()
    }

    /// SC1 for forgotten keys, over all pairs of sets before and after that share a key behind the last one.
    #[test]
    fn a_forgotten_cursor_is_never_behind_its_key() {
        let all: [&[u8]; 12] =
            [b"", b"\0", b"\0\0", b"a", b"a\0", b"aa", b"aab", b"aab\0", b"ab", b"ab\xff", b"b", b"ba"];
        for before in 1_u16..1 << all.len() {
            let chosen = |set: u16| (0..all.len()).filter(move |at| set >> at & 1 == 1).map(|at| all[at]);
            let keys: Vec<&[u8]> = chosen(before).collect();
            // What stays is one key; what comes is any other one.
            for (at, last) in keys.iter().enumerate() {
                let cursor = KeyCursors::default().cursor(0, last, &lcp(&keys));
                for stays in &keys[at + 1..] {
                    for comes in all {
                        let now = lcp(&[stays, comes]);
                        match KeyCursors::default().position(0, cursor, || now.clone()) {
                            PageStart::At(from) => {
                                assert!(from <= stays.to_vec(), "{keys:?} {last:?} {from:?}");
                            }
                            PageStart::Behind(_) => panic!("a new process remembers no keys"),
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn keys_are_remembered_within_bounds() {
        let cursors = KeyCursors::default();
        let first = cursors.cursor(3, b"user:17", b"user:");
        assert_eq!(cursors.position(3, first, Vec::new), PageStart::Behind(b"user:17".to_vec()));
        assert_eq!(cursors.position(4, first, || b"user:".to_vec()), PageStart::At(b"user:17".to_vec()));
        let long = vec![b'x'; BYTES / 4];
        for _ in 0..5 {
            let cursor = cursors.cursor(0, &long, b"");
            assert_eq!(cursors.position(0, cursor, Vec::new), PageStart::Behind(long.clone()));
        }
        assert_eq!(cursors.position(3, first, || b"user:1".to_vec()), PageStart::At(b"user:17".to_vec()));
        assert_eq!(cursors.position(3, first, || b"us".to_vec()), PageStart::At(Vec::new()));
        for _ in 0..=KEYS {
            assert_ne!(cursors.cursor(0, b"", b""), 0);
        }
        let ring = cursors.0.lock();
        assert!(ring.keys.len() == KEYS && ring.bytes == 0, "{} keys, {} bytes", ring.keys.len(), ring.bytes);
    }
}
