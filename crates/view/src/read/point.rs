//! Point lookup: finds the newest visible version of one key.

use crate::Value;
use crate::lookup_tracer::Witness;
use crate::read::last_run_predictor;
use crate::read::pinned::Pinned;
use crate::read::range_tombstones::cover_at;
use crate::read::resolve::{Resolved, resolve};
use crate::tree::{Access, TreePart, TreeRun};
use esker_base::{Result, SeqNo, Tag, checksum};
use esker_filter::watch::is_sampled;
use esker_sst::{PinnedValue, PreparedLookup, Table};

/// Runs whose filters are prefetched together before the first source is searched. Further runs are searched
/// one after the other: a lookup through that many is slow for other reasons.
const PREFETCHED_RUNS: usize = 16;

/// The result of a lookup.
pub enum Found<'v> {
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
        Ok(match lookup(self, key)? {
            Found::Borrowed(value) => Some(Value::copied(value)),
            Found::Pinned(value) => Some(Value::pinned(value)),
            Found::Folded(value) => Some(Value::owned(value)),
            Found::Large(pointer) => Some(self.fetch(key, &pointer)?),
            Found::Absent => None,
        })
    }

    /// Calls `read` with the value of a key, which is not copied.
    #[inline]
    pub fn get_with<R>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        Ok(match lookup(self, key)? {
            Found::Borrowed(value) => read(Some(value)),
            Found::Pinned(value) => read(Some(&value)),
            Found::Folded(value) => read(Some(&value)),
            Found::Large(pointer) => read(Some(&self.fetch(key, &pointer)?)),
            Found::Absent => read(None),
        })
    }

    /// Whether a key has a value.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(!matches!(lookup(self, key)?, Found::Absent))
    }
}

/// The value of `key` for a reader at this moment.
#[inline]
pub fn lookup<'v>(pinned: &'v Pinned, key: &[u8]) -> Result<Found<'v>> {
    let hash = checksum::key_hash(key);
    if is_sampled(hash) {
        return followed(pinned, key, hash);
    }
    search(pinned, key, hash, &mut ())
}

/// The same, with every step traced.
#[cold]
#[inline(never)]
fn followed<'v>(pinned: &'v Pinned, key: &[u8], hash: u64) -> Result<Found<'v>> {
    let tree = &pinned.view.tree;
    search(pinned, key, hash, &mut tree.watch.follow(&tree.runs))
}

#[inline(always)]
fn search<'v>(pinned: &'v Pinned, key: &[u8], hash: u64, witness: &mut impl Witness) -> Result<Found<'v>> {
    let (view, seqno) = (&*pinned.view, pinned.seqno);
    let wanted = Wanted { pinned, key, hash, cover: cover_at(view, key, seqno)? };
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
            if let Some(found) = wanted.in_run(run, &mut (), 0)? {
                return Ok(found);
            }
            continue;
        }
        witness.memtable();
        if let Some((tag, value)) = memtable.memtable.get(key, seqno) {
            witness.memtable_finds();
            if wanted.is_plain(tag) {
                return Ok(Found::Borrowed(value));
            }
            return Ok(match wanted.told(tag, value)? {
                Resolved::Value { from } => Found::Borrowed(&value[from..]),
                Resolved::Folded(value) => Found::Folded(value),
                Resolved::Large { from } => Found::Large(Value::copied(&value[from..])),
                Resolved::Absent => Found::Absent,
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
        let Some(asked) = wanted.asked(part, witness, at) else { continue };
        let prepared = if at == oldest { prepared.as_ref() } else { None };
        if let Some(found) = wanted.in_part(part, asked, witness, at, prepared)? {
            last_run_predictor::note(at == oldest);
            return Ok(found);
        }
    }
    last_run_predictor::note(false);
    for (at, run) in runs.iter().enumerate().skip(PREFETCHED_RUNS) {
        if let Some(found) = wanted.in_run(run, witness, at)? {
            return Ok(found);
        }
    }
    Ok(Found::Absent)
}

/// The state of a part whose filter did not reject the key.
#[derive(Clone, Copy)]
enum Asked<'t> {
    /// The filter passed the key.
    Passed(&'t Table),
    /// The table is not open, or only available under a lock, so its filter was not probed.
    Closed,
}

/// A key on its way through the sources.
struct Wanted<'a> {
    pinned: &'a Pinned,
    key: &'a [u8],
    hash: u64,
    /// Versions older than this are deleted, wherever they are.
    cover: SeqNo,
}

impl Wanted<'_> {
    /// Whether the newest visible version of the key is a plain value in place: nearly always.
    #[inline]
    fn is_plain(&self, tag: Tag) -> bool {
        tag.is_plain_put() && tag.seqno() >= self.cover
    }

    /// The result of the newest visible version of the key, if it is not plain.
    #[inline(never)]
    fn told(&self, tag: Tag, value: &[u8]) -> Result<Resolved> {
        if tag.seqno() < self.cover {
            return Ok(Resolved::Absent);
        }
        resolve(&self.pinned.view, &mut { self.pinned.time }, (tag, self.key, value))
    }

    /// The result of the run at this index; `None` if it holds no visible version.
    fn in_run(&self, run: &TreeRun, witness: &mut impl Witness, at: usize) -> Result<Option<Found<'static>>> {
        let Some(part) = run.part_for(self.key) else { return Ok(None) };
        let Some(asked) = self.asked(part, witness, at) else { return Ok(None) };
        self.in_part(part, asked, witness, at, None)
    }

    /// Probes the filter of a part; `None` if it rejects the key. Separate from the search, so that lookups
    /// of absent keys are few contiguous instructions.
    #[inline(always)]
    fn asked<'t>(&self, part: &'t TreePart, witness: &mut impl Witness, run: usize) -> Option<Asked<'t>> {
        let Some(table) = part.file.opened_for_use() else { return Some(Asked::Closed) };
        witness.asks(run);
        table.may_contain(self.hash).then_some(Asked::Passed(table))
    }

    /// The result of a part of the run at this index; `None` if it holds no visible version. `prepared`, if
    /// given, is the lookup of the key in this part's table.
    #[inline(never)]
    fn in_part(
        &self,
        part: &TreePart,
        asked: Asked<'_>,
        witness: &mut impl Witness,
        run: usize,
        prepared: Option<&PreparedLookup<'_>>,
    ) -> Result<Option<Found<'static>>> {
        match asked {
            Asked::Passed(table) => self.in_table(part, table, witness, run, prepared),
            Asked::Closed => self.in_closed(part, witness, run),
        }
    }

    /// [`Wanted::in_part`], if the table is not open or only available under a lock.
    #[cold]
    #[inline(never)]
    fn in_closed(
        &self,
        part: &TreePart,
        witness: &mut impl Witness,
        run: usize,
    ) -> Result<Option<Found<'static>>> {
        let table = part.file.open(Access::Use)?;
        witness.asks(run);
        if table.may_contain(self.hash) { self.in_table(part, &table, witness, run, None) } else { Ok(None) }
    }

    #[inline(always)]
    fn in_table(
        &self,
        part: &TreePart,
        table: &Table,
        witness: &mut impl Witness,
        run: usize,
        prepared: Option<&PreparedLookup<'_>>,
    ) -> Result<Option<Found<'static>>> {
        witness.searches(run);
        let hit = match prepared {
            Some(prepared) => prepared.get(self.key, self.hash)?,
            None => table.get(self.key, self.hash, self.pinned.seqno)?,
        };
        let Some(hit) = hit else { return Ok(None) };
        witness.finds(run, part);
        if self.is_plain(hit.tag) {
            return Ok(Some(Found::Pinned(hit.value)));
        }
        Ok(Some(match self.told(hit.tag, &hit.value)? {
            Resolved::Value { from } => Found::Pinned(hit.value.skip(from)),
            Resolved::Folded(value) => Found::Folded(value),
            Resolved::Large { from } => Found::Large(Value::pinned(hit.value.skip(from))),
            Resolved::Absent => Found::Absent,
        }))
    }
}
