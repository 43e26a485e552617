//! Operations of a script, and a whole test case: options and a script.

mod calls;

pub use calls::{Call, CopyMethod, PathChange};

use crate::options::Chosen;
use crate::{Filler, Key, SPACES};
use esker::Durability;
use esker::ingest::IngestMode;
use std::fmt;
use std::ops::Bound;

/// How entries join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadMethod {
    /// By an ingest of so many tables, which are written first.
    Tables {
        /// At most the number of keys.
        tables: u8,
        /// Whether the files are moved or copied.
        mode: IngestMode,
    },
    /// By a bulk load, which writes a run for each so many bytes of unsorted entries. Deletes are left out.
    BulkLoad {
        /// Bytes.
        sort_memory: u32,
    },
}

/// One change inside a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Index into [`SPACES`].
    pub space: u8,
    /// What is written to.
    pub key: Key,
    /// What is done to it.
    pub action: Action,
}

/// What an edit does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It gets a value, which expires by the keyspace's default TTL if there is one.
    Put(Filler),
    /// It gets a value that expires after so many milliseconds.
    PutFor(Filler, u32),
    /// An operand is merged into it; it is put where the keyspace has no merge operator.
    Merge(Filler),
    /// An operand is merged into it that counts for so many milliseconds.
    MergeFor(Filler, u32),
    /// It goes.
    Delete,
    /// It goes, and with it all keys up to this bound.
    DeleteUpTo(Bound<Key>),
}

/// When a value or an operand that is written ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// By the keyspace's default TTL, if it has one.
    Default,
    /// Never.
    Never,
    /// After so many milliseconds.
    After(u32),
    /// At a time that is so many milliseconds from now, or was.
    At(i32),
    /// With the value that is replaced.
    Keep,
}

/// How a write is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMethod {
    /// By put, delete or range delete; for one edit only.
    Plain,
    /// As a batch.
    Batch,
    /// As a batch that is stored as bytes and read back before it is written.
    Parsed,
    /// As a batch that may be refused.
    Try,
    /// As a batch that is read over the database before it is written.
    Indexed,
    /// As a transaction that reads each key before it changes it.
    Transaction,
}

/// A move of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// To the first entry.
    First,
    /// To the last entry.
    Last,
    /// To the first entry not less than the key.
    Seek(Key),
    /// To the last entry not greater than the key.
    SeekForPrev(Key),
    /// One forward.
    Next,
    /// One back.
    Prev,
}

/// What is done with the cursor of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorStep {
    /// It is moved.
    Move(Move),
    /// The current entry, if there is one, gets another value.
    Put(Filler),
    /// The current entry is deleted, if there is one.
    Delete,
}

/// What is done in a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A key or a range is changed; creates its keyspace.
    Change(Edit),
    /// A key gets a value with an expiry; creates its keyspace.
    Put {
        /// Index into [`SPACES`].
        space: u8,
        /// The key.
        key: Key,
        /// The value.
        value: Filler,
        /// When it ends.
        lifetime: Lifetime,
    },
    /// An operand is merged into a key, if the keyspace has a merge operator; creates it.
    Merge {
        /// Index into [`SPACES`].
        space: u8,
        /// The key.
        key: Key,
        /// The operand.
        operand: Filler,
        /// When it ends; not [`Lifetime::Keep`].
        lifetime: Lifetime,
    },
    /// The value of a key is read and replaced, or removed; what replaces another keeps its expiry. Creates
    /// the keyspace.
    Update {
        /// Index into [`SPACES`].
        space: u8,
        /// The key.
        key: Key,
        /// The new value.
        value: Option<Filler>,
    },
    /// The first and the last entry are read.
    Ends {
        /// Index into [`SPACES`].
        space: u8,
    },
    /// A cursor is moved about within bounds, and changes what it is at.
    Cursor {
        /// Index into [`SPACES`].
        space: u8,
        /// Where it starts.
        lower: Bound<Key>,
        /// Where it ends.
        upper: Bound<Key>,
        /// What is done with it.
        steps: Vec<CursorStep>,
    },
    /// A key is read in every way there is.
    Get {
        /// Index into [`SPACES`].
        space: u8,
        /// The key.
        key: Key,
        /// Whether the transaction is to depend on it at either level.
        for_update: bool,
    },
    /// A range is read, to its end or not. As in [`Op::Range`] otherwise.
    Range {
        /// Whether its keys alone are read.
        keys_only: bool,
        /// Index into [`SPACES`].
        space: u8,
        /// Where it starts.
        lower: Bound<Key>,
        /// Where it ends.
        upper: Bound<Key>,
        /// From which ends entries are taken.
        ends: u64,
        /// How many entries are asked for.
        count: u8,
    },
    /// A savepoint is set.
    Savepoint,
    /// Changes are taken back, up to one of the savepoints, by a number taken modulo their count.
    RollbackTo(u8),
}

/// Which moment a read sees: the present, or one of the open snapshots, by a number taken modulo their count.
pub type At = Option<u8>;

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A write; creates the keyspaces it names.
    Write {
        /// What it changes.
        edits: Vec<Edit>,
        /// By which call.
        how: WriteMethod,
        /// What it is to survive.
        durability: Durability,
    },
    /// A key gets a value, which creates its keyspace.
    Put {
        /// Index into [`SPACES`].
        space: u8,
        /// The key.
        key: Key,
        /// The value.
        value: Filler,
        /// When it ends.
        lifetime: Lifetime,
        /// What it is to survive.
        durability: Durability,
    },
    /// An operand is merged into a key, if the keyspace has a merge operator; creates it.
    Merge {
        /// Index into [`SPACES`].
        space: u8,
        /// The key.
        key: Key,
        /// The operand.
        operand: Filler,
        /// When it ends; not [`Lifetime::Keep`].
        lifetime: Lifetime,
        /// What it is to survive.
        durability: Durability,
    },
    /// The value of a key is read and replaced, or removed, in one step. Creates the keyspace.
    Update {
        /// Index into [`SPACES`].
        space: u8,
        /// The key.
        key: Key,
        /// The new value.
        value: Option<Filler>,
        /// When it ends; by default with the value that it replaces.
        lifetime: Lifetime,
    },
    /// Entries join a keyspace as a whole; creates it.
    Join {
        /// Index into [`SPACES`].
        space: u8,
        /// Keys and what becomes of them, in any order.
        edits: Vec<(Key, Action)>,
        /// By which call.
        load_method: LoadMethod,
    },
    /// A key is read in every way there is.
    Get {
        /// Index into [`SPACES`].
        space: u8,
        /// The key.
        key: Key,
        /// When.
        at: At,
    },
    /// Several keys are read at once.
    MultiGet {
        /// Index into [`SPACES`].
        space: u8,
        /// The keys.
        keys: Vec<Key>,
        /// When.
        at: At,
    },
    /// Reads a range; each bit of `ends`, cyclically, takes from the back (1) or the front (0).
    Range {
        /// Index into [`SPACES`].
        space: u8,
        /// Where it starts.
        lower: Bound<Key>,
        /// Where it ends.
        upper: Bound<Key>,
        /// From which ends entries are taken.
        ends: u64,
        /// When.
        at: At,
    },
    /// The keys with a prefix, an index into [`crate::PREFIXES`], and the first and the last entry.
    Prefix {
        /// Index into [`SPACES`].
        space: u8,
        /// Index into [`crate::PREFIXES`].
        prefix: u8,
        /// When.
        at: At,
    },
    /// A cursor is moved about within bounds.
    Cursor {
        /// Index into [`SPACES`].
        space: u8,
        /// Where it starts.
        lower: Bound<Key>,
        /// Where it ends.
        upper: Bound<Key>,
        /// The moves.
        moves: Vec<Move>,
        /// When.
        at: At,
    },
    /// The size of a range is estimated, and keys are asked for that divide it.
    Size {
        /// Index into [`SPACES`].
        space: u8,
        /// Where it starts.
        lower: Bound<Key>,
        /// Where it ends.
        upper: Bound<Key>,
        /// Into how many parts it is to be divided.
        parts: u8,
    },
    /// A transaction begins; the oldest open one is dropped if there are many.
    Begin {
        /// At which level.
        serializable: bool,
    },
    /// Something is done in one of the open transactions, by a number taken modulo their count.
    InTransaction {
        /// In which.
        which: u8,
        /// What.
        step: Step,
    },
    /// A transaction ends.
    Finish {
        /// Which.
        which: u8,
        /// Whether it commits: a conflict must occur iff something it depends on has changed.
        commit: bool,
    },
    /// A key is asked how long it lives.
    Ttl {
        /// Index into [`SPACES`].
        space: u8,
        /// The key.
        key: Key,
    },
    /// A key's value gets another end: after so many milliseconds, or none.
    Touch {
        /// Index into [`SPACES`].
        space: u8,
        /// The key.
        key: Key,
        /// How long it is to live, in milliseconds; `None` for good.
        ttl_ms: Option<u32>,
    },
    /// The wall clock moves by so many milliseconds, also backwards.
    Clock(i32),
    /// A snapshot is taken.
    Snapshot,
    /// A snapshot is dropped.
    Release(u8),
    /// Everything is flushed.
    Flush,
    /// The log is synced.
    Sync,
    /// A range of a keyspace is compacted.
    Compact {
        /// Index into [`SPACES`].
        space: u8,
        /// Where it starts.
        lower: Bound<Key>,
        /// Where it ends.
        upper: Bound<Key>,
    },
    /// A keyspace is dropped, if it is there and not the default one.
    DropKeyspace(u8),
    /// A keyspace that is there gets the name of one that is not.
    RenameKeyspace {
        /// Index into [`SPACES`].
        from: u8,
        /// Index into [`SPACES`].
        to: u8,
    },
    /// A keyspace that is there gets other options.
    SetOptions {
        /// Index into [`SPACES`].
        space: u8,
        /// Its options from now on.
        options: Chosen,
    },
    /// A follower of the change stream catches up by a new or its open stream.
    Follow {
        /// Whether the stream is a new one.
        anew: bool,
        /// What the batches must survive.
        durability: Durability,
        /// Whether it acknowledges afterwards.
        acknowledge: bool,
    },
    /// Waits until nothing is left to do.
    Drain,
    /// So many steps of background work.
    Step(u8),
    /// Closed and opened again.
    Reopen {
        /// Whether the *next* close flushes.
        flush_on_close: bool,
    },
    /// Closed, opened for reading only, checked, and opened again.
    ReopenReadOnly,
    /// Everything is compared, at the present and at each snapshot, and verified.
    CheckAll,
    /// The database is copied, and the copy opened and compared.
    Copy(CopyMethod),
    /// A callback panics.
    Panic {
        /// Of which call.
        call: Call,
        /// Index into [`SPACES`].
        space: u8,
        /// The key that the call is about.
        key: Key,
    },
    /// Closed and opened again while handles live on, which are dropped in an order that follows from this.
    Outlive(u8),
    /// It is refused to open the database again.
    OpenBeside,
    /// The path of the database gets another meaning while it is open.
    ChangePath(PathChange),
    /// Another database of the process gets an entry.
    Neighbour {
        /// The key.
        key: Key,
        /// The value.
        value: Filler,
    },
}

/// A test case. Equal plans run alike.
#[derive(Clone, PartialEq, Eq)]
pub struct Plan {
    /// Decides background steps and what the database takes as random.
    pub seed: u64,
    /// Options of the database.
    pub database: Chosen,
    /// Options of each keyspace.
    pub spaces: [Chosen; SPACES.len()],
    /// What is done.
    pub script: Vec<Op>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        writeln!(f, "database: {}", self.database.describe(crate::options::DATABASE))?;
        for (name, chosen) in SPACES.iter().zip(&self.spaces) {
            writeln!(f, "keyspace {name}: {}", chosen.describe(crate::options::KEYSPACE))?;
        }
        writeln!(f, "script, {} operations:", self.script.len())?;
        self.script.iter().try_for_each(|op| writeln!(f, "    Op::{op:?},"))
    }
}
