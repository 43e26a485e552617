//! State of a strict file system: live, durable, and the changes in between.
//!
//! One implementation serves both uses: the running file system applies each change as it happens, and a
//! [`super::Replayer`] applies the same changes again from the trace.

use super::content::{Content, pages_of};
use super::event::{Change, DataChange};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) type InodeId = u64;
pub(super) type Names = BTreeMap<Arc<str>, InodeId>;

pub(super) const ROOT: InodeId = 0;

#[derive(Clone, Debug, Default)]
pub(super) struct FileNode {
    /// The page cache: what a read returns.
    pub(super) live: Arc<Content>,
    /// The disk, as of the last successful sync.
    pub(super) durable: Arc<Content>,
    /// The page cache at the last sync, if that failed: pages marked clean that no later sync writes.
    lost: Option<Arc<Content>>,
    /// Changes since the last sync, successful or not, oldest first.
    pub(super) pending: Arc<Vec<DataChange>>,
    /// Live names.
    pub(super) links: usize,
}

impl DataChange {
    pub(super) fn apply(&self, content: &mut Content) {
        match self {
            DataChange::Write { offset, bytes, .. } => content.write(bytes, *offset),
            DataChange::SetLen { len } => content.set_len(*len),
            DataChange::Allocate { offset, len, keep_len } => content.allocate(*offset, *len, *keep_len),
        }
    }
}

impl FileNode {
    /// A file whose content is on the disk.
    pub(super) fn settled(content: Arc<Content>) -> FileNode {
        FileNode { live: content.clone(), durable: content, ..FileNode::default() }
    }

    /// The page cache as of the last sync, successful or not: with the pending changes it is `live`.
    pub(super) fn settled_content(&self) -> &Arc<Content> {
        self.lost.as_ref().unwrap_or(&self.durable)
    }

    fn change(&mut self, change: &DataChange) {
        change.apply(Arc::make_mut(&mut self.live));
        Arc::make_mut(&mut self.pending).push(change.clone());
    }

    /// The disk after a successful sync now.
    pub(super) fn synced(&self) -> Arc<Content> {
        if self.lost.is_none() {
            return self.live.clone();
        }
        // After a failed sync only pages that were dirtied again are written.
        let mut synced = (*self.durable).clone();
        for change in self.pending.iter() {
            change.apply(&mut synced);
            if let DataChange::Write { offset, bytes, .. } = change {
                for page in pages_of(*offset, bytes.len() as u64) {
                    synced.copy_page(page, &self.live);
                }
            }
        }
        synced.set_len(self.live.len());
        Arc::new(synced)
    }

    fn sync(&mut self) {
        self.durable = self.synced();
        // Lost data stays lost until it is written again; rewritten pages are the same in both.
        self.lost = self.lost.is_some().then(|| self.live.clone());
        self.pending = Arc::default();
    }

    fn lose_unsynced(&mut self) {
        if !self.pending.is_empty() {
            self.lost = Some(self.live.clone());
            self.pending = Arc::default();
        }
    }
}

/// One call's effect on one directory: a rename within it is atomic.
#[derive(Clone, Debug)]
pub(super) struct NameChange {
    pub(super) unset: Option<(Arc<str>, InodeId)>,
    pub(super) set: Option<(Arc<str>, InodeId)>,
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut Names) {
        // A removal that survives an earlier change of the same name concerns only the file it removed.
        if let Some((name, inode)) = &self.unset
            && names.get(name) == Some(inode)
        {
            names.remove(name);
        }
        if let Some((name, inode)) = &self.set {
            names.insert(name.clone(), *inode);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct DirNode {
    pub(super) live: Arc<Names>,
    pub(super) durable: Arc<Names>,
    /// Changes since the last sync of the directory, oldest first.
    pub(super) pending: Arc<Vec<NameChange>>,
}

impl DirNode {
    /// A directory whose names are on the disk.
    pub(super) fn settled(names: Arc<Names>) -> DirNode {
        DirNode { live: names.clone(), durable: names, pending: Arc::default() }
    }

    fn change(&mut self, change: NameChange) {
        change.apply(Arc::make_mut(&mut self.live));
        Arc::make_mut(&mut self.pending).push(change);
    }

    /// Makes the names on the disk the live ones. Changes are applied to both sets of names instead of
    /// sharing one: the next change of a shared set would copy all names of the directory.
    fn sync(&mut self) {
        let durable = Arc::make_mut(&mut self.durable);
        for change in self.pending.iter() {
            change.apply(durable);
        }
        self.pending = Arc::default();
    }

    /// Every inode that some state of this directory names.
    fn named(&self) -> impl Iterator<Item = InodeId> {
        let changed = self.pending.iter().flat_map(|change| [&change.unset, &change.set]);
        let changed = changed.flatten().map(|(_, inode)| *inode);
        self.live.values().chain(self.durable.values()).copied().chain(changed)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) files: BTreeMap<InodeId, FileNode>,
    pub(super) dirs: BTreeMap<InodeId, DirNode>,
    pub(super) next_inode: InodeId,
}

impl Disk {
    pub(super) fn empty() -> Disk {
        let dirs = BTreeMap::from([(ROOT, DirNode::default())]);
        Disk { files: BTreeMap::new(), dirs, next_inode: ROOT + 1 }
    }

    /// Applies a change. Changes of removed inodes are ignored: nothing can read them again.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { dir, name, inode, is_dir } => {
                self.next_inode = self.next_inode.max(inode + 1);
                if *is_dir {
                    self.dirs.insert(*inode, DirNode::default());
                } else {
                    self.files.insert(*inode, FileNode::default());
                }
                self.set_name(*dir, None, Some((name.clone(), *inode)));
            }
            Change::Data { inode, change } => {
                if let Some(file) = self.files.get_mut(inode) {
                    file.change(change);
                }
            }
            Change::SyncFile { inode } => {
                if let Some(file) = self.files.get_mut(inode) {
                    file.sync();
                }
            }
            Change::LoseUnsynced { inode } => {
                if let Some(file) = self.files.get_mut(inode) {
                    file.lose_unsynced();
                }
            }
            Change::SyncDir { dir } => {
                if let Some(dir) = self.dirs.get_mut(dir) {
                    dir.sync();
                }
            }
            Change::Rename { from, to, inode, .. } => {
                let unset = Some((from.1.clone(), *inode));
                let set = Some((to.1.clone(), *inode));
                if from.0 == to.0 {
                    self.set_name(from.0, unset, set);
                } else {
                    // Two directories, two blocks on the disk: they become durable one by one.
                    self.set_name(to.0, None, set);
                    self.set_name(from.0, unset, None);
                }
            }
            Change::Link { dir, name, inode } => self.set_name(*dir, None, Some((name.clone(), *inode))),
            Change::Unlink { dir, name, inode } => self.set_name(*dir, Some((name.clone(), *inode)), None),
            Change::Mark(_) => {}
        }
    }

    fn set_name(
        &mut self,
        dir: InodeId,
        unset: Option<(Arc<str>, InodeId)>,
        set: Option<(Arc<str>, InodeId)>,
    ) {
        let Some(node) = self.dirs.get_mut(&dir) else {
            return;
        };
        let replaced = set.as_ref().and_then(|(name, _)| node.live.get(name).copied());
        let (removed, added) = (unset.as_ref().map(|(_, id)| *id), set.as_ref().map(|(_, id)| *id));
        node.change(NameChange { unset, set });
        for inode in [replaced, removed].into_iter().flatten() {
            if let Some(file) = self.files.get_mut(&inode) {
                file.links -= 1;
            }
        }
        if let Some(file) = added.and_then(|inode| self.files.get_mut(&inode)) {
            file.links += 1;
        }
    }

    /// Drops inodes that no name (live, durable or in between) and no open file refers to.
    pub(super) fn collect(&mut self, open: impl Iterator<Item = InodeId>) {
        let mut reached: BTreeSet<InodeId> = open.collect();
        reached.insert(ROOT);
        let mut todo: Vec<InodeId> = reached.iter().copied().collect();
        while let Some(inode) = todo.pop() {
            if let Some(dir) = self.dirs.get(&inode) {
                todo.extend(dir.named().filter(|&named| reached.insert(named)));
            }
        }
        self.files.retain(|inode, _| reached.contains(inode));
        self.dirs.retain(|inode, _| reached.contains(inode));
    }
}
