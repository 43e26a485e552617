//! Handles of a database that is closed: they refuse, read what they pinned, and may be dropped in any order,
//! also when the next database is open in the same directory.

use super::Runner;
use crate::{Outcome, ensure};
use esker::{Database, Error, Options};
use std::any::Any;

impl Runner {
    /// Closes and opens the database while handles of the old one live on; `order` says in which order they
    /// go.
    pub(super) fn outlive(&mut self, order: u8) -> Outcome {
        let db = self.db()?.clone();
        let keyspace = db.default_keyspace().clone();
        let (mut cursor, range) = (keyspace.cursor()?, keyspace.iter());
        cursor.seek_to_first()?;
        let (snapshot, transaction, batch) = (db.snapshot(), db.transaction(), db.batch());
        self.close()?;
        let refused = |what: &str, outcome: esker::Result<()>| -> Outcome {
            ensure!(matches!(outcome, Err(Error::Closed)), "{what} after the close: {outcome:?}");
            Ok(())
        };
        refused("a put", keyspace.put(b"k", b"late"))?;
        refused("a delete", keyspace.delete(b"k"))?;
        refused("a flush", db.flush())?;
        refused("a sync", db.sync())?;
        refused("an update", keyspace.fetch_update(b"k", |_| Some(Vec::new())).map(drop))?;
        refused("a new keyspace", db.keyspace("late").map(drop))?;
        refused("a drop", db.drop_keyspace(crate::SPACES[1]))?;
        refused("a checkpoint", db.checkpoint(self.beside("late")).map(drop))?;
        refused(
            "a backup",
            db.backup(&esker::backup::Backups::with_env(self.beside("late"), self.env.clone())).map(drop),
        )?;
        let mut handles: Vec<Box<dyn Any>> = vec![
            Box::new(db),
            Box::new(keyspace),
            Box::new(cursor),
            Box::new(range),
            Box::new(snapshot),
            Box::new(transaction),
            Box::new(batch),
        ];
        // Half of them go before the next open, half behind it.
        let mut number = usize::from(order);
        for _ in 0..3 {
            drop(handles.swap_remove(number % handles.len()));
            number = number * 31 + 7;
        }
        self.open(order.is_multiple_of(2))?;
        while !handles.is_empty() {
            drop(handles.swap_remove(number % handles.len()));
            number = number * 31 + 7;
        }
        Ok(())
    }

    /// The open database cannot be opened again, for writing or for reading, under any path.
    pub(super) fn open_beside(&self) -> Outcome {
        for read_only in [false, true] {
            let options = Options::default().env(self.env.clone()).read_only(read_only);
            let outcome = Database::open_with(&self.dir, options).map(drop);
            ensure!(
                matches!(outcome, Err(Error::Locked { .. })),
                "opened twice, read-only {read_only}: {outcome:?}"
            );
        }
        Ok(())
    }
}
