//! The usage of a tree: its contents and its operations.

/// The number of operations of each kind. Counts or shares: only their proportions matter for a design.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Operations {
    /// Lookups of keys that have a value.
    pub present_reads: f64,
    /// Lookups of keys that have none.
    pub absent_reads: f64,
    /// Scans that return no more entries than a block of each run holds.
    pub short_scans: f64,
    /// Entries returned by all short scans together.
    pub short_scan_entries: f64,
    /// Longer scans.
    pub long_scans: f64,
    /// Entries returned by all long scans together.
    pub long_scan_entries: f64,
    /// Puts and merges.
    pub puts: f64,
    /// Deletes.
    pub deletes: f64,
}

impl Operations {
    /// Puts and deletes.
    pub fn writes(&self) -> f64 {
        self.puts + self.deletes
    }

    /// The sum of all kinds.
    pub fn total(&self) -> f64 {
        self.present_reads + self.absent_reads + self.short_scans + self.long_scans + self.writes()
    }

    /// The shares of lookups, scans and writes; zeros if there were no operations.
    pub fn shares(&self) -> [f64; 3] {
        let total = self.total();
        if total <= 0.0 {
            return [0.0; 3];
        }
        let lookups = self.present_reads + self.absent_reads;
        [lookups / total, (self.short_scans + self.long_scans) / total, self.writes() / total]
    }

    /// Each number multiplied by a factor.
    #[must_use]
    pub fn times(&self, factor: f64) -> Operations {
        self.with(&Operations::default(), |own, _| own * factor)
    }

    /// The sum with other operations.
    #[must_use]
    pub fn plus(&self, other: &Operations) -> Operations {
        self.with(other, |own, other| own + other)
    }

    /// The difference to `before`; zero for a kind whose count decreased.
    pub fn since(&self, before: &Operations) -> Operations {
        self.with(before, |now, then| (now - then).max(0.0))
    }

    /// Combines each number with its counterpart.
    fn with(&self, other: &Operations, of: impl Fn(f64, f64) -> f64) -> Operations {
        Operations {
            present_reads: of(self.present_reads, other.present_reads),
            absent_reads: of(self.absent_reads, other.absent_reads),
            short_scans: of(self.short_scans, other.short_scans),
            short_scan_entries: of(self.short_scan_entries, other.short_scan_entries),
            long_scans: of(self.long_scans, other.long_scans),
            long_scan_entries: of(self.long_scan_entries, other.long_scan_entries),
            puts: of(self.puts, other.puts),
            deletes: of(self.deletes, other.deletes),
        }
    }
}

/// The contents of a tree and the operations on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Live entries.
    pub entries: f64,
    /// Bytes of a key.
    pub key_bytes: f64,
    /// Bytes of a key with its value.
    pub entry_bytes: f64,
    /// Bytes of a block.
    pub block_bytes: f64,
    /// Memory for write buffers, filters and block cache together, in bytes.
    pub memory_bytes: f64,
    /// Bytes of it that write buffers take in any case.
    pub reserved_bytes: f64,
    /// The largest useful write buffer, in bytes.
    pub most_write_buffer_bytes: f64,
    /// The space target: the most bytes of tables over live bytes, if any.
    pub max_space_amplification: Option<f64>,
    /// The operations.
    pub operations: Operations,
}

impl Default for Usage {
    /// Ten million entries of 16 and 100 bytes with 512 MiB of memory, and no operations.
    fn default() -> Usage {
        Usage::new(10_000_000.0, 16.0, 116.0, (512u64 << 20) as f64)
    }
}

impl Usage {
    /// This many entries in this much memory, with blocks of 4 KiB and no operations yet. An eighth of the
    /// memory is the largest write buffer: two of them, the active one and one being flushed, leave most of
    /// it to reads.
    pub fn new(entries: f64, key_bytes: f64, entry_bytes: f64, memory_bytes: f64) -> Usage {
        Usage {
            entries,
            key_bytes,
            entry_bytes,
            block_bytes: 4096.0,
            memory_bytes,
            reserved_bytes: 0.0,
            most_write_buffer_bytes: memory_bytes / 8.0,
            max_space_amplification: None,
            operations: Operations::default(),
        }
    }

    /// Live bytes.
    pub fn data_bytes(&self) -> f64 {
        self.entries * self.entry_bytes
    }

    /// Bytes that users write in all operations.
    pub(super) fn written_bytes(&self) -> f64 {
        self.operations.puts * self.entry_bytes + self.operations.deletes * self.key_bytes
    }

    /// # Errors
    /// What is wrong with it, as a sentence.
    pub(super) fn check(&self) -> Result<(), String> {
        let positive = [
            ("number of entries", self.entries),
            ("size of a key", self.key_bytes),
            ("size of an entry", self.entry_bytes),
            ("size of a block", self.block_bytes),
            ("memory", self.memory_bytes),
            ("number of operations", self.operations.total()),
        ];
        for (what, number) in positive {
            if !(number > 0.0 && number.is_finite()) {
                return Err(format!("the {what} is a positive number, not {number}"));
            }
        }
        if self.key_bytes > self.entry_bytes {
            return Err(format!(
                "an entry of {} bytes cannot have a key of {}",
                self.entry_bytes, self.key_bytes
            ));
        }
        let operations = self.operations;
        let counts = [
            operations.present_reads,
            operations.absent_reads,
            operations.short_scans,
            operations.short_scan_entries,
            operations.long_scans,
            operations.long_scan_entries,
            operations.puts,
            operations.deletes,
        ];
        match counts.into_iter().find(|count| *count < 0.0) {
            Some(count) => Err(format!("no operation is asked for {count} times")),
            None => Ok(()),
        }
    }
}
