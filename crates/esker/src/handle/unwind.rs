//! Unwind safety of the handles: a call may stand inside of `std::panic::catch_unwind`.
//!
//! A handle holds no state of its own that a panic could leave half changed. What a panic inside of a write
//! leaves in the database poisons it (CP5), so that later calls return an error instead of what is half done;
//! a merge operator or compaction filter that panics is caught where it is called.

use crate::{Database, Keyspace, Snapshot, View, WriteBatch};
use std::panic::{RefUnwindSafe, UnwindSafe};

impl UnwindSafe for Database {}
impl RefUnwindSafe for Database {}
impl UnwindSafe for Keyspace {}
impl RefUnwindSafe for Keyspace {}
impl UnwindSafe for View<'_> {}
impl RefUnwindSafe for View<'_> {}
impl UnwindSafe for Snapshot {}
impl RefUnwindSafe for Snapshot {}
impl UnwindSafe for WriteBatch {}
impl RefUnwindSafe for WriteBatch {}
