//! Figures of a keyspace: the totals that an open database has counted, as a field of the manifest keeps
//! them.
//!
//! They are statistics and decide nothing about the data. So an edit may have them for a keyspace that is
//! gone, and a field that cannot be read counts as none (LF1); `docs/format/manifest.md` lists their bytes.

use crate::version::LevelIndex;
use esker_base::coding::{Reader, put_prefixed, put_varint};
use std::fmt;
use std::sync::Arc;

/// The most bytes that a figure can be, 64 PiB: sums over all levels or kinds of jobs stay below 2^63.
const MAX_BYTES: u64 = 1 << 56;
/// The most that a count can be: lookups, of which one in 64 is counted, are multiplied and added up.
const MAX_COUNT: u64 = 1 << 48;

/// Tags of the fields. Persisted: they never change.
mod tag {
    pub(super) const WRITES: u64 = 2;
    pub(super) const LOOKUPS: u64 = 4;
    pub(super) const SCANS: u64 = 6;
    pub(super) const JOBS: u64 = 8;
    pub(super) const LEVEL: u64 = 10;
}

/// What was counted of a keyspace during its whole life, up to the edit that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceFigures {
    /// Writes.
    pub writes: WriteFigures,
    /// Sampled lookups.
    pub lookups: LookupFigures,
    /// Scans.
    pub scans: ScanFigures,
    /// Background jobs by cause.
    pub jobs: Vec<JobFigures>,
    /// Levels with figures, by ascending number.
    pub levels: Vec<LevelFigures>,
}

/// Writes of users, and what flushes and merges made of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteFigures {
    /// Key and value bytes that were put.
    pub put_bytes: u64,
    /// Key and value bytes that were ingested.
    pub ingested_bytes: u64,
    /// Operations, those in memtables included.
    pub operations: u64,
    /// Entries that flushes wrote.
    pub flushed_entries: u64,
    /// Tombstones among them.
    pub flushed_tombstones: u64,
    /// Plans carried out without writing.
    pub moves: u64,
    /// Entries that recent merges brought onto the oldest data.
    pub arrived: u64,
    /// Those of them that overwrote something there.
    pub overwritten: u64,
}

/// Sampled lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupFigures {
    /// Traced lookups.
    pub lookups: u64,
    /// Memtables that they searched.
    pub memtables: u64,
    /// Those that a memtable decided.
    pub found_in_memtables: u64,
    /// Grouped lookups that found a value.
    pub grouped_present: u64,
    /// Grouped lookups that found none.
    pub grouped_absent: u64,
}

/// Scans by length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanFigures {
    /// Short scans.
    pub short: u64,
    /// What they returned.
    pub short_entries: u64,
    /// Long scans.
    pub long: u64,
    /// What they returned.
    pub long_entries: u64,
}

/// Background jobs with one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFigures {
    /// The cause, by the engine's name for it.
    pub cause: Arc<str>,
    /// Jobs.
    pub jobs: u64,
    /// Bytes of tables read.
    pub read_bytes: u64,
    /// Bytes of tables written.
    pub written_bytes: u64,
    /// Bytes of blob files written.
    pub blob_bytes: u64,
    /// How long they took together, in microseconds.
    pub busy_us: u64,
    /// The most bytes that one of them read and wrote.
    pub largest_job_bytes: u64,
}

/// One level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelFigures {
    /// Which.
    pub level: LevelIndex,
    /// Bytes of tables written for it.
    pub written_bytes: u64,
    /// Bytes of its tables that compactions read.
    pub read_bytes: u64,
    /// Sampled lookups: runs with a table that spans the key.
    pub probed: u64,
    /// Tables of them that were searched.
    pub searched: u64,
    /// Searches that found the key.
    pub found: u64,
    /// Sampled probes of filters for absent keys.
    pub filter_probes: u64,
    /// Those that passed.
    pub false_positives: u64,
    /// How many should have, in millionths.
    pub expected_millionths: u64,
}

impl LevelFigures {
    /// A level of which nothing was counted.
    pub fn new(level: LevelIndex) -> LevelFigures {
        LevelFigures {
            level,
            written_bytes: 0,
            read_bytes: 0,
            probed: 0,
            searched: 0,
            found: 0,
            filter_probes: 0,
            false_positives: 0,
            expected_millionths: 0,
        }
    }
}

impl KeyspaceFigures {
    /// Appends the fields. Figures beyond the limits are cut to them.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let WriteFigures { put_bytes, ingested_bytes, operations, flushed_entries, .. } = self.writes;
        let WriteFigures { flushed_tombstones, moves, arrived, overwritten, .. } = self.writes;
        let counts = [operations, flushed_entries, flushed_tombstones, moves, arrived, overwritten];
        put_field(out, tag::WRITES, &[], &[put_bytes, ingested_bytes], &counts);
        let LookupFigures { lookups, memtables, found_in_memtables, .. } = self.lookups;
        let LookupFigures { grouped_present, grouped_absent, .. } = self.lookups;
        let counts = [lookups, memtables, found_in_memtables, grouped_present, grouped_absent];
        put_field(out, tag::LOOKUPS, &[], &[], &counts);
        let ScanFigures { short, short_entries, long, long_entries } = self.scans;
        put_field(out, tag::SCANS, &[], &[], &[short, short_entries, long, long_entries]);
        for job in &self.jobs {
            let mut head = Vec::new();
            put_prefixed(&mut head, job.cause.as_bytes());
            let bytes = [job.read_bytes, job.written_bytes, job.blob_bytes, job.largest_job_bytes];
            put_field(out, tag::JOBS, &head, &bytes, &[job.jobs, job.busy_us]);
        }
        for level in &self.levels {
            let LevelFigures { written_bytes, read_bytes, probed, searched, found, .. } = *level;
            let LevelFigures { filter_probes, false_positives, expected_millionths, .. } = *level;
            let counts = [probed, searched, found, filter_probes, false_positives, expected_millionths];
            put_field(out, tag::LEVEL, &[level.level.get()], &[written_bytes, read_bytes], &counts);
        }
    }

    /// Reads what is left of `body`; `None` if that is no list of fields, or if one of them is too short or
    /// over a limit. Unknown fields, and what follows the known part of a field, are skipped.
    pub(crate) fn decode(body: &mut Reader<'_>) -> Option<KeyspaceFigures> {
        let mut figures = KeyspaceFigures::default();
        while !body.is_empty() {
            let (tag, field) = (body.varint()?, &mut Reader::new(body.prefixed()?));
            match tag {
                tag::WRITES => figures.writes = decode_writes(field)?,
                tag::LOOKUPS => figures.lookups = decode_lookups(field)?,
                tag::SCANS => {
                    let [short, short_entries, long, long_entries] = take(field, MAX_COUNT)?;
                    figures.scans = ScanFigures { short, short_entries, long, long_entries };
                }
                tag::JOBS => figures.jobs.push(decode_jobs(field)?),
                tag::LEVEL => figures.levels.push(decode_level(field)?),
                _ => {}
            }
        }
        let is_ascending = figures.levels.is_sorted_by(|one, next| one.level < next.level);
        is_ascending.then_some(figures)
    }
}

/// Appends a field: a head as it is, then bytes and counts as varints.
fn put_field(out: &mut Vec<u8>, tag: u64, head: &[u8], bytes: &[u64], counts: &[u64]) {
    let mut body = head.to_vec();
    bytes.iter().for_each(|value| put_varint(&mut body, (*value).min(MAX_BYTES)));
    counts.iter().for_each(|value| put_varint(&mut body, (*value).min(MAX_COUNT)));
    put_varint(out, tag);
    put_prefixed(out, &body);
}

/// Reads so many varints of at most `limit`.
fn take<const N: usize>(body: &mut Reader<'_>, limit: u64) -> Option<[u64; N]> {
    let mut values = [0; N];
    for value in &mut values {
        *value = body.varint().filter(|value| *value <= limit)?;
    }
    Some(values)
}

fn decode_writes(body: &mut Reader<'_>) -> Option<WriteFigures> {
    let [put_bytes, ingested_bytes] = take(body, MAX_BYTES)?;
    let [operations, flushed_entries, flushed_tombstones, moves, arrived, overwritten] =
        take(body, MAX_COUNT)?;
    Some(WriteFigures {
        put_bytes,
        ingested_bytes,
        operations,
        flushed_entries,
        flushed_tombstones,
        moves,
        arrived,
        overwritten,
    })
}

fn decode_lookups(body: &mut Reader<'_>) -> Option<LookupFigures> {
    let [lookups, memtables, found_in_memtables, grouped_present, grouped_absent] = take(body, MAX_COUNT)?;
    Some(LookupFigures { lookups, memtables, found_in_memtables, grouped_present, grouped_absent })
}

fn decode_jobs(body: &mut Reader<'_>) -> Option<JobFigures> {
    let cause = std::str::from_utf8(body.prefixed()?).ok()?.into();
    let [read_bytes, written_bytes, blob_bytes, largest_job_bytes] = take(body, MAX_BYTES)?;
    let [jobs, busy_us] = take(body, MAX_COUNT)?;
    Some(JobFigures { cause, jobs, read_bytes, written_bytes, blob_bytes, busy_us, largest_job_bytes })
}

fn decode_level(body: &mut Reader<'_>) -> Option<LevelFigures> {
    let level = LevelIndex::new(body.u8()?)?;
    let [written_bytes, read_bytes] = take(body, MAX_BYTES)?;
    let [probed, searched, found, filter_probes, false_positives, expected_millionths] =
        take(body, MAX_COUNT)?;
    Some(LevelFigures {
        level,
        written_bytes,
        read_bytes,
        probed,
        searched,
        found,
        filter_probes,
        false_positives,
        expected_millionths,
    })
}

impl fmt::Display for KeyspaceFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (writes, scans) = (&self.writes, self.scans.short + self.scans.long);
        let written: u64 = self.jobs.iter().map(|job| job.written_bytes + job.blob_bytes).sum();
        write!(
            f,
            "{} operations of {} bytes, {written} bytes written by jobs, {} traced lookups, {scans} scans",
            writes.operations,
            writes.put_bytes + writes.ingested_bytes,
            self.lookups.lookups
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_figures() -> KeyspaceFigures {
        let level = |number, written_bytes| LevelFigures {
            written_bytes,
            false_positives: 3,
            ..LevelFigures::new(LevelIndex::new(number).expect("a level"))
        };
        KeyspaceFigures {
            writes: WriteFigures { put_bytes: 1 << 50, operations: 77, overwritten: 5, ..Default::default() },
            lookups: LookupFigures { lookups: 9, grouped_absent: 4, ..LookupFigures::default() },
            scans: ScanFigures { short: 1, short_entries: 2, long: 3, long_entries: 4 },
            jobs: vec![JobFigures {
                cause: "flush".into(),
                jobs: 8,
                busy_us: 1 << 40,
                ..JobFigures::default()
            }],
            levels: vec![level(0, 10), level(63, 20)],
        }
    }

    #[test]
    fn figures_come_back_and_later_fields_are_skipped() {
        let figures = some_figures();
        let mut bytes = Vec::new();
        figures.encode(&mut bytes);
        assert_eq!(KeyspaceFigures::decode(&mut Reader::new(&bytes)).as_ref(), Some(&figures));
        put_field(&mut bytes, 13, b"of a later build", &[], &[]);
        assert_eq!(KeyspaceFigures::decode(&mut Reader::new(&bytes)), Some(figures));
        assert_eq!(KeyspaceFigures::decode(&mut Reader::new(&[])), Some(KeyspaceFigures::default()));
    }

    #[test]
    fn figures_beyond_the_limits_are_cut_and_read_again() {
        let mut figures = some_figures();
        (figures.writes.put_bytes, figures.lookups.lookups) = (u64::MAX, u64::MAX);
        let mut bytes = Vec::new();
        figures.encode(&mut bytes);
        let again = KeyspaceFigures::decode(&mut Reader::new(&bytes)).expect("within the limits");
        assert_eq!((again.writes.put_bytes, again.lookups.lookups), (MAX_BYTES, MAX_COUNT));
    }
}
