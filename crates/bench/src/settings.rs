//! Settings of a run.

use crate::distribution::Distribution;
use esker::Durability;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

/// One workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Puts in ascending order of keys.
    FillSeq,
    /// Puts in random order.
    FillRandom,
    /// Batches of puts in random order.
    FillBatch,
    /// The bytes of all records, written to one file and synced: the device's limit for a bulk load.
    RawWrite,
    /// A bulk load in ascending order of keys.
    BulkSeq,
    /// A bulk load in random order.
    BulkRandom,
    /// Gets of present keys, all equally likely.
    ReadRandom,
    /// Gets of present keys, Zipf-distributed with exponent 0.99.
    ReadZipf,
    /// Gets of absent keys that lie between present ones.
    ReadMissing,
    /// Multi-gets of present keys, all equally likely.
    MultiReadRandom,
    /// All pairs, forward.
    ReadSeq,
    /// All pairs, backward.
    ReadReverse,
    /// A seek to a random present key and a few pairs from there.
    SeekRandom,
    /// Gets and overwriting puts of random present keys, mixed.
    ReadWrite,
    /// Gets (80 %) and overwriting puts (20 %).
    ReadHeavy,
    /// Gets (20 %) and overwriting puts (80 %).
    WriteHeavy,
    /// Ranges (50 %), gets (30 %) and overwriting puts (20 %).
    ScanHeavy,
    /// Puts, gets, ranges and deletes, a quarter each; what was deleted is put back afterwards, untimed.
    Quarters,
    /// Transactions that get a random present key and put it, serializable and committed one by one.
    Transaction,
    /// Counter merges of 1 into random keys of a keyspace of its own.
    MergeRandom,
    /// Seeks over records that were deleted one by one, after an idle time.
    SeekDeleted,
    /// Seeks over records that one range delete removed, after an idle time.
    SeekRangeDeleted,
    /// Puts at the tail of a queue, finds its head and deletes it.
    Queue,
    /// Opening after a clean close.
    Reopen,
    /// Opening after a process with a full memtable was killed.
    ReopenKill,
    /// Overwriting large values evenly: write and space amplification.
    Blob,
    /// Merging sorted runs: processor time of the loop.
    Compact,
    /// Puts of random present keys for a given time, each of them timed.
    Overwrite,
    /// Gets of random present keys after an idle time, and the runs that are left then.
    ReadRested,
    /// Creating, closing, opening and flushing many keyspaces with an entry each.
    Keyspaces,
    /// Everything that takes memory, against the bound of anonymous memory.
    MemoryBound,
    /// Puts as fast as they are taken, against the bounds of how long one may wait.
    StallBound,
}

/// A group of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Writing a data set.
    Fill,
    /// Writing a data set past the log.
    BulkLoad,
    /// Point reads.
    Read,
    /// Scans.
    Scan,
    /// Reads and writes at the same time.
    Mixed,
    /// Puts, gets, ranges and deletes in the shares of CS265's workloads.
    Shares,
    /// Reads among deleted keys. Waits a minute before each of the seek workloads.
    Deleted,
    /// Opening the database.
    Open,
    /// Large values.
    Blob,
    /// Merging sorted runs.
    Compact,
    /// Sustained overwriting.
    Overwrite,
    /// Reads after an idle time.
    Rest,
    /// Many keyspaces.
    Keyspaces,
    /// Memory within its bound. Writes twenty times the memory budget.
    Memory,
    /// Puts within the bounds of how long one may wait.
    Stall,
    /// All of them but `shares`, `deleted`, `blob`, `compact`, `overwrite`, `rest`, `keyspaces` and the
    /// bounds.
    All,
}

impl Workload {
    /// All workloads in the order of a run: the last fill leaves the data that the others read.
    pub const ALL: [Workload; 32] = [
        Workload::RawWrite,
        Workload::BulkSeq,
        Workload::BulkRandom,
        Workload::FillSeq,
        Workload::FillBatch,
        Workload::FillRandom,
        Workload::ReadRandom,
        Workload::ReadZipf,
        Workload::ReadMissing,
        Workload::MultiReadRandom,
        Workload::ReadSeq,
        Workload::ReadReverse,
        Workload::SeekRandom,
        Workload::ReadWrite,
        Workload::Transaction,
        Workload::MergeRandom,
        Workload::ReadHeavy,
        Workload::WriteHeavy,
        Workload::ScanHeavy,
        Workload::Quarters,
        Workload::SeekDeleted,
        Workload::SeekRangeDeleted,
        Workload::Queue,
        Workload::Reopen,
        Workload::ReopenKill,
        Workload::Blob,
        Workload::Compact,
        Workload::Overwrite,
        Workload::ReadRested,
        Workload::Keyspaces,
        Workload::MemoryBound,
        Workload::StallBound,
    ];

    /// The name in `--benchmarks` and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Workload::FillSeq => "fillseq",
            Workload::FillRandom => "fillrandom",
            Workload::FillBatch => "fillbatch",
            Workload::RawWrite => "rawwrite",
            Workload::BulkSeq => "bulkseq",
            Workload::BulkRandom => "bulkrandom",
            Workload::ReadRandom => "readrandom",
            Workload::ReadZipf => "readzipf",
            Workload::ReadMissing => "readmissing",
            Workload::MultiReadRandom => "multireadrandom",
            Workload::ReadSeq => "readseq",
            Workload::ReadReverse => "readreverse",
            Workload::SeekRandom => "seekrandom",
            Workload::ReadWrite => "readwrite",
            Workload::ReadHeavy => "readheavy",
            Workload::WriteHeavy => "writeheavy",
            Workload::ScanHeavy => "scanheavy",
            Workload::Quarters => "quarters",
            Workload::Transaction => "transaction",
            Workload::MergeRandom => "mergerandom",
            Workload::SeekDeleted => "seekdeleted",
            Workload::SeekRangeDeleted => "seekrangedeleted",
            Workload::Queue => "queue",
            Workload::Reopen => "reopen",
            Workload::ReopenKill => "reopenkill",
            Workload::Blob => "blob",
            Workload::Compact => "compact",
            Workload::Overwrite => "overwrite",
            Workload::ReadRested => "readrested",
            Workload::Keyspaces => "keyspaces",
            Workload::MemoryBound => "memorybound",
            Workload::StallBound => "stallbound",
        }
    }

    /// The workload with this name.
    pub fn parse(name: &str) -> Option<Workload> {
        Workload::ALL.into_iter().find(|workload| workload.name() == name)
    }

    /// The group it belongs to.
    pub const fn group(self) -> Group {
        match self {
            Workload::FillSeq | Workload::FillRandom | Workload::FillBatch => Group::Fill,
            Workload::RawWrite | Workload::BulkSeq | Workload::BulkRandom => Group::BulkLoad,
            Workload::ReadRandom | Workload::ReadZipf | Workload::ReadMissing | Workload::MultiReadRandom => {
                Group::Read
            }
            Workload::ReadSeq | Workload::ReadReverse | Workload::SeekRandom => Group::Scan,
            Workload::ReadWrite | Workload::Transaction | Workload::MergeRandom => Group::Mixed,
            Workload::ReadHeavy | Workload::WriteHeavy | Workload::ScanHeavy | Workload::Quarters => {
                Group::Shares
            }
            Workload::SeekDeleted | Workload::SeekRangeDeleted | Workload::Queue => Group::Deleted,
            Workload::Reopen | Workload::ReopenKill => Group::Open,
            Workload::Blob => Group::Blob,
            Workload::Compact => Group::Compact,
            Workload::Overwrite => Group::Overwrite,
            Workload::ReadRested => Group::Rest,
            Workload::Keyspaces => Group::Keyspaces,
            Workload::MemoryBound => Group::Memory,
            Workload::StallBound => Group::Stall,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Workload {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Group {
    /// The workloads of the group, in order.
    pub fn workloads(self) -> impl Iterator<Item = Workload> {
        let is_left_out = |group| {
            let bounds = matches!(group, Group::Memory | Group::Stall);
            let large = matches!(group, Group::Blob | Group::Compact | Group::Overwrite);
            let others = matches!(group, Group::Shares | Group::Deleted | Group::Rest | Group::Keyspaces);
            bounds || large || others
        };
        let is_of = move |group: Group| group == self || (self == Group::All && !is_left_out(group));
        Workload::ALL.into_iter().filter(move |workload| is_of(workload.group()))
    }
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory of the database. One with other contents than an earlier benchmark's data is refused.
    pub directory: PathBuf,
    /// The workloads, in this order.
    pub workloads: Vec<Workload>,
    /// Use the stored data, and never replace it.
    pub use_existing_db: bool,
    /// Records of the data set.
    pub num: u64,
    /// Operations of a reading or mixed workload; default: as many as records.
    pub reads: Option<u64>,
    /// Bytes of a key, at least 8.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// Concurrent threads.
    pub threads: usize,
    /// Puts of a batch in `fillbatch`.
    pub batch_size: usize,
    /// Keys of a multi-get.
    pub multi_get_size: usize,
    /// Pairs read after a seek.
    pub seek_nexts: usize,
    /// Share of gets in `readwrite`, in percent.
    pub read_percent: u8,
    /// How workloads that choose present records choose them; `readzipf` always goes by Zipf.
    pub distribution: Distribution,
    /// Seconds that the database lies idle before the seeks over deleted records, and before `readrested`.
    pub idle_seconds: u64,
    /// Keyspaces of `keyspaces`.
    pub keyspaces: u64,
    /// Live bytes of large values in `blob`.
    pub blob_bytes: u64,
    /// Seconds of `overwrite` and `stallbound`.
    pub seconds: u64,
    /// The phases of `memorybound`, by name; none: all.
    pub phases: Vec<String>,
    /// The share that `memorybound` writes of what it should; 1 for a result that counts.
    pub data_share: f64,
    /// File for the figures of each second of `overwrite`.
    pub series: Option<PathBuf>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Durability of writes.
    pub durability: Durability,
    /// Base options, on which durability and memory budget are set.
    pub options: esker::Options,
    /// The options' file, for a child process that needs the same.
    pub configuration: Option<PathBuf>,
    /// The database's memory budget; default: its own.
    pub memory_budget_bytes: Option<u64>,
    /// Print the latency distribution.
    pub histogram: bool,
    /// Starts the process that `reopenkill` kills, which must call [`crate::fill_until_killed`]; without it
    /// `reopenkill` is refused.
    pub victim: Option<StartVictim>,
}

/// Makes the command that starts a [`Victim`].
pub type StartVictim = fn(&Settings, &Victim) -> std::io::Result<Command>;

/// The task of the process that `reopenkill` kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Number of puts, over the records from the first on, cyclically.
    pub puts: u64,
    /// Which of the two values of a record.
    pub version: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            directory: PathBuf::from("esker-bench"),
            workloads: Group::All.workloads().collect(),
            use_existing_db: false,
            num: 1_000_000,
            reads: None,
            key_size: 16,
            value_size: 100,
            threads: 1,
            batch_size: 1000,
            multi_get_size: 32,
            seek_nexts: 10,
            read_percent: 50,
            distribution: Distribution::Uniform,
            idle_seconds: 60,
            keyspaces: 10_000,
            blob_bytes: 2_000_000_000,
            seconds: 60,
            phases: Vec::new(),
            data_share: 1.0,
            series: None,
            seed: 1,
            durability: Durability::Process,
            options: esker::Options::default(),
            configuration: None,
            memory_budget_bytes: None,
            histogram: false,
            victim: None,
        }
    }
}

impl Settings {
    /// Operations of a reading or mixed workload.
    pub fn reads(&self) -> u64 {
        self.reads.unwrap_or(self.num)
    }

    /// An error says in a sentence what cannot be run.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let wrong = |reason: String| Err(reason);
        if self.workloads.is_empty() {
            return wrong("there is nothing to run".into());
        }
        if !(8..=1024).contains(&self.key_size) {
            return wrong(format!("--key_size is {}, it must be from 8 to 1024", self.key_size));
        }
        if self.value_size > 16 << 20 {
            return wrong(format!("--value_size is {}, it must be at most 16 MiB", self.value_size));
        }
        for (name, value) in [
            ("--num", self.num),
            ("--reads", self.reads()),
            ("--threads", self.threads as u64),
            ("--batch_size", self.batch_size as u64),
            ("--multi_get_size", self.multi_get_size as u64),
            ("--seconds", self.seconds),
        ] {
            if value == 0 {
                return wrong(format!("{name} is 0, at least 1 is needed"));
            }
        }
        if self.threads > 1024 {
            return wrong(format!("--threads is {}, it must be at most 1024", self.threads));
        }
        if self.num > 1 << 40 {
            return wrong(format!("--num is {}, it must be at most 2^40", self.num));
        }
        if self.workloads.contains(&Workload::ReopenKill) && self.victim.is_none() {
            return wrong("reopenkill needs a program to start and kill, and was given none".into());
        }
        if self.read_percent > 100 {
            return wrong(format!("--read_percent is {}, it must be at most 100", self.read_percent));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_parse() {
        for workload in Workload::ALL {
            assert_eq!(Workload::parse(workload.name()), Some(workload));
        }
        assert_eq!(Workload::parse("fill"), None);
        assert_eq!(Group::Read.workloads().count(), 4);
        let left_out = [
            Group::Shares,
            Group::Deleted,
            Group::Blob,
            Group::Compact,
            Group::Overwrite,
            Group::Rest,
            Group::Keyspaces,
            Group::Memory,
            Group::Stall,
        ]
        .map(|group| group.workloads().count());
        let left_out: usize = left_out.into_iter().sum();
        assert_eq!(Group::All.workloads().count() + left_out, Workload::ALL.len());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let nobody_to_kill = Settings { workloads: vec![Workload::ReopenKill], ..Settings::default() };
        assert!(nobody_to_kill.validate().is_err());
        let settings = Settings { key_size: 4, ..Settings::default() };
        let message = settings.validate().expect_err("4 bytes are too few");
        assert!(message.contains("--key_size is 4"), "{message}");
        assert!(Settings { threads: 0, ..Settings::default() }.validate().is_err());
        assert!(Settings { workloads: vec![Workload::Reopen], ..Settings::default() }.validate().is_ok());
    }
}
