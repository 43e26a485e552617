//! The data types of Redis as entries of an Esker database, without the protocol.
//!
//! A key of Redis is one record. Small collections and strings lie in it; the elements of larger ones are
//! entries of their own under an object's number, so that DEL, EXPIRE and RENAME change the record alone,
//! whatever the size.
//!
//! # What holds
//! * KR1. **One record, one expiry.** The index of expiries has an entry for a key exactly if the key's
//!   record has that expiry.
//! * KR2. **Exact counts.** The stored number of keys of a database is the number of its records, expired
//!   ones that are not deleted yet included; both change in one batch.
//! * KR3. **A number is used once.** No two objects ever have the same number, so nothing that is left of a
//!   deleted object appears in a new one.
//! * KR4. **Nothing is left.** The number of an object is in the garbage list from the batch that removes
//!   its record until its entries are deleted.
//! * KR5. **A command is one batch.** What a [`Txn`] changed becomes visible and durable whole.
//!
//! # Locks
//! A writer holds the stripes of its keys exclusively from before its first read until its batch is written;
//! a reader shares them ([`locks`]). Within its stripes a transaction sees a state that nothing else changes.
//!
//! # Map
//! [`layout`] keyspaces and keys of entries; [`record`] the record of a key; [`locks`] stripes; [`store`] the
//! open store; [`txn`] a transaction, [`notifications`] what its observers are told, and [`entry`] a key in
//! it; [`types`] the types; `whole_database` deletes and exchanges databases; `random_key` is RANDOMKEY;
//! `rank_nodes`, `order_ends`, `list_ends` and `kept_ends` keep parts of large sorted sets and lists in
//! memory; [`garbage`] with its `garbage_queue` and [`expiry_sweep`] delete in the background; `check` looks
//! for broken invariants.

#![forbid(unsafe_code)]

mod ahead;
mod changes;
mod check;
pub mod entry;
pub mod expiry_sweep;
pub mod garbage;
mod garbage_queue;
mod ids;
mod kept_ends;
pub mod layout;
mod list_ends;
pub mod locks;
pub mod notifications;
mod order_ends;
mod random_key;
mod random_seed;
mod rank_nodes;
pub mod record;
pub mod store;
pub mod txn;
pub mod types;
mod whole_database;

pub use entry::Entry;
pub use layout::Space;
pub use notifications::EventClass;
pub use random_key::prefix_end;
pub use random_seed::{random_seed, secret_number};
pub use record::{Kind, Record};
pub use store::Store;
pub use txn::Txn;
