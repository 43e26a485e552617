//! Crash model: the states that can be on the disk after a crash.
//!
//! Between two syncs of a file the kernel may write any of its pages at any moment and in any order, and the
//! device writes 512-byte sectors whole but a row of them in any order: so each sector holds some version
//! since the last sync, chosen independently. Length, allocation and each directory are metadata and chosen
//! apart from the data and from each other. Real file systems keep more order than that, each a different
//! one; code that survives here needs none of it, only the guarantees of `sync_data` and `sync_dir`.

use super::content::{Content, PAGE_BYTES, SECTOR_BYTES};
use super::disk::{DirNode, Disk, FileNode, InodeId, Names, ROOT};
use super::event::DataChange;
use crate::random::SeededRandom;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How the machine or the process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed: its writes are there, but unsynced ones can still be lost. Same boot.
    Process,
    /// The process is killed within its last call. Of a store into a mapping the first `keep_bytes` are
    /// there; of a write, whole pages up to that many bytes. Any other last event is complete. Same boot.
    ProcessTorn {
        /// Bytes of the last event that were carried out.
        keep_bytes: usize,
    },
    /// Power is lost, and with it all unsynced data. New boot.
    PowerAllLost,
    /// Power is lost just after the kernel wrote everything back. New boot.
    PowerNoneLost,
    /// Power is lost, and any part of the unsynced data with it. New boot.
    PowerRandom {
        /// Chooses the part.
        seed: u64,
    },
}

impl Crash {
    /// Whether the machine reboots.
    pub fn is_power_loss(self) -> bool {
        !matches!(self, Crash::Process | Crash::ProcessTorn { .. })
    }
}

/// The state after a crash. `before_last` is the content that the last event's file had before that event.
pub(super) fn survive(disk: &Disk, before_last: Option<&(InodeId, Arc<Content>)>, crash: Crash) -> Disk {
    match crash {
        Crash::Process => killed(disk),
        Crash::ProcessTorn { keep_bytes } => {
            let mut torn = killed(disk);
            if let Some((inode, before)) = before_last
                && let Some(file) = torn.files.get_mut(inode)
            {
                tear(file, before, keep_bytes);
            }
            torn
        }
        Crash::PowerAllLost => {
            rebooted(disk, &mut |file| file.durable.clone(), &mut |dir| dir.durable.clone())
        }
        Crash::PowerNoneLost => rebooted(disk, &mut |file| file.synced(), &mut |dir| dir.live.clone()),
        Crash::PowerRandom { seed } => {
            let random = SeededRandom::new(seed);
            let loss = LossPolicy::choose(&random);
            rebooted(disk, &mut |file| loss.of_file(&random, file), &mut |dir| loss.of_dir(&random, dir))
        }
    }
}

fn killed(disk: &Disk) -> Disk {
    let mut survivor = disk.clone();
    // Files that only the process kept open are gone.
    survivor.collect(std::iter::empty());
    survivor
}

/// Undoes the end of the last write or store of a file.
fn tear(file: &mut FileNode, before: &Arc<Content>, keep_bytes: usize) {
    let pending = Arc::make_mut(&mut file.pending);
    let Some(DataChange::Write { offset, bytes, mapped }) = pending.pop() else {
        return;
    };
    let keep_bytes = if mapped { keep_bytes } else { whole_pages(offset, keep_bytes, bytes.len()) };
    let bytes: Arc<[u8]> = bytes[..keep_bytes.min(bytes.len())].into();
    file.live = before.clone();
    if !bytes.is_empty() {
        let change = DataChange::Write { offset, bytes, mapped };
        change.apply(Arc::make_mut(&mut file.live));
        pending.push(change);
    }
}

/// A killed write stops between two pages, never within one.
fn whole_pages(offset: u64, keep_bytes: usize, len: usize) -> usize {
    if keep_bytes >= len {
        return len;
    }
    let in_page = (offset % PAGE_BYTES as u64) as usize;
    ((in_page + keep_bytes) / PAGE_BYTES * PAGE_BYTES).saturating_sub(in_page)
}

/// The disk state chosen for each file and each directory reachable from the root.
fn rebooted(
    disk: &Disk,
    content: &mut dyn FnMut(&FileNode) -> Arc<Content>,
    names: &mut dyn FnMut(&DirNode) -> Arc<Names>,
) -> Disk {
    let mut survivor = Disk { files: BTreeMap::new(), dirs: BTreeMap::new(), next_inode: disk.next_inode };
    let mut todo = vec![ROOT];
    let mut reached = BTreeSet::from([ROOT]);
    while let Some(inode) = todo.pop() {
        let Some(dir) = disk.dirs.get(&inode) else {
            continue;
        };
        let mut chosen = names(dir);
        for (name, child) in chosen.clone().iter() {
            if let Some(file) = disk.files.get(child) {
                let found = survivor.files.entry(*child);
                found.or_insert_with(|| FileNode::settled(content(file))).links += 1;
            } else if reached.insert(*child) {
                todo.push(*child);
            } else {
                // A directory that was moved, and both names survived: it stays where it was found first.
                Arc::make_mut(&mut chosen).remove(name);
            }
        }
        survivor.dirs.insert(inode, DirNode::settled(chosen));
    }
    survivor
}

/// Policy of a random power loss. Independent choices alone would hardly ever produce the two most telling
/// outcomes, a long run of changes of which only the last, or only the first, is missing.
#[derive(Clone, Copy, Debug)]
enum LossPolicy {
    /// Each choice is the newest version with this many chances in 8, otherwise any other.
    Independent { chances: u64 },
    /// Of each file and directory the changes up to some moment survive.
    Earliest,
    /// Of each file and directory only the changes after some moment survive, as if written back in reverse.
    Latest,
}

impl LossPolicy {
    fn choose(random: &SeededRandom) -> LossPolicy {
        match random.below(6) {
            0 => LossPolicy::Earliest,
            1 => LossPolicy::Latest,
            2 => LossPolicy::Independent { chances: 1 },
            3 => LossPolicy::Independent { chances: 7 },
            _ => LossPolicy::Independent { chances: 4 },
        }
    }

    fn of_dir(self, random: &SeededRandom, dir: &DirNode) -> Arc<Names> {
        if dir.pending.is_empty() {
            return dir.durable.clone();
        }
        let mut names = (*dir.durable).clone();
        let border = random.below(dir.pending.len() as u64 + 1) as usize;
        for (number, change) in dir.pending.iter().enumerate() {
            let survives = match self {
                LossPolicy::Independent { chances } => random.below(8) < chances,
                LossPolicy::Earliest => number < border,
                LossPolicy::Latest => number >= border,
            };
            if survives {
                change.apply(&mut names);
            }
        }
        Arc::new(names)
    }

    fn of_file(self, random: &SeededRandom, file: &FileNode) -> Arc<Content> {
        if file.pending.is_empty() {
            return file.durable.clone();
        }
        let history = History::of(file);
        let border = random.below(file.pending.len() as u64 + 1) as usize;
        let mut content = (*file.durable).clone();
        for change in file.pending.iter() {
            if let DataChange::Allocate { offset, len, .. } = change
                && random.below(2) == 0
            {
                content.allocate(*offset, *len, true);
            }
        }
        // Sectors first, in a file long enough for all of them, then the length.
        let longest = history.lens.iter().copied().max().unwrap_or(0);
        content.set_len(longest.max(content.len()));
        // A torn store needs a device that reads the page at the very moment of the store. That this happens
        // to two stores, and that both pages are then not written again, is out of scope: formats keep two
        // copies against it.
        let mut may_tear = true;
        for (&sector, changes) in &history.sectors {
            let newest = changes.len();
            let version = match self {
                LossPolicy::Independent { chances } if random.below(8) < chances => newest,
                LossPolicy::Independent { .. } => random.below(newest as u64) as usize,
                LossPolicy::Earliest => changes.iter().filter(|&&number| number < border).count(),
                LossPolicy::Latest if changes.iter().any(|&number| number >= border) => newest,
                LossPolicy::Latest => 0,
            };
            let torn = may_tear && version < newest && random.below(8) == 0;
            may_tear &= !torn;
            if let Some(bytes) = history.version(random, sector, version, torn) {
                content.write(&bytes, sector * SECTOR_BYTES as u64);
            }
        }
        let moment = match self {
            LossPolicy::Earliest => border,
            _ => random.below(history.lens.len() as u64) as usize,
        };
        content.set_len(history.lens[moment]);
        Arc::new(content)
    }
}

/// Versions of a file's sectors and length since the last sync.
struct History<'a> {
    file: &'a FileNode,
    /// For each sector changed since, the numbers of the changes, oldest first.
    sectors: BTreeMap<u64, Vec<usize>>,
    /// The durable length and the length after each change.
    lens: Vec<u64>,
}

impl History<'_> {
    fn of(file: &FileNode) -> History<'_> {
        let mut sectors = BTreeMap::<u64, Vec<usize>>::new();
        let mut lens = vec![file.durable.len()];
        let mut len = file.settled_content().len();
        for (number, change) in file.pending.iter().enumerate() {
            match change {
                DataChange::Write { offset, bytes, .. } => {
                    let end = offset + bytes.len() as u64;
                    for sector in offset / SECTOR_BYTES as u64..end.div_ceil(SECTOR_BYTES as u64) {
                        sectors.entry(sector).or_default().push(number);
                    }
                    len = len.max(end);
                }
                DataChange::SetLen { len: cut } => {
                    // Truncation makes everything behind the cut zero, should the file grow again.
                    let behind = cut / SECTOR_BYTES as u64..len.div_ceil(SECTOR_BYTES as u64);
                    if *cut < len {
                        let settled = file.settled_content().written_sectors(behind.clone());
                        let changed: Vec<u64> = sectors.range(behind).map(|(sector, _)| *sector).collect();
                        for sector in BTreeSet::from_iter(settled.into_iter().chain(changed)) {
                            sectors.entry(sector).or_default().push(number);
                        }
                    }
                    len = *cut;
                }
                DataChange::Allocate { offset, len: allocated, keep_len } => {
                    if !keep_len {
                        len = len.max(offset + allocated);
                    }
                }
            }
            lens.push(len);
        }
        History { file, sectors, lens }
    }

    /// A sector after the first `version` changes of it, and with part of the next one if `torn` and if that
    /// is a store into a mapping, which the device may have read half done; `None` if that is the durable
    /// version.
    fn version(
        &self,
        random: &SeededRandom,
        sector: u64,
        version: usize,
        torn: bool,
    ) -> Option<[u8; SECTOR_BYTES]> {
        let changes = &self.sectors[&sector];
        let torn = torn.then(|| &self.file.pending[changes[version]]);
        let torn = torn.filter(|change| matches!(change, DataChange::Write { mapped: true, .. }));
        if version == 0 && torn.is_none() {
            return None;
        }
        let mut bytes = self.file.settled_content().sector(sector);
        for &number in &changes[..version] {
            apply_to_sector(&self.file.pending[number], sector, &mut bytes);
        }
        if let Some(change) = torn {
            let mut whole = bytes;
            apply_to_sector(change, sector, &mut whole);
            let end = random.below(SECTOR_BYTES as u64) as usize;
            bytes[..end].copy_from_slice(&whole[..end]);
        }
        Some(bytes)
    }
}

fn apply_to_sector(change: &DataChange, sector: u64, bytes: &mut [u8; SECTOR_BYTES]) {
    let start = sector * SECTOR_BYTES as u64;
    match change {
        DataChange::Write { offset, bytes: written, .. } => {
            let from = start.max(*offset);
            let to = (start + SECTOR_BYTES as u64).min(offset + written.len() as u64);
            let source = &written[(from - offset) as usize..(to - offset) as usize];
            bytes[(from - start) as usize..(to - start) as usize].copy_from_slice(source);
        }
        DataChange::SetLen { len } => {
            let kept = len.saturating_sub(start).min(SECTOR_BYTES as u64) as usize;
            bytes[kept..].fill(0);
        }
        DataChange::Allocate { .. } => {}
    }
}
