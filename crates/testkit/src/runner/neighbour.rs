//! Another database of the same process, in another directory: neither sees anything of the other.

use super::Runner;
use crate::{Filler, Key, Outcome, ensure};
use esker::{Database, KeyspaceOptions, Options};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Another database, and what it must hold.
#[derive(Debug, Default)]
pub(super) struct Neighbour {
    db: Option<Database>,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Runner {
    /// Writes one key to the other database, flushes or reopens it at times, and compares it.
    pub(super) fn visit_neighbour(&mut self, key: Key, value: Filler) -> Outcome {
        let (dir, env) = (self.neighbour_dir(), self.env.clone());
        let number = value.number;
        let open = || {
            let tiny = KeyspaceOptions::default().write_buffer_size(4 << 10).table_size(4 << 10);
            Database::open_with(
                &dir,
                Options::default().env(env).memory_budget(8 << 20).keyspace_options(tiny),
            )
        };
        let neighbour = &mut self.neighbour;
        let db = match neighbour.db.take() {
            Some(db) => db,
            None => open()?,
        };
        let keyspace = db.default_keyspace();
        keyspace.put(key.bytes(), value.bytes())?;
        neighbour.entries.insert(key.bytes(), value.bytes());
        if number.is_multiple_of(3) {
            db.flush()?;
        }
        let mut found = BTreeMap::new();
        for entry in keyspace.iter() {
            let (key, value) = entry?;
            found.insert(key.into_vec(), value.into_vec());
        }
        ensure!(found == neighbour.entries, "another database of the process holds something else");
        if number.is_multiple_of(4) {
            db.close()?;
        } else {
            neighbour.db = Some(db);
        }
        Ok(())
    }

    /// Where nothing else is: after the database's directory was renamed, under its old name.
    fn neighbour_dir(&self) -> PathBuf {
        self.beside("neighbour")
    }
}
