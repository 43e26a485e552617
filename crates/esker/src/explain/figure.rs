//! Figures of explanations: their names for programs, their labels for people, their units.

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// A multiple of something.
    Times,
}

macro_rules! figures {
    ($($(#[$doc:meta])* $variant:ident $name:literal $label:literal $unit:ident,)*) => {
        /// What a figure of an explanation counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Figure {
            $($(#[$doc])* $variant,)*
        }

        impl Figure {
            /// All figures.
            pub const ALL: &'static [Figure] = &[$(Figure::$variant,)*];

            /// The name for programs, with the unit last.
            pub fn name(self) -> &'static str {
                match self { $(Figure::$variant => $name,)* }
            }

            /// The label for people.
            pub fn label(self) -> &'static str {
                match self { $(Figure::$variant => $label,)* }
            }

            /// The unit.
            pub fn unit(self) -> Unit {
                match self { $(Figure::$variant => Unit::$unit,)* }
            }
        }
    };
}

figures! {
    /// Memtables that were searched.
    MemtablesSearched "memtables_searched" "memtables searched" Count,
    /// Tables whose filter was asked, those without a filter included.
    FiltersProbed "filters_probed" "filters probed" Count,
    /// Tables that were searched, because their filter did not exclude the key.
    TablesSearched "tables_searched" "tables searched" Count,
    /// Tables that were searched and do not have the key.
    SearchedInVain "tables_searched_in_vain" "in vain" Count,
    /// Runs of the tree.
    Runs "runs" "runs" Count,
    /// Data blocks, wherever they were.
    DataBlocks "data_blocks" "data blocks" Count,
    /// Data blocks found by the slots of their table.
    BlocksFromSlots "blocks_from_slots" "from slots" Count,
    /// Data blocks found in the block cache.
    BlocksFromCache "blocks_from_cache" "from the cache" Count,
    /// Data blocks used in place in mapped files.
    BlocksMapped "blocks_mapped" "mapped" Count,
    /// Data blocks read from files.
    BlocksFromFiles "blocks_from_files" "from files" Count,
    /// Bytes of data blocks read from files.
    FileBytes "file_bytes" "read" Bytes,
    /// Index pages and filters found in the block cache.
    IndexFromCache "index_pages_and_filters_from_cache" "index pages and filters from the cache" Count,
    /// Index pages and filters read from files.
    IndexFromFiles "index_pages_and_filters_from_files" "index pages and filters from files" Count,
    /// Bytes of index pages and filters read from files.
    IndexFileBytes "index_pages_and_filters_file_bytes" "of index pages and filters read" Bytes,
    /// Large values read from blob files.
    LargeValues "large_values" "large values" Count,
    /// Bytes of large values read from blob files.
    LargeBytes "large_value_bytes" "of large values read" Bytes,
    /// Versions visited to merge operands.
    VersionsMerged "versions_merged" "versions merged" Count,
    /// Entries returned.
    Returned "entries_returned" "returned" Count,
    /// Bytes of keys and values returned.
    ReturnedBytes "returned_bytes" "of keys and values returned" Bytes,
    /// Stored entries that were met, superseded versions and tombstones included.
    Met "entries_met" "entries met" Count,
    /// Bytes of keys and values of the entries met.
    MetBytes "met_bytes" "of keys and values met" Bytes,
    /// Stored entries that were met and not returned.
    SteppedOver "entries_stepped_over" "stepped over" Count,
    /// Tombstones that were met.
    Tombstones "tombstones" "tombstones" Count,
    /// How often a source was sought.
    Seeks "seeks" "seeks" Count,
    /// How long the seeks took.
    SeekTime "seeks_ns" "seeking" Nanoseconds,
    /// How long it took.
    Time "took_ns" "took" Nanoseconds,
    /// Files.
    Files "files" "files" Count,
    /// Bytes on the disk, as `du` counts them.
    DiskBytes "disk_bytes" "on disk" Bytes,
    /// Bytes of memory.
    MemoryBytes "memory_bytes" "in memory" Bytes,
    /// Mapped bytes of files, which are no anonymous memory.
    MappedBytes "mapped_bytes" "mapped" Bytes,
    /// What is allowed.
    LimitBytes "limit_bytes" "at most" Bytes,
    /// Space amplification: stored bytes over live bytes.
    SpaceAmplification "space_amplification" "stored for a live byte" Times,
    /// Write amplification: bytes written for a byte of a user.
    WriteAmplification "write_amplification" "written for a byte" Times,
    /// Flushes of the log to the device.
    LogFlushes "device_flushes" "flushes of the device" Count,
    /// Background jobs.
    Jobs "jobs" "jobs" Count,
    /// Bytes written.
    WrittenBytes "written_bytes" "written" Bytes,
    /// A rate.
    Rate "bytes_per_second" "a second" BytesPerSecond,
    /// Filling of a queue before background work.
    Amount "amount" "now" Count,
    /// Where a queue begins to slow writers.
    Soft "slows_from" "slows from" Count,
    /// Where a queue stops writers.
    Hard "stops_at" "stops at" Count,
    /// How long it has lasted.
    Since "since_ns" "for" Nanoseconds,
    /// How long it goes on.
    EndsIn "ends_in_ns" "ends in about" Nanoseconds,
    /// Writes.
    Writes "writes" "writes" Count,
}
