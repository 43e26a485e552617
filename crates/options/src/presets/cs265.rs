//! The parameters of the CS265 final report's store, under its names, with its defaults and ranges (appendix
//! A).

use crate::schema::units::Unit;
use crate::schema::{self, OptionScope, Row, Scope};
use crate::{KeyspaceOptions, Options};
use esker_base::Result;

/// Bytes of key and value in the report's entries: two 64-bit integers.
const ENTRY_BYTES: u64 = 16;
/// The share of merges in a memory budget.
const MERGE_BYTES: u64 = 8 << 20;

/// The parameters of the CS265 final report's store.
///
/// ```
/// # fn main() -> esker_base::Result<()> {
/// use esker_options::Cs265;
///
/// let options = Cs265::default().set("fanout", "6")?.set("compaction_policy", "Leveled")?.options()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cs265 {
    buffer_entries: u64,
    fanout: u64,
    policy: Word,
    block_bytes: u64,
    bits_per_key: u64,
    cache_mib: u64,
    compression: Word,
    memtable: Word,
    fences: Word,
}

/// A word of the report and the equivalent value.
type Word = (&'static str, &'static str);

const POLICIES: &[Word] = &[
    ("Tiered", "tiered"),
    ("Leveled", "leveled"),
    ("LazyLeveled", "tiered-leveled"),
    ("Partial", "partial"),
];
const MEMTABLES: &[Word] = &[("Sharded", "sharded"), ("LockFree", "skiplist")];
const COMPRESSION: &[Word] = &[
    ("None", "none"),
    ("LZ4", "lz4"),
    ("Snappy", "snappy"),
    ("BitPack", "bit-packing"),
    ("Delta", "delta"),
    ("Dictionary", "dictionary"),
];
const FENCES: &[Word] =
    &[("Standard", "sorted-array"), ("FastLane", "fast-lane"), ("Eytzinger", "eytzinger")];

impl Default for Cs265 {
    fn default() -> Cs265 {
        Cs265 {
            buffer_entries: 1_048_576,
            fanout: 4,
            policy: POLICIES[0],
            block_bytes: 4096,
            bits_per_key: 10,
            cache_mib: 128,
            compression: COMPRESSION[1],
            memtable: MEMTABLES[0],
            fences: FENCES[0],
        }
    }
}

type Own = Row<Cs265>;

const ROWS: &[Own] = &[
    Own::number(
        "buffer_size",
        Unit::Count.range(65_536, 16_777_216),
        |own| Some(own.buffer_entries),
        |own, entries| own.buffer_entries = entries.unwrap_or(0),
    )
    .help("Entries of the buffer in memory."),
    Own::number(
        "fanout",
        Unit::Count.range(2, 10),
        |own| Some(own.fanout),
        |own, fanout| own.fanout = fanout.unwrap_or(0),
    )
    .help("Size ratio between levels."),
    Own::text(
        "compaction_policy",
        || words(POLICIES),
        |own| own.policy.0.to_owned(),
        |own, text| word(&mut own.policy, POLICIES, text),
    )
    .help("Strategy of compaction; `LazyLeveled` tiers level 0 only, as the report does, and `Partial` takes the part that overlaps least."),
    Own::number(
        "block_size",
        Unit::Count.range(512, 65_536),
        |own| Some(own.block_bytes),
        |own, bytes| own.block_bytes = bytes.unwrap_or(0),
    )
    .help("Bytes of a block."),
    Own::number(
        "bloom_bits_per_key",
        Unit::Count.range(4, 20),
        |own| Some(own.bits_per_key),
        |own, bits| own.bits_per_key = bits.unwrap_or(0),
    )
    .help("Bits for each key in Bloom filters."),
    Own::number(
        "cache_size_mb",
        Unit::Count.range(8, 1024),
        |own| Some(own.cache_mib),
        |own, mib| own.cache_mib = mib.unwrap_or(0),
    )
    .help("Size of the block cache in MB."),
    Own::text(
        "compression",
        || words(COMPRESSION),
        |own| own.compression.0.to_owned(),
        |own, text| word(&mut own.compression, COMPRESSION, text),
    )
    .help("Compression of blocks."),
    Own::text(
        "memtable_implementation",
        || words(MEMTABLES),
        |own| own.memtable.0.to_owned(),
        |own, text| word(&mut own.memtable, MEMTABLES, text),
    )
    .help("Structure of the buffer; `LockFree` is our skiplist."),
    Own::text(
        "fence_pointers",
        || words(FENCES),
        |own| own.fences.0.to_owned(),
        |own, text| word(&mut own.fences, FENCES, text),
    )
    .help("How the block of a key is found; `Standard` is a sorted array."),
];

fn words(all: &[Word]) -> String {
    all.iter().map(|(theirs, _)| *theirs).collect::<Vec<_>>().join(", ")
}

fn word(chosen: &mut Word, all: &[Word], text: &str) -> Result<(), String> {
    *chosen = *all.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(text)).ok_or_else(String::new)?;
    Ok(())
}

impl Scope for Cs265 {
    const SCOPE: OptionScope = OptionScope::Preset;

    fn rows() -> &'static [Own] {
        ROWS
    }

    fn names_elsewhere() -> Vec<(&'static str, OptionScope)> {
        [schema::names::<Options>(), schema::names::<KeyspaceOptions>()].concat()
    }

    fn check_more(&self) -> Result<()> {
        Ok(())
    }
}

impl Cs265 {
    pub(super) const NAME: &'static str = "cs265";

    /// The parameters as options of Esker.
    ///
    /// The report counts the buffer in entries, which are limited here as well; entries larger than the
    /// report's end the buffer by the bytes that the report's would take, for which memory is reserved and by
    /// which levels are sized. The report has a cache of its own size, where Esker has one budget for
    /// everything: the budget is chosen so that the cache has its size when buffers of 16-byte entries, as in
    /// the report, and their log are full.
    ///
    /// # Errors
    /// `InvalidArgument` for a codec whose Cargo feature this build is without.
    pub fn options(&self) -> Result<Options> {
        let buffers = self.buffer_entries * ENTRY_BYTES;
        let budget = (self.cache_mib << 20) + 2 * buffers + buffers / 2 + MERGE_BYTES;
        let mut options = Options::default().memory_budget(budget);
        let settings = self.keyspace_settings();
        options.keyspace = settings
            .iter()
            .try_fold(KeyspaceOptions::default(), |options, (name, value)| options.set(name, value))?;
        Ok(options)
    }

    /// The parameters as keyspace settings, by the names of Esker's options.
    pub(super) fn keyspace_settings(&self) -> Vec<(String, String)> {
        let strategy = format!("{}:{}", self.policy.1, self.fanout);
        let settings = [
            ("write_buffer_entries", self.buffer_entries.to_string()),
            ("write_buffer_size", (self.buffer_entries * ENTRY_BYTES).to_string()),
            ("strategy", strategy),
            ("block_size", self.block_bytes.to_string()),
            ("filter", format!("double-probe-bloom:{}", self.bits_per_key)),
            ("compression", self.compression.1.to_owned()),
            ("compression_last", self.compression.1.to_owned()),
            ("memtable", self.memtable.1.to_owned()),
            ("index_type", self.fences.1.to_owned()),
        ];
        settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
