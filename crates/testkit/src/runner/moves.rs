//! The directory of the open database is renamed, and another database takes its name for a while.

use super::Runner;
use crate::{Outcome, ensure};
use esker::{Database, Options};

impl Runner {
    /// Renames the directory under the open database, which stays in it; then another database is made where
    /// it was, which must keep what it holds, and the directory gets its name back. Simulated files are found
    /// by path alone and stay.
    pub(super) fn move_directory(&mut self) -> Outcome {
        if self.moves_clock() {
            return Ok(());
        }
        let moved = self.home.with_extension(format!("moved-{}", self.oracle.now()));
        if self.env.fs.file_len(&moved.join("CURRENT"))?.is_some() {
            return Ok(());
        }
        self.env.fs.rename(&self.dir, &moved)?;
        let squatter = self.open_squatter()?;
        squatter.default_keyspace().put(b"k", b"of another database")?;
        squatter.flush()?;
        self.db()?.flush()?;
        self.db()?.default_keyspace().compact(..)?;
        squatter.close()?;
        drop(squatter);
        let squatter = self.open_squatter()?;
        let held = squatter.default_keyspace().iter().count();
        ensure!(held == 1, "the database that took the name of a renamed one has {held} entries");
        squatter.close()?;
        drop(squatter);
        self.env.fs.remove_dir_all(&self.dir)?;
        Ok(self.env.fs.rename(&moved, &self.dir)?)
    }

    fn open_squatter(&self) -> esker::Result<Database> {
        Database::open_with(&self.dir, Options::default().env(self.env.clone()).memory_budget(8 << 20))
    }
}
