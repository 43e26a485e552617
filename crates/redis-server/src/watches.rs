//! WATCH: which keys transactions depend on, and whether one of them was changed.
//!
//! What holds:
//! * WK1. A key is marked as changed while the writer still holds its stripe, and EXEC looks at its marks
//!   under the stripes of the watched keys; so no change falls between the look and the transaction.

use esker_redis_store::notifications::Told;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A client's mark: whether a key that it watches was changed.
pub(crate) type Mark = Arc<AtomicBool>;

/// A client's mark, and whether the key had expired already when WATCH was called.
type Watcher = (Mark, bool);

/// A tree, because keys are the clients' to choose: hashes without a secret can be made to meet.
type ByKey = BTreeMap<(u16, Box<[u8]>), Vec<Watcher>>;

/// The watched keys of all clients.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// Watched keys, so that writers look no further while there is none.
    count: AtomicUsize,
    by_key: Mutex<ByKey>,
}

impl Watches {
    /// Whether a key is watched.
    pub(crate) fn is_used(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Begins to watch a key. The caller holds its stripe.
    fn add(&self, db: u16, key: &[u8], mark: &Mark, had_expired: bool) {
        let mut by_key = self.by_key.lock();
        by_key.entry((db, key.into())).or_default().push((Arc::clone(mark), had_expired));
        self.count.store(by_key.len(), Ordering::Release);
    }

    /// Ends to watch a key.
    fn remove(&self, db: u16, key: &[u8], mark: &Mark) {
        let mut by_key = self.by_key.lock();
        let place = (db, key.into());
        if let Some(marks) = by_key.get_mut(&place) {
            marks.retain(|(other, _)| !Arc::ptr_eq(other, mark));
            if marks.is_empty() {
                by_key.remove(&place);
            }
        }
        self.count.store(by_key.len(), Ordering::Release);
    }

    /// Marks the clients that watch keys that a batch changed. The caller holds the stripes of all of them.
    /// Of databases that changed as a whole, [`Txn::changed_with_database`](esker_redis_store::Txn) lists the
    /// watched keys.
    pub(crate) fn touch(&self, told: &Told) {
        if !self.is_used() || told.changed.is_empty() {
            return;
        }
        let by_key = self.by_key.lock();
        for place in &told.changed {
            for (mark, had_expired) in by_key.get(place).into_iter().flatten() {
                if !had_expired || !told.was_only_removed_as_expired(place) {
                    mark.store(true, Ordering::Release);
                }
            }
        }
    }

    /// The watched keys of a database.
    pub(crate) fn keys_of(&self, db: u16) -> Vec<Box<[u8]>> {
        let by_key = self.by_key.lock();
        let of_db = by_key.range((db, Box::default())..).take_while(|((of, _), _)| *of == db);
        of_db.map(|((_, key), _)| key.clone()).collect()
    }
}

/// Keys that one client watches at most: some 10 MB, beside their names.
pub(crate) const MAX_WATCHED_KEYS: usize = 64 << 10;

/// Bytes of the names of keys that one client watches at most: 64 for each of so many keys.
pub(crate) const MAX_WATCHED_BYTES: usize = 4 << 20;

/// The keys that one client watches.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    mark: Mark,
    /// Keys by database, and whether each had expired already when WATCH was called: its removal is no change
    /// then.
    keys: BTreeMap<(u16, Box<[u8]>), bool>,
    /// Bytes of their names.
    bytes: usize,
}

impl Watching {
    /// Begins to watch a key. The caller holds its stripe. `false` if the client watches too many.
    pub(crate) fn add(&mut self, watches: &Watches, db: u16, key: &[u8], had_expired: bool) -> bool {
        let is_full = self.keys.len() >= MAX_WATCHED_KEYS || self.bytes + key.len() > MAX_WATCHED_BYTES;
        match self.keys.entry((db, key.into())) {
            Entry::Occupied(_) => true,
            Entry::Vacant(_) if is_full => false,
            Entry::Vacant(place) => {
                watches.add(db, key, &self.mark, had_expired);
                place.insert(had_expired);
                self.bytes += key.len();
                true
            }
        }
    }

    /// Ends to watch all keys.
    pub(crate) fn clear(&mut self, watches: &Watches) {
        for (db, key) in std::mem::take(&mut self.keys).into_keys() {
            watches.remove(db, &key, &self.mark);
        }
        self.bytes = 0;
        self.mark = Mark::default();
    }

    /// Memory that the watched keys take, here and in the table of all clients.
    pub(crate) fn held_bytes(&self) -> usize {
        const PER_KEY: usize = size_of::<((u16, Box<[u8]>), bool)>() + size_of::<Watcher>();
        2 * self.bytes + self.keys.len() * PER_KEY
    }

    /// Whether a watched key was changed.
    pub(crate) fn is_changed(&self) -> bool {
        self.mark.load(Ordering::Acquire)
    }

    /// The watched keys, and whether each had expired when the watch began.
    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = (u16, &[u8], bool)> {
        self.keys.iter().map(|((db, key), had_expired)| (*db, &**key, *had_expired))
    }
}
