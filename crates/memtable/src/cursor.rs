//! Cursors over memtables: a position among the keys, and within the versions of a key.

use crate::art::ArtPosition;
use crate::btree::BTreePosition;
use crate::entry::Entry;
use crate::hash::HashPosition;
use crate::memory::Memory;
use crate::memtable::Memtable;
use crate::merged::Merged;
use crate::reference::locked::LockedPosition;
use crate::reference::skiplist::SkiplistPosition;
use crate::structure::Structure;
use crate::vector::OrderedPosition;
#[cfg(debug_assertions)]
use esker_base::checksum;
use esker_base::{Result, SeqNo, Tag};
use esker_iter::Cursor;
use std::sync::Arc;

/// The round of preparation in which a tree is descended.
const PREPARE_ROUND: u32 = 2;

/// A position among the keys of a structure. All moves return the newest version of the key they reach, no
/// entry when they leave the keys; then only a seek may follow. Where versions are not chained, each of them
/// counts as a key.
#[derive(Debug)]
pub(crate) enum Position {
    Art(ArtPosition),
    Skiplist(SkiplistPosition),
    Sharded(Box<Merged<SkiplistPosition>>),
    LockedTree(Box<LockedPosition>),
    Vector(Box<OrderedPosition>),
    Hash(Box<HashPosition>),
    BTree(Box<BTreePosition>),
}

impl Position {
    fn new(memtable: &Arc<Memtable>) -> Position {
        match memtable.structure() {
            Structure::Art(tree) => Position::Art(ArtPosition::new(*tree)),
            Structure::Skiplist(list) => Position::Skiplist(SkiplistPosition::new(*list)),
            Structure::Sharded(sharded) => {
                Position::Sharded(Box::new(Merged::new(memtable, sharded.positions())))
            }
            Structure::LockedTree(tree) => Position::LockedTree(Box::new(LockedPosition::new(tree.clone()))),
            Structure::Vector(order) => Position::Vector(Box::new(OrderedPosition::new(memtable, order))),
            Structure::Hash(hash) => Position::Hash(Box::new(HashPosition::new(memtable, hash))),
            Structure::HashedArt(hashed) => Position::Art(ArtPosition::new(hashed.tree)),
            Structure::BTree(tree) => Position::BTree(Box::new(BTreePosition::new(*tree))),
        }
    }

    fn seek_to_first(&mut self, memory: &Memory) -> Entry {
        match self {
            Position::Art(position) => position.seek_to_first(memory),
            Position::Skiplist(position) => position.seek_to_first(memory),
            Position::Sharded(position) => position.seek_to_first(),
            Position::LockedTree(position) => position.seek_to_first(memory),
            Position::Vector(position) => position.seek_to_first(),
            Position::Hash(position) => position.seek_to_first(memory),
            Position::BTree(position) => position.seek_to_first(memory),
        }
    }

    fn seek_to_last(&mut self, memory: &Memory) -> Entry {
        match self {
            Position::Art(position) => position.seek_to_last(memory),
            Position::Skiplist(position) => position.seek_to_last(memory),
            Position::Sharded(position) => position.seek_to_last(),
            Position::LockedTree(position) => position.seek_to_last(memory),
            Position::Vector(position) => position.seek_to_last(),
            Position::Hash(position) => position.seek_to_last(memory),
            Position::BTree(position) => position.seek_to_last(memory),
        }
    }

    /// Moves to the first key not less than `key`; with unchained versions, to version `limit` or later.
    fn seek(&mut self, memory: &Memory, key: &[u8], limit: Tag) -> Entry {
        match self {
            Position::Art(position) => position.seek(memory, key),
            Position::Skiplist(position) => position.seek(memory, key),
            Position::Sharded(position) => position.seek(key, Tag::NEWEST),
            Position::LockedTree(position) => position.seek(memory, key),
            Position::Vector(position) => position.seek(key, limit),
            Position::Hash(position) => position.seek(memory, key),
            Position::BTree(position) => position.seek(memory, key),
        }
    }

    /// First half of a seek, where the target entry can be prefetched before it is compared.
    #[inline]
    fn begin_seek(&mut self, memory: &Memory, key: &[u8]) -> Option<Entry> {
        match self {
            Position::Art(position) => Some(position.begin_seek(memory, key)),
            _ => None,
        }
    }

    /// The second half of a seek to the same key: moves to where [`Position::seek`] does.
    #[inline]
    fn arrive(&mut self, memory: &Memory, key: &[u8], entry: Entry) -> Entry {
        match self {
            Position::Art(position) => position.arrive(memory, key, entry),
            _ => unreachable!("only a tree prepares a seek"),
        }
    }

    fn seek_before(&mut self, memory: &Memory, key: &[u8], prepared: Option<Entry>) -> Entry {
        match self {
            Position::Sharded(position) => return position.seek_before(key),
            Position::LockedTree(position) => return position.seek_before(memory, key),
            Position::Vector(position) => return position.seek_before(key),
            Position::Hash(position) => return position.seek_before(memory, key),
            Position::Art(_) | Position::Skiplist(_) | Position::BTree(_) => {}
        }
        let found = match prepared {
            Some(entry) => self.arrive(memory, key, entry),
            None => self.seek(memory, key, Tag::NEWEST),
        };
        let mut head = if found.is_none() { self.seek_to_last(memory) } else { self.prev(memory) };
        // Keys may have been inserted between the two moves.
        while !head.is_none() && head.key(memory) >= key {
            head = self.prev(memory);
        }
        head
    }

    #[inline(always)]
    fn next(&mut self, memory: &Memory) -> Entry {
        match self {
            Position::Art(position) => position.next(memory),
            Position::Skiplist(position) => position.next(memory),
            Position::Sharded(position) => position.next(),
            Position::LockedTree(position) => position.next(memory),
            Position::Vector(position) => position.next(),
            Position::Hash(position) => position.next(memory),
            Position::BTree(position) => position.next(memory),
        }
    }

    #[inline(always)]
    fn prev(&mut self, memory: &Memory) -> Entry {
        match self {
            Position::Art(position) => position.prev(memory),
            Position::Skiplist(position) => position.prev(memory),
            Position::Sharded(position) => position.prev(),
            Position::LockedTree(position) => position.prev(memory),
            Position::Vector(position) => position.prev(),
            Position::Hash(position) => position.prev(memory),
            Position::BTree(position) => position.prev(memory),
        }
    }
}

/// A cursor over all entries of a memtable. It keeps the memtable alive and can be sent to another thread.
///
/// It may be used while entries are inserted. Those inserted before the cursor's last seek are all met; later
/// ones may be met or not. No call fails.
#[derive(Debug)]
pub struct MemtableCursor {
    position: Position,
    /// The newest version of the current key when the cursor reached it.
    head: Entry,
    /// The current entry, in the chain that starts at `head`; none when the cursor is invalid.
    entry: Entry,
    /// The entry that a prepared seek has reached, while that seek is not yet made.
    prepared: Option<Entry>,
    /// The hash of the key of that seek, to check that it is the one made ([`Cursor::prepare_seek`]).
    #[cfg(debug_assertions)]
    prepared_hash: u64,
    memtable: Arc<Memtable>,
}

impl MemtableCursor {
    pub(crate) fn new(memtable: Arc<Memtable>) -> MemtableCursor {
        let position = Position::new(&memtable);
        MemtableCursor {
            position,
            head: Entry::NONE,
            entry: Entry::NONE,
            prepared: None,
            #[cfg(debug_assertions)]
            prepared_hash: 0,
            memtable,
        }
    }

    /// The entry of a prepared seek to `key`. No other seek can use it.
    #[inline(always)]
    fn take_prepared(&mut self, key: &[u8]) -> Option<Entry> {
        let entry = self.prepared.take();
        #[cfg(debug_assertions)]
        assert!(
            entry.is_none() || self.prepared_hash == checksum::key_hash(key),
            "a seek was prepared for another key"
        );
        #[cfg(not(debug_assertions))]
        let _ = key;
        entry
    }

    #[inline(always)]
    fn stand_on_newest(&mut self, head: Entry) {
        self.head = head;
        self.entry = head;
    }

    fn stand_on_oldest(&mut self, head: Entry) {
        self.head = head;
        self.entry = if head.is_none() { head } else { head.oldest(self.memtable.memory()) };
    }
}

impl Cursor for MemtableCursor {
    /// Round three, while tables wait for blocks requested in round two: descends and prefetches entries.
    fn prepare_seek(&mut self, key: &[u8], round: u32) -> bool {
        if round == 0 {
            (self.entry, self.prepared) = (Entry::NONE, None);
        } else if round >= PREPARE_ROUND && self.prepared.is_none() {
            self.prepared = self.position.begin_seek(self.memtable.memory(), key);
            #[cfg(debug_assertions)]
            {
                self.prepared_hash = checksum::key_hash(key);
            }
        }
        false
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.prepared = None;
        let head = self.position.seek_to_first(self.memtable.memory());
        self.stand_on_newest(head);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.prepared = None;
        let head = self.position.seek_to_last(self.memtable.memory());
        self.stand_on_oldest(head);
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        let prepared = self.take_prepared(key);
        let memory = self.memtable.memory();
        let limit = Tag::visible_at(seqno);
        let head = match prepared {
            Some(entry) => self.position.arrive(memory, key, entry),
            None => self.position.seek(memory, key, limit),
        };
        if head.is_none() || head.key(memory) != key {
            self.stand_on_newest(head);
            return Ok(());
        }
        let entry = head.visible(memory, limit);
        if entry.is_none() {
            let following = self.position.next(memory);
            self.stand_on_newest(following);
        } else {
            self.head = head;
            self.entry = entry;
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let prepared = self.take_prepared(key);
        let head = self.position.seek_before(self.memtable.memory(), key, prepared);
        self.stand_on_oldest(head);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.is_valid(), "next on an invalid cursor");
        let memory = self.memtable.memory();
        let older = self.entry.older(memory);
        if older.is_none() {
            let head = self.position.next(memory);
            self.stand_on_newest(head);
        } else {
            self.entry = older;
        }
        Ok(())
    }

    /// Moves past the chain of versions.
    #[inline]
    fn next_key(&mut self) -> Result<()> {
        debug_assert!(self.is_valid(), "next on an invalid cursor");
        let head = self.position.next(self.memtable.memory());
        self.stand_on_newest(head);
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.is_valid(), "prev on an invalid cursor");
        let memory = self.memtable.memory();
        if self.entry == self.head {
            let head = self.position.prev(memory);
            self.stand_on_oldest(head);
        } else {
            self.entry = self.head.just_newer(memory, self.entry);
        }
        Ok(())
    }

    /// Moves to the newest visible version of a key at once; of a key without one, to any.
    #[inline]
    fn prev_key(&mut self, seqno: SeqNo) -> Result<()> {
        debug_assert!(self.is_valid(), "prev on an invalid cursor");
        let memory = self.memtable.memory();
        let limit = Tag::visible_at(seqno);
        if self.entry != self.head {
            let seen = self.head.visible(memory, limit);
            if !seen.is_none() && seen.tag(memory) > self.entry.tag(memory) {
                self.entry = seen;
                return Ok(());
            }
        }
        let head = self.position.prev(memory);
        let seen = head.visible(memory, limit);
        self.head = head;
        self.entry = if seen.is_none() { head } else { seen };
        Ok(())
    }

    #[inline]
    fn is_valid(&self) -> bool {
        !self.entry.is_none()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entry.key(self.memtable.memory())
    }

    #[inline]
    fn tag(&self) -> Tag {
        self.entry.tag(self.memtable.memory())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.entry.value(self.memtable.memory())
    }

    #[inline]
    fn entry(&self) -> (&[u8], Tag, &[u8]) {
        self.entry.parts(self.memtable.memory())
    }
}
