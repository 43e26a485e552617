//! Dispatch over the structures of memtables, for readers and for the writer.
//!
//! Each call dispatches on a closed set. The default kind comes first and is inlined.

use crate::arena::Allocator;
use crate::art::{Art, ArtPosition, ArtWriter, InsertPoint};
use crate::btree::{BTree, BTreePosition, BTreeWriter};
use crate::entry::{Entry, Operation};
use crate::hash::{Hash, HashWriter};
use crate::kind::MemtableKind;
use crate::memory::Memory;
use crate::order::Order;
use crate::reference::hashed_art::{HashedArt, HashedArtWriter};
use crate::reference::locked::{LockedPosition, LockedTree, LockedTreeWriter};
use crate::reference::sharded::{Sharded, ShardedWriter};
use crate::reference::skiplist::{Skiplist, SkiplistPosition, SkiplistWriter};
use crate::vector::VectorWriter;
use crate::{LOCKSTEP_KEYS, MULTI_GET_KEYS};
use esker_base::Tag;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) enum Structure {
    Art(Art),
    Skiplist(Skiplist),
    Sharded(Sharded),
    LockedTree(LockedTree),
    Vector(Arc<Order>),
    Hash(Hash),
    HashedArt(HashedArt),
    BTree(BTree),
}

#[derive(Debug)]
pub(crate) enum Writer {
    Art(ArtWriter),
    Skiplist(SkiplistWriter),
    Sharded(ShardedWriter),
    LockedTree(LockedTreeWriter),
    Vector(VectorWriter),
    Hash(HashWriter),
    HashedArt(HashedArtWriter),
    BTree(BTreeWriter),
}

impl Structure {
    pub(crate) fn create(
        kind: MemtableKind,
        memory: &Memory,
        allocator: &mut Allocator,
        hash_seed: u64,
    ) -> (Structure, Writer) {
        match kind {
            MemtableKind::Art => {
                let (tree, writer) = ArtWriter::create(memory, allocator);
                (Structure::Art(tree), Writer::Art(writer))
            }
            MemtableKind::Skiplist => {
                let (list, writer) = SkiplistWriter::create(memory, allocator);
                (Structure::Skiplist(list), Writer::Skiplist(writer))
            }
            MemtableKind::Sharded(plan) => {
                let (sharded, writer) = ShardedWriter::create(plan, memory, allocator);
                (Structure::Sharded(sharded), Writer::Sharded(writer))
            }
            MemtableKind::LockedTree => {
                let (tree, writer) = LockedTreeWriter::create();
                (Structure::LockedTree(tree), Writer::LockedTree(writer))
            }
            MemtableKind::Vector => {
                let (order, writer) = VectorWriter::create(memory, allocator);
                (Structure::Vector(order), Writer::Vector(writer))
            }
            MemtableKind::Hash => {
                let (hash, writer) = HashWriter::create(memory, allocator, hash_seed);
                (Structure::Hash(hash), Writer::Hash(writer))
            }
            MemtableKind::HashedArt => {
                let (hashed, writer) = HashedArtWriter::create(memory, allocator, hash_seed);
                (Structure::HashedArt(hashed), Writer::HashedArt(writer))
            }
            MemtableKind::BTree => {
                let (tree, writer) = BTreeWriter::create(memory, allocator);
                (Structure::BTree(tree), Writer::BTree(writer))
            }
        }
    }

    /// The newest version of `key`; where versions are not chained, the newest at or below `limit`.
    #[inline(always)]
    pub(crate) fn find(&self, memory: &Memory, key: &[u8], limit: Tag) -> Entry {
        match self {
            Structure::Art(tree) => tree.find(memory, key),
            other => other.find_otherwise(memory, key, limit),
        }
    }

    #[inline(never)]
    fn find_otherwise(&self, memory: &Memory, key: &[u8], limit: Tag) -> Entry {
        match self {
            Structure::Art(tree) => tree.find(memory, key),
            Structure::Skiplist(list) => list.find(memory, key),
            Structure::Sharded(sharded) => sharded.find(memory, key),
            Structure::LockedTree(tree) => tree.find(memory, key),
            Structure::Vector(order) => order.find(memory, key, limit),
            Structure::Hash(hash) => hash.table.find(memory, key),
            Structure::HashedArt(hashed) => hashed.table.find(memory, key),
            Structure::BTree(tree) => tree.find(memory, key),
        }
    }

    /// [`Structure::find`] for those keys whose bit is set in `wanted`.
    #[inline(always)]
    pub(crate) fn find_many(
        &self,
        memory: &Memory,
        keys: &[&[u8]],
        wanted: u32,
        limit: Tag,
        found: &mut [Entry; MULTI_GET_KEYS],
    ) {
        match self {
            Structure::Art(tree) => tree.find_many(memory, keys, wanted, found),
            other => other.find_many_otherwise(memory, keys, wanted, limit, found),
        }
    }

    #[inline(never)]
    fn find_many_otherwise(
        &self,
        memory: &Memory,
        keys: &[&[u8]],
        wanted: u32,
        limit: Tag,
        found: &mut [Entry; MULTI_GET_KEYS],
    ) {
        if let Structure::Hash(Hash { table, .. }) | Structure::HashedArt(HashedArt { table, .. }) = self {
            return table.find_many(memory, keys, wanted, found);
        }
        if let Structure::BTree(tree) = self {
            return tree.find_many(memory, keys, wanted, found);
        }
        for (index, key) in keys.iter().enumerate() {
            if wanted >> index & 1 != 0 {
                found[index] = self.find_otherwise(memory, key, limit);
            }
        }
    }

    pub(crate) fn first(&self, memory: &Memory) -> Entry {
        match self {
            Structure::Art(tree) => ArtPosition::new(*tree).seek_to_first(memory),
            Structure::Skiplist(list) => SkiplistPosition::new(*list).seek_to_first(memory),
            Structure::Sharded(sharded) => sharded.first(memory),
            Structure::LockedTree(tree) => LockedPosition::new(tree.clone()).seek_to_first(memory),
            Structure::Vector(order) | Structure::Hash(Hash { order, .. }) => order.first(memory),
            Structure::HashedArt(HashedArt { tree, .. }) => ArtPosition::new(*tree).seek_to_first(memory),
            Structure::BTree(tree) => BTreePosition::new(*tree).seek_to_first(memory),
        }
    }

    pub(crate) fn last(&self, memory: &Memory) -> Entry {
        match self {
            Structure::Art(tree) => ArtPosition::new(*tree).seek_to_last(memory),
            Structure::Skiplist(list) => SkiplistPosition::new(*list).seek_to_last(memory),
            Structure::Sharded(sharded) => sharded.last(memory),
            Structure::LockedTree(tree) => LockedPosition::new(tree.clone()).seek_to_last(memory),
            Structure::Vector(order) | Structure::Hash(Hash { order, .. }) => order.last(memory),
            Structure::HashedArt(HashedArt { tree, .. }) => ArtPosition::new(*tree).seek_to_last(memory),
            Structure::BTree(tree) => BTreePosition::new(*tree).seek_to_last(memory),
        }
    }

    /// The sorted runs, where entries are kept in the order of their insertion.
    pub(crate) fn order(&self) -> Option<&Arc<Order>> {
        match self {
            Structure::Vector(order) | Structure::Hash(Hash { order, .. }) => Some(order),
            _ => None,
        }
    }

    /// Memory that the structure holds outside of the arena, in bytes.
    pub(crate) fn outside_bytes(&self) -> u64 {
        self.order().map_or(0, |order| order.held_bytes())
    }
}

impl Writer {
    /// The first half of an insertion, where the structure has two.
    #[inline(always)]
    pub(crate) fn begin_insert(&self, memory: &Memory, key: &[u8]) -> Option<InsertPoint> {
        match self {
            Writer::Art(writer) => Some(writer.begin_insert(memory, key)),
            _ => None,
        }
    }

    /// Inserts an operation, from a first half's point if there is one; returns whether its key is new.
    #[inline(always)]
    pub(crate) fn finish_insert(
        &mut self,
        point: Option<InsertPoint>,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
    ) -> bool {
        match (self, point) {
            (Writer::Art(writer), Some(point)) => writer.finish_insert(point, memory, allocator, operation),
            (writer, _) => writer.insert(memory, allocator, operation),
        }
    }

    /// Inserts one operation; returns whether its key is new.
    #[inline(always)]
    pub(crate) fn insert(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
    ) -> bool {
        match self {
            Writer::Art(writer) => writer.insert(memory, allocator, operation),
            other => other.insert_otherwise(memory, allocator, operation),
        }
    }

    #[inline(never)]
    fn insert_otherwise(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        operation: &Operation<'_>,
    ) -> bool {
        if let Writer::BTree(writer) = self {
            return writer.insert(memory, allocator, operation);
        }
        self.insert_chunk_otherwise(memory, allocator, std::slice::from_ref(operation)) == 1
    }

    /// Inserts at most [`LOCKSTEP_KEYS`] operations in order; returns how many keys are new.
    #[inline(always)]
    pub(crate) fn insert_chunk(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        chunk: &[Operation<'_>],
    ) -> usize {
        debug_assert!(chunk.len() <= LOCKSTEP_KEYS);
        match self {
            Writer::Art(writer) => writer.insert_chunk(memory, allocator, chunk),
            other => other.insert_chunk_otherwise(memory, allocator, chunk),
        }
    }

    #[inline(never)]
    fn insert_chunk_otherwise(
        &mut self,
        memory: &Memory,
        allocator: &mut Allocator,
        chunk: &[Operation<'_>],
    ) -> usize {
        let count = |insert: &mut dyn FnMut(&Operation<'_>) -> bool| {
            chunk.iter().map(|operation| usize::from(insert(operation))).sum()
        };
        match self {
            Writer::Art(writer) => writer.insert_chunk(memory, allocator, chunk),
            Writer::Skiplist(writer) => count(&mut |operation| writer.insert(memory, allocator, operation)),
            Writer::Sharded(writer) => count(&mut |operation| writer.insert(memory, allocator, operation)),
            Writer::LockedTree(writer) => count(&mut |operation| writer.insert(memory, allocator, operation)),
            Writer::Vector(writer) => writer.insert_all(memory, allocator, chunk),
            Writer::Hash(writer) => writer.insert_chunk(memory, allocator, chunk),
            Writer::HashedArt(writer) => writer.insert_chunk(memory, allocator, chunk),
            Writer::BTree(writer) => writer.insert_chunk(memory, allocator, chunk),
        }
    }
}
