//! Transactions: reads over the store and over their own changes, written as one batch (KR5).
//!
//! The caller holds the stripes of all keys that it reads or changes; see [`locks`](crate::locks). Nothing
//! is validated at the end.

use crate::ahead::Ahead;
use crate::changes::Changes;
use crate::layout::{PhysicalDb, Space, record_key};
use crate::list_ends::{EndsOfLists, ListEnds};
use crate::order_ends::{Ends, OrderEnds};
use crate::rank_nodes::{Families, Family};
use crate::store::{CountKind, Store, count_key};
use esker::{
    BatchRange, BatchView, IndexedBatch, KeyRange, Resident, Result, SeqNo, Snapshot, Value, WriteBatch,
    WriteOptions,
};
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

/// The class of a keyspace event, as a bit; the letters are those of `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventClass(pub u32);

impl EventClass {
    /// `g`: commands on keys of any type.
    pub const GENERIC: Self = Self(1 << 2);
    /// `$`
    pub const STRING: Self = Self(1 << 3);
    /// `l`
    pub const LIST: Self = Self(1 << 4);
    /// `s`
    pub const SET: Self = Self(1 << 5);
    /// `h`
    pub const HASH: Self = Self(1 << 6);
    /// `z`
    pub const SORTED_SET: Self = Self(1 << 7);
    /// `x`
    pub const EXPIRED: Self = Self(1 << 8);
    /// `e`
    pub const EVICTED: Self = Self(1 << 9);
    /// `t`
    pub const STREAM: Self = Self(1 << 10);
    /// `m`
    pub const MISS: Self = Self(1 << 11);
    /// `n`
    pub const NEW: Self = Self(1 << 14);
}

/// A keyspace event that is published after the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its class.
    pub class: EventClass,
    /// Its name, such as `lpush`.
    pub name: &'static str,
    /// The logical database.
    pub db: u16,
    /// The key.
    pub key: Box<[u8]>,
}

/// Expired keys that a transaction lists at most: a scan over many leaves the rest to the background.
pub const EXPIRED_LISTED: usize = 1024;

/// What an observer of a transaction wants to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Whether changed keys are listed.
    pub changed_keys: bool,
    /// Bits of the classes whose events are listed.
    pub event_classes: u32,
}

/// What happened to all keys of a database at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeChange {
    /// They were deleted.
    Flushed,
    /// They were exchanged with those of another database.
    Swapped,
}

/// What a transaction tells beside its results.
#[derive(Debug, Default)]
pub struct Told {
    /// Changed keys by logical database, in order, perhaps several times.
    pub changed: Vec<(u16, Box<[u8]>)>,
    /// For each time a key is listed above because its record was removed after it had expired: the key.
    pub removed_as_expired: Vec<(u16, Box<[u8]>)>,
    /// Logical databases that changed as a whole, whose keys are not listed, in order.
    pub databases: Vec<(u16, WholeChange)>,
    /// Events in order.
    pub events: Vec<Event>,
    /// Keys that a read found expired; they are still to be deleted. At most [`EXPIRED_LISTED`].
    pub expired: Vec<(u16, Box<[u8]>)>,
    /// Changes, as `rdb_changes_since_last_save` counts them.
    pub dirty: u64,
}

impl Told {
    /// Whether all changes of a key are the removal of what had expired: for a client that knew it as expired
    /// there is no change.
    pub fn was_only_removed_as_expired(&self, key: &(u16, Box<[u8]>)) -> bool {
        let count = |list: &[(u16, Box<[u8]>)]| list.iter().filter(|listed| *listed == key).count();
        count(&self.changed) == count(&self.removed_as_expired)
    }
}

#[derive(Debug)]
pub(crate) struct CountChange {
    db: PhysicalDb,
    keys: i64,
    expiring: i64,
}

/// Bytes of a batch whose memory is kept for the next one; as for the changes themselves.
const KEPT_BATCH_BYTES: usize = 2 << 20;

/// A transaction.
#[derive(Debug)]
pub struct Txn<'s> {
    store: &'s Store,
    changes: Changes,
    /// Empty between commits; its memory is used again.
    batch: WriteBatch,
    /// Records that were looked up together, in the order in which they will be asked for.
    ahead: Ahead,
    /// The same of elements.
    elements_ahead: Ahead,
    /// Nodes of rank indexes that this transaction changed.
    rank_nodes: Families,
    /// Ends of sorted sets whose order this transaction changed.
    order_ends: Ends,
    /// Ends of lists from which this transaction popped.
    list_ends: EndsOfLists,
    snapshot: Option<Snapshot>,
    now_ms: u64,
    interest: Interest,
    told: Told,
    counts: Vec<CountChange>,
    /// Where the logical databases lie, if the transaction exchanges some.
    swapped: Option<Vec<PhysicalDb>>,
    /// Objects that the batch puts into the garbage list.
    pub(crate) new_garbage: u64,
    /// The earliest expiry that the batch sets.
    pub(crate) earliest_expiry_ms: u64,
}

/// How a commit behaves when writes are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stalls {
    /// It fails with `WouldStall`; nothing is written.
    Fail,
    /// It waits.
    Wait,
}

impl<'s> Txn<'s> {
    /// A transaction at the present time.
    pub fn new(store: &'s Store, interest: Interest) -> Self {
        let now_ms = now_ms(store);
        Self {
            store,
            changes: Changes::new(store),
            batch: store.database().batch(),
            ahead: Ahead::default(),
            elements_ahead: Ahead::default(),
            rank_nodes: Families::default(),
            order_ends: Ends::default(),
            list_ends: EndsOfLists::default(),
            snapshot: None,
            now_ms,
            interest,
            told: Told::default(),
            counts: Vec::new(),
            swapped: None,
            new_garbage: 0,
            earliest_expiry_ms: u64::MAX,
        }
    }

    /// The store.
    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// The time at which the transaction judges expiries, in milliseconds since 1970. It stands still.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Sets what the transaction tells.
    pub fn set_interest(&mut self, interest: Interest) {
        self.interest = interest;
    }

    /// Lets the time go on, between two commands of one pipeline.
    pub fn refresh_time(&mut self) {
        self.now_ms = now_ms(self.store);
    }

    /// From now on reads the store as it is now, so that the stripes may be freed while it goes on reading.
    pub fn freeze(&mut self) {
        self.snapshot = Some(self.store.database().snapshot());
    }

    fn over<'t>(&'t self, batch: &'t IndexedBatch, space: Space) -> BatchView<'t> {
        let view = batch.over(self.store.space(space));
        match &self.snapshot {
            None => view,
            Some(snapshot) => view.at(snapshot),
        }
    }

    /// The value of an entry.
    ///
    /// # Errors
    /// Those of the engine, here and below.
    pub fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>> {
        if let Some(batch) = self.changes.indexed() {
            return self.over(batch, space).get(key);
        }
        match (self.changes.get(space, key), &self.snapshot) {
            (Some(changed), _) => Ok(changed.map(Value::copied)),
            (None, None) => self.store.space(space).get(key),
            (None, Some(snapshot)) => self.store.space(space).at(snapshot).get(key),
        }
    }

    /// The values of several entries.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, space: Space, keys: &[K]) -> Result<Vec<Option<Value>>> {
        if let Some(batch) = self.changes.indexed() {
            return self.over(batch, space).multi_get(keys);
        }
        let stored = |keys: &[&[u8]]| match &self.snapshot {
            None => self.store.space(space).multi_get(keys),
            Some(snapshot) => self.store.space(space).at(snapshot).multi_get(keys),
        };
        if self.changes.is_empty() {
            return stored(&keys.iter().map(AsRef::as_ref).collect::<Vec<_>>());
        }
        let mut values = Vec::with_capacity(keys.len());
        let (mut unchanged, mut places) = (Vec::new(), Vec::new());
        for (place, key) in keys.iter().map(AsRef::as_ref).enumerate() {
            let changed = self.changes.get(space, key);
            if changed.is_none() {
                unchanged.push(key);
                places.push(place);
            }
            values.push(changed.flatten().map(Value::copied));
        }
        for (place, value) in places.into_iter().zip(stored(&unchanged)?) {
            values[place] = value;
        }
        Ok(values)
    }

    /// Whether an entry is there.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn contains(&self, space: Space, key: &[u8]) -> Result<bool> {
        if let Some(batch) = self.changes.indexed() {
            return self.over(batch, space).contains(key);
        }
        match (self.changes.get(space, key), &self.snapshot) {
            (Some(changed), _) => Ok(changed.is_some()),
            (None, None) => self.store.space(space).contains(key),
            (None, Some(snapshot)) => self.store.space(space).at(snapshot).contains(key),
        }
    }

    /// Entries in order, from either end.
    pub fn range(&self, space: Space, range: impl KeyRange) -> BatchRange<'_> {
        self.over(self.changes.ordered(self.store, space), space).range(range)
    }

    /// Shows the entries of a range, from its start or from its end, as long as `show` says so. That is the
    /// fast way to read many: in a keyspace that the transaction has not changed they are not copied.
    ///
    /// # Errors
    /// As [`Txn::get`], and those of `show`.
    pub fn visit(
        &self,
        space: Space,
        range: impl KeyRange,
        from_end: bool,
        mut show: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        if !self.changes.leave_alone(space) {
            let mut entries = self.range(space, range);
            while let Some(entry) = if from_end { entries.next_back() } else { entries.next() } {
                let (key, value) = entry?;
                if !show(&key, &value)? {
                    break;
                }
            }
            return Ok(());
        }
        let mut cursor = match &self.snapshot {
            None => self.store.space(space).cursor_in(range)?,
            Some(snapshot) => self.store.space(space).at(snapshot).cursor_in(range)?,
        };
        match from_end {
            false => cursor.seek_to_first()?,
            true => cursor.seek_to_last()?,
        }
        while let Some((key, value)) = cursor.entry() {
            if !show(key, value)? {
                break;
            }
            match from_end {
                false => cursor.advance()?,
                true => cursor.retreat()?,
            }
        }
        Ok(())
    }

    /// Sets an entry.
    ///
    /// # Errors
    /// As [`Txn::get`]; `InvalidArgument` for a key or value that is too long.
    pub fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.changes.set(self.store, space, key, Some(value))
    }

    /// Deletes an entry.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn delete(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.changes.set(self.store, space, key, None)
    }

    /// Deletes all entries of a range.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn delete_range(&mut self, space: Space, range: impl KeyRange) -> Result<()> {
        self.changes.delete_range(self.store, space, range)
    }

    /// Looks the records of several keys up together, in the order in which [`Txn::entry`] will be asked for
    /// them. The caller holds their stripes until the next commit.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn look_ahead<'k>(&mut self, db: u16, keys: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        let physical = self.physical(db);
        self.ahead.clear();
        let (mut keys, mut times) = (keys.peekable(), 1);
        while let Some(key) = keys.next() {
            if keys.peek() == Some(&key) {
                times += 1;
            } else {
                self.ahead.want(record_key(physical, key), std::mem::replace(&mut times, 1));
            }
        }
        let found = self.store.space(Space::Keys).multi_get(&self.ahead.keys())?;
        self.ahead.found(found);
        Ok(())
    }

    /// The record of a key, from memory if it was looked up ahead.
    pub(crate) fn record_of(&mut self, record_key: &[u8]) -> Result<Option<Value>> {
        self.looked_up(Space::Keys, record_key)
    }

    /// The value of an entry, from memory if it was looked up ahead and is not changed (AH1).
    fn looked_up(&mut self, space: Space, key: &[u8]) -> Result<Option<Value>> {
        let ahead = if space == Space::Keys { &mut self.ahead } else { &mut self.elements_ahead };
        if ahead.is_empty() || self.snapshot.is_some() || self.changes.indexed().is_some() {
            return self.get(space, key);
        }
        if let Some(changed) = self.changes.get(space, key) {
            return Ok(changed.map(Value::copied));
        }
        match ahead.take(key) {
            Some(found) => Ok(found),
            None => self.get(space, key),
        }
    }

    /// Whether the transaction has surely not changed a keyspace.
    pub(crate) fn leaves_alone(&self, space: Space) -> bool {
        self.changes.leave_alone(space)
    }

    /// How often the following commands will ask for a record, the next of them in succession, as far as
    /// [`Txn::look_ahead`] was told.
    pub(crate) fn times_ahead(&self, record_key: &[u8]) -> usize {
        self.ahead.times(record_key)
    }

    /// The record of a key if it was looked up ahead and no command has asked for it since.
    pub(crate) fn record_ahead(&self, record_key: &[u8]) -> Option<&Value> {
        self.ahead.peek(record_key)
    }

    /// Looks elements up together, in the order in which [`Txn::element`] will be asked for them. The caller
    /// holds the stripe of their key until the next commit.
    pub(crate) fn look_at_elements(&mut self, keys: impl Iterator<Item = Vec<u8>>) -> Result<()> {
        self.elements_ahead.clear();
        keys.for_each(|key| self.elements_ahead.want(key, 1));
        let found = self.store.space(Space::Elements).multi_get(&self.elements_ahead.keys())?;
        self.elements_ahead.found(found);
        Ok(())
    }

    /// The value of an element, from memory if it was looked up ahead.
    pub(crate) fn element(&mut self, key: &[u8]) -> Result<Option<Value>> {
        self.looked_up(Space::Elements, key)
    }

    /// Takes nodes of a rank index that are in memory, by the key of the first. The caller holds the set's
    /// stripe alone.
    pub(crate) fn take_rank_nodes(&mut self, key: &[u8]) -> Option<Family> {
        debug_assert!(self.snapshot.is_none(), "a transaction that has freed its stripes changes nothing");
        self.rank_nodes.take(key).or_else(|| self.store.rank_nodes.lock().take(key))
    }

    /// Gives nodes of a rank index back, as this transaction leaves them.
    pub(crate) fn give_rank_nodes(&mut self, key: Vec<u8>, nodes: Family) {
        self.rank_nodes.put(key, nodes);
    }

    /// Takes the ends of a sorted set that are in memory. The caller holds the set's stripe alone.
    pub(crate) fn take_order_ends(&mut self, object: u64) -> Option<OrderEnds> {
        self.order_ends.take(object).or_else(|| self.store.order_ends.lock().take(object))
    }

    /// Gives the ends of a sorted set back, as this transaction leaves them.
    pub(crate) fn give_order_ends(&mut self, object: u64, ends: OrderEnds) {
        self.order_ends.put(object, ends);
    }

    /// Takes the ends of a list that are in memory. The caller holds the list's stripe alone.
    pub(crate) fn take_list_ends(&mut self, object: u64) -> Option<ListEnds> {
        debug_assert!(self.snapshot.is_none(), "a transaction that has freed its stripes changes nothing");
        self.list_ends.take(object).or_else(|| self.store.list_ends.lock().take(object))
    }

    /// Gives the ends of a list back, as this transaction leaves them.
    pub(crate) fn give_list_ends(&mut self, object: u64, ends: ListEnds) {
        self.list_ends.put(object, ends);
    }

    /// Tells that a key was changed: for WATCH, blocked clients and tracking. Counts as one change.
    pub fn changed(&mut self, db: u16, key: &[u8]) {
        self.told.dirty += 1;
        if self.interest.changed_keys {
            self.told.changed.push((db, key.into()));
        }
    }

    /// Tells a keyspace event.
    pub fn event(&mut self, class: EventClass, name: &'static str, db: u16, key: &[u8]) {
        if self.interest.event_classes & class.0 != 0 {
            self.told.events.push(Event { class, name, db, key: key.into() });
        }
    }

    /// As [`Txn::changed`], for the removal of a record that had expired.
    pub(crate) fn removed_as_expired(&mut self, db: u16, key: &[u8]) {
        self.changed(db, key);
        if self.interest.changed_keys {
            self.told.removed_as_expired.push((db, key.into()));
        }
    }

    /// Lists a key that changes with its database as a whole, such as one that is watched: the others are not
    /// listed. `had_expired` if its record is only removed after it had expired.
    pub fn changed_with_database(&mut self, db: u16, key: &[u8], had_expired: bool) {
        self.told.changed.push((db, key.into()));
        if had_expired {
            self.told.removed_as_expired.push((db, key.into()));
        }
    }

    /// Tells that a database changed as a whole, by so many changes.
    pub(crate) fn changed_whole(&mut self, db: u16, change: WholeChange, changes: u64) {
        self.told.dirty += changes;
        self.told.databases.push((db, change));
    }

    /// Takes a key off the list again: it is deleted.
    pub(crate) fn forget_expired(&mut self, db: u16, key: &[u8]) {
        self.told.expired.retain(|(other_db, other)| *other_db != db || **other != *key);
    }

    /// Lists a key that was found expired, to be deleted after the commit.
    pub fn note_expired(&mut self, db: u16, key: &[u8]) {
        let expired = &mut self.told.expired;
        let is_last = expired.last().is_some_and(|(last_db, last)| *last_db == db && **last == *key);
        if !is_last && expired.len() < EXPIRED_LISTED {
            expired.push((db, key.into()));
        }
    }

    pub(crate) fn count(&mut self, db: PhysicalDb, keys: i64, expiring: i64) {
        if keys == 0 && expiring == 0 {
            return;
        }
        match self.counts.iter_mut().find(|change| change.db == db) {
            Some(change) => {
                change.keys += keys;
                change.expiring += expiring;
            }
            None => self.counts.push(CountChange { db, keys, expiring }),
        }
    }

    /// Keys of a logical database as this transaction leaves it.
    pub fn keys(&self, db: u16) -> i64 {
        self.keys_and_expiring(self.physical(db)).0
    }

    pub(crate) fn keys_and_expiring(&self, db: PhysicalDb) -> (i64, i64) {
        let own = self.counts.iter().find(|change| change.db == db);
        let (keys, expiring) = own.map_or((0, 0), |change| (change.keys, change.expiring));
        let stored = self.store.counts(db);
        (stored.keys.load(Ordering::Relaxed) + keys, stored.expiring.load(Ordering::Relaxed) + expiring)
    }

    /// Where a logical database lies, as this transaction leaves it.
    ///
    /// # Panics
    /// As [`Store::physical`].
    pub fn physical(&self, db: u16) -> PhysicalDb {
        match &self.swapped {
            None => self.store.physical(db),
            Some(databases) => databases[usize::from(db)],
        }
    }

    pub(crate) fn physical_mut(&mut self) -> &mut [PhysicalDb] {
        self.swapped.get_or_insert_with(|| self.store.databases.read().clone())
    }

    /// Whether nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Bytes of memory that the changes take.
    pub fn memory_bytes(&self) -> u64 {
        self.changes.memory_bytes()
    }

    /// What the transaction told since the last [`Txn::take_told`].
    pub fn told(&self) -> &Told {
        &self.told
    }

    /// Takes what the transaction told since the last call.
    pub fn take_told(&mut self) -> Told {
        std::mem::take(&mut self.told)
    }

    /// Forgets all changes.
    pub fn roll_back(&mut self) {
        self.changes.clear();
        self.forget_ahead();
        self.rank_nodes.clear();
        self.order_ends.clear();
        self.list_ends.clear();
        self.counts.clear();
        self.swapped = None;
        self.told = Told::default();
        self.new_garbage = 0;
        self.earliest_expiry_ms = u64::MAX;
    }

    /// Writes the changes as one batch, after which the transaction is empty and can go on. `None` if there
    /// were none. The stripes may be freed afterwards, not before.
    ///
    /// # Errors
    /// Those of the engine, and then nothing was written and the changes are still here; `WouldStall` with
    /// [`Stalls::Fail`].
    pub fn commit(&mut self, stalls: Stalls) -> Result<Option<SeqNo>> {
        self.forget_ahead();
        if self.changes.is_empty() && self.counts.is_empty() {
            self.changes.clear();
            self.give_memory_back();
            return Ok(None);
        }
        if self.batch.encoded_bytes() > KEPT_BATCH_BYTES {
            self.batch = self.store.database().batch();
        }
        let batch = &mut self.batch;
        batch.clear();
        self.changes.add_to(self.store, batch)?;
        let counts = self.store.space(Space::Counts);
        for change in &self.counts {
            for (kind, by) in [(CountKind::Keys, change.keys), (CountKind::Expiring, change.expiring)] {
                if by != 0 {
                    batch.merge(counts, count_key(kind, change.db), by.to_string());
                }
            }
        }
        let options = match stalls {
            Stalls::Fail => WriteOptions::new().no_stall(),
            Stalls::Wait => WriteOptions::new(),
        };
        let seqno = self.store.database().write_with(batch, options)?;
        self.store.note_written(seqno);
        if let Some(swapped) = self.swapped.take() {
            *self.store.databases.write() = swapped;
        }
        for change in self.counts.drain(..) {
            let counts = self.store.counts(change.db);
            counts.keys.fetch_add(change.keys, Ordering::Relaxed);
            counts.expiring.fetch_add(change.expiring, Ordering::Relaxed);
        }
        self.give_memory_back();
        self.store.garbage_objects.fetch_add(self.new_garbage, Ordering::Relaxed);
        self.store.next_expiry_ms.fetch_min(self.earliest_expiry_ms, Ordering::AcqRel);
        self.changes.clear();
        self.new_garbage = 0;
        self.earliest_expiry_ms = u64::MAX;
        Ok(Some(seqno))
    }

    /// AH1.
    fn forget_ahead(&mut self) {
        self.ahead.clear();
        self.elements_ahead.clear();
    }

    /// Gives the store what was taken of its memory, which is as the store is now (RN1, OE1, LE1).
    fn give_memory_back(&mut self) {
        if !self.rank_nodes.is_empty() {
            self.rank_nodes.move_to(&mut self.store.rank_nodes.lock());
        }
        if !self.order_ends.is_empty() {
            self.order_ends.move_to(&mut self.store.order_ends.lock());
        }
        if !self.list_ends.is_empty() {
            self.list_ends.move_to(&mut self.store.list_ends.lock());
        }
    }
}

/// Reads in `read` use memory alone, or `None` is the answer; see [`esker::resident_only`].
///
/// # Errors
/// Those of `read`.
pub fn resident_only<R>(read: impl FnOnce() -> Result<R>) -> Result<Option<R>> {
    Ok(match esker::resident_only(read)? {
        Resident::Answer(answer) => Some(answer),
        Resident::NotResident => None,
    })
}

fn now_ms(store: &Store) -> u64 {
    let since = store.database().now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}
