//! The open store: keyspaces, databases, counts and locks over one Esker database.

use crate::garbage_queue::GarbageQueue;
use crate::ids::ObjectIds;
use crate::kept_ends::KeptEnds;
use crate::layout::{PhysicalDb, Space, system};
use crate::list_ends::ListEnds;
use crate::locks::Stripes;
use crate::order_ends::OrderEnds;
use crate::random_seed::{self, random_seed};
use crate::rank_nodes::Families;
use esker::options::FilterPolicy;
use esker::{Database, Error, Keyspace, KeyspaceOptions, MergeOperator, Result, SeqNo};
use esker_redis_data::EncodingLimits;
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The version of the layout that this build reads and writes.
const FORMAT: &[u8] = b"1";

/// Numbers of keys of one physical database.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) keys: AtomicI64,
    pub(crate) expiring: AtomicI64,
}

/// Redis data in an Esker database.
#[derive(Debug)]
pub struct Store {
    database: Database,
    spaces: [Keyspace; 6],
    /// The locks of all keys.
    pub stripes: Stripes,
    ids: ObjectIds,
    /// The physical number of each logical database.
    pub(crate) databases: RwLock<Vec<PhysicalDb>>,
    counts: Box<[Counts]>,
    hash_seed: u64,
    /// Up to which sizes Redis would pack collections.
    encoding_limits: RwLock<EncodingLimits>,
    /// The state of [`Store::random`].
    random: AtomicU64,
    /// The number of the last batch that was written.
    written: AtomicU64,
    /// Nodes of rank indexes.
    pub(crate) rank_nodes: Mutex<Families>,
    /// Ends of sorted sets.
    pub(crate) order_ends: Mutex<KeptEnds<OrderEnds>>,
    /// Ends of lists.
    pub(crate) list_ends: Mutex<KeptEnds<ListEnds>>,
    /// No key expires before this time, in milliseconds since 1970.
    pub(crate) next_expiry_ms: AtomicU64,
    /// Up to this time, in milliseconds since 1970, expired keys are not deleted.
    pub(crate) kept_expired_until_ms: AtomicU64,
    /// Objects in the garbage list, at least.
    pub(crate) garbage_objects: AtomicU64,
    /// Which of them are collected next.
    pub(crate) garbage: GarbageQueue,
    /// Expired keys that were deleted since the store was opened.
    pub(crate) expired_keys: AtomicU64,
}

impl Store {
    /// Opens the store in `database`, which may hold other keyspaces as well, with `databases` logical
    /// databases, 1 to 65,535. What a former process had in databases beyond that stays where it is.
    ///
    /// # Errors
    /// Those of the engine; `Unsupported` if another version wrote it in a layout that this build does not
    /// know.
    pub fn open(database: Database, databases: u16) -> Result<Self> {
        let open = |space: Space| database.keyspace_with(space.name(), options(space));
        let [keys, elements, orders, expiries, own, counts] = Space::ALL.map(open);
        let spaces = [keys?, elements?, orders?, expiries?, own?, counts?];
        let own = &spaces[Space::System as usize];
        match own.get(system::FORMAT)? {
            None => own.put(system::FORMAT, FORMAT)?,
            Some(format) if *format == *FORMAT => {}
            Some(format) => {
                let format = format.escape_ascii();
                return Err(Error::Unsupported(
                    format!("the Redis data have layout {format}; this build knows layout 1").into(),
                ));
            }
        }
        let hash_seed = match own.get(system::HASH_SEED)?.as_ref().and_then(crate::layout::number) {
            Some(seed) => seed,
            None => {
                let seed = random_seed();
                own.put(system::HASH_SEED, seed.to_le_bytes())?;
                seed
            }
        };
        let ids = ObjectIds::open(own)?;
        let mut physical = Vec::new();
        for db in 0..databases {
            let stored = own.get(database_key(db))?;
            let stored = stored.and_then(|stored| stored[..].try_into().ok()).map(u16::from_be_bytes);
            physical.push(PhysicalDb(stored.unwrap_or(db)));
        }
        let highest = physical.iter().map(|db| db.0).max().unwrap_or_default().max(databases);
        let mut counts = Vec::new();
        for db in 0..=highest {
            let read = |kind| -> Result<AtomicI64> {
                let text = spaces[Space::Counts as usize].get(count_key(kind, PhysicalDb(db)))?;
                Ok(text.and_then(|text| esker_resp::integer::parse_integer(&text)).unwrap_or(0).into())
            };
            counts.push(Counts { keys: read(CountKind::Keys)?, expiring: read(CountKind::Expiring)? });
        }
        let garbage = spaces[Space::System as usize].prefix([system::GARBAGE]).count() as u64;
        Ok(Self {
            database,
            spaces,
            stripes: Stripes::default(),
            ids,
            databases: RwLock::new(physical),
            counts: counts.into(),
            hash_seed,
            encoding_limits: RwLock::default(),
            random: random_seed().into(),
            written: AtomicU64::new(0),
            rank_nodes: Mutex::default(),
            order_ends: Mutex::default(),
            list_ends: Mutex::default(),
            next_expiry_ms: AtomicU64::new(0),
            kept_expired_until_ms: AtomicU64::new(0),
            garbage_objects: garbage.into(),
            garbage: GarbageQueue::unread(),
            expired_keys: AtomicU64::new(0),
        })
    }

    /// The database below.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// A keyspace of the store.
    pub fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }

    /// The number of logical databases.
    pub fn databases(&self) -> u16 {
        self.databases.read().len() as u16
    }

    /// Where a logical database lies. It changes only under all stripes; within a transaction
    /// [`Txn::physical`](crate::Txn::physical) knows it.
    ///
    /// # Panics
    /// If there is no such database: SELECT has checked it.
    pub fn physical(&self, db: u16) -> PhysicalDb {
        self.databases.read()[usize::from(db)]
    }

    /// The seed of the hashes of fields and members.
    pub fn hash_seed(&self) -> u64 {
        self.hash_seed
    }

    /// Up to which sizes Redis would pack collections: what OBJECT ENCODING answers and DUMP writes depends
    /// on it, and not how values lie here.
    pub fn encoding_limits(&self) -> EncodingLimits {
        *self.encoding_limits.read()
    }

    /// Sets these sizes, for values that are changed from now on.
    pub fn set_encoding_limits(&self, limits: EncodingLimits) {
        *self.encoding_limits.write() = limits;
    }

    /// A random number. Clients cannot foresee it unless they see many of them: it chooses what commands such
    /// as SPOP answer, and is no secret.
    pub fn random(&self) -> u64 {
        random_seed::next(&self.random)
    }

    /// A number for a new object of a database.
    ///
    /// # Errors
    /// Those of the engine: now and then a lease of numbers is written.
    pub fn new_object(&self, db: PhysicalDb) -> Result<u64> {
        self.ids.take(db, self.space(Space::System))
    }

    /// Keys of a logical database, with those that expired and are not deleted yet.
    pub fn keys(&self, db: u16) -> i64 {
        self.counts(self.physical(db)).keys.load(Ordering::Relaxed)
    }

    /// Keys of a logical database that have an expiry.
    pub fn expiring_keys(&self, db: u16) -> i64 {
        self.counts(self.physical(db)).expiring.load(Ordering::Relaxed)
    }

    /// Objects whose entries are still to be deleted.
    pub fn garbage_objects(&self) -> u64 {
        self.garbage_objects.load(Ordering::Relaxed)
    }

    /// Expired keys that were deleted since the store was opened.
    pub fn expired_keys(&self) -> u64 {
        self.expired_keys.load(Ordering::Relaxed)
    }

    /// The number of the last batch that was written; all before it are visible.
    pub fn written(&self) -> SeqNo {
        SeqNo::new(self.written.load(Ordering::Acquire))
    }

    pub(crate) fn note_written(&self, seqno: SeqNo) {
        self.written.fetch_max(seqno.get(), Ordering::AcqRel);
    }

    /// Physical numbers of databases are below it.
    pub(crate) fn physical_databases(&self) -> u16 {
        self.counts.len() as u16
    }

    pub(crate) fn counts(&self, db: PhysicalDb) -> &Counts {
        &self.counts[usize::from(db.0)]
    }
}

/// Which number of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CountKind {
    Keys,
    Expiring,
}

pub(crate) fn count_key(kind: CountKind, db: PhysicalDb) -> [u8; 3] {
    let [high, low] = db.0.to_be_bytes();
    [kind as u8, high, low]
}

pub(crate) fn garbage_key(object: u64) -> Vec<u8> {
    [&[system::GARBAGE][..], &object.to_be_bytes()].concat()
}

pub(crate) fn database_key(db: u16) -> [u8; 3] {
    let [high, low] = db.to_be_bytes();
    [system::DATABASE, high, low]
}

fn options(space: Space) -> KeyspaceOptions {
    let options = KeyspaceOptions::default();
    match space {
        Space::Keys | Space::Elements | Space::System => options,
        // Read by ranges alone: a filter would never be asked.
        Space::Orders | Space::Expiries => options.filter(FilterPolicy::None),
        Space::Counts => options.merge_operator(MergeOperator::counter_wrapping()),
    }
}
