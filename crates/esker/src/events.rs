//! Events: flushes, compactions, files, stalls, errors, keyspaces and copies, reported to listeners.
//!
//! [`Options::listener`](crate::Options::listener) adds an [`EventListener`], often a closure. What it may
//! rely on:
//!
//! * Listeners are called on a thread of their own, one event after the other. The events of a keyspace come
//!   in the order in which they happened.
//! * No write, flush or compaction waits for a listener, however slow it is. Beyond 16,384 queued events
//!   further ones are dropped, which [`Event::EventsLost`] tells.
//! * A listener may read, write and change the database, and wait for background work. One that holds a
//!   [`Database`](crate::Database) keeps it open until [`Database::close`](crate::Database::close).
//! * `close` returns when all events have been delivered; none follows. Only a listener that closes the
//!   database itself gets the rest afterwards.
//! * A panic of a listener is logged and counted in
//!   [`Metrics::listeners`](crate::metrics::Metrics::listeners), and the next event follows.
//! * What an open finds and recovers is not reported, only what happens afterwards.
//!
//! ```
//! # fn main() -> esker::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("esker-doc-events-{}", std::process::id()));
//! # let path = dir.clone();
//! use esker::events::Event;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! let flushed_bytes = Arc::new(AtomicU64::new(0));
//! let total = Arc::clone(&flushed_bytes);
//! let listener = move |event: &Event| match event {
//!     Event::FlushEnded { result: Ok(output), .. } => {
//!         total.fetch_add(output.table_bytes, Ordering::Relaxed);
//!     }
//!     Event::StallChanged { keyspace, to, pressure, .. } => {
//!         eprintln!("writes of {} are {to:?}: {pressure}", keyspace.name);
//!     }
//!     Event::BackgroundError { work, error } => eprintln!("{work:?} fails: {error}"),
//!     _ => {}
//! };
//! let options = esker::Options::default().listener(Arc::new(listener));
//! let db = esker::Database::open_with(path, options)?;
//! db.default_keyspace().put("ada", "1815")?;
//! db.flush()?;
//! let metrics = db.metrics();
//! db.close()?;
//! assert_eq!(flushed_bytes.load(Ordering::Relaxed), metrics.keyspaces[0].flushed_bytes);
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok(()) }
//! ```

pub use esker_options::{
    ClockState, CompactionJob, CopyKind, Event, EventListener, FileInfo, FileReason, FlushJob, JobOutput,
    KeyspaceRef, WorkKind,
};
pub use esker_strategy::{PlanKind, Reason};
pub use esker_version::FileKind;
