//! How often tables are read, lately.
//!
//! One lookup in [`SAMPLE`](esker_filter::watch::SAMPLE) that finds its key, chosen by the key's hash as for [`esker_filter::watch`], and
//! each cursor that is set to a key in a table, add to a counter of the file: one comparison for a lookup. A
//! strategy that asks for it gets a figure for each part, which halves in about ten minutes when nobody reads
//! the part any more. The figures live beside the keyspace and are brought up to date when that strategy
//! plans; nobody else pays for them. After a reopening they begin anew.

use crate::keyspace::KeyspaceState;
use crate::store::Store;
use crate::tree::Tree;
use esker_base::{FileNumber, PartId};
use std::collections::BTreeMap;
use std::time::Duration;

/// In each of these a file loses an eighth of its heat: half in ten minutes.
const PERIOD: Duration = Duration::from_secs(120);
/// After so many of them nothing is left that matters.
const MAX_PERIODS: u64 = 256;
/// Heat of one read: fine enough that losing an eighth is felt.
const READ_HEAT: u64 = 64;

/// The heat of a keyspace's files.
#[derive(Debug, Default)]
pub(crate) struct HeatBook {
    /// When the last period ended, on the monotonic clock.
    period_ns: u64,
    files: BTreeMap<FileNumber, FileHeat>,
}

#[derive(Clone, Copy, Debug, Default)]
struct FileHeat {
    /// Reads that have been counted in.
    seen: u64,
    heat: u64,
}

impl HeatBook {
    /// The heat of each file of a tree; `reads` are those since the database was opened, by ascending file.
    fn update(&mut self, now_ns: u64, reads: &BTreeMap<FileNumber, u64>) {
        let period_ns = PERIOD.as_nanos() as u64;
        let periods = now_ns.saturating_sub(self.period_ns) / period_ns;
        self.period_ns += periods * period_ns;
        self.files.retain(|file, _| reads.contains_key(file));
        for (file, &reads) in reads {
            let file = self.files.entry(*file).or_default();
            for _ in 0..periods.min(MAX_PERIODS) {
                file.heat -= file.heat.div_ceil(8);
            }
            let new = reads.saturating_sub(file.seen);
            file.heat = file.heat.saturating_add(new.saturating_mul(READ_HEAT));
            file.seen = reads;
        }
    }
}

impl Store {
    /// How often the parts of a tree were read lately, as [`esker_strategy::Shape::heat`] takes it. Parts of
    /// one file have their shares of it.
    pub(crate) fn heat(&self, keyspace: &KeyspaceState, tree: &Tree) -> Vec<(PartId, u64)> {
        let reads = tree.parts().map(|part| (part.file.number(), part.file.reads())).collect();
        let mut book = keyspace.heat.lock();
        book.update(self.env.clock.monotonic_ns(), &reads);
        let heat_of_file = |file: FileNumber| book.files.get(&file).map_or(0, |file| u128::from(file.heat));
        let mut heat: Vec<(PartId, u64)> = tree
            .parts()
            .map(|part| {
                let meta = &part.meta;
                let heat =
                    heat_of_file(meta.file) * u128::from(meta.bytes) / u128::from(meta.file_bytes.max(1));
                (meta.id, u64::try_from(heat).unwrap_or(u64::MAX))
            })
            .collect();
        heat.sort_unstable();
        heat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(files: &[(u64, u64)]) -> BTreeMap<FileNumber, u64> {
        files.iter().map(|(file, reads)| (FileNumber(*file), *reads)).collect()
    }

    #[test]
    fn heat_grows_with_reads_and_halves_in_ten_minutes() {
        let minutes = |minutes: u64| minutes * 60_000_000_000;
        let mut book = HeatBook::default();
        let heat = |book: &HeatBook, file| book.files.get(&FileNumber(file)).map(|file| file.heat);
        book.update(minutes(1), &reads(&[(1, 1000), (2, 10)]));
        assert_eq!((heat(&book, 1), heat(&book, 2)), (Some(64_000), Some(640)));
        // Nothing was read since: asking again changes nothing before a period is over.
        book.update(minutes(1), &reads(&[(1, 1000), (2, 10)]));
        assert_eq!(heat(&book, 1), Some(64_000));
        book.update(minutes(11), &reads(&[(1, 1000), (2, 110)]));
        let left = heat(&book, 1).unwrap();
        assert!((30_000..34_000).contains(&left), "{left}");
        assert!(heat(&book, 2).unwrap() > 6_400, "what is read now counts in full");
        // A file that is gone is forgotten, and a long pause leaves nothing.
        book.update(minutes(1_000_000), &reads(&[(1, 1000)]));
        assert_eq!((heat(&book, 1), heat(&book, 2)), (Some(0), None));
    }
}
