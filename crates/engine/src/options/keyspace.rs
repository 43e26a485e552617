//! Options of a keyspace; stored with it.

use super::filtering::OwnFilter;
use super::stored::{self, Field};
use esker_base::{Error, Result};
use esker_codec::Codec;
use esker_filter::FilterPolicy;
use esker_iter::operator::MergeOperator;
use esker_memtable::MemtableKind;
use esker_sst::BlockLayout;
use esker_strategy::Strategy;
use std::time::Duration;

/// Smallest write buffer: a memtable of this size still holds hundreds of small entries.
const MIN_WRITE_BUFFER_BYTES: u64 = 4 << 10;
/// Largest write buffer: memtable references reach 16 GiB, and replay of a full one must stay bearable.
const MAX_WRITE_BUFFER_BYTES: u64 = 4 << 30;
/// Sizes that blocks may have (T1).
const BLOCK_SIZE_BYTES: std::ops::RangeInclusive<usize> = 512..=64 << 10;
/// Sizes that tables may have.
const TABLE_SIZE_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=4 << 30;

/// Lengths from which values may be kept apart: a pointer takes about 15 bytes, its record's head as many.
const BLOB_THRESHOLD_BYTES: std::ops::RangeInclusive<u64> = 64..=1 << 30;
/// Targets for the room that large values take, in 1/1000. Below 1.1 each value would be copied ten times.
const BLOB_SPACE_AMP_PERMILLE: std::ops::RangeInclusive<u32> = 1100..=100_000;

/// One choice for the last level, where data rests, and one for the levels above it, where it passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerLevel<T> {
    /// Levels above the last.
    pub upper: T,
    /// The last level.
    pub last: T,
}

impl<T: Copy> PerLevel<T> {
    /// The same choice everywhere.
    pub const fn all(value: T) -> PerLevel<T> {
        PerLevel { upper: value, last: value }
    }

    /// The choice for a level.
    pub(crate) fn pick(&self, is_last: bool) -> T {
        if is_last { self.last } else { self.upper }
    }
}

/// Options of a keyspace. They are stored with it when it is created; opening it again uses the stored ones.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct KeyspaceOptions {
    pub(crate) memtable: MemtableKind,
    pub(crate) write_buffer_bytes: Option<u64>,
    pub(crate) write_buffer_entries: Option<u64>,
    pub(crate) block_layout: PerLevel<BlockLayout>,
    pub(crate) block_size_bytes: usize,
    pub(crate) compression: PerLevel<Codec>,
    pub(crate) filter: FilterPolicy,
    pub(crate) strategy: Strategy,
    pub(crate) table_bytes: Option<u64>,
    pub(crate) level0_stop_runs: u32,
    pub(crate) default_ttl: Option<Duration>,
    pub(crate) merge_operator: Option<MergeOperator>,
    /// Code: not stored.
    pub(crate) compaction_filter: Option<OwnFilter>,
    pub(crate) blob_threshold_bytes: Option<u64>,
    pub(crate) blob_file_bytes: u64,
    pub(crate) blob_space_amp_permille: u32,
}

impl Default for KeyspaceOptions {
    fn default() -> KeyspaceOptions {
        KeyspaceOptions {
            memtable: MemtableKind::Art,
            write_buffer_bytes: None,
            write_buffer_entries: None,
            block_layout: PerLevel::all(BlockLayout::Flat),
            block_size_bytes: 4096,
            compression: PerLevel { upper: Codec::None, last: Codec::Lz4 },
            filter: FilterPolicy::DEFAULT,
            strategy: Strategy::default(),
            table_bytes: None,
            level0_stop_runs: 24,
            default_ttl: None,
            merge_operator: None,
            compaction_filter: None,
            blob_threshold_bytes: None,
            blob_file_bytes: 32 << 20,
            blob_space_amp_permille: 1500,
        }
    }
}

impl KeyspaceOptions {
    /// The structure of the memtable. Default: the radix tree.
    pub fn memtable(mut self, kind: MemtableKind) -> KeyspaceOptions {
        self.memtable = kind;
        self
    }

    /// Payload bytes (keys and values) at which the memtable is sealed. Default: from the memory budget, at most
    /// 16 MiB.
    pub fn write_buffer_size(mut self, bytes: u64) -> KeyspaceOptions {
        self.write_buffer_bytes = Some(bytes);
        self
    }

    /// Entries at which the memtable is sealed, whatever its bytes. Default: no such limit.
    pub fn write_buffer_entries(mut self, entries: u64) -> KeyspaceOptions {
        self.write_buffer_entries = Some(entries);
        self
    }

    /// How entries are laid out inside blocks. Default: flat everywhere.
    pub fn block_layout(mut self, layout: PerLevel<BlockLayout>) -> KeyspaceOptions {
        self.block_layout = layout;
        self
    }

    /// Bytes of a block before compression, 512 to 65,536. Default: 4096.
    pub fn block_size(mut self, bytes: usize) -> KeyspaceOptions {
        self.block_size_bytes = bytes;
        self
    }

    /// Compression of blocks. Default: none above the last level, LZ4 in it.
    pub fn compression(mut self, compression: PerLevel<Codec>) -> KeyspaceOptions {
        self.compression = compression;
        self
    }

    /// The filter of each table. Default: cache-line-blocked Bloom with 10 bits a key.
    pub fn filter(mut self, filter: FilterPolicy) -> KeyspaceOptions {
        self.filter = filter;
        self
    }

    /// The compaction strategy.
    pub fn strategy(mut self, strategy: Strategy) -> KeyspaceOptions {
        self.strategy = strategy;
        self
    }

    /// Bytes at which a table is cut. Default: from the size of the keyspace, 16 MiB to 1 GiB.
    pub fn table_size(mut self, bytes: u64) -> KeyspaceOptions {
        self.table_bytes = Some(bytes);
        self
    }

    /// Runs in level 0 at which writes wait for compaction. Default: 24.
    pub fn level0_stop_runs(mut self, runs: u32) -> KeyspaceOptions {
        self.level0_stop_runs = runs;
        self
    }

    /// How long values live that are put without a time of their own, counted from the put; whole milliseconds, fractions
    /// are rounded up. Default: for good.
    pub fn default_ttl(mut self, ttl: Duration) -> KeyspaceOptions {
        let ttl_ms = u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        self.default_ttl = Some(Duration::from_millis(ttl_ms));
        self
    }

    /// Values of this many bytes and more lie in blob files, apart from the tables: compactions then copy pointers instead of
    /// values, at the price of a read more for each value that is read. 0 keeps all values in tables. At least 64. Default: 0.
    ///
    /// A change holds for what is written from then on; what lies in tables is separated by the compaction that meets it.
    pub fn blob_threshold(mut self, bytes: u64) -> KeyspaceOptions {
        self.blob_threshold_bytes = (bytes != 0).then_some(bytes);
        self
    }

    /// Bytes at which a blob file is ended, 4 KiB to 4 GiB. Default: 32 MiB.
    pub fn blob_file_size(mut self, bytes: u64) -> KeyspaceOptions {
        self.blob_file_bytes = bytes;
        self
    }

    /// How many times the room of the living large values their files may take, 1.1 to 100, in steps of 1/1000: when it is
    /// more, the values that live on in the files with the most garbage are copied to new ones. Less room costs more
    /// copying: at 1.5, overwriting evenly writes each value less than twice. Default: 1.5.
    pub fn blob_space_amp(mut self, times: f64) -> KeyspaceOptions {
        // What is out of range is refused where the options are used; the conversion saturates, and takes NaN for 0.
        self.blob_space_amp_permille = (times * 1000.0).round() as u32;
        self
    }

    /// The default TTL, if there is one.
    pub fn ttl_by_default(&self) -> Option<Duration> {
        self.default_ttl
    }

    /// The default TTL in milliseconds, 0 if there is none.
    pub(crate) fn default_ttl_ms(&self) -> u64 {
        self.default_ttl.map_or(0, |ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
    }

    /// Every option by the name under which it is stored, with its value as [`KeyspaceOptions::set`] takes it.
    pub fn named_values(&self) -> Vec<(String, String)> {
        let bytes = self.encode();
        let fields = stored::fields(&bytes).unwrap_or_default();
        let stored = fields.into_iter().map(|(name, field)| (name.to_owned(), field.to_string()));
        let filter = self.compaction_filter.iter();
        stored
            .chain(filter.map(|filter| ("compaction_filter".to_owned(), filter.name().to_owned())))
            .collect()
    }

    /// Sets the option that is stored under `name` from text: numbers in decimal, 0 where an option has a default that follows
    /// from something else.
    ///
    /// ```
    /// # fn main() -> esker_base::Result<()> {
    /// let options = esker_engine::KeyspaceOptions::default().set("compression_last", "zstd:3")?;
    /// assert!(options.named_values().contains(&("compression_last".into(), "zstd:3".into())));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, naming the option, if there is none of this name or the value is none of its.
    pub fn set(mut self, name: &str, value: &str) -> Result<KeyspaceOptions> {
        let number = value.parse().ok().map(Field::Number);
        let fields = number.into_iter().chain([Field::Text(value)]);
        let mut is_set = false;
        for field in fields {
            is_set = is_set || self.set_stored(name, &field).is_ok();
        }
        if !is_set {
            let known: Vec<String> = self.named_values().into_iter().map(|(known, _)| known).collect();
            return Err(Error::invalid(match known.iter().any(|known| known == name) {
                true => format!("{value:?} is no value of {name}"),
                false => format!("there is no option {name}; there are {}", known.join(", ")),
            }));
        }
        self.validate()?;
        Ok(self)
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if self.default_ttl.is_some_and(|ttl| ttl.is_zero()) {
            return Err(Error::invalid("default_ttl is zero: nothing would ever be seen"));
        }
        if let Some(bytes) = self.write_buffer_bytes {
            stored::in_range("write_buffer_size", bytes, MIN_WRITE_BUFFER_BYTES..=MAX_WRITE_BUFFER_BYTES)?;
        }
        if self.write_buffer_entries == Some(0) {
            return Err(Error::invalid("write_buffer_entries is 0, at least 1 is needed"));
        }
        if let Some(operator) = &self.merge_operator {
            operator.validate()?;
        }
        stored::in_range("block_size", self.block_size_bytes, BLOCK_SIZE_BYTES)?;
        if let Some(bytes) = self.table_bytes {
            stored::in_range("table_size", bytes, TABLE_SIZE_BYTES)?;
        }
        if let Some(bytes) = self.blob_threshold_bytes {
            stored::in_range("blob_threshold", bytes, BLOB_THRESHOLD_BYTES)?;
        }
        stored::in_range("blob_file_size", self.blob_file_bytes, TABLE_SIZE_BYTES)?;
        stored::in_range("blob_space_amp_permille", self.blob_space_amp_permille, BLOB_SPACE_AMP_PERMILLE)?;
        stored::in_range("level0_stop_runs", self.level0_stop_runs, 2..=10_000)
    }

    /// The bytes stored with the keyspace.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let number = |value: u64| Field::Number(value);
        stored::put(&mut out, "memtable", &Field::Text(&self.memtable.to_string()));
        stored::put(&mut out, "write_buffer_size", &number(self.write_buffer_bytes.unwrap_or(0)));
        stored::put(&mut out, "write_buffer_entries", &number(self.write_buffer_entries.unwrap_or(0)));
        stored::put(&mut out, "block_layout", &Field::Text(self.block_layout.upper.name()));
        stored::put(&mut out, "block_layout_last", &Field::Text(self.block_layout.last.name()));
        stored::put(&mut out, "block_size", &number(self.block_size_bytes as u64));
        stored::put(&mut out, "compression", &Field::Text(&self.compression.upper.to_string()));
        stored::put(&mut out, "compression_last", &Field::Text(&self.compression.last.to_string()));
        stored::put(&mut out, "filter", &Field::Text(&self.filter.to_string()));
        stored::put(&mut out, "strategy", &Field::Text(&self.strategy.to_string()));
        stored::put(&mut out, "table_size", &number(self.table_bytes.unwrap_or(0)));
        stored::put(&mut out, "level0_stop_runs", &number(u64::from(self.level0_stop_runs)));
        if self.default_ttl.is_some() {
            // Left out where there is none, so that builds which do not know it can open the keyspace.
            stored::put(&mut out, "default_ttl_ms", &number(self.default_ttl_ms()));
        }
        if let Some(operator) = &self.merge_operator {
            stored::put(&mut out, "merge_operator", &Field::Text(operator.text()));
        }
        if self.blob_threshold_bytes.is_some() || self.has_other_blob_options() {
            // As above.
            stored::put(&mut out, "blob_threshold", &number(self.blob_threshold_bytes.unwrap_or(0)));
            stored::put(&mut out, "blob_file_size", &number(self.blob_file_bytes));
            let permille = u64::from(self.blob_space_amp_permille);
            stored::put(&mut out, "blob_space_amp_permille", &number(permille));
        }
        out
    }

    fn has_other_blob_options(&self) -> bool {
        let default = KeyspaceOptions::default();
        let of = |options: &KeyspaceOptions| (options.blob_file_bytes, options.blob_space_amp_permille);
        of(self) != of(&default)
    }

    /// Reads what [`KeyspaceOptions::encode`] wrote.
    ///
    /// # Errors
    /// `Unsupported` for an option or a value that this build does not know: guessing would change what is
    /// written.
    pub(crate) fn decode(bytes: &[u8]) -> Result<KeyspaceOptions> {
        let mut options = KeyspaceOptions::default();
        for (name, field) in stored::fields(bytes)? {
            options.set_stored(name, &field)?;
        }
        options.validate()?;
        Ok(options)
    }

    fn set_stored(&mut self, name: &str, field: &Field<'_>) -> Result<()> {
        let unknown = || Error::Unsupported(format!("option {name} = {field}").into());
        let optional = |value: u64| (value != 0).then_some(value);
        match (name, field) {
            ("memtable", Field::Text(text)) => {
                self.memtable = text.parse().map_err(|_| unknown())?;
            }
            ("write_buffer_size", Field::Number(bytes)) => self.write_buffer_bytes = optional(*bytes),
            ("write_buffer_entries", Field::Number(entries)) => {
                self.write_buffer_entries = optional(*entries);
            }
            ("block_layout", Field::Text(text)) => {
                self.block_layout.upper = BlockLayout::parse(text).ok_or_else(unknown)?;
            }
            ("block_layout_last", Field::Text(text)) => {
                self.block_layout.last = BlockLayout::parse(text).ok_or_else(unknown)?;
            }
            ("block_size", Field::Number(bytes)) => self.block_size_bytes = stored::narrow(name, *bytes)?,
            ("compression", Field::Text(text)) => {
                self.compression.upper = text.parse().map_err(|_| unknown())?;
            }
            ("compression_last", Field::Text(text)) => {
                self.compression.last = text.parse().map_err(|_| unknown())?;
            }
            ("filter", Field::Text(text)) => self.filter = text.parse().map_err(|_| unknown())?,
            ("strategy", Field::Text(text)) => self.strategy = text.parse().map_err(|_| unknown())?,
            ("table_size", Field::Number(bytes)) => self.table_bytes = optional(*bytes),
            ("level0_stop_runs", Field::Number(runs)) => self.level0_stop_runs = stored::narrow(name, *runs)?,
            ("default_ttl_ms", Field::Number(ms)) => {
                self.default_ttl = optional(*ms).map(Duration::from_millis);
            }
            ("merge_operator", Field::Text(text)) => {
                self.merge_operator = Some(MergeOperator::parse(text).ok_or_else(unknown)?);
            }
            ("blob_threshold", Field::Number(bytes)) => self.blob_threshold_bytes = optional(*bytes),
            ("blob_file_size", Field::Number(bytes)) => self.blob_file_bytes = *bytes,
            ("blob_space_amp_permille", Field::Number(permille)) => {
                self.blob_space_amp_permille = stored::narrow(name, *permille)?;
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_form_round_trips() {
        let options = KeyspaceOptions::default()
            .memtable(MemtableKind::Skiplist)
            .write_buffer_size(1 << 20)
            .write_buffer_entries(77)
            .block_size(512)
            .block_layout(PerLevel { upper: BlockLayout::Flat, last: BlockLayout::Delta })
            .compression(PerLevel::all(Codec::Zstd { level: 7 }))
            .table_size(1 << 20)
            .level0_stop_runs(9)
            .merge_operator(MergeOperator::append(", "))
            .blob_threshold(1000)
            .blob_file_size(1 << 20)
            .blob_space_amp(1.25);
        assert_eq!(KeyspaceOptions::decode(&options.encode()).unwrap(), options);
    }

    #[test]
    fn options_are_set_by_name() {
        let mut options = KeyspaceOptions::default();
        for (name, value) in KeyspaceOptions::default().table_size(1 << 20).block_size(512).named_values() {
            options = options.set(&name, &value).unwrap();
        }
        assert_eq!(options, KeyspaceOptions::default().table_size(1 << 20).block_size(512));
        let told = |name, value| options.clone().set(name, value).unwrap_err().to_string();
        assert!(told("colour", "green").contains("no option colour; there are memtable, "));
        assert!(told("block_size", "big").contains("\"big\" is no value of block_size"));
        assert!(told("compression", "green").contains("\"green\" is no value of compression"));
        assert!(told("block_size", "1").contains("block_size is 1"));
    }

    #[test]
    fn unknown_options_and_damaged_bytes_are_refused() {
        let mut bytes = KeyspaceOptions::default().encode();
        stored::put(&mut bytes, "colour", &Field::Text("green"));
        let error = KeyspaceOptions::decode(&bytes).unwrap_err();
        assert!(matches!(&error, Error::Unsupported(text) if text.contains("colour")), "{error}");
        for len in 1..bytes.len() - 1 {
            // Cut at any place: refused, or a shorter list of whole fields.
            let _ = KeyspaceOptions::decode(&bytes[..len]);
        }
    }

    #[test]
    fn values_out_of_range_are_named() {
        let error = KeyspaceOptions::default().block_size(100).validate().unwrap_err().to_string();
        assert!(error.contains("block_size") && error.contains("100") && error.contains("512"), "{error}");
    }
}
