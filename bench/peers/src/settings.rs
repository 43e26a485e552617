//! Settings of the run of one engine.

use crate::data::{Data, GAP_BITS, KEY_BYTES, KeyForm, VALUE_BYTES, ValueForm};
use crate::engine::{Durability, EngineSettings, Result};
use clap::Args;
use std::path::PathBuf;

/// Settings of the run of one engine.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunSettings {
    /// Engine; `peers engines` lists them.
    #[arg(long)]
    pub(crate) engine: String,
    /// Directory for the data; the engine's files in it are removed before and after.
    #[arg(long, default_value = "target/peers-data")]
    pub(crate) data: PathBuf,
    /// File to which a line of JSON is appended for each workload; without it they are printed.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Name of the configuration, written into every line.
    #[arg(long, default_value = "own")]
    pub(crate) configuration: String,
    /// Number of the round, written into every line.
    #[arg(long, default_value_t = 1)]
    pub(crate) round: u32,

    /// Records of the data set.
    #[arg(short = 'n', long, default_value_t = 2_000_000)]
    pub(crate) records: u64,
    /// Form of keys.
    #[arg(long, value_enum, default_value_t = KeyForm::Numbered)]
    pub(crate) keys: KeyForm,
    /// Form of values.
    #[arg(long, value_enum, default_value_t = ValueForm::Half)]
    pub(crate) values: ValueForm,
    /// Bytes of a key that is a number, 8 to 64.
    #[arg(long, default_value_t = 16)]
    pub(crate) key_bytes: usize,
    /// Bytes of a half-compressible value, from 8 on.
    #[arg(long, default_value_t = 100)]
    pub(crate) value_bytes: usize,
    /// Bits of the gaps between keys that are numbers, 1 to 32: 1 makes them dense, more leave random gaps.
    #[arg(long, default_value_t = 1)]
    pub(crate) gap_bits: u32,
    /// The records are a log: they are filled in ascending order, and then, instead of updates, the newest
    /// are appended and read, and the oldest deleted.
    #[arg(long)]
    pub(crate) log: bool,
    /// The fill that others use is in ascending order, and the only one: for stores that cannot write so much
    /// in random order.
    #[arg(long)]
    pub(crate) ascending: bool,
    /// MiB of memory for the process and the page cache of its files, by a memory group of the kernel; needs
    /// root. Before reads the store is closed, its files leave the page cache, and it is opened. 0: no limit.
    #[arg(long, default_value_t = 0)]
    pub(crate) memory_limit_mib: u64,
    /// MiB of cache.
    #[arg(long, default_value_t = 1024)]
    pub(crate) cache_mib: u64,
    /// MiB of memtable.
    #[arg(long, default_value_t = 64)]
    pub(crate) memtable_mib: u64,

    /// Operations of a workload of single reads or updates, over all its threads.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) operations: u64,
    /// Scans of a workload of scans.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) scans: u64,
    /// Durable writes of each thread.
    #[arg(long, default_value_t = 2_000)]
    pub(crate) durable_writes: u64,
    /// Records of a batch.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) batch: u64,
    /// Numbers of threads for gets, random fill, mixed, overwriting and logs; the first is that of the fill
    /// that others use.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    pub(crate) threads: Vec<usize>,
    /// Entries that a short scan passes.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100])]
    pub(crate) scan_lengths: Vec<u64>,

    /// Time limit of a workload in seconds.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) max_seconds: f64,
    /// The same for fills; a fill cut short is completed by batches, untimed.
    #[arg(long, default_value_t = 45.0)]
    pub(crate) max_fill_seconds: f64,
    /// Longest wait for background work after each workload, in seconds.
    #[arg(long, default_value_t = 20.0)]
    pub(crate) max_settle_seconds: f64,
    /// Seed of all randomness.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only workloads whose names contain one of these; the random fill that others read runs in any case.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// No workloads whose names contain one of these.
    #[arg(long, value_delimiter = ',')]
    pub(crate) skip: Vec<String>,
    /// Keep the data.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Read the data that an equal run kept, instead of filling; they are kept again.
    #[arg(long)]
    pub(crate) existing: bool,
}

/// Most records: their numbers are kept in 32 bits.
const MOST_RECORDS: u64 = 4_000_000_000;

impl RunSettings {
    /// Refuses what cannot be measured.
    ///
    /// # Errors
    /// With the allowed values.
    pub(crate) fn check(&self) -> Result<()> {
        if !KEY_BYTES.contains(&self.key_bytes) {
            let (least, most) = (KEY_BYTES.start(), KEY_BYTES.end());
            return Err(format!("keys of {} bytes: they have {least} to {most}", self.key_bytes).into());
        }
        if !VALUE_BYTES.contains(&self.value_bytes) {
            let (least, most) = (VALUE_BYTES.start(), VALUE_BYTES.end());
            return Err(format!("values of {} bytes: they have {least} to {most}", self.value_bytes).into());
        }
        if !GAP_BITS.contains(&self.gap_bits) {
            let (least, most) = (GAP_BITS.start(), GAP_BITS.end());
            return Err(format!("gaps of {} bits: they have {least} to {most}", self.gap_bits).into());
        }
        if !(100..=MOST_RECORDS).contains(&self.records) {
            return Err(format!("{} records: there are 100 to {MOST_RECORDS}", self.records).into());
        }
        if self.batch == 0 || self.operations == 0 || self.scans == 0 || self.durable_writes == 0 {
            return Err(
                "a count of operations, scans, durable writes or records of a batch is 0: take at least 1"
                    .into(),
            );
        }
        if self.threads.is_empty() || self.threads.contains(&0) {
            return Err("no threads: name numbers of threads from 1 on, such as 1,2".into());
        }
        Ok(())
    }

    /// Keys and values of these forms and lengths.
    pub(crate) fn data(&self) -> Data {
        let data = Data::new(self.key_bytes, self.value_bytes, self.seed).with_gaps(self.gap_bits);
        let data = match self.keys {
            KeyForm::Numbered => data,
            KeyForm::Text => data.with_text_keys(self.seed),
        };
        match self.values {
            ValueForm::Half => data,
            ValueForm::Json => data.with_json_values(self.seed),
        }
    }

    /// The forms of keys and values in words; empty where all have one length.
    pub(crate) fn shape(&self) -> String {
        let keys = match self.keys {
            KeyForm::Numbered => None,
            KeyForm::Text => Some("text keys"),
        };
        let values = match self.values {
            ValueForm::Half => None,
            ValueForm::Json => Some("JSON values"),
        };
        keys.into_iter().chain(values).collect::<Vec<_>>().join(", ")
    }

    /// Settings of a store for records of this length.
    pub(crate) fn engine_settings(&self, durability: Durability, record_bytes: usize) -> EngineSettings {
        EngineSettings {
            cache_bytes: self.cache_mib << 20,
            memtable_bytes: self.memtable_mib << 20,
            durability,
            expected_bytes: self.records * record_bytes as u64,
            is_memory_limited: self.memory_limit_mib > 0,
        }
    }

    /// Whether a workload is selected.
    pub(crate) fn selects(&self, workload: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| workload.contains(name.as_str()));
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }
}
