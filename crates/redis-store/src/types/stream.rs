//! Streams: entries by id, and consumer groups with what each consumer was given.
//!
//! | key in `redis/elements` | value |
//! |---|---|
//! | `I` 01 id | an entry: number of strings, then each string behind its length; all varints |
//! | `I` 02 name | a group: number `4`, last id, entries read `8`, pending `8`, consumers `4`, next consumer `4` |
//! | `I` 04 group consumer | a consumer: seen time `8`, pending `8`, name |
//! | `I` 05 group name | the number of the consumer `4` |
//! | `I` 06 group id | a pending entry: consumer `4`, delivery time `8`, deliveries `8` |
//! | `I` 07 group consumer id | nothing: the same pending entry by its consumer |
//! | `I` 08 id | a full node, see [`node`] |
//!
//! Ids have sixteen bytes, big-endian everywhere; numbers in keys have four and are big-endian, numbers in
//! values have the bytes given and are little-endian. The record has the [`header`] as its payload, so
//! XLEN, XINFO and the checks of XADD read it alone.
//!
//! What holds: the header's length is the number of entries and its first id the smallest of them; a
//! group's pending count is the number of its 06 entries and of its 07 entries, and the sum of its consumers'
//! counts (KR2 for streams).

pub mod convert;
pub mod entries;
pub mod groups;
pub mod header;
pub mod node;
pub mod pending;
mod places;
pub mod trim;

pub use entries::EntryStrings;
pub use esker_redis_data::StreamId;
pub use groups::{Consumer, Group};
pub use header::Stream;
pub use node::NodeLimits;
pub use pending::Pending;
pub use trim::{Trim, TrimTo};

/// The layout of a stream: its payload is the header.
pub const OBJECT: u8 = crate::record::FIRST_OBJECT_LAYOUT;

/// The least id.
pub const MIN_ID: StreamId = StreamId { milliseconds: 0, sequence: 0 };

/// The greatest id.
pub const MAX_ID: StreamId = StreamId { milliseconds: u64::MAX, sequence: u64::MAX };

/// The id behind `id`; `None` behind the greatest.
pub fn next_id(id: StreamId) -> Option<StreamId> {
    let number = u128::from_be_bytes(id.to_be_bytes()).checked_add(1)?;
    Some(StreamId::from_be_bytes(number.to_be_bytes()))
}

/// The id before `id`; `None` before the least.
pub fn previous_id(id: StreamId) -> Option<StreamId> {
    let number = u128::from_be_bytes(id.to_be_bytes()).checked_sub(1)?;
    Some(StreamId::from_be_bytes(number.to_be_bytes()))
}
