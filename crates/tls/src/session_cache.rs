//! Sessions that clients may resume: bounded in number, in bytes and in time.
//!
//! The cache belongs to one configuration, so what holds:
//! * TL2. A session is resumed only under the configuration in which it began. A client whose authority is
//!   gone after a change shows its certificate anew.

use parking_lot::Mutex;
use rustls::server::StoresServerSessions;
use rustls::time_provider::TimeProvider;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of all sessions: with the chain of a client's certificates a session takes some KiB.
const BYTES_MAX: usize = 8 << 20;

/// How many sessions are kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Sessions, at most; zero for as many as 8 MiB hold.
    pub sessions: usize,
    /// How long a session can be resumed, in seconds.
    pub lifetime_s: u64,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct SessionCache {
    limits: SessionLimits,
    clock: Arc<dyn TimeProvider>,
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    by_key: BTreeMap<Vec<u8>, Session>,
    /// Keys by age; the number of a session says how many there were before it.
    by_age: BTreeMap<u64, Vec<u8>>,
    next_number: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Session {
    number: u64,
    ends_s: u64,
    value: Vec<u8>,
}

impl SessionCache {
    pub(crate) fn new(limits: SessionLimits, clock: Arc<dyn TimeProvider>) -> Self {
        Self { limits, clock, sessions: Mutex::default() }
    }

    /// The time in seconds; `None` while the machine does not know it, and then nothing is resumed.
    fn now_s(&self) -> Option<u64> {
        self.clock.current_time().map(|time| time.as_secs())
    }
}

impl Sessions {
    fn insert(&mut self, key: Vec<u8>, value: Vec<u8>, ends_s: u64) {
        self.remove(&key);
        let number = self.next_number;
        self.next_number += 1;
        self.bytes += key.len() + value.len();
        self.by_age.insert(number, key.clone());
        self.by_key.insert(key, Session { number, ends_s, value });
    }

    fn remove(&mut self, key: &[u8]) -> Option<Session> {
        let session = self.by_key.remove(key)?;
        self.by_age.remove(&session.number);
        self.bytes -= key.len() + session.value.len();
        Some(session)
    }

    fn remove_oldest(&mut self) {
        if let Some(key) = self.by_age.first_entry().map(|oldest| oldest.get().clone()) {
            self.remove(&key);
        }
    }
}

impl StoresServerSessions for SessionCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let Some(now_s) = self.now_s() else { return false };
        if key.len() + value.len() > BYTES_MAX {
            return false;
        }
        let mut sessions = self.sessions.lock();
        sessions.insert(key, value, now_s.saturating_add(self.limits.lifetime_s));
        let most = if self.limits.sessions == 0 { usize::MAX } else { self.limits.sessions };
        while sessions.by_key.len() > most || sessions.bytes > BYTES_MAX {
            sessions.remove_oldest();
        }
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let now_s = self.now_s()?;
        let sessions = self.sessions.lock();
        sessions.by_key.get(key).filter(|session| now_s < session.ends_s).map(|session| session.value.clone())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let now_s = self.now_s()?;
        let session = self.sessions.lock().remove(key)?;
        (now_s < session.ends_s).then_some(session.value)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::UnixTime;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    #[derive(Debug, Default)]
    struct TestClock(AtomicU64);

    impl TimeProvider for TestClock {
        fn current_time(&self) -> Option<UnixTime> {
            Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Ordering::Relaxed))))
        }
    }

    fn cache(sessions: usize) -> (Arc<TestClock>, SessionCache) {
        let clock = Arc::new(TestClock::default());
        let limits = SessionLimits { sessions, lifetime_s: 300 };
        let shared: Arc<dyn TimeProvider> = Arc::<TestClock>::clone(&clock);
        (clock, SessionCache::new(limits, shared))
    }

    #[test]
    fn a_session_ends_with_its_time_and_is_taken_once() {
        let (clock, cache) = cache(10);
        assert!(cache.put(b"a".to_vec(), b"1".to_vec()));
        clock.0.store(299, Ordering::Relaxed);
        assert_eq!(cache.get(b"a").as_deref(), Some(&b"1"[..]));
        clock.0.store(300, Ordering::Relaxed);
        assert_eq!(cache.get(b"a"), None);
        assert!(cache.put(b"a".to_vec(), b"2".to_vec()));
        assert_eq!(cache.take(b"a").as_deref(), Some(&b"2"[..]));
        assert_eq!(cache.take(b"a"), None);
    }

    #[test]
    fn the_oldest_sessions_make_room_by_number_and_by_bytes() {
        let (_, few) = cache(2);
        for key in [b"a", b"b", b"a", b"c"] {
            few.put(key.to_vec(), key.to_vec());
        }
        assert_eq!((few.get(b"a").is_some(), few.get(b"b"), few.get(b"c").is_some()), (true, None, true));
        let (_, large) = cache(0);
        let quarter = vec![0; BYTES_MAX / 4];
        for key in [b"a", b"b", b"c", b"d"] {
            large.put(key.to_vec(), quarter.clone());
        }
        assert_eq!((large.get(b"a"), large.get(b"b").is_some()), (None, true));
        assert!(!large.put(b"e".to_vec(), vec![0; BYTES_MAX]));
        let sessions = large.sessions.lock();
        assert_eq!(sessions.bytes, 3 * (BYTES_MAX / 4 + 1));
        assert_eq!((sessions.by_age.len(), sessions.by_key.len()), (3, 3));
    }
}
