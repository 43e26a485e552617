//! The memory of an arena as two kinds of things: 32-bit words that threads share, and bytes of entries.
//!
//! Everything a structure keeps (nodes, links, entry headers) is made of words, and a word is only ever
//! accessed through the calls below, so that no two accesses of different sizes meet and no plain access
//! races with an atomic one. The calls say what an access means, which is more than an ordering:
//!
//! | call | by | ordering | of |
//! |---|---|---|---|
//! | `init` | writer | relaxed | a word of a node or entry that nobody else can reach yet |
//! | `put` | writer | relaxed | a word of a published node that no reader acts upon yet, or that a lock guards |
//! | `publish` | writer | release | the one word that makes everything written before it reachable |
//! | `load` | reader | acquire | a word that `publish` writes |
//! | `peek` | both | relaxed | a word that was complete before the word that led here was published, the writer's own words, and words that a lock guards |
//!
//! Words that were published and are never written again may also be read many at a time, as plain numbers
//! (`words`, `numbers`): what no thread writes any more, none can race with.
//!
//! There are two implementations with the same calls: `mapped`, the real one, over a reserved address range,
//! and `model`, made of loom's atomics, in which the very code of the structures is explored by
//! `tests/loom.rs`.

#[cfg(not(loom))]
mod mapped;
#[cfg(loom)]
pub(crate) mod model;

#[cfg(not(loom))]
pub(crate) use mapped::{Memory, View};
#[cfg(loom)]
pub(crate) use model::{Memory, View};

/// What kind of word a publication stores or an acquiring load reads; the model weakens them one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// A reference to a node or an entry: root, child, value, link.
    Reference,
    /// The first word of a small node, which holds the number of its children.
    Count,
    /// A word of a node's index from bytes to children.
    Index,
}
