//! Sorted files as the CSC443 report has them, searched page by page: by halving, and by a static B-tree.
//!
//! A run is what a memtable of 1 MB becomes: 256 leaf pages of 256 pairs in key order, and one node with the
//! greatest key of each leaf but the last, which is the whole B-tree of so few leaves. No key of a run is in
//! memory but those in pages of the pool; pages are read past the page cache of the system. All runs lie in
//! one file, one after the other: a thousand files would be the same reads and a thousand descriptors.

use crate::error::{ExperimentError, Result};
use esker::parts::cache::{Admission, BlockCache, BlockKind, CacheKey, CacheKind, Charge};
use esker::parts::env::{AlignedFile, Clock, File, FileSystem, OpenMode, StdFileSystem, SystemClock};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE_BYTES: usize = 4096;
const PAIR_BYTES: usize = 16;
/// Pairs of a leaf.
pub(super) const PAIRS_PER_PAGE: usize = PAGE_BYTES / PAIR_BYTES;
/// Leaves of a run of a megabyte. A node of 255 keys and their children fills a page of the report, too.
const LEAVES: usize = 256;
pub(super) const PAIRS_PER_RUN: usize = LEAVES * PAIRS_PER_PAGE;
const PAGES_PER_RUN: u64 = LEAVES as u64 + 1;

/// How a run is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// By halving the pairs; each probe reads the page that holds its pair.
    Halving,
    /// By the B-tree's node, and then within one leaf.
    Tree,
}

/// A page in the pool.
struct Page(Box<[u8; PAGE_BYTES]>);

impl Charge for Page {
    /// The pool of the report has 10 MB of pages, whatever else it takes.
    fn charge_bytes(&self) -> usize {
        PAGE_BYTES
    }
}

impl Page {
    fn number(&self, at: usize) -> u64 {
        let bytes: [u8; 8] = self.0[at..at + 8].try_into().unwrap_or_default();
        u64::from_be_bytes(bytes)
    }

    /// The key of a leaf's pair.
    fn key(&self, place: usize) -> u64 {
        self.number(place * PAIR_BYTES)
    }

    fn value(&self, place: usize) -> u64 {
        self.number(place * PAIR_BYTES + 8)
    }
}

/// The file of all runs, and the pool.
pub(super) struct PageFile {
    writer: Arc<dyn File>,
    reader: AlignedFile,
    pool: BlockCache<Arc<Page>>,
    runs: u64,
    looked_at: AtomicU64,
    read: AtomicU64,
}

/// The place of a pair: its run and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    run: u64,
    pair: usize,
}

impl PageFile {
    /// A new file. `pages` are those of the pool, which evicts by CLOCK.
    pub(super) fn create(path: &Path, pages: usize) -> Result<PageFile> {
        let writer = StdFileSystem.open(path, OpenMode::CreateNew)?;
        let reader = AlignedFile::over(StdFileSystem.open(path, OpenMode::ReadDirect)?);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let overhead_bytes =
            BlockCache::<Arc<Page>>::of_kind(CacheKind::Clock, 0, &clock).entry_overhead_bytes();
        let pool = BlockCache::of_kind(CacheKind::Clock, pages * (PAGE_BYTES + overhead_bytes), &clock);
        let (looked_at, read) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(PageFile { writer, reader, pool, runs: 0, looked_at, read })
    }

    /// Appends a run of these pairs, sorted by key.
    pub(super) fn append(&mut self, pairs: &[(u64, u64)]) -> Result<()> {
        if pairs.len() != PAIRS_PER_RUN {
            return Err(ExperimentError::WrongAnswer(format!("a run has {} pairs", pairs.len())));
        }
        let mut bytes = Vec::with_capacity(PAGES_PER_RUN as usize * PAGE_BYTES);
        for (key, value) in pairs {
            bytes.extend_from_slice(&key.to_be_bytes());
            bytes.extend_from_slice(&value.to_be_bytes());
        }
        let greatest = pairs.chunks(PAIRS_PER_PAGE).filter_map(|leaf| leaf.last());
        greatest.take(LEAVES - 1).for_each(|(key, _)| bytes.extend_from_slice(&key.to_be_bytes()));
        bytes.resize(PAGES_PER_RUN as usize * PAGE_BYTES, 0);
        self.writer.write_at(&bytes, self.runs * PAGES_PER_RUN * PAGE_BYTES as u64)?;
        self.runs += 1;
        Ok(())
    }

    /// Makes what was appended readable past the page cache.
    pub(super) fn sync(&self) -> Result<()> {
        Ok(self.writer.sync_all()?)
    }

    pub(super) fn runs(&self) -> u64 {
        self.runs
    }

    /// Pages that were looked at, each probe in another page than the one before counted, and pages read for
    /// it.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.looked_at.load(Ordering::Relaxed), self.read.load(Ordering::Relaxed))
    }

    /// The value of a key, from the newest run that has it, as a get of the report asks them.
    pub(super) fn get(&self, search: Search, key: u64) -> Result<Option<u64>> {
        for run in (0..self.runs).rev() {
            let (place, held) = self.lower_bound(search, run, key, Admission::Point)?;
            if place.pair < PAIRS_PER_RUN {
                let page = self.leaf(place, Admission::Point, held)?;
                let within = place.pair % PAIRS_PER_PAGE;
                if page.1.key(within) == key {
                    return Ok(Some(page.1.value(within)));
                }
            }
        }
        Ok(None)
    }

    /// The first pairs from a key on, in key order, merged of all runs.
    pub(super) fn scan(&self, search: Search, key: u64, most: usize) -> Result<Vec<(u64, u64)>> {
        let mut heads = std::collections::BinaryHeap::new();
        let mut pages: Vec<Option<Held>> = Vec::new();
        for run in 0..self.runs {
            let (place, held) = self.lower_bound(search, run, key, Admission::Scan)?;
            pages.push(held);
            self.push_head(place, &mut heads, &mut pages)?;
        }
        let mut found = Vec::with_capacity(most);
        while found.len() < most {
            let Some(std::cmp::Reverse((key, run, pair))) = heads.pop() else { break };
            let value = pages[run as usize].as_ref().map(|held| held.1.value(pair % PAIRS_PER_PAGE));
            found.push((key, value.unwrap_or_default()));
            self.push_head(Place { run, pair: pair + 1 }, &mut heads, &mut pages)?;
        }
        Ok(found)
    }

    /// The pair at a place joins the heap, if its run has one there.
    fn push_head(
        &self,
        place: Place,
        heads: &mut std::collections::BinaryHeap<std::cmp::Reverse<(u64, u64, usize)>>,
        pages: &mut [Option<Held>],
    ) -> Result<()> {
        if place.pair < PAIRS_PER_RUN {
            let held = self.leaf(place, Admission::Scan, pages[place.run as usize].take())?;
            let key = held.1.key(place.pair % PAIRS_PER_PAGE);
            pages[place.run as usize] = Some(held);
            heads.push(std::cmp::Reverse((key, place.run, place.pair)));
        }
        Ok(())
    }

    /// The first pair of a run whose key is at least `key`, or one past the last; with the leaf looked at
    /// last.
    fn lower_bound(
        &self,
        search: Search,
        run: u64,
        key: u64,
        admission: Admission,
    ) -> Result<(Place, Option<Held>)> {
        let (mut low, mut high) = match search {
            Search::Halving => (0, PAIRS_PER_RUN),
            Search::Tree => {
                let node = self.page(run, LEAVES as u64, BlockKind::Index, Admission::Point)?;
                let keys = (0..LEAVES - 1).map(|at| node.number(at * 8)).collect::<Vec<u64>>();
                let leaf = keys.partition_point(|&greatest| greatest < key);
                (leaf * PAIRS_PER_PAGE, (leaf + 1) * PAIRS_PER_PAGE)
            }
        };
        let mut held = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let page = self.leaf(Place { run, pair: middle }, admission, held.take())?;
            if page.1.key(middle % PAIRS_PER_PAGE) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
            held = Some(page);
        }
        Ok((Place { run, pair: low }, held))
    }

    /// The leaf that holds a pair: the one that is held, or one of the pool.
    fn leaf(&self, place: Place, admission: Admission, held: Option<Held>) -> Result<Held> {
        let number = (place.pair / PAIRS_PER_PAGE) as u64;
        match held {
            Some(held) if held.0 == number => Ok(held),
            _ => Ok(Held(number, self.page(place.run, number, BlockKind::Data, admission)?)),
        }
    }

    /// A page of a run, from the pool, or read and put into it.
    fn page(&self, run: u64, number: u64, kind: BlockKind, admission: Admission) -> Result<Arc<Page>> {
        self.looked_at.fetch_add(1, Ordering::Relaxed);
        let key = CacheKey { table: run as u32, block: number as u32 };
        if let Some(page) = self.pool.get(&key, kind, admission) {
            return Ok(page);
        }
        self.read.fetch_add(1, Ordering::Relaxed);
        let mut bytes = Box::new([0; PAGE_BYTES]);
        let offset = (run * PAGES_PER_RUN + number) * PAGE_BYTES as u64;
        self.reader.read_exact_at(&mut bytes[..], offset)?;
        Ok(self.pool.insert(key, Arc::new(Page(bytes)), kind, admission))
    }
}

/// A leaf that a search looks at, with its number.
struct Held(u64, Arc<Page>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Context, NoProgress};
    use crate::keys::scatter;
    use crate::settings::{Scale, Settings};

    /// Both searches find every pair of three runs and no other, and both scans give the pairs in order.
    #[test]
    fn both_searches_answer_as_a_sorted_list_does() {
        let settings =
            Settings { scale: Scale::Tiny, seed: 1, scratch: std::env::temp_dir(), start_child: None };
        let mut watcher = NoProgress;
        let context = Context::new("page-file", &settings, &mut watcher);
        let mut file = PageFile::create(&context.directory("pages").unwrap(), 100).unwrap();
        let mut all: Vec<(u64, u64)> =
            (0..3 * PAIRS_PER_RUN as u64).map(|pair| (scatter(pair), pair)).collect();
        for run in all.chunks(PAIRS_PER_RUN) {
            let mut run = run.to_vec();
            run.sort_unstable();
            file.append(&run).unwrap();
        }
        file.sync().unwrap();
        all.sort_unstable();
        for search in [Search::Halving, Search::Tree] {
            for &(key, value) in all.iter().step_by(997) {
                assert_eq!(file.get(search, key).unwrap(), Some(value), "{search:?}");
                let from = all.partition_point(|&(other, _)| other < key + 1);
                let expected = &all[from..(from + 300).min(all.len())];
                assert_eq!(file.scan(search, key + 1, 300).unwrap(), expected, "{search:?}");
            }
            assert_eq!(file.get(search, all[0].0 + 1).unwrap(), None, "{search:?}");
            let last = all[all.len() - 1];
            assert_eq!(file.scan(search, last.0, 300).unwrap(), [last], "{search:?}");
        }
        assert!(file.append(&all[..5]).is_err());
    }
}
