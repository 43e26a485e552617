//! SST files: immutable sorted table files of blocks, written, read, verified and salvaged.
//!
//! ```text
//! file header | block 0 | block 1 | ... | [index pages] | [locator] | index | [block bounds] | [filter]
//!             | [range tombstones] | [dictionary] | properties | section directory | footer
//! ```
//! `docs/format/table.md` describes every byte. A [`TableWriter`] takes entries in internal order (key
//! ascending, newest version first). A [`Table`] keeps index, range tombstones and, unless it is paged, the
//! filter in memory, and reads blocks through the block cache. A [`TableCursor`] walks. [`multi_get()`] looks
//! up many keys with overlapped cache misses.
//!
//! # Guarantees
//! * **No unverified bytes are read** (BS6). A block's checksum covers its header and stored bytes and is
//!   bound to the table's identity and the block's offset. It is checked before the block is decompressed,
//!   cached or read; sections and footer are treated alike. Only blocks inserted by cache warming were not
//!   read from the file: the checksum was computed from them (HO5). What a checksum accepts is still
//!   validated once, so that even crafted bytes cannot make a reader panic, leave its buffers or allocate
//!   more than the file's size or a block's limit.
//! * **All versions of a key are found**, also if they fill several blocks: the index marks the blocks that
//!   continue the key of the previous one.
//! * **An error is an error**, never an absent key. Only a damaged filter, locator or root of index pages is
//!   ignored, because lookups are right without it; [`Table::filter_damage`], [`Table::index_damage`] and
//!   [`Table::verify`] report it.
//! * **No allocation** per entry or block while writing, per lookup of cached blocks, or per step of a
//!   cursor.
//!
//! Lookups are fast because few cache misses depend on each other and many are overlapped: the index is
//! searched by key heads with vector instructions, a block's directory lies in adjacent lines and names the
//! one entry to read, and whole lookups are compiled for each instruction set and chosen at run time.
//!
//! # Map, bottom up
//! * `simd`: instruction sets. `block`: the two layouts of entries, and the frame around them.
//! * `index`: the block index, stored and in memory. `block_bounds`, `range_tombstones`, `dictionary`,
//!   `properties` and `footer`: the other sections.
//! * `options`, `file_writer`, `dictionary_buffer`, `writer` and `cache_warmer` write tables.
//! * `section_reader` reads the end of a file and `table` opens it. `table_filter` and `table_index` are its
//!   filter and block index, `range_estimate` sizes of key ranges, `table_identity` what is kept while it is
//!   closed, `cached_part` what the cache holds of it.
//! * `slots`, `load`, `mapped`, `window_buffer` and `read_ahead` get blocks, `input_residency` reports those
//!   of a job; `lookup`, `multi_get` and `cursor` read entries; `observed_reads` reports where their blocks
//!   were.
//! * `verify`, `inspect` and `salvage` are for tools, `stored_checksums` for copies of files.

mod block;
mod block_bounds;
mod cache_warmer;
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
mod input_residency;
mod inspect;
mod load;
mod lookup;
mod mapped;
mod multi_get;
mod observed_lookup;
mod observed_reads;
mod options;
mod page_alignment;
mod pinned_value;
mod properties;
mod range_estimate;
mod range_tombstones;
mod read_ahead;
mod read_pattern;
mod salvage;
mod salvaged_end;
mod section_reader;
mod simd;
mod slots;
mod stored_checksums;
mod table;
mod table_filter;
mod table_identity;
mod table_index;
mod table_slots;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod verified_blocks;
mod verify;
mod waiting_block;
mod window_buffer;
mod writer;

pub use block::{Block, BlockHeader, BlockLayout, BlockRef};
pub use block_bounds::BlockBounds;
pub use cache_warmer::{CacheWarmer, WarmedTable};
pub use cached_part::{CachedPart, TableCache};
pub use cursor::{ReadPurpose, TableCursor};
pub use expiring::Expiring;
pub use footer::{FORMAT_VERSION, Section, SectionKind};
pub use index::{AccessPattern, AdaptiveIndex, FenceIndex, IndexKind};
pub use input_residency::{InputReading, InputResidency, JobControl, ScratchFiles};
pub use inspect::{BlockFacts, IndexFacts, LayoutFacts, SlotCounts};
pub use lookup::PreparedLookup;
pub use multi_get::{Lookup, MAX_LOOKUPS, multi_get};
pub use observed_reads::{BlocksRead, ObservedReads};
pub use options::{MAX_BLOCK_SIZE_BYTES, TableOptions, TableReading, TableSummary};
pub use pinned_value::{PinnedValue, TableHit};
pub use properties::TableProperties;
pub use range_tombstones::{decode_bytes as decode_range_tombstones, encode as encode_range_tombstones};
pub use salvage::{Salvage, SalvagedBlock, uid_of_file};
pub use salvaged_end::SalvagedEnd;
pub use stored_checksums::verify_stored_checksums;
pub use table::{ExpectedTable, Table};
pub use table_identity::{OpenTables, TableIdentity};
pub use verify::{KindBytes, Verified};
pub use writer::TableWriter;
