//! Changes of whole databases in constant time: all keys deleted, or two databases exchanged.
//!
//! The caller holds all stripes: every transaction looks up where its database lies under some stripe.

use crate::ids;
use crate::layout::Space;
use crate::notifications::WholeChange;
use crate::store::{database_key, garbage_key};
use crate::txn::Txn;
use esker::Result;

impl Txn<'_> {
    /// Deletes all keys of a logical database, by range deletes. Returns how many it had, expired ones
    /// included. What the transaction puts there afterwards stays.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn flush_database(&mut self, db: u16) -> Result<i64> {
        let physical = self.physical(db);
        let (keys, expiring) = self.keys_and_expiring(physical);
        self.changed_whole(db, WholeChange::Flushed, keys.max(0) as u64);
        if keys == 0 {
            return Ok(0);
        }
        let prefix = (physical.0.to_be_bytes(), physical.0.wrapping_add(1).to_be_bytes());
        for space in [Space::Keys, Space::Expiries] {
            self.delete_range(space, prefix.0..prefix.1)?;
        }
        let (first, end) = ids::of_database(physical);
        for space in [Space::Elements, Space::Orders] {
            self.delete_range(space, first.to_be_bytes()..end.to_be_bytes())?;
        }
        self.delete_range(Space::System, garbage_key(first)..garbage_key(end))?;
        self.flushed_objects.push((first, end));
        self.count(physical, -keys, -expiring);
        Ok(keys)
    }

    /// Exchanges two logical databases.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn swap_databases(&mut self, first: u16, second: u16) -> Result<()> {
        if first == second {
            return Ok(());
        }
        let databases = self.physical_mut();
        databases.swap(usize::from(first), usize::from(second));
        for db in [first, second] {
            let physical = self.physical(db);
            self.put(Space::System, &database_key(db), &physical.0.to_be_bytes())?;
        }
        self.changed_whole(first, WholeChange::Swapped, 1);
        self.changed_whole(second, WholeChange::Swapped, 0);
        Ok(())
    }
}
