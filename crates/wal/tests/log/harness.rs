//! Test harness: a log together with everything it has guaranteed.

use esker_base::checksum::crc32c;
use esker_base::kind::FLAG_EXPIRY;
use esker_base::{KeyspaceId, LogId, Result, SeqNo, ValueKind};
use esker_env::fault::StrictFs;
use esker_env::{Env, FileSystem, Random, SeededRandom};
use esker_wal::{
    BatchEncoder, Entry, KeptHistory, Log, LogOptions, LogPosition, LogStart, LogWriter, RecoverInput,
    RecoveryReport, Rotation, WalRecovery, recover,
};
use std::path::Path;
use std::sync::Arc;

pub(crate) const DIR: &str = "/db/wal";
pub(crate) const UUID: [u8; 16] = *b"the one database";
pub(crate) const SEGMENT_BYTES: u64 = 12 << 10;

/// The part of a manifest that the log needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manifest {
    pub(crate) min_log_id: LogId,
    pub(crate) durable: LogPosition,
    pub(crate) edit: u64,
    /// Everything up to here is in tables.
    pub(crate) flushed: u64,
}

impl Manifest {
    pub(crate) const NEW: Manifest =
        Manifest { min_log_id: LogId(1), durable: LogPosition::ZERO, edit: 1, flushed: 0 };

    pub(crate) fn input<'a>(&self, fs: &'a dyn FileSystem, mode: WalRecovery) -> RecoverInput<'a> {
        RecoverInput {
            fs,
            dir: Path::new(DIR),
            db_uuid: UUID,
            min_log_id: self.min_log_id,
            durable: self.durable,
            last_manifest_edit: self.edit,
            mode,
        }
    }
}

/// A guarantee given to a caller; its index is the number of a mark in the file system's trace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Guarantee {
    /// Written up to here: survives a process crash.
    Written(u64),
    /// Synced up to here: survives a power cut.
    Durable(u64),
    /// The manifest is durable with these contents.
    Manifest(Manifest),
}

/// Everything guaranteed at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guaranteed {
    pub(crate) written: u64,
    pub(crate) durable: u64,
    pub(crate) manifest: Manifest,
    /// Whether power was lost since the log was written, so that a part of it may be missing.
    pub(crate) torn: bool,
}

impl Guaranteed {
    pub(crate) fn new(manifest: Manifest) -> Guaranteed {
        Guaranteed { written: manifest.flushed, durable: manifest.flushed, manifest, torn: false }
    }

    pub(crate) fn add(&mut self, guarantee: Guarantee) {
        match guarantee {
            Guarantee::Written(seqno) => self.written = seqno,
            Guarantee::Durable(seqno) => self.durable = seqno,
            Guarantee::Manifest(manifest) => {
                self.manifest = manifest;
                self.torn = false;
            }
        }
    }
}

pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7
}

/// The entry that always has this sequence number.
pub(crate) struct ExpectedEntry {
    kind_byte: u8,
    keyspace: KeyspaceId,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl ExpectedEntry {
    pub(crate) fn of(seqno: u64) -> ExpectedEntry {
        let drawn = mix(seqno);
        let value_len = match drawn % 64 {
            0 => 3000,
            1..8 => 400,
            _ => (drawn / 64 % 90) as usize,
        };
        let key = drawn.to_be_bytes()[..(drawn / 7 % 9) as usize].to_vec();
        let mut value = vec![drawn as u8; value_len + 8];
        value[..8].copy_from_slice(&seqno.to_le_bytes());
        let (kind, flags) = match drawn / 128 % 8 {
            0 => (ValueKind::Delete, 0),
            1 => (ValueKind::Put, FLAG_EXPIRY),
            2 => (ValueKind::Merge, 0),
            _ => (ValueKind::Put, 0),
        };
        if !kind.has_value() {
            value.clear();
        }
        ExpectedEntry {
            kind_byte: kind as u8 | flags,
            keyspace: KeyspaceId((drawn % 300) as u32),
            key,
            value,
        }
    }

    pub(crate) fn entry(&self) -> Entry<'_> {
        Entry { kind_byte: self.kind_byte, keyspace: self.keyspace, key: &self.key, value: &self.value }
    }
}

/// A batch with the expected entries of these sequence numbers.
pub(crate) fn batch(first: u64, count: u32) -> BatchEncoder {
    let mut batch = BatchEncoder::new();
    for seqno in first..first + u64::from(count) {
        batch.entry(&ExpectedEntry::of(seqno).entry()).unwrap();
    }
    batch
}

/// The result of a recovery.
pub(crate) struct Recovered {
    pub(crate) report: RecoveryReport,
    /// First and last sequence number of every record.
    pub(crate) records: Vec<(u64, u64)>,
}

impl Recovered {
    /// The last sequence number that is in the log or in tables.
    pub(crate) fn last(&self, manifest: &Manifest) -> u64 {
        self.records.last().map_or(manifest.flushed, |record| record.1.max(manifest.flushed))
    }
}

/// Recovers, and checks that every entry that comes back is the expected one and that none is missing in
/// between.
pub(crate) fn read_back(fs: &dyn FileSystem, manifest: &Manifest, mode: WalRecovery) -> Result<Recovered> {
    let mut records = Vec::new();
    let mut expected = None;
    let report = recover(&manifest.input(fs, mode), &mut |record| {
        let first = record.header.first_seqno.get();
        let mut next = *expected.get_or_insert(first);
        assert_eq!(first, next, "a hole in front of the record at {}", record.position);
        for entry in record.entries() {
            let (seqno, entry) = entry?;
            assert_eq!(seqno.get(), next);
            assert_eq!(entry, ExpectedEntry::of(next).entry(), "entry {next}");
            next += 1;
        }
        expected = Some(next);
        records.push((first, next - 1));
        Ok(())
    })?;
    assert_eq!(report.records, records.len() as u64);
    Ok(Recovered { report, records })
}

/// Recovers and checks the result against everything guaranteed.
///
/// # Panics
/// If anything guaranteed is missing, or an entry comes back that was never written.
pub(crate) fn verify(fs: &dyn FileSystem, known: &Guaranteed, power_lost: bool, what: &str) -> Recovered {
    let manifest = &known.manifest;
    let recovered = match read_back(fs, manifest, WalRecovery::Strict) {
        Ok(recovered) => recovered,
        Err(error) => panic!("{what}: {error}; {known:?}"),
    };
    let last = recovered.last(manifest);
    let guaranteed = if power_lost { known.durable } else { known.written };
    assert!(last >= guaranteed, "{what}: the log ends at {last}, guaranteed is {guaranteed}");
    if let Some(first) = recovered.records.first() {
        assert!(first.0 <= manifest.flushed + 1, "{what}: the log starts at {}, {known:?}", first.0);
    }
    let report = &recovered.report;
    assert!(report.greatest_seqno.get() >= recovered.records.last().map_or(0, |record| record.1));
    assert!(report.next_log_id > manifest.min_log_id);
    if !power_lost && !known.torn {
        assert_eq!(report.dropped_records, 0, "{what}");
    }
    recovered
}

/// One life of a log.
pub(crate) struct LogHarness {
    pub(crate) fs: StrictFs,
    pub(crate) log: Arc<Log>,
    pub(crate) writer: LogWriter,
    pub(crate) random: SeededRandom,
    pub(crate) guarantees: Vec<Guarantee>,
    pub(crate) manifest: Manifest,
    /// Closed segments and their last sequence numbers.
    closed: Vec<(LogId, u64)>,
}

/// The database's directory, durable.
pub(crate) fn make_parent(fs: &dyn FileSystem) {
    fs.create_dir_all(Path::new("/db")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
}

pub(crate) fn options(mapped: bool) -> LogOptions {
    LogOptions { segment_bytes: SEGMENT_BYTES, mapped, kept_segments: 2, ..LogOptions::default() }
}

pub(crate) fn start(manifest: &Manifest, log_id: LogId) -> LogStart {
    LogStart {
        db_uuid: UUID,
        log_id,
        last_seqno: SeqNo::new(manifest.flushed),
        manifest_edit: manifest.edit,
        wall_ms: 1_600_000_000_000,
        history: KeptHistory::default(),
    }
}

impl LogHarness {
    /// A new log.
    pub(crate) fn new(fs: &StrictFs, seed: u64, mapped: bool) -> LogHarness {
        LogHarness::begin(fs, seed, mapped, Manifest::NEW, LogId(1))
    }

    /// The next life of a recovered log: everything is in tables, the new manifest says so.
    pub(crate) fn after(
        fs: &StrictFs,
        seed: u64,
        mapped: bool,
        known: &Guaranteed,
        old: &Recovered,
    ) -> LogHarness {
        let log_id = old.report.next_log_id;
        let flushed = old.last(&known.manifest).max(old.report.greatest_seqno.get());
        let edit = known.manifest.edit + 1;
        let manifest = Manifest { min_log_id: log_id, durable: known.manifest.durable, edit, flushed };
        let mut harness = LogHarness::begin(fs, seed, mapped, manifest, log_id);
        harness.guarantee(Guarantee::Manifest(manifest));
        harness.log.note_manifest_edit(edit);
        harness.log.delete_old(&old.report).unwrap();
        harness
    }

    fn begin(fs: &StrictFs, seed: u64, mapped: bool, manifest: Manifest, log_id: LogId) -> LogHarness {
        make_parent(fs);
        let env = Env::simulated(Arc::new(fs.clone()), seed);
        let before = Manifest { edit: manifest.edit - 1, ..manifest };
        let (log, writer) =
            Log::create(&env, Path::new(DIR), &start(&before, log_id), options(mapped)).unwrap();
        LogHarness {
            fs: fs.clone(),
            log,
            writer,
            random: SeededRandom::new(seed),
            guarantees: Vec::new(),
            manifest,
            closed: Vec::new(),
        }
    }

    pub(crate) fn guarantee(&mut self, guarantee: Guarantee) {
        self.fs.mark(self.guarantees.len() as u64);
        self.guarantees.push(guarantee);
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    pub(crate) fn last_seqno(&self) -> u64 {
        self.writer.last_seqno().get()
    }

    /// Writes a batch of this many entries as an engine does: checks the room, uses a private segment if
    /// needed.
    pub(crate) fn write(&mut self, count: u32) {
        let first = self.last_seqno() + 1;
        let batch = batch(first, count);
        let payload = batch.payload();
        if !self.log.fits_segment(payload.len()) {
            let mut private = self.log.prepare_private(payload.len()).unwrap();
            self.close_active();
            self.writer.rotate_to_private(&mut private, 7).unwrap();
        } else if !self.writer.has_room(payload.len()) {
            self.writer.grow();
            if !self.writer.has_room(payload.len()) {
                self.rotate();
            }
        }
        self.writer.append(SeqNo::new(first), count, payload, crc32c(payload)).unwrap();
        self.guarantee(Guarantee::Written(first + u64::from(count) - 1));
    }

    pub(crate) fn rotate(&mut self) {
        self.writer.grow();
        if !self.log.has_ready() {
            assert!(self.log.prepare_next().unwrap());
        }
        self.close_active();
        assert!(matches!(self.writer.rotate(7), Ok(Rotation::Done(_))));
    }

    /// Continues in a small segment if `leaves`, and shrinks the log.
    pub(crate) fn shrink(&mut self, leaves: bool) {
        if leaves {
            let mut small = self.log.prepare_small().unwrap();
            self.close_active();
            self.writer.grow();
            self.writer.rotate_to_private(&mut small, 7).unwrap();
        }
        self.writer.shrink();
        self.log.delete_surplus().unwrap();
    }

    fn close_active(&mut self) {
        self.closed.push((self.writer.position().log_id, self.last_seqno()));
    }

    pub(crate) fn sync(&mut self) {
        let seqno = self.writer.last_seqno();
        let captured = (seqno, self.writer.position());
        self.log.sync_up_to(seqno, || captured).unwrap();
        self.guarantee(Guarantee::Durable(seqno.get()));
    }

    /// Puts the oldest closed segments except `keep` into tables, commits that and releases them.
    pub(crate) fn flush(&mut self, keep: usize) {
        let count = self.closed.len().saturating_sub(keep);
        let Some(&(log_id, flushed)) = self.closed[..count].last() else { return };
        self.closed.drain(..count);
        let edit = self.manifest.edit + 1;
        let min_log_id = self.closed.first().map_or(self.writer.position().log_id, |closed| closed.0);
        assert!(min_log_id > log_id);
        self.manifest = Manifest { min_log_id, durable: self.log.durable_position(), edit, flushed };
        self.guarantee(Guarantee::Manifest(self.manifest));
        self.log.note_manifest_edit(edit);
        assert_eq!(self.log.release_below(min_log_id).unwrap(), count);
    }

    /// One random step of a life.
    pub(crate) fn step(&mut self) {
        match self.below(100) {
            0..70 => {
                let count = 1 + self.below(4) as u32;
                self.write(count);
            }
            70..74 => self.write(40),
            74 => self.write(300),
            75..85 => self.sync(),
            85..90 => self.rotate(),
            90..94 => {
                self.log.prepare_next().unwrap();
            }
            94..98 => {
                let keep = self.below(3) as usize;
                self.flush(keep);
            }
            98 => {
                let leaves = self.below(2) == 0;
                self.shrink(leaves);
            }
            _ => {
                self.writer.append_mark().unwrap();
            }
        }
    }

    pub(crate) fn known(&self) -> Guaranteed {
        let mut known = Guaranteed::new(Manifest::NEW);
        for guarantee in &self.guarantees {
            known.add(*guarantee);
        }
        known.manifest = self.manifest;
        known
    }
}
