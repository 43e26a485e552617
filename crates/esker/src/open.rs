//! Opening a database: recovery, and what features the engine calls back.

use crate::advice::adapt::adapt;
use crate::handle::Handle;
use crate::{Database, Options};
use esker_base::{Error, Result};
use esker_engine::lifecycle::keyspace::named_options;
use esker_engine::lifecycle::open;
use esker_options::DEFAULT_KEYSPACE;
use std::path::Path;
use std::sync::Arc;

impl Database {
    /// Opens the database in a directory with default options, creating it if it is missing.
    ///
    /// # Errors
    /// See [`Database::open_with`].
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::open_with(path, Options::default())
    }

    /// Opens the database in a directory; opening is recovery.
    ///
    /// A process opens a database once and shares the handle. The directory is free again when
    /// [`Database::close`] has returned, or when the last handle of the database, of a [`Keyspace`](crate::Keyspace) of it
    /// included, is dropped.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// use esker::{Database, Options};
    /// let db = Database::open_with("data", Options::default().memory_budget(512 << 20))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Locked` if it is open elsewhere, `Corruption` if stored bytes are damaged, `NotFound` if it is
    /// missing and must not be created, `InvalidArgument` for options that contradict each other.
    #[doc(alias = "OpenForReadOnly")]
    #[doc(alias = "builder")]
    #[doc(alias = "create")]
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let path = path.as_ref();
        options.validate()?;
        let store = open::open(path, options, adapt)?;
        let handle = Arc::new(Handle { store });
        named_options::apply_named_options(&handle.store)?;
        let state = handle.store.find_keyspace(DEFAULT_KEYSPACE);
        let state = state.ok_or_else(|| Error::internal("the default keyspace is missing after opening"))?;
        Ok(Database::new(handle, state))
    }
}
