//! Point lookup: finds the newest visible version of one key.

use crate::lookup_tracer::{INGESTED_RUN, LookupTracer};
use crate::read::last_run_predictor;
use crate::read::pinned::Pinned;
use crate::read::range_tombstones::cover_at;
use crate::read::resolve::{End, ExpirySink, Resolution, Resolved, resolve};
use crate::tree::{Access, TreePart, TreeRun};
use crate::value::{Value, ValueWithExpiry};
use esker_base::{Result, SeqNo, Tag, checksum};
use esker_filter::watch::is_sampled;
use esker_sst::{PinnedValue, PreparedLookup, Table};
use std::cell::Cell;

/// Runs whose filters are prefetched together before the first source is searched. Further runs are searched
/// one after the other: a lookup through that many is slow for other reasons.
const PREFETCHED_RUNS: usize = 16;

/// The result of a lookup.
pub enum LookupResult<'v> {
    /// In a memtable of the view.
    Borrowed(&'v [u8]),
    /// In a block, which is pinned in memory.
    Pinned(PinnedValue),
    /// The result of merge operands.
    Folded(Vec<u8>),
    /// A pointer to a blob file. Not read yet, because an existence check does not need it.
    Large(Value),
    /// The key has no value.
    Absent,
}

impl Pinned {
    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.value_of(key, lookup(self, key)?)
    }

    /// The value of a key and its expiry.
    pub fn get_with_expiry(&self, key: &[u8]) -> Result<Option<ValueWithExpiry>> {
        let (found, expiry_ms) = lookup_with_expiry(self, key)?;
        let value = self.value_of(key, found)?;
        Ok(value.map(|value| ValueWithExpiry::new(value, expiry_ms)))
    }

    /// When the value of a key ends. A large value is not read.
    pub fn end(&self, key: &[u8]) -> Result<End> {
        Ok(match lookup_with_expiry(self, key)? {
            (LookupResult::Absent, _) => End::Past,
            (_, None) => End::Never,
            (_, Some(expiry_ms)) => End::At(expiry_ms),
        })
    }

    #[inline(always)]
    pub(super) fn value_of(&self, key: &[u8], found: LookupResult<'_>) -> Result<Option<Value>> {
        Ok(match found {
            LookupResult::Borrowed(value) => Some(Value::copied(value)),
            LookupResult::Pinned(value) => Some(Value::pinned(value)),
            LookupResult::Folded(value) => Some(Value::owned(value)),
            LookupResult::Large(pointer) => Some(self.fetch(key, &pointer)?),
            LookupResult::Absent => None,
        })
    }

    /// Calls `read` with the value of a key, which is not copied.
    #[inline]
    pub fn get_with<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        Ok(match lookup(self, key)? {
            LookupResult::Borrowed(value) => read(Some(value)),
            LookupResult::Pinned(value) => read(Some(&value)),
            LookupResult::Folded(value) => read(Some(&value)),
            LookupResult::Large(pointer) => read(Some(&self.fetch(key, &pointer)?)),
            LookupResult::Absent => read(None),
        })
    }

    /// Whether a key has a value.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(!matches!(lookup(self, key)?, LookupResult::Absent))
    }
}

/// The value of `key` for a reader at this moment.
#[inline]
pub fn lookup<'v>(pinned: &'v Pinned, key: &[u8]) -> Result<LookupResult<'v>> {
    let hash = checksum::key_hash(key);
    if is_sampled(hash) {
        return traced(pinned, key, hash);
    }
    search(pinned, key, hash, &mut (), ())
}

/// The value of `key` for a reader at this moment, and when it expires, in milliseconds since 1970.
fn lookup_with_expiry<'v>(pinned: &'v Pinned, key: &[u8]) -> Result<(LookupResult<'v>, Option<u64>)> {
    let (hash, tree, expiry) = (checksum::key_hash(key), &pinned.view.tree, Cell::new(None));
    let sink = std::slice::from_ref(&expiry);
    let found = match is_sampled(hash) {
        true => search(pinned, key, hash, &mut tree.watch.trace(&tree.runs), sink)?,
        false => search(pinned, key, hash, &mut (), sink)?,
    };
    Ok((found, expiry.get()))
}

/// The same, with every step traced.
#[cold]
#[inline(never)]
fn traced<'v>(pinned: &'v Pinned, key: &[u8], hash: u64) -> Result<LookupResult<'v>> {
    let tree = &pinned.view.tree;
    search(pinned, key, hash, &mut tree.watch.trace(&tree.runs), ())
}

#[inline(always)]
pub(super) fn search<'v>(
    pinned: &'v Pinned,
    key: &[u8],
    hash: u64,
    tracer: &mut impl LookupTracer,
    expiry: impl ExpirySink,
) -> Result<LookupResult<'v>> {
    let (view, seqno) = (&*pinned.view, pinned.seqno);
    let wanted = KeyLookup { pinned, key, hash, cover: cover_at(view, key, seqno)?, expiry };
    // All cache lines that the filters need are prefetched first, so that their misses overlap each other and
    // the memtables' search.
    let mut candidates: [Option<&TreePart>; PREFETCHED_RUNS] = [None; PREFETCHED_RUNS];
    let runs = &view.tree.runs;
    for (slot, run) in candidates.iter_mut().zip(runs) {
        let part = run.part_for(key);
        if let Some(table) = part.and_then(|part| part.file.opened()) {
            table.prefetch_filter(wanted.hash);
        }
        *slot = part;
    }
    for memtable in view.memtables() {
        if let Some(run) = &memtable.ingested {
            tracer.ingested();
            if let Some(found) = wanted.in_run(run, tracer, INGESTED_RUN)? {
                return Ok(found);
            }
            continue;
        }
        tracer.memtable();
        if let Some((tag, value)) = memtable.memtable.get(key, seqno) {
            tracer.memtable_finds(tag);
            if wanted.is_plain(tag) {
                return Ok(LookupResult::Borrowed(value));
            }
            return Ok(match wanted.meaning_of(tag, value)? {
                Resolved::Value { from } => LookupResult::Borrowed(&value[from..]),
                Resolved::Folded(value) => LookupResult::Folded(value),
                Resolved::Large { from } => LookupResult::Large(Value::copied(&value[from..])),
                Resolved::Absent => LookupResult::Absent,
            });
        }
    }
    // The oldest run holds most of the keys. Where recent lookups found theirs in it, its index is searched
    // and the lines of the block are prefetched while those of the filters are in flight. If the filter
    // rejects the key, that prefetch was wasted.
    let oldest = runs.len().wrapping_sub(1);
    let likely = if last_run_predictor::is_high() { candidates.get(oldest).copied().flatten() } else { None };
    let table = likely.and_then(|part| part.file.opened());
    let prepared = table.and_then(|table| table.begin_lookup(key, seqno));
    for (at, part) in candidates.iter().enumerate().take(runs.len()) {
        let Some(part) = part else { continue };
        let Some(asked) = wanted.probe(part, tracer, at) else { continue };
        let prepared = if at == oldest { prepared.as_ref() } else { None };
        if let Some(found) = wanted.in_part(part, asked, tracer, at, prepared)? {
            last_run_predictor::note(at == oldest);
            return Ok(found);
        }
    }
    last_run_predictor::note(false);
    for (at, run) in runs.iter().enumerate().skip(PREFETCHED_RUNS) {
        if let Some(found) = wanted.in_run(run, tracer, at)? {
            return Ok(found);
        }
    }
    Ok(LookupResult::Absent)
}

/// The state of a part whose filter did not reject the key.
#[derive(Clone, Copy)]
enum ProbedPart<'t> {
    /// The filter passed the key.
    Passed(&'t Table),
    /// The table is not open, or only available under a lock, so its filter was not probed.
    Closed,
}

/// A key on its way through the sources.
struct KeyLookup<'a, E> {
    pinned: &'a Pinned,
    key: &'a [u8],
    hash: u64,
    /// Versions older than this are deleted, wherever they are.
    cover: SeqNo,
    /// Receives the expiry of the value.
    expiry: E,
}

impl<E: ExpirySink> KeyLookup<'_, E> {
    /// Whether the newest visible version of the key is a plain value in place: nearly always.
    #[inline]
    fn is_plain(&self, tag: Tag) -> bool {
        tag.is_plain_put() && tag.seqno() >= self.cover
    }

    /// The result of the newest visible version of the key, if it is not plain.
    #[inline(never)]
    fn meaning_of(&self, tag: Tag, value: &[u8]) -> Result<Resolved> {
        if tag.seqno() < self.cover {
            return Ok(Resolved::Absent);
        }
        let Resolution { value, expiry_ms } =
            resolve(&self.pinned.view, &mut { self.pinned.time }, tag, self.key, value)?;
        if let Some(expiry_ms) = expiry_ms {
            self.expiry.note(0, expiry_ms);
        }
        Ok(value)
    }

    /// The result of the run at this index; `None` if it holds no visible version.
    fn in_run(
        &self,
        run: &TreeRun,
        tracer: &mut impl LookupTracer,
        at: usize,
    ) -> Result<Option<LookupResult<'static>>> {
        let Some(part) = run.part_for(self.key) else { return Ok(None) };
        let Some(asked) = self.probe(part, tracer, at) else { return Ok(None) };
        self.in_part(part, asked, tracer, at, None)
    }

    /// Probes the filter of a part; `None` if it rejects the key. Separate from the search, so that lookups
    /// of absent keys are few contiguous instructions.
    #[inline(always)]
    fn probe<'t>(
        &self,
        part: &'t TreePart,
        tracer: &mut impl LookupTracer,
        run: usize,
    ) -> Option<ProbedPart<'t>> {
        let Some(table) = part.file.opened_for_use() else { return Some(ProbedPart::Closed) };
        tracer.asks(run);
        table.may_contain(self.hash).then_some(ProbedPart::Passed(table))
    }

    /// The result of a part of the run at this index; `None` if it holds no visible version. `prepared`, if
    /// given, is the lookup of the key in this part's table.
    #[inline(never)]
    fn in_part(
        &self,
        part: &TreePart,
        asked: ProbedPart<'_>,
        tracer: &mut impl LookupTracer,
        run: usize,
        prepared: Option<&PreparedLookup<'_>>,
    ) -> Result<Option<LookupResult<'static>>> {
        match asked {
            ProbedPart::Passed(table) => self.in_table(part, table, tracer, run, prepared),
            ProbedPart::Closed => self.in_closed(part, tracer, run),
        }
    }

    /// [`KeyLookup::in_part`], if the table is not open or only available under a lock.
    #[cold]
    #[inline(never)]
    fn in_closed(
        &self,
        part: &TreePart,
        tracer: &mut impl LookupTracer,
        run: usize,
    ) -> Result<Option<LookupResult<'static>>> {
        if part.meta.max_seqno < self.cover && part.file.refusal().is_some() {
            // All of the part is deleted, so it need not be read (QU1).
            return Ok(None);
        }
        let table = part.file.open(Access::Use)?;
        tracer.asks(run);
        if table.may_contain(self.hash) { self.in_table(part, &table, tracer, run, None) } else { Ok(None) }
    }

    #[inline(always)]
    fn in_table(
        &self,
        part: &TreePart,
        table: &Table,
        tracer: &mut impl LookupTracer,
        run: usize,
        prepared: Option<&PreparedLookup<'_>>,
    ) -> Result<Option<LookupResult<'static>>> {
        tracer.searches(run);
        let hit = tracer.search(table, self.key, self.hash, self.pinned.seqno, prepared)?;
        let Some(hit) = hit else { return Ok(None) };
        tracer.finds(run, part);
        if self.is_plain(hit.tag) {
            return Ok(Some(LookupResult::Pinned(hit.value)));
        }
        Ok(Some(match self.meaning_of(hit.tag, &hit.value)? {
            Resolved::Value { from } => LookupResult::Pinned(hit.value.skip(from)),
            Resolved::Folded(value) => LookupResult::Folded(value),
            Resolved::Large { from } => LookupResult::Large(Value::pinned(hit.value.skip(from))),
            Resolved::Absent => LookupResult::Absent,
        }))
    }
}
