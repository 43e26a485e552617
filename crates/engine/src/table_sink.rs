//! Writing tables from a merge: what flush and compaction share.
//!
//! One pass: the merge gives entries in internal order, [`Retained`] decides which of them anybody can still
//! see, and the rest goes into table writers, cut where the plan says. Nothing is allocated per entry. Range
//! deletes come beside the entries and are cut at the borders of the tables ([`PendingDeletes`]).

use crate::cache_warming::Heirs;
use crate::compression_downgrade::eased;
use crate::filters::TableFilter;
use crate::jobs::{Job, OUTPUT_BYTES_PER_LOOK};
use crate::large::separate::References;
use crate::large::{Relocation, Separator};
use crate::options::KeyspaceOptions;
use crate::overwrite_ratio::{Older, Sampler};
use crate::paths;
use crate::pending_outputs::{Outputs, UnclaimedFiles};
use crate::range_del::aggregate::key_range;
use crate::range_del::cut::PendingDeletes;
use esker_base::{FileNumber, KeyspaceId, PartId, Result, RunId, SeqNo, TableUid, Tag};
use esker_env::{Env, OpenMode};
use esker_iter::{
    Boundaries, CompactionFilter, Cursor, Folding, InputDeletes, LargeValues, Merge, Retained, Sink,
};
use esker_sst::{Expiring, JobControl, TableOptions, TableSummary, TableWriter, WarmedTable};
use esker_strategy::{Cut, Cutter};
use esker_version::{KeyRange, LevelIndex, PartFlags, PartMeta};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What to write.
pub(crate) struct OutputSpec<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) options: &'a KeyspaceOptions,
    /// Where the tables go: layout and compression are chosen by it.
    pub(crate) level: LevelIndex,
    /// Whether to compress lightly, because writers are about to wait.
    pub(crate) is_eased: bool,
    pub(crate) cut: Cut,
    /// Bytes that go in, by estimate: a table is not ended shortly before the end.
    pub(crate) input_bytes: u64,
    pub(crate) filter: TableFilter,
    /// The job, if it is one of an open database, which may be called off.
    pub(crate) job: Option<&'a Arc<Job>>,
    /// What operands are folded by.
    pub(crate) folding: Option<Arc<Folding>>,
    /// Somebody's filter, in compactions.
    pub(crate) compaction_filter: Option<Arc<dyn CompactionFilter>>,
    /// Where the inputs' large values are read, for the filter.
    pub(crate) large: Option<Arc<dyn LargeValues>>,
    /// Whether the job collects garbage of blob files: then it must not make more.
    pub(crate) collects: bool,
    /// Whether sequence numbers that nobody can tell from zero may become zero.
    pub(crate) zero_seqnos: bool,
    /// When the data was written, if the tables are not to count as being as young as their files.
    pub(crate) created_ms: Option<u64>,
    /// When the oldest delete of the inputs was made, in milliseconds since 1970 (DW3 in
    /// [`crate::targets`]).
    pub(crate) oldest_delete_ms: Option<u64>,
    /// Whether nothing older than the inputs lies outside, over their keys.
    pub(crate) is_bottom: bool,
    /// Whether some input hides older data that was deleted, by a tombstone that is gone, and that data may
    /// stay.
    pub(crate) hides_deleted: bool,
    /// The blob files whose values are to be written anew, if there are any.
    pub(crate) relocation: Option<&'a Relocation>,
    /// Who puts blocks into the cache: in merges what takes the place of cached ones, in flushes what is
    /// read.
    pub(crate) heirs: Option<Heirs<'a>>,
    /// Whom to ask how much of the tables replaces something.
    pub(crate) older: Option<Older<'a>>,
}

/// Makes table files: where they go, how they are numbered. Exists before the database is open, because
/// recovery flushes what it replays.
#[derive(Debug)]
pub(crate) struct TableFactory {
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    pub(crate) db_uuid: [u8; 16],
    next_file: AtomicU64,
    next_part: AtomicU64,
}

impl TableFactory {
    pub(crate) fn new(
        env: Env,
        dir: PathBuf,
        db_uuid: [u8; 16],
        (next_file, next_part): (FileNumber, PartId),
    ) -> TableFactory {
        let (next_file, next_part) = (AtomicU64::new(next_file.get()), AtomicU64::new(next_part.get()));
        TableFactory { env, dir, db_uuid, next_file, next_part }
    }

    /// A number for a new file. Taken from memory; every edit raises the stored counter past what it refers
    /// to, and recovery raises it past every name it sees (RC3).
    pub(crate) fn take_file_number(&self) -> FileNumber {
        FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    /// An id for a new part.
    pub(crate) fn take_part_id(&self) -> PartId {
        PartId(self.next_part.fetch_add(1, Ordering::Relaxed))
    }

    /// An id for a new run; runs are numbered by the counter of the parts.
    pub(crate) fn take_run_id(&self) -> RunId {
        RunId(self.next_part.fetch_add(1, Ordering::Relaxed))
    }

    /// The counters as an edit stores them.
    pub(crate) fn counters(&self) -> (FileNumber, PartId) {
        (FileNumber(self.next_file.load(Ordering::Relaxed)), PartId(self.next_part.load(Ordering::Relaxed)))
    }
}

/// Writes what `merge` gives, and the range deletes of the inputs, less what nobody can see, into new tables;
/// durable when it returns, their names included.
pub(crate) fn write_tables<'a, C: Cursor>(
    factory: &'a TableFactory,
    spec: &OutputSpec<'_>,
    merge: Merge<C>,
    boundaries: Boundaries,
    deletes: InputDeletes,
    older_outside: impl FnMut(&[u8], SeqNo) -> bool,
) -> Result<Outputs<'a>> {
    let mut output = Output::new(factory, spec, PendingDeletes::new(deletes.kept()));
    let folding = spec.folding.clone();
    let compaction_filter = spec.compaction_filter.clone();
    let mut kept = Retained::new(merge, boundaries, older_outside).under(deletes).folding(folding);
    kept = kept.filtering(compaction_filter, spec.large.clone());
    if spec.collects {
        kept = kept.leaving_large();
    }
    if spec.zero_seqnos {
        kept = kept.zeroing_seqnos();
    }
    kept.write_all(&mut output)?;
    if kept.stats().unfoldable > 0 {
        let (keyspace, keys) = (spec.keyspace, kept.stats().unfoldable);
        tracing::warn!(%keyspace, keys, "operands could not be folded and stay as they are; reads say why");
    }
    if kept.stats().filter_failures > 0 {
        let (keyspace, entries) = (spec.keyspace, kept.stats().filter_failures);
        tracing::error!(%keyspace, entries, "a compaction filter panicked; what it was shown stays as it is");
    }
    output.tables.oldest_filtered = kept.stats().oldest_filtered;
    let stats = kept.stats();
    let hides_deleted =
        spec.hides_deleted || stats.kept_deleted > 0 || (stats.hidden_deletes > 0 && !spec.is_bottom);
    let mut tables = output.finish()?;
    if hides_deleted {
        for part in &mut tables.parts {
            part.flags = part.flags.with(PartFlags::HIDES_DELETED);
            part.oldest_delete_ms = spec.oldest_delete_ms.or(part.oldest_delete_ms).or(Some(part.created_ms));
        }
    }
    Ok(tables)
}

/// The tables of one job while they are written.
struct Output<'a, 's> {
    factory: &'a TableFactory,
    spec: &'s OutputSpec<'s>,
    cutter: Cutter<'s>,
    writer: Option<OpenTable>,
    deletes: PendingDeletes,
    large: Separator<'a, 's>,
    sampler: Sampler<'s>,
    tables: Outputs<'a>,
    /// Keys and values so far, and when something is to be seen to next: the job, or the size of the table.
    written_bytes: u64,
    stop_at_bytes: u64,
    look_at_bytes: u64,
    ask_at_bytes: u64,
    /// Bytes of files that the job knows of.
    told_bytes: u64,
    told_payload_bytes: u64,
}

struct OpenTable {
    writer: TableWriter,
    number: FileNumber,
    uid: TableUid,
    references: References,
}

impl Sink for Output<'_, '_> {
    /// Writes an entry; `begins_key` says whether it is the first of its key, because all versions of a key
    /// go into one table (I2).
    #[inline(always)]
    fn write(&mut self, (key, tag, value): (&[u8], Tag, &[u8]), begins_key: bool) -> Result<()> {
        let end_bytes = self.written_bytes + (key.len() + value.len()) as u64;
        if begins_key && (end_bytes >= self.stop_at_bytes || self.cutter.is_at_border(key)) {
            self.see_to(key, tag, end_bytes)?;
        }
        self.written_bytes = end_bytes;
        let open = match &mut self.writer {
            Some(open) => open,
            None => {
                self.cutter.ends_before(key, 0, u64::MAX);
                self.writer.insert(begin(self.factory, self.spec, &mut self.tables.files)?)
            }
        };
        let placed = self.large.place(key, tag, value, &mut self.tables.files)?;
        open.references.note(placed.pointer);
        open.writer.add(key, placed.tag, placed.value)
    }
}

impl<'a, 's> Output<'a, 's> {
    fn new(factory: &'a TableFactory, spec: &'s OutputSpec<'s>, deletes: PendingDeletes) -> Output<'a, 's> {
        Output {
            factory,
            spec,
            cutter: Cutter::new(&spec.cut),
            writer: None,
            deletes,
            large: Separator::new(factory, spec),
            sampler: Sampler::new(spec.older, spec.input_bytes),
            tables: Outputs::none(factory),
            written_bytes: 0,
            stop_at_bytes: 0,
            look_at_bytes: OUTPUT_BYTES_PER_LOOK,
            ask_at_bytes: 0,
            told_bytes: 0,
            told_payload_bytes: 0,
        }
    }

    /// Sees to what is due before an entry: a look at the job, the end of the table, and whether something
    /// older has the key.
    #[cold]
    #[inline(never)]
    fn see_to(&mut self, key: &[u8], tag: Tag, end_bytes: u64) -> Result<()> {
        if self.written_bytes >= self.look_at_bytes {
            self.look()?;
        }
        if let Some(open) = &self.writer {
            let left = self.spec.input_bytes.saturating_sub(self.written_bytes);
            if self.cutter.ends_before(key, open.writer.estimated_file_bytes(), left) {
                self.finish_table(Some(key))?;
            }
        }
        self.ask_at_bytes = self.written_bytes + self.cutter.step_bytes();
        self.sampler.look(key, tag, end_bytes);
        self.stop_at_bytes = self.look_at_bytes.min(self.ask_at_bytes).min(self.sampler.next_bytes);
        Ok(())
    }

    /// Tells the job how far it has come; an error if it is to end (JB1).
    fn look(&mut self) -> Result<()> {
        self.look_at_bytes = self.written_bytes + OUTPUT_BYTES_PER_LOOK;
        let new_payload_bytes = self.written_bytes.saturating_sub(self.told_payload_bytes);
        self.told_payload_bytes = self.written_bytes;
        let Some(job) = self.spec.job else { return Ok(()) };
        let open_bytes = self.writer.as_ref().map_or(0, |open| open.writer.estimated_file_bytes());
        let bytes = self.tables.bytes() + open_bytes;
        let new_bytes = bytes.saturating_sub(self.told_bytes);
        self.told_bytes = self.told_bytes.max(bytes);
        job.look()?;
        job.note_written(new_bytes, new_payload_bytes)
    }

    /// Ends the open table; the next one begins with the key `border`.
    fn finish_table(&mut self, border: Option<&[u8]>) -> Result<()> {
        // What follows, filter and sync, takes longest.
        self.look()?;
        if let Some(mut open) = self.writer.take() {
            open.writer.set_range_deletes(self.deletes.take_before(border));
            let (mut part, inheritance) = finish(self.factory, self.spec.created_ms, open)?;
            if part.has_tombstones() {
                // The file is younger than the deletes in it.
                part.oldest_delete_ms = self.spec.oldest_delete_ms.or(part.oldest_delete_ms);
            }
            self.tables.replaced.extend(self.sampler.end_table(&part));
            self.tables.inheritances.extend(inheritance.map(|own| (part.file, own)));
            self.tables.parts.push(part);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Outputs<'a>> {
        if self.writer.is_none() && !self.deletes.is_empty() {
            self.writer = Some(begin(self.factory, self.spec, &mut self.tables.files)?);
        }
        self.finish_table(None)?;
        self.tables.blobs = self.large.finish()?;
        if !self.tables.parts.is_empty() {
            self.factory.env.fs.sync_dir(&paths::tables(&self.factory.dir))?;
        }
        Ok(self.tables)
    }
}

fn begin(
    factory: &TableFactory,
    spec: &OutputSpec<'_>,
    unclaimed: &mut UnclaimedFiles<'_>,
) -> Result<OpenTable> {
    let number = factory.take_file_number();
    let uid = TableUid(factory.env.random.next_u64());
    let path = paths::table(&factory.dir, number);
    let file = factory.env.fs.open(&path, OpenMode::CreateNew)?;
    unclaimed.add(path);
    let options = spec.options;
    let codec = options.compression.pick(spec.level);
    let table_options = TableOptions {
        layout: options.block_layout.pick(spec.level),
        codec: if spec.is_eased { eased(codec) } else { codec },
        filter: spec.filter.policy,
        filter_bits: spec.filter.bits,
        db_uuid: factory.db_uuid,
        uid,
        keyspace: spec.keyspace,
        level: spec.level.get(),
        created_ms: factory.env.clock.wall_ms(),
        ..options.table_options()
    };
    let mut writer = TableWriter::new(file, table_options)?;
    if let Some(job) = spec.job {
        writer.set_job_control(Arc::clone(job) as Arc<dyn JobControl>);
    }
    if let Some(heirs) = &spec.heirs {
        writer.set_cache_warmer(heirs.heir(spec.keyspace));
    }
    Ok(OpenTable { writer, number, uid, references: References::default() })
}

fn finish(
    factory: &TableFactory,
    created_ms: Option<u64>,
    open: OpenTable,
) -> Result<(PartMeta, Option<WarmedTable>)> {
    let OpenTable { writer, number, uid, references } = open;
    let (summary, inheritance) = writer.finish_warmed()?;
    let created_ms = created_ms.unwrap_or_else(|| factory.env.clock.wall_ms());
    let mut part = part_of(&summary, factory.take_part_id(), number, uid, created_ms);
    part.blobs = references.finish();
    Ok((part, inheritance))
}

/// A table that was written, as a part.
pub(crate) fn part_of(
    summary: &TableSummary,
    id: PartId,
    number: FileNumber,
    uid: TableUid,
    created_ms: u64,
) -> PartMeta {
    let mut part = PartMeta::new(id, number, summary.file_bytes, uid, range_of(summary));
    part.min_seqno = summary.min_seqno;
    part.max_seqno = summary.max_seqno;
    part.raw_bytes = summary.raw_bytes;
    part.entries = summary.entries;
    part.tombstones = summary.tombstones;
    note_expiring(&mut part, summary.expiring);
    part.range_deletes = summary.range_deletes;
    part.created_ms = created_ms;
    if part.has_tombstones() {
        part.oldest_delete_ms = Some(created_ms);
    }
    if summary.single_version {
        part.flags = part.flags.with(PartFlags::SINGLE_VERSION);
    }
    part
}

/// Fills in what a part tells of its entries that expire. Its entries have been counted.
pub(crate) fn note_expiring(part: &mut PartMeta, expiring: Expiring) {
    let Expiring { entries, earliest_ms, latest_ms } = expiring;
    if entries > 0 {
        part.expiring = entries;
        part.min_expiry_ms = Some(earliest_ms);
        part.latest_expiry_ms = Some(latest_ms);
        // Only where nothing stays can the whole part go at once.
        part.max_expiry_ms = (entries == part.entries).then_some(latest_ms);
    }
}

/// The keys of a table: entries and range deletes.
fn range_of(summary: &TableSummary) -> KeyRange {
    let entries = (summary.entries > 0)
        .then(|| KeyRange::inclusive(summary.smallest.as_slice(), summary.largest.as_slice()));
    let deletes = summary.deleted.clone().map(key_range);
    match (entries, deletes) {
        (Some(entries), Some(deletes)) => entries.hull(&deletes),
        (entries, deletes) => entries.or(deletes).unwrap_or_else(|| KeyRange::inclusive(&[][..], &[][..])),
    }
}
