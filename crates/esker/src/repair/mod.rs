//! Verification and repair of a database that may not open.
//!
//! [`verify_directory`] lists all damage of a directory without opening the database in it.
//! [`repair_directory`] makes a new database of what can be read there. Neither changes the directory.
//!
//! | file | holds |
//! |---|---|
//! | [`finding`] | one damaged place, and what it means |
//! | [`table_stream`] | the entries of a table, whole or not |
//! | [`table_file`] | a table by itself: whole, damaged, foreign or missing |
//! | [`blob_shelf`] | large values by their pointers |
//! | [`survey`] | what is in a directory, and how far its manifest is to be trusted |
//! | [`log`] | the records of a log, whole or not |
//! | [`file_pool`], [`compare`] | the files of a copy, and how they compare |
//! | [`verify`] | the list of all damage |
//! | [`report`] | what a repair kept, lost and doubts |
//! | [`entry_source`] | the readable entries of several tables, merged |
//! | [`output`], [`log_tables`] | tables written of entries, and of a log |
//! | [`rebuild`] | the frame of a repair: original, new directory, copy |
//! | [`by_manifest`] | repair with a whole manifest: damaged tables are replaced |
//! | [`gather`] | the keyspaces of tables, when no whole manifest says them |
//! | [`by_seqno`] | repair without one: everything is merged by sequence number |

mod blob_shelf;
mod by_manifest;
mod by_seqno;
mod compare;
mod entry_source;
mod file_pool;
mod finding;
mod gather;
mod log;
mod log_tables;
mod output;
mod rebuild;
mod report;
mod survey;
mod table_file;
mod table_stream;
mod verify;

pub use compare::{Comparison, Difference};
pub use finding::{Finding, KeySpan};
pub use rebuild::{RepairOptions, repair_directory};
pub use report::{Doubt, LostRange, RepairBasis, RepairReport, RepairedKeyspace};
pub use verify::{DirectoryReport, VerifyOptions, verify_directory, verify_directory_with};
