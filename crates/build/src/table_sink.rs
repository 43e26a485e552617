//! Table sink: writes the output of a merge to tables, for flush and compaction.
//!
//! One pass: the merge yields entries in internal order, [`CompactionIter`] decides which of them a reader
//! may still see, and those go into table writers, split where the plan says. Nothing is allocated per entry.
//! Range tombstones arrive separately and are cut at the bounds of the tables ([`PendingDeletes`]).

use crate::blob_separation::{References, Relocation, Separator};
use crate::compression_downgrade::Effort;
use crate::filters::TableFilter;
use crate::overwrite_ratio::{OlderTables, OverwriteSampler};
use crate::pending_outputs::{Outputs, UnclaimedFiles};
use crate::range_del::cut::PendingDeletes;
use crate::range_del::input_range_dels::key_range;
use crate::table_factory::TableFactory;
use crate::warmed_outputs::CacheWarming;
use esker_base::planted;
use esker_base::{FileNumber, KeyspaceId, PartId, Result, SeqNo, TableUid, Tag};
use esker_env::OpenMode;
use esker_iter::{
    Boundaries, CompactionFilter, CompactionIter, Cursor, EntrySink, InputRangeDels, LargeValues,
    MergingCursor, OperandMerger,
};
use esker_options::KeyspaceOptions;
use esker_sst::{Expiring, JobControl, TableOptions, TableSummary, TableWriter, WarmedTable};
use esker_strategy::{Cut, Cutter};
use esker_version::{KeyRange, LevelIndex, PartFlags, PartMeta};
use esker_view::paths;
use std::sync::Arc;

/// A job reports progress, and checks whether it is cancelled, every so many bytes of entries.
const OUTPUT_BYTES_PER_CHECK: u64 = 64 << 10;

/// What a job does between two pieces of its output: it may be cancelled, and its writes are held to a rate.
pub trait OutputControl: JobControl {
    /// Counts new bytes of tables, and of keys and values in them, and waits as the rate limit demands.
    ///
    /// # Errors
    /// Whatever is to end the job.
    fn note_written(&self, bytes: u64, payload_bytes: u64) -> Result<()>;
}

/// What to write, and how: where the tables lie, which entries stay, and what is counted.
#[derive(Clone)]
pub struct OutputSpec<'a> {
    /// The keyspace that the tables are for.
    pub keyspace: KeyspaceId,
    /// Its options.
    pub options: &'a KeyspaceOptions,
    /// The form of the tables.
    pub layout: OutputLayout,
    /// Which entries stay, and as what.
    pub retention: OutputRetention<'a>,
    /// What is noted of the tables, and what follows their writing.
    pub accounting: OutputAccounting<'a>,
}

/// The form of the tables: level, compression, filter, and where they end.
#[derive(Clone)]
pub struct OutputLayout {
    /// The target level: it determines layout and compression.
    pub level: LevelIndex,
    /// How hard to compress, beside what is configured.
    pub effort: Effort,
    /// Where tables end.
    pub cut: Cut,
    /// Bytes of input, by estimate: a table is not ended shortly before the end.
    pub input_bytes: u64,
    /// The filter of each table.
    pub filter: TableFilter,
}

/// What becomes of the entries. By default every one stays as it is, as far as some reader sees it.
#[derive(Clone, Default)]
pub struct OutputRetention<'a> {
    /// The merge operator.
    pub operand_merger: Option<Arc<OperandMerger>>,
    /// The user's compaction filter.
    pub compaction_filter: Option<Arc<dyn CompactionFilter>>,
    /// Reads the inputs' large values, for the filter.
    pub large: Option<Arc<dyn LargeValues>>,
    /// Whether the job is a blob garbage collection: then it must not make more garbage.
    pub collects: bool,
    /// Whether sequence numbers that no reader distinguishes from zero may become zero.
    pub zero_seqnos: bool,
    /// The blob files whose values are rewritten, if any.
    pub relocation: Option<&'a Relocation>,
}

/// What is noted of the tables, and what their writing is reported to. By default nothing.
#[derive(Clone, Default)]
pub struct OutputAccounting<'a> {
    /// The job, if it is one of an open database, which may be cancelled.
    pub job: Option<Arc<dyn OutputControl>>,
    /// When the data was written, if the tables must not count as being as young as their files.
    pub created_ms: Option<u64>,
    /// When the oldest delete of the inputs was made, in milliseconds since 1970 (DW3 in
    /// `max_space_amp`, `delete_within`).
    pub oldest_delete_ms: Option<u64>,
    /// Whether nothing older than the inputs, with their keys, lies outside.
    pub is_bottom: bool,
    /// Whether an input hides older, deleted data by a tombstone that is already dropped, and that data may
    /// stay.
    pub hides_deleted: bool,
    /// Puts blocks into the cache: in merges those that replace cached ones, in flushes those of read
    /// keyspaces.
    pub cache_warming: Option<CacheWarming<'a>>,
    /// Source for the overwrite estimate.
    pub older: Option<OlderTables<'a>>,
}

impl<'a> OutputSpec<'a> {
    /// Tables of this form that keep every entry.
    pub fn new(keyspace: KeyspaceId, options: &'a KeyspaceOptions, layout: OutputLayout) -> OutputSpec<'a> {
        let (retention, accounting) = (OutputRetention::default(), OutputAccounting::default());
        OutputSpec { keyspace, options, layout, retention, accounting }
    }
}

/// Writes the entries of `merge` and the range tombstones of the inputs, except what no reader sees, to new
/// tables; durable when it returns, their names included.
pub fn write_tables<'a, C: Cursor>(
    factory: &'a TableFactory,
    spec: &OutputSpec<'_>,
    merge: MergingCursor<C>,
    boundaries: Boundaries,
    deletes: InputRangeDels,
    older_outside: impl FnMut(&[u8], SeqNo) -> bool,
) -> Result<Outputs<'a>> {
    let mut output = Output::new(factory, spec, PendingDeletes::new(deletes.kept()));
    let operand_merger = spec.retention.operand_merger.clone();
    let compaction_filter = spec.retention.compaction_filter.clone();
    let mut kept =
        CompactionIter::new(merge, boundaries, older_outside).under(deletes).operand_merger(operand_merger);
    kept = kept.filtering(compaction_filter, spec.retention.large.clone());
    if spec.retention.collects {
        kept = kept.leaving_large();
    }
    if spec.retention.zero_seqnos {
        kept = kept.zeroing_seqnos();
    }
    kept.write_all(&mut output)?;
    if kept.stats().unmergeable > 0 {
        let (keyspace, keys) = (spec.keyspace, kept.stats().unmergeable);
        tracing::warn!(%keyspace, keys, "operands could not be folded and stay as they are; reads say why");
    }
    if kept.stats().filter_failures > 0 {
        let (keyspace, entries) = (spec.keyspace, kept.stats().filter_failures);
        tracing::error!(%keyspace, entries, "a compaction filter panicked; what it was shown stays as it is");
    }
    output.tables.oldest_filtered = kept.stats().oldest_filtered;
    let stats = kept.stats();
    let hides_deleted = spec.accounting.hides_deleted
        || stats.kept_deleted > 0
        || (stats.hidden_deletes > 0 && !spec.accounting.is_bottom);
    let mut tables = output.finish()?;
    if hides_deleted {
        for part in &mut tables.parts {
            part.flags = part.flags.with(PartFlags::HIDES_DELETED);
            part.oldest_delete_ms =
                spec.accounting.oldest_delete_ms.or(part.oldest_delete_ms).or(Some(part.created_ms));
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
    sampler: OverwriteSampler<'s>,
    tables: Outputs<'a>,
    /// Keys and values so far, and the position of the next check of the job or of the table size.
    written_bytes: u64,
    stop_at_bytes: u64,
    report_at_bytes: u64,
    cut_at_bytes: u64,
    /// Bytes of files reported to the job.
    told_bytes: u64,
    told_payload_bytes: u64,
}

struct OpenTable {
    writer: TableWriter,
    number: FileNumber,
    uid: TableUid,
    references: References,
}

impl EntrySink for Output<'_, '_> {
    /// Writes an entry; `begins_key` is true for the first of its key, because all versions of a key go into
    /// one table (I2).
    #[inline(always)]
    fn write(&mut self, key: &[u8], tag: Tag, value: &[u8], begins_key: bool) -> Result<()> {
        let end_bytes = self.written_bytes + (key.len() + value.len()) as u64;
        if (begins_key || planted!(SplitsVersionsOfKey))
            && (end_bytes >= self.stop_at_bytes || self.cutter.is_at_border(key))
        {
            self.pass_checkpoints(key, tag, end_bytes)?;
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
            cutter: Cutter::new(&spec.layout.cut),
            writer: None,
            deletes,
            large: Separator::new(factory, spec.keyspace, spec.options, spec.retention.relocation),
            sampler: OverwriteSampler::new(spec.accounting.older, spec.layout.input_bytes),
            tables: Outputs::none(factory),
            written_bytes: 0,
            stop_at_bytes: 0,
            report_at_bytes: OUTPUT_BYTES_PER_CHECK,
            cut_at_bytes: 0,
            told_bytes: 0,
            told_payload_bytes: 0,
        }
    }

    /// Performs the checks due before an entry: of the job, the end of the table, and the overwrite sample.
    #[cold]
    #[inline(never)]
    fn pass_checkpoints(&mut self, key: &[u8], tag: Tag, end_bytes: u64) -> Result<()> {
        if self.written_bytes >= self.report_at_bytes {
            self.report_progress()?;
        }
        if let Some(open) = &self.writer {
            let left = self.spec.layout.input_bytes.saturating_sub(self.written_bytes);
            if self.cutter.ends_before(key, open.writer.estimated_file_bytes(), left) {
                self.finish_table(Some(key))?;
            }
        }
        self.cut_at_bytes = self.written_bytes + self.cutter.step_bytes();
        self.sampler.sample(key, tag, end_bytes);
        self.stop_at_bytes = self.report_at_bytes.min(self.cut_at_bytes).min(self.sampler.next_bytes);
        Ok(())
    }

    /// Reports progress to the job; an error if it is to end (JB1).
    fn report_progress(&mut self) -> Result<()> {
        self.report_at_bytes = self.written_bytes + OUTPUT_BYTES_PER_CHECK;
        let new_payload_bytes = self.written_bytes.saturating_sub(self.told_payload_bytes);
        self.told_payload_bytes = self.written_bytes;
        let Some(job) = &self.spec.accounting.job else { return Ok(()) };
        let open_bytes = self.writer.as_ref().map_or(0, |open| open.writer.estimated_file_bytes());
        let bytes = self.tables.bytes() + open_bytes;
        let new_bytes = bytes.saturating_sub(self.told_bytes);
        self.told_bytes = self.told_bytes.max(bytes);
        job.check_cancelled()?;
        job.note_written(new_bytes, new_payload_bytes)
    }

    /// Ends the open table; the next one begins with the key `border`.
    fn finish_table(&mut self, border: Option<&[u8]>) -> Result<()> {
        // The next steps, filter and sync, take longest.
        self.report_progress()?;
        if let Some(mut open) = self.writer.take() {
            open.writer.set_range_tombstones(self.deletes.take_before(border));
            let (mut part, inheritance) = finish(self.factory, self.spec.accounting.created_ms, open)?;
            if part.has_tombstones() {
                // The file is younger than the deletes in it.
                part.oldest_delete_ms = self.spec.accounting.oldest_delete_ms.or(part.oldest_delete_ms);
            }
            self.tables.overwrite_ratios.extend(self.sampler.end_table(&part));
            self.tables.warmed.extend(inheritance.map(|own| (part.file, own)));
            self.tables.parts.push(part);
            // A merge of many tables takes long, and the buffers of each are free now.
            esker_env::return_free_memory();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Outputs<'a>> {
        if self.writer.is_none() && !self.deletes.is_empty() {
            self.writer = Some(begin(self.factory, self.spec, &mut self.tables.files)?);
        }
        self.finish_table(None)?;
        self.tables.blobs = self.large.finish()?;
        if !self.tables.parts.is_empty() && !planted!(TableNamesNotSynced) {
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
    let codec = options.compression.pick(spec.layout.level);
    let table_options = TableOptions {
        layout: options.block_layout.pick(spec.layout.level),
        codec: spec.layout.effort.codec(codec),
        filter: spec.layout.filter.policy,
        filter_bits: spec.layout.filter.bits,
        db_uuid: factory.db_uuid,
        uid,
        keyspace: spec.keyspace,
        level: spec.layout.level.get(),
        created_ms: factory.env.clock.wall_ms(),
        ..options.table_options()
    };
    let mut writer = TableWriter::new(file, table_options)?;
    writer.set_memory(&factory.env.memory);
    if let Some(job) = &spec.accounting.job {
        writer.set_job_control(Arc::<dyn OutputControl>::clone(job) as Arc<dyn JobControl>);
    }
    if let Some(cache_warming) = &spec.accounting.cache_warming {
        writer.set_cache_warmer(cache_warming.cache_warmer(spec.keyspace));
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

/// The part of a written table.
pub fn part_of(
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
    part.range_tombstones = summary.range_tombstones;
    part.created_ms = created_ms;
    if part.has_tombstones() {
        part.oldest_delete_ms = Some(created_ms);
    }
    if summary.single_version {
        part.flags = part.flags.with(PartFlags::SINGLE_VERSION);
    }
    part
}

/// Sets the expiry metadata of a part, whose entries have been counted.
pub fn note_expiring(part: &mut PartMeta, expiring: Expiring) {
    let Expiring { entries, earliest_ms, latest_ms } = expiring;
    if entries > 0 {
        part.expiring = entries;
        part.min_expiry_ms = Some(earliest_ms);
        part.latest_expiry_ms = Some(latest_ms);
        // Only if every entry expires can the whole part be dropped at once.
        part.max_expiry_ms = (entries == part.entries).then_some(latest_ms);
    }
}

/// The keys of a table: entries and range tombstones.
fn range_of(summary: &TableSummary) -> KeyRange {
    let entries = (summary.entries > 0)
        .then(|| KeyRange::inclusive(summary.smallest.as_slice(), summary.largest.as_slice()));
    let deletes = summary.deleted.clone().map(key_range);
    match (entries, deletes) {
        (Some(entries), Some(deletes)) => entries.hull(&deletes),
        (entries, deletes) => entries.or(deletes).unwrap_or_else(|| KeyRange::inclusive(&[][..], &[][..])),
    }
}
