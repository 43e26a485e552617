//! Table files: immutable sorted files of blocks.
//!
//! ```text
//! file header | block 0 | block 1 | ... | [index pages] | [locator] | index | filter | range deletes | properties | section directory | footer
//! ```
//! `docs/format/table.md` describes every byte. A [`TableWriter`] takes entries in internal order (key
//! ascending, newest version first) and writes them out as they come; a [`Table`] keeps index, range deletes
//! and, unless it is to be paged, the filter in memory and reads blocks through the block cache; a
//! [`TableCursor`] walks; [`multi_get()`] looks up many keys with their cache misses overlapped.
//!
//! What holds:
//! * **Nothing unverified is seen** (BS6). A block's checksum covers its header and its stored bytes and is
//!   bound to the table's identity and the block's place, and it is checked before the block is decompressed,
//!   cached or read. The same goes for sections and footer. Only what a merge hands on has not been in the
//!   file: it is what the checksum was computed from (HO5). What a checksum accepts is still validated once,
//!   so that even bytes made to deceive cannot make a reader panic, leave its buffers or allocate more than
//!   the file's size or a block's limit.
//! * **All versions of a key are found**, also if they fill several blocks: the index marks the blocks that
//!   go on with the key of the block before.
//! * **An error is an error**, never an absent key. Only a damaged filter, locator or root of index pages is
//!   passed over, because lookups are right without; [`Table::filter_damage`] and [`Table::index_damage`]
//!   tell, and [`Table::verify`] reports it.
//! * **No allocation** per entry or block while writing, per lookup of what is cached, or per step of a
//!   cursor.
//!
//! Speed comes from few cache misses in a row and from waiting for many at once: the index is searched by key
//! heads with vector instructions, a block's directory lies in neighbouring lines and names the one entry to
//! touch, and whole lookups are compiled for each instruction set and chosen at run time.
//!
//! Map, bottom up: `isa` the instruction sets; `block` the two layouts of entries and what frames them;
//! `index` the block index, stored and in memory; `range_section`, `footer` and `properties` the rest of the
//! format; `options`, `outgoing` and `writer` make tables; `tail` reads the end of a file and `table` opens
//! it, `filter_access` asks its filter, `home` is what stays of tables while they are closed; `part` is what
//! the cache holds of them; `heir` hands blocks of a merge on to it; `slots`, `load` and `read_ahead` get
//! blocks, `lookup`, `multi_get` and `cursor` read entries; `verify`, `inspect` and `salvage` are for people.

mod block;
mod block_bounds;
mod cache_warming;
mod cached_part;
mod cursor;
mod decode_error;
mod dictionary;
mod dictionary_buffer;
mod expiring;
mod file_writer;
mod filter_access;
mod footer;
mod index;
mod inspect;
mod load;
mod lookup;
mod mapped;
mod multi_get;
mod options;
mod pinned_value;
mod properties;
mod range_tombstones;
mod read_ahead;
mod salvage;
mod section_reader;
mod simd;
mod slots;
mod table;
mod table_identity;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub use block::{Block, BlockHeader, BlockLayout, BlockRef};
pub use block_bounds::BlockBounds;
pub use cache_warming::{CacheWarmer, InputReading, InputResidency, WarmedTable};
pub use cached_part::{CachedPart, TableCache};
pub use cursor::{ReadPurpose, TableCursor};
pub use expiring::Expiring;
pub use footer::{FORMAT_VERSION, Section, SectionKind};
pub use index::{AccessPattern, AdaptiveIndex, FenceIndex, IndexKind};
pub use inspect::{BlockFacts, IndexFacts, LayoutFacts, SlotCounts};
pub use lookup::PreparedLookup;
pub use multi_get::{Lookup, MAX_LOOKUPS, multi_get};
pub use options::{MAX_BLOCK_SIZE_BYTES, TableOptions, TableReading, TableSummary};
pub use pinned_value::{PinnedValue, TableHit};
pub use properties::TableProperties;
pub use range_tombstones::{decode_bytes as decode_range_tombstones, encode as encode_range_tombstones};
pub use read_ahead::JobControl;
pub use salvage::{Salvage, SalvagedBlock};
pub use table::{ExpectedTable, Table};
pub use table_identity::{OpenTables, TableIdentity};
pub use verify::{KindBytes, Verified};
pub use writer::TableWriter;
