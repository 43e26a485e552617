//! Presets: named sets of options to start from.
//!
//! A preset is a list of names and values, nothing else, so it can be shown, written to a file and changed
//! like options typed by a user. Those of the reports describe the choices of these stores, with the parts
//! that Esker has; the profiles follow the guidelines of one of them.

mod cs265;
#[cfg(test)]
mod tests;

pub use cs265::Cs265;

use super::schema::{self, OptionValue};
use super::{KeyspaceOptions, OptionInfo, Options};
use esker_base::{Error, Result};

/// A named set of options.
#[derive(Debug)]
#[non_exhaustive]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its purpose, in a sentence.
    pub help: &'static str,
    /// Options of the database that it sets, by name.
    pub database: &'static [(&'static str, &'static str)],
    /// Options of keyspaces that it sets, by name.
    pub keyspace: &'static [(&'static str, &'static str)],
}

/// What both forms of the CSC443 report's third step set of a database. A filter of more than a sixteenth of
/// the cache is not read, so tables are cut at a size whose filters stay below.
const CSC443_DATABASE: &[(&str, &str)] = &[
    ("memory_budget", "32MiB"),
    ("cache_size", "10MiB"),
    ("cache_kind", "clock"),
    ("cache_scan_percent", "40"),
    ("cache_filters", "true"),
    ("table_reads", "direct"),
];

impl Preset {
    /// All presets.
    pub const ALL: &'static [Preset] = &[
        Preset {
            name: "cs265",
            help: "The defaults of the CS265 final report (appendix A); its parameters can be changed by their own names.",
            database: &[],
            keyspace: &[],
        },
        Preset {
            name: "cs265-optimal",
            help: "The configuration that the CS265 final report found best (4.7.1): integers bit-packed and other data compressed as it shows to be worth it.",
            // Its lock-free block cache is the one with slots.
            database: &[("memory_budget", "512MiB"), ("cache_kind", "slots")],
            keyspace: &[
                // Its lock-free memtable is a skiplist.
                ("memtable", "skiplist"),
                ("write_buffer_size", "64MiB"),
                ("strategy", "tiered-leveled:4"),
                ("block_size", "4KiB"),
                // Its default is bit-packing in all levels and its adaptive choice is on, with these limits;
                // ours packs integers, too.
                ("compression", "adaptive:mode=speed:sample=1000:ratio=1.2:least=512"),
                ("compression_last", "adaptive:mode=speed:sample=1000:ratio=1.2:least=512"),
                ("filter", "double-probe-bloom:10"),
                ("filter_allocation", "dynamic:0.001,0.005,0.01,0.02,0.05,0.1,0.15,0.2"),
            ],
        },
        Preset {
            name: "cs265-by-level",
            help: "Compression by level as the CS265 final report chooses it (2.7.3), the stronger the deeper: LZ4, Snappy, Zstandard 3 and 10.",
            database: &[],
            keyspace: &[
                // Levels 0, 1 to 2, 3 to 5, and all deeper ones, which hold most of the data.
                ("compression", "lz4,snappy,snappy,zstd:3,zstd:3,zstd:3,zstd:10"),
                ("compression_last", "same"),
            ],
        },
        Preset {
            name: "cs265-mixed-codecs",
            help: "Compression by level as the CS265 final report lists it for mixed codecs (2.7.4): as cs265-by-level, with Zstandard 7 in level 4 and 19 below.",
            database: &[],
            keyspace: &[
                // Levels 0, 1 to 2, 3, 4, and all deeper ones.
                ("compression", "lz4,snappy,snappy,zstd:3,zstd:7,zstd:19"),
                ("compression_last", "same"),
            ],
        },
        Preset {
            name: "byron",
            help: "The choices of the byron report: memtables of 2 MB in a skiplist, golden ratio between levels, keys delta-encoded between restarts of ten, filters by volume.",
            database: &[],
            keyspace: &[
                ("memtable", "skiplist"),
                ("write_buffer_size", "2MiB"),
                ("strategy", "golden-ratio"),
                ("block_layout", "delta"),
                ("block_layout_last", "delta"),
                ("block_restart_interval", "10"),
                ("block_hash_slots_percent", "100"),
                ("block_size", "4KiB"),
                ("block_align", "true"),
                ("index_type", "sorted-array"),
                ("compression", "none"),
                ("compression_last", "none"),
                ("filter", "bloom:2"),
                ("filter_allocation", "proportional"),
            ],
        },
        Preset {
            name: "csc443",
            help: "The third step of the CSC443 report with Dostoevsky: 1 MB memtable in a balanced tree, 10 MB of cache (CLOCK), static B-tree and blocked filters read through it, direct reads, size ratio 4, Monkey with R = 0.1.",
            database: CSC443_DATABASE,
            keyspace: &[
                ("memtable", "locked-tree"),
                ("write_buffer_size", "1MiB"),
                ("strategy", "lazy-leveled:4"),
                ("block_size", "4KiB"),
                ("index_type", "b-tree-pages"),
                ("table_size", "4MiB"),
                ("compression", "none"),
                ("compression_last", "none"),
                ("filter", "blocked-bloom:5.4"),
                ("filter_allocation", "monkey:0.1"),
            ],
        },
        Preset {
            name: "csc443-basic",
            help: "The third step of the CSC443 report as a basic LSM-tree: as csc443, with leveling at size ratio 2.",
            database: CSC443_DATABASE,
            keyspace: &[
                ("memtable", "locked-tree"),
                ("write_buffer_size", "1MiB"),
                ("strategy", "leveled:2"),
                ("block_size", "4KiB"),
                ("index_type", "b-tree-pages"),
                ("table_size", "4MiB"),
                ("compression", "none"),
                ("compression_last", "none"),
                ("filter", "blocked-bloom:6.2"),
                ("filter_allocation", "monkey:0.1"),
            ],
        },
        Preset {
            name: "write-heavy",
            help: "For many writes (guideline 5.3.1): tiering, large memtable and ratio, little for filters, compression where data rests.",
            database: &[],
            keyspace: &[
                ("write_buffer_size", "64MiB"),
                ("strategy", "tiered:10"),
                ("filter", "blocked-bloom:5"),
                ("compression", "none"),
                ("compression_last", "lz4"),
            ],
        },
        Preset {
            name: "read-heavy",
            help: "For many point reads (guideline 5.3.2): leveling, more for filters, small blocks, Eytzinger index, compression everywhere.",
            database: &[],
            keyspace: &[
                ("strategy", "leveled:10"),
                ("index_type", "eytzinger"),
                ("filter", "blocked-bloom:16"),
                ("block_size", "2KiB"),
                ("compression", "lz4"),
                ("compression_last", "lz4"),
            ],
        },
        Preset {
            name: "mixed",
            help: "For reads and writes alike (guideline 5.3.3): lazy leveling with a moderate ratio, LZ4 everywhere.",
            database: &[],
            keyspace: &[
                ("strategy", "lazy-leveled:6"),
                ("filter", "blocked-bloom:10"),
                ("compression", "lz4"),
                ("compression_last", "lz4"),
            ],
        },
        Preset {
            name: "range-heavy",
            help: "For ranges (guideline 5.3.4): leveling, larger blocks, Eytzinger index, memory for blocks rather than for filters.",
            database: &[],
            keyspace: &[
                ("strategy", "leveled:10"),
                ("index_type", "eytzinger"),
                ("block_size", "16KiB"),
                ("filter", "blocked-bloom:5"),
            ],
        },
    ];

    /// The preset of this name.
    ///
    /// # Errors
    /// `InvalidArgument`, with the existing names.
    pub fn find(name: &str) -> Result<&'static Preset> {
        Preset::ALL.iter().find(|preset| preset.name == name).ok_or_else(|| {
            let names: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name).collect();
            Error::invalid(format!("there is no preset {name:?}; there are {}", names.join(", ")))
        })
    }

    /// The options of this preset: the defaults, where it sets nothing.
    ///
    /// # Errors
    /// `InvalidArgument` for a codec whose Cargo feature this build is without.
    pub fn options(&self) -> Result<Options> {
        if self.name == Cs265::NAME {
            return Cs265::default().options();
        }
        let set = |options: Options, (name, value): &(&str, &str)| options.set(name, value);
        let mut options = self.database.iter().try_fold(Options::default(), set)?;
        options.keyspace = self.applied_to(options.keyspace)?;
        Ok(options)
    }

    /// `options` with this preset's keyspace settings.
    ///
    /// # Errors
    /// As [`Preset::options`].
    pub fn applied_to(&self, options: KeyspaceOptions) -> Result<KeyspaceOptions> {
        self.keyspace_settings().iter().try_fold(options, |options, (name, value)| options.set(name, value))
    }

    /// This preset's keyspace settings.
    pub(super) fn keyspace_settings(&self) -> Vec<(String, String)> {
        if self.name == Cs265::NAME {
            return Cs265::default().keyspace_settings();
        }
        self.keyspace.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }
}

impl Options {
    /// The options of the [`Preset`] of this name, on top of which others can be set.
    ///
    /// ```
    /// # fn main() -> esker_base::Result<()> {
    /// let options = esker_options::Options::preset("write-heavy")?.set("memory_budget", "1GiB")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, with the existing names, or for a codec whose Cargo feature this build is without.
    pub fn preset(name: &str) -> Result<Options> {
        Preset::find(name)?.options()
    }
}

impl KeyspaceOptions {
    /// The keyspace settings of the [`Preset`] of this name.
    ///
    /// # Errors
    /// As [`Options::preset`].
    pub fn preset(name: &str) -> Result<KeyspaceOptions> {
        Preset::find(name)?.applied_to(KeyspaceOptions::default())
    }
}

impl Cs265 {
    /// Descriptions of every parameter.
    pub fn list() -> Vec<OptionInfo> {
        schema::describe::<Cs265>()
    }

    /// Every parameter with its value.
    pub fn values(&self) -> Vec<OptionValue> {
        schema::values(self)
    }

    /// Sets a parameter by the report's name, from text.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the parameter, its value and the allowed values.
    pub fn set(mut self, name: &str, value: &str) -> Result<Cs265> {
        schema::set(&mut self, name, value)?;
        Ok(self)
    }
}
