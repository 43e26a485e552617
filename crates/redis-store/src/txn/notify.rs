//! Notifications that a transaction collects until its commit.

use super::Txn;
use crate::notifications::{EXPIRED_LISTED, Event, EventClass, Told, WholeChange};

impl Txn<'_> {
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

    /// What the transaction told since the last [`Txn::take_told`].
    pub fn told(&self) -> &Told {
        &self.told
    }

    /// Takes what the transaction told since the last call.
    pub fn take_told(&mut self) -> Told {
        std::mem::take(&mut self.told)
    }
}
