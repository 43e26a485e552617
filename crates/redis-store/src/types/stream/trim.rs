//! Trimming of a stream from its oldest end, by length or by id.

use super::node::Node;
use super::places::{ENTRY, id_key};
use super::{MAX_ID, Stream, StreamId};
use crate::layout::Space;
use crate::txn::Txn;
use esker::Result;

/// What trimming leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimTo {
    /// At most so many entries.
    Length(u64),
    /// No entry below this id.
    Id(StreamId),
}

/// How a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// What is left.
    pub to: TrimTo,
    /// Whether only whole nodes are removed.
    pub is_approximate: bool,
    /// The most entries to remove; 0 is no limit.
    pub limit: u64,
}

/// Nodes that are looked at together, so that reading them does not keep the transaction from deleting.
const NODES_AT_ONCE: usize = 16;

impl Stream {
    /// Trims the stream. Returns how many entries were removed.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn trim(&mut self, txn: &mut Txn<'_>, trim: Trim) -> Result<u64> {
        let mut removed = 0;
        'all: while self.length > 0 {
            let mut nodes: Vec<Node> = self.nodes(txn, MAX_ID).take(NODES_AT_ONCE).collect::<Result<_>>()?;
            if nodes.len() < NODES_AT_ONCE {
                nodes.extend(self.tail.clone());
            }
            for node in nodes {
                if matches!(trim.to, TrimTo::Length(length) if self.length <= length)
                    || (trim.limit > 0 && removed + node.live > trim.limit)
                {
                    break 'all;
                }
                let is_whole = match trim.to {
                    TrimTo::Length(length) => self.length.saturating_sub(node.live) >= length,
                    TrimTo::Id(id) => node.last_id < id,
                };
                if is_whole {
                    self.delete_from(txn, node.first_id, node.last_id, node.live)?;
                    self.length = self.length.saturating_sub(node.live);
                    removed += node.live;
                    self.remove_node(txn, &node)?;
                } else {
                    if !trim.is_approximate {
                        removed += self.trim_node(txn, node, trim.to)?;
                    }
                    break 'all;
                }
            }
        }
        if removed > 0 {
            self.find_first(txn)?;
        }
        Ok(removed)
    }

    /// Removes the first entries of a node that keeps some.
    fn trim_node(&mut self, txn: &mut Txn<'_>, mut node: Node, to: TrimTo) -> Result<u64> {
        let (last, most) = match to {
            TrimTo::Length(length) => (node.last_id, self.length.saturating_sub(length)),
            TrimTo::Id(id) => match super::previous_id(id) {
                Some(last) => (last.min(node.last_id), u64::MAX),
                None => return Ok(0),
            },
        };
        let removed = self.delete_from(txn, node.first_id, last, most)?;
        if removed > 0 {
            self.length = self.length.saturating_sub(removed);
            node.live = node.live.saturating_sub(removed);
            node.deleted += removed;
            self.set_node(txn, node)?;
        }
        Ok(removed)
    }

    /// Deletes at most `most` entries within ids, in order.
    fn delete_from(&self, txn: &mut Txn<'_>, first: StreamId, last: StreamId, most: u64) -> Result<u64> {
        let key = |id| id_key(self.object, ENTRY, &[], id);
        let found = txn.range(Space::Elements, key(first)..=key(last));
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        // At most the entries of one node: few, or as many as an administrator allows.
        let keys: Vec<_> = found.take(most).map(|item| Ok(item?.0)).collect::<Result<_>>()?;
        for key in &keys {
            txn.delete(Space::Elements, key)?;
        }
        Ok(keys.len() as u64)
    }
}
