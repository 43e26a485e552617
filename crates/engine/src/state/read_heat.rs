//! Read heat: how often each table was read lately.
//!
//! One in [`SAMPLE`](esker_filter::watch::SAMPLE) lookups that find their key, chosen by the key's hash as
//! for [`esker_filter::watch`], and each cursor that is positioned in a table, increments a counter of the
//! file: one comparison for a lookup. A strategy that uses heat gets a value for each part, which halves in
//! about ten minutes without reads of the part. The values are stored with the keyspace and updated when that
//! strategy plans; other strategies cost nothing. After a reopen they start from zero.

use esker_base::{FileNumber, PartId};
use esker_view::tree::Tree;
use std::collections::BTreeMap;
use std::time::Duration;

/// After each period a file loses an eighth of its heat: half in ten minutes.
const PERIOD: Duration = Duration::from_secs(120);
/// After this many periods nothing significant is left.
const MAX_PERIODS: u64 = 256;
/// Heat of one read: fine enough that losing an eighth has an effect.
const READ_HEAT: u64 = 64;

/// The heat of a keyspace's files.
#[derive(Debug, Default)]
pub struct ReadHeat {
    /// When the last period ended, on the monotonic clock.
    period_ns: u64,
    files: BTreeMap<FileNumber, FileHeat>,
}

#[derive(Clone, Copy, Debug, Default)]
struct FileHeat {
    /// Reads already counted.
    seen: u64,
    heat: u64,
}

impl ReadHeat {
    /// The recent reads of each part of a tree, for [`esker_strategy::Shape::heat`]. Parts of one file share
    /// its reads.
    pub fn of_tree(&mut self, tree: &Tree, now_ns: u64) -> Vec<(PartId, u64)> {
        let reads = tree.parts().map(|part| (part.file.number(), part.file.reads())).collect();
        self.update(now_ns, &reads);
        let heat_of_file = |file: FileNumber| self.files.get(&file).map_or(0, |file| u128::from(file.heat));
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

    /// Updates the heat of each file of a tree; `reads` are those since the open, by ascending file.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(files: &[(u64, u64)]) -> BTreeMap<FileNumber, u64> {
        files.iter().map(|(file, reads)| (FileNumber(*file), *reads)).collect()
    }

    #[test]
    fn heat_grows_with_reads_and_halves_in_ten_minutes() {
        let minutes = |minutes: u64| minutes * 60_000_000_000;
        let mut book = ReadHeat::default();
        let heat = |book: &ReadHeat, file| book.files.get(&FileNumber(file)).map(|file| file.heat);
        book.update(minutes(1), &reads(&[(1, 1000), (2, 10)]));
        assert_eq!((heat(&book, 1), heat(&book, 2)), (Some(64_000), Some(640)));
        // Without reads, updates change nothing before a period is over.
        book.update(minutes(1), &reads(&[(1, 1000), (2, 10)]));
        assert_eq!(heat(&book, 1), Some(64_000));
        book.update(minutes(11), &reads(&[(1, 1000), (2, 110)]));
        let left = heat(&book, 1).unwrap();
        assert!((30_000..34_000).contains(&left), "{left}");
        assert!(heat(&book, 2).unwrap() > 6_400, "what is read now counts in full");
        // A deleted file is forgotten, and a long pause leaves nothing.
        book.update(minutes(1_000_000), &reads(&[(1, 1000)]));
        assert_eq!((heat(&book, 1), heat(&book, 2)), (Some(0), None));
    }
}
