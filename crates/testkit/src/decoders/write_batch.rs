//! Fuzz target for the bytes of a write batch, as a program stores them and reads them back.
//!
//! They are read by a database in memory with three keyspaces, two of them with merge operators; what is
//! accepted is written to it.

use super::{random_bytes, random_text};
use esker::parts::env::Env;
use esker::parts::env::fault::{StrictFs, StrictOptions};
use esker::{BatchEntry, Database, Durability, Error, Expiry, KeyspaceOptions, MergeOperator, Options};
use esker_env::SeededRandom;
use esker_wal::batch::EntryIter;
use std::cell::RefCell;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Inputs that one database gets: so it stays below the allocations that a target may make, however long a
/// fuzzer runs.
const MOST_WRITTEN: u32 = 100;

const KEYSPACES: [&str; 3] = ["default", "counters", "lists"];

thread_local! {
    /// The database of the thread, and the inputs that it got.
    static READER: RefCell<Option<(Database, u32)>> = const { RefCell::new(None) };
}

fn open() -> esker::Result<Database> {
    let fs = StrictFs::with_options(StrictOptions { record_trace: false, ..StrictOptions::default() });
    let env = Env::simulated(Arc::new(fs), 1);
    let options = Options::default().memory_budget(8 << 20).wal_segment_bytes(32 << 10).mapped_log(false);
    let db = Database::open_with("/db", options.env(env))?;
    let with = |operator| KeyspaceOptions::default().merge_operator(operator);
    db.keyspace_with(KEYSPACES[1], with(MergeOperator::counter_wrapping()))?;
    db.keyspace_with(KEYSPACES[2], with(MergeOperator::append(",")))?;
    Ok(db)
}

/// Runs with the database of the thread, which is replaced from time to time.
#[expect(clippy::disallowed_methods, reason = "a decoder under test is not called from destructors")]
fn with_database<R>(run: impl FnOnce(&Database) -> R) -> R {
    READER.with_borrow_mut(|reader| {
        let (db, written) = reader.get_or_insert_with(|| (open().expect("a database in memory opens"), 0));
        let result = run(db);
        *written += 1;
        if *written >= MOST_WRITTEN {
            *reader = None;
        }
        result
    })
}

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether the bytes are a batch that the database can write.
///
/// # Panics
/// If what was read does not come back from its bytes, or the database refuses to write it.
pub fn accepts(bytes: &[u8]) -> bool {
    let is_log_payload = EntryIter::new(bytes).all(|entry| entry.is_ok());
    with_database(|db| {
        let batch = match db.batch_from_bytes(bytes) {
            Ok(batch) => batch,
            Err(Error::InvalidArgument(text) | Error::NotFound(text)) => {
                assert!(!text.is_empty());
                return false;
            }
            Err(error) => panic!("reading a batch fails with {error}"),
        };
        assert!(is_log_payload, "a batch is read from bytes that are none for the log");
        let entries: Vec<BatchEntry<'_>> = batch.iter().collect();
        assert_eq!((entries.len(), entries.is_empty()), (batch.len(), batch.is_empty()));
        let again = batch.to_bytes().expect("what was read can be stored");
        assert!(again.len() <= bytes.len() && again.len() == batch.encoded_bytes());
        let reread = db.batch_from_bytes(&again).expect("what was stored can be read");
        assert!(reread.iter().eq(entries.iter().copied()), "a batch changes on its way through bytes");
        assert_eq!(reread.to_bytes().expect("what was read can be stored"), again);
        match db.write_with(&batch, Durability::None) {
            // Half of the memory budget is the limit of a batch.
            Ok(_) | Err(Error::Full(_)) => {}
            Err(error) => panic!("a batch that was read is not written: {error}"),
        }
        true
    })
}

/// A batch of a few operations.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    with_database(|db| {
        let mut batch = db.batch();
        for _ in 0..random.below(12) {
            let name = KEYSPACES[random.below(3) as usize];
            let keyspace = db.open_keyspace(name).expect("it was created");
            let key = random_text(random, if random.below(8) == 0 { 300 } else { 24 });
            let value = random_bytes(random, if random.below(8) == 0 { 400 } else { 40 });
            let number = random.below(1_000).to_string().into_bytes();
            let operand = if name == "counters" { number } else { value.clone() };
            let expiry = match random.below(3) {
                0 => Expiry::At(SystemTime::UNIX_EPOCH + Duration::from_millis(random.below(1 << 45))),
                _ => Expiry::Default,
            };
            match random.below(6) {
                0 => batch.delete(&keyspace, &key),
                1 => {
                    let end = random_text(random, 24);
                    let end = if end > key { Bound::Excluded(end) } else { Bound::Unbounded };
                    batch.delete_range(&keyspace, (Bound::Included(key), end));
                }
                2 | 3 if name != "default" => batch.merge_with(&keyspace, &key, &operand, expiry),
                _ => batch.put_with(&keyspace, &key, &operand, expiry),
            }
        }
        batch.to_bytes().expect("all operations are valid")
    })
}
