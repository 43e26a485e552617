//! The write-ahead log.

pub mod batch;
mod file;
pub mod log;
pub mod record;
pub mod segment;
mod sync;
pub mod writer;

pub use batch::{BatchEncoder, Entry, EntryIter};
pub use log::{Log, LogOptions, LogStart, PrivateSegment};
pub use record::{LogPosition, RecordKind};
pub use writer::{LogWriter, Rotation};
