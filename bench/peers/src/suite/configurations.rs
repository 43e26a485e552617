//! Configurations (data sets and lengths of runs), and the forms of a suite that combine them.

use crate::data::{KeyForm, ValueForm};

/// A data set, the engines' memory for it, and the amount of work.
pub(crate) struct Configuration {
    pub(crate) name: &'static str,
    /// Its purpose.
    pub(crate) about: &'static str,
    pub(super) records: u64,
    pub(super) keys: KeyForm,
    pub(super) values: ValueForm,
    /// The records are a log.
    pub(super) is_log: bool,
    /// The fill that others use is in ascending order, and the only one.
    pub(super) is_ascending: bool,
    /// MiB of memory of the whole run, page cache included; 0 for no limit.
    pub(super) memory_limit_mib: u64,
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
    /// Bits of the gaps between keys.
    pub(super) gap_bits: u32,
    pub(super) cache_mib: u64,
    pub(super) memtable_mib: u64,
    pub(super) length: Length,
    /// Workloads whose names contain one of these; all if there are none.
    pub(super) only: &'static [&'static str],
    /// Engines that are measured; all if there are none.
    pub(super) engines: &'static [&'static str],
    pub(super) threads: &'static [usize],
    pub(super) scan_lengths: &'static [u64],
}

/// The amount of work and its time limits.
#[derive(Clone, Copy)]
pub(super) struct Length {
    pub(super) operations: u64,
    pub(super) scans: u64,
    pub(super) durable_writes: u64,
    pub(super) max_seconds: f64,
    pub(super) max_fill_seconds: f64,
    pub(super) max_settle_seconds: f64,
    /// Seconds after which a run is killed.
    pub(super) timeout_seconds: u64,
}

/// A check that everything works.
const QUICK: Length = Length {
    operations: 100_000,
    scans: 10_000,
    durable_writes: 300,
    max_seconds: 2.0,
    max_fill_seconds: 4.0,
    max_settle_seconds: 5.0,
    timeout_seconds: 300,
};
/// A quarter of an hour with few engines.
const MIDDLE: Length = Length {
    operations: 500_000,
    scans: 50_000,
    durable_writes: 5_000,
    max_seconds: 3.0,
    max_fill_seconds: 10.0,
    max_settle_seconds: 10.0,
    timeout_seconds: 600,
};
/// For publication.
const FULL: Length = Length {
    operations: 1_000_000,
    scans: 100_000,
    durable_writes: 20_000,
    max_seconds: 10.0,
    max_fill_seconds: 45.0,
    max_settle_seconds: 20.0,
    timeout_seconds: 1_800,
};
/// Data sets that take long to write.
const LONG: Length =
    Length { max_fill_seconds: 600.0, max_settle_seconds: 120.0, timeout_seconds: 4 * 3_600, ..FULL };

/// Data of which a tenth fits memory: most reads wait for the device.
const BEYOND_MEMORY: Length = Length {
    operations: 2_000_000,
    scans: 20_000,
    max_seconds: 30.0,
    max_fill_seconds: 600.0,
    max_settle_seconds: 120.0,
    timeout_seconds: 3_600,
    ..FULL
};

/// Records for each MiB of memtable in configurations that grow.
const GROWTH_MEMTABLE_RECORDS: u64 = 100_000_000 / 16;

/// Workloads that show how a store grows: filling, gets, ranges of 100, mixed, opening.
const GROWTH: &[&str] = &["fill_random", "get_uniform", "seek_100", "mixed", "reopen"];
/// Reads, overwriting, and gets beside puts.
const READS_AND_OVERWRITES: &[&str] = &[
    "fill_seq",
    "disk_after",
    "compaction",
    "get_uniform",
    "get_zipf",
    "get_absent",
    "multi_get_32",
    "seek_",
    "scan_forward_first",
    "overwrite",
    "get_beside_puts",
];
/// Stores that can write 100 million records in the available time, and the limit in memory.
const LARGE: &[&str] = &["esker", "rocksdb", "fjall", "lmdb", "array"];

/// 2 million records of 16 and 100 bytes, all of which fit the cache: the base of other configurations.
const CACHED: Configuration = Configuration {
    name: "cached",
    about: "2 M records of 16 + 100 bytes, a cache for all of them",
    records: 2_000_000,
    keys: KeyForm::Numbered,
    values: ValueForm::Half,
    is_log: false,
    is_ascending: false,
    memory_limit_mib: 0,
    key_bytes: 16,
    value_bytes: 100,
    gap_bits: 1,
    cache_mib: 1_024,
    memtable_mib: 64,
    length: FULL,
    only: &[],
    engines: &[],
    threads: &[1, 2],
    scan_lengths: &[10, 100],
};

/// 0.8 GB of records of another shape, a cache of an eighth of them, and a memtable that is small beside it.
const EIGHTH: Configuration = Configuration {
    cache_mib: 98,
    memtable_mib: 16,
    length: Length { timeout_seconds: 3_600, ..FULL },
    ..CACHED
};

/// Records of 8 and 8 bytes, a cache of half of them, and a memtable that grows with them up to 16 MiB at 100
/// million. With 16 MiB at every size, a store that divides its memory by itself would have all of a million
/// records in it, and half of the others.
const fn growth(
    name: &'static str,
    about: &'static str,
    records: u64,
    engines: &'static [&'static str],
) -> Configuration {
    let memtable_mib = records.div_ceil(GROWTH_MEMTABLE_RECORDS).next_power_of_two();
    Configuration {
        name,
        about,
        records,
        key_bytes: 8,
        value_bytes: 8,
        cache_mib: (records * 16 / 2) >> 20,
        memtable_mib: if memtable_mib > 16 { 16 } else { memtable_mib },
        length: LONG,
        only: GROWTH,
        engines,
        threads: &[1],
        scan_lengths: &[100],
        ..CACHED
    }
}

/// All of them.
pub(crate) const CONFIGURATIONS: &[Configuration] = &[
    Configuration {
        name: "quick",
        about: "200 K records of 16 + 100 bytes: whether everything works, no figures to be told",
        records: 200_000,
        length: QUICK,
        ..CACHED
    },
    Configuration {
        name: "middle",
        about: "as `cached`, with shorter workloads: a quarter of an hour with four engines",
        length: MIDDLE,
        ..CACHED
    },
    Configuration {
        name: "gaps",
        about: "as `middle`, with random gaps of 24 bits between keys",
        gap_bits: 24,
        length: MIDDLE,
        ..CACHED
    },
    CACHED,
    Configuration {
        name: "tenth",
        about: "10 M records of 16 + 400 bytes, a cache for a tenth of them",
        records: 10_000_000,
        value_bytes: 400,
        cache_mib: 397,
        length: Length { timeout_seconds: 3_600, ..FULL },
        ..CACHED
    },
    Configuration {
        name: "tiny",
        about: "10 M records of 8 + 8 bytes, a cache for all of them",
        records: 10_000_000,
        key_bytes: 8,
        value_bytes: 8,
        length: Length { timeout_seconds: 3_600, ..FULL },
        ..CACHED
    },
    Configuration {
        name: "kilobyte",
        about: "800 K records of 24 + 1,000 bytes, a cache for an eighth of them",
        records: 800_000,
        key_bytes: 24,
        value_bytes: 1_000,
        ..EIGHTH
    },
    Configuration {
        name: "page",
        about: "200 K records of 16 + 4,096 bytes, a cache for an eighth of them",
        records: 200_000,
        value_bytes: 4_096,
        ..EIGHTH
    },
    Configuration {
        name: "text",
        about: "1.6 M records of text keys and JSON values, a cache for an eighth of them",
        records: 1_600_000,
        keys: KeyForm::Text,
        values: ValueForm::Json,
        ..EIGHTH
    },
    Configuration {
        name: "log",
        about: "1.7 M records of time-ordered keys and JSON values, appended, expired and read at their newest end",
        records: 1_700_000,
        gap_bits: 20,
        values: ValueForm::Json,
        is_log: true,
        ..EIGHTH
    },
    Configuration {
        name: "beyond-memory",
        about: "21 M records of text keys and JSON values, 10 GiB, in a memory group of 1 GiB (needs root)",
        records: 21_000_000,
        keys: KeyForm::Text,
        values: ValueForm::Json,
        is_ascending: true,
        memory_limit_mib: 1_024,
        cache_mib: 448,
        memtable_mib: 64,
        length: BEYOND_MEMORY,
        only: READS_AND_OVERWRITES,
        threads: &[1],
        ..CACHED
    },
    Configuration {
        name: "threads",
        about: "1 M records of 16 + 100 bytes: 1 to 16 threads, ranges of 10 to 10,000",
        records: 1_000_000,
        only: &["fill_random", "get_uniform", "mixed", "seek_"],
        threads: &[1, 2, 4, 8, 16],
        scan_lengths: &[10, 100, 1_000, 10_000],
        ..CACHED
    },
    growth("growth-1m", "growth: 1 M records of 8 + 8 bytes, a cache for half of them", 1_000_000, &[]),
    growth("growth-10m", "growth: 10 M records of 8 + 8 bytes, a cache for half of them", 10_000_000, &[]),
    growth(
        "growth-100m",
        "growth: 100 M records of 8 + 8 bytes, a cache for half of them",
        100_000_000,
        LARGE,
    ),
    growth(
        "growth-1g",
        "growth: 1 billion records of 8 + 8 bytes, a long run of its own",
        1_000_000_000,
        &["esker"],
    ),
    Configuration {
        value_bytes: 100,
        key_bytes: 16,
        cache_mib: 11,
        ..growth(
            "wide-1m",
            "growth: 1 M records of 16 + 100 bytes, a cache for a tenth of them",
            1_000_000,
            LARGE,
        )
    },
    Configuration {
        value_bytes: 100,
        key_bytes: 16,
        cache_mib: 1_107,
        ..growth(
            "wide-100m",
            "growth: 100 M records of 16 + 100 bytes, a cache for a tenth",
            100_000_000,
            &["esker", "rocksdb"],
        )
    },
];

/// Configurations and engines of a suite.
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) configurations: &'static [&'static str],
    /// All in the binary if empty.
    pub(super) engines: &'static [&'static str],
}

pub(super) const QUICK_FORM: Form = Form { name: "quick", configurations: &["quick"], engines: &[] };
pub(super) const MIDDLE_FORM: Form = Form {
    name: "middle",
    configurations: &["middle"],
    engines: &["esker", "rocksdb", "lmdb", "fjall", "raw-write"],
};
/// Everything but the long run.
pub(super) const FULL_FORM: Form = Form {
    name: "full",
    configurations: &[
        "cached",
        "gaps",
        "tenth",
        "tiny",
        "kilobyte",
        "page",
        "text",
        "log",
        "threads",
        "growth-1m",
        "growth-10m",
        "growth-100m",
        "wide-1m",
        "wide-100m",
    ],
    engines: &[],
};

#[cfg(test)]
mod tests {
    use super::{CONFIGURATIONS, FULL_FORM, MIDDLE_FORM, QUICK_FORM};
    use crate::adapters::ORDER;

    /// As README.md states: with the records, up to 16 MiB.
    #[test]
    fn memtables_grow_with_the_records() {
        let memtable_mib = |name| {
            let named = CONFIGURATIONS.iter().find(|configuration| configuration.name == name);
            named.map(|configuration| configuration.memtable_mib)
        };
        let growing = ["growth-1m", "growth-10m", "growth-100m", "growth-1g"];
        assert_eq!(growing.map(memtable_mib), [Some(1), Some(2), Some(16), Some(16)]);
    }

    #[test]
    fn forms_name_existing_configurations_and_engines() {
        for form in [QUICK_FORM, MIDDLE_FORM, FULL_FORM] {
            for name in form.configurations {
                assert!(CONFIGURATIONS.iter().any(|configuration| configuration.name == *name), "{name}");
            }
            assert!(form.engines.iter().all(|engine| ORDER.contains(engine)), "{}", form.name);
        }
        for configuration in CONFIGURATIONS {
            assert!(
                configuration.engines.iter().all(|engine| ORDER.contains(engine)),
                "{}",
                configuration.name
            );
        }
    }
}
