//! Memory of an arena: 32-bit words that threads share, and bytes of entries.
//!
//! Everything a structure keeps (nodes, links, entry headers) is made of words, and a word is only ever
//! accessed through the calls below, so that no two accesses of different sizes meet and no plain access
//! races with an atomic one. The calls state the meaning of an access, which is more than an ordering:
//!
//! | call | by | ordering | of |
//! |---|---|---|---|
//! | `init` | writer | relaxed | a word of an unpublished node or entry |
//! | `put` | writer | relaxed | a word of a published node that readers do not use yet, or under a lock |
//! | `publish` | writer | release | the one word that makes everything written before it reachable |
//! | `load` | reader | acquire | a word that `publish` writes |
//! | `peek` | both | relaxed | a word complete before its publication, the writer's own, or under a lock |
//!
//! Words that were published and are never written again may also be read many at a time, as plain numbers
//! (`words`, `numbers`): no thread writes them any more, so no access can race.
//!
//! There are two implementations with the same calls: `mapped`, the real one, over a reserved address range,
//! and `model`, made of loom's atomics, in which `tests/loom.rs` explores the very code of the structures.

#[cfg(not(loom))]
mod mapped;
#[cfg(loom)]
pub(crate) mod model;

#[cfg(not(loom))]
pub(crate) use mapped::{Memory, View};
#[cfg(loom)]
pub(crate) use model::{Memory, View};

/// The kind of word of a publication or an acquiring load; the model weakens them one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// A reference to a node or an entry: root, child, value, link.
    Reference,
    /// The first word of a small node, which holds the number of its children.
    Count,
    /// A word of a node's index from bytes to children.
    Index,
}
