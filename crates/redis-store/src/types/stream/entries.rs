//! Entries of a stream: added at the end, read by ranges of ids, deleted anywhere.

use super::node::{Node, NodeLimits};
use super::places::{ENTRY, Fields, NODE, id_at_end, id_key, range};
use super::{MAX_ID, Stream, StreamId};
use crate::layout::Space;
use crate::txn::Txn;
use crate::types::malformed;
use esker::{Result, Value};

/// The strings of an entry: fields and values, alternating.
#[derive(Clone, Debug)]
pub struct EntryStrings {
    value: Value,
    count: usize,
    first_at: usize,
}

impl EntryStrings {
    fn decode(value: Value) -> Result<Self> {
        let mut rest = &value[..];
        let count = take_varint(&mut rest)?;
        let first_at = value.len() - rest.len();
        let strings = Self { value, count: count as usize, first_at };
        if strings.iter().count() != strings.count {
            return Err(malformed("entry of a stream"));
        }
        Ok(strings)
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The strings.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.value[self.first_at..];
        std::iter::from_fn(move || {
            let length = take_varint(&mut rest).ok()? as usize;
            let (string, behind) = rest.split_at_checked(length)?;
            rest = behind;
            Some(string)
        })
    }
}

impl Stream {
    /// Adds an entry. `id` must be greater than the last id.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn append(
        &mut self,
        txn: &mut Txn<'_>,
        id: StreamId,
        strings: &[&[u8]],
        limits: NodeLimits,
    ) -> Result<()> {
        let string_bytes = strings.iter().map(|string| string.len()).sum::<usize>();
        match self.tail.as_mut().filter(|tail| !tail.is_full(string_bytes as u64, limits)) {
            Some(tail) => tail.add(txn.store(), id, strings),
            None => {
                let node = Node::new(txn.store(), id, strings);
                if let Some(full) = self.tail.replace(node) {
                    self.put_node(txn, &full)?;
                }
            }
        }
        let mut value = Vec::with_capacity(string_bytes + 2 * strings.len() + 1);
        put_varint(&mut value, strings.len() as u64);
        for string in strings {
            put_varint(&mut value, string.len() as u64);
            value.extend_from_slice(string);
        }
        txn.put(Space::Elements, &id_key(self.object, ENTRY, &[], id), &value)?;
        self.length += 1;
        self.entries_added = self.entries_added.wrapping_add(1);
        self.last_id = id;
        if self.length == 1 {
            self.first_id = id;
        }
        Ok(())
    }

    /// Entries from one id to another, both included, from either end.
    pub fn range(
        &self,
        txn: &Txn<'_>,
        first: StreamId,
        last: StreamId,
    ) -> impl DoubleEndedIterator<Item = Result<(StreamId, EntryStrings)>> {
        let key = |id| id_key(self.object, ENTRY, &[], id);
        txn.range(Space::Elements, key(first)..=key(last)).map(|item| {
            let (key, value) = item?;
            Ok((id_at_end(&key)?, EntryStrings::decode(value)?))
        })
    }

    /// An entry.
    ///
    /// # Errors
    /// Those of the engine, here and below.
    pub fn get(&self, txn: &Txn<'_>, id: StreamId) -> Result<Option<EntryStrings>> {
        let value = txn.get(Space::Elements, &id_key(self.object, ENTRY, &[], id))?;
        value.map(EntryStrings::decode).transpose()
    }

    /// Whether an entry is there.
    ///
    /// # Errors
    /// As [`Stream::get`].
    pub fn contains(&self, txn: &Txn<'_>, id: StreamId) -> Result<bool> {
        txn.contains(Space::Elements, &id_key(self.object, ENTRY, &[], id))
    }

    /// Deletes an entry as XDEL does; `false` if it is not there.
    ///
    /// # Errors
    /// As [`Stream::get`].
    pub fn delete(&mut self, txn: &mut Txn<'_>, id: StreamId) -> Result<bool> {
        if !self.contains(txn, id)? {
            return Ok(false);
        }
        txn.delete(Space::Elements, &id_key(self.object, ENTRY, &[], id))?;
        self.length = self.length.saturating_sub(1);
        self.max_deleted_id = self.max_deleted_id.max(id);
        if id == self.first_id {
            self.find_first(txn)?;
        }
        let Some(mut node) = self.node_of(txn, id)? else {
            return Err(malformed("node of a stream"));
        };
        node.live = node.live.saturating_sub(1);
        node.deleted += 1;
        match node.live {
            0 => self.remove_node(txn, &node)?,
            _ => self.set_node(txn, node)?,
        }
        Ok(true)
    }

    /// Finds the smallest id anew, after deletes.
    pub(super) fn find_first(&mut self, txn: &Txn<'_>) -> Result<()> {
        let (_, end) = range(self.object, ENTRY, &[]);
        let start = id_key(self.object, ENTRY, &[], self.first_id);
        self.first_id = match txn.range(Space::Elements, start..end).next() {
            Some(item) => id_at_end(&item?.0)?,
            None => StreamId::default(),
        };
        Ok(())
    }

    /// The node in which an entry lies.
    fn node_of(&self, txn: &Txn<'_>, id: StreamId) -> Result<Option<Node>> {
        match &self.tail {
            Some(tail) if tail.first_id <= id => Ok(Some(tail.clone())),
            _ => self.nodes(txn, id).next_back().transpose(),
        }
    }

    /// The full nodes that begin up to an id.
    pub(super) fn nodes(
        &self,
        txn: &Txn<'_>,
        last: StreamId,
    ) -> impl DoubleEndedIterator<Item = Result<Node>> {
        let key = |id| id_key(self.object, NODE, &[], id);
        txn.range(Space::Elements, key(StreamId::default())..=key(last)).map(|item| {
            let (key, value) = item?;
            Node::decode(id_at_end(&key)?, &mut Fields(&value))
        })
    }

    /// The ids with which the nodes begin, ascending.
    ///
    /// # Errors
    /// As [`Stream::get`].
    pub fn node_ids(&self, txn: &Txn<'_>) -> Result<Vec<[u8; 16]>> {
        let full = self.nodes(txn, MAX_ID).map(|node| Ok(node?.first_id.to_be_bytes()));
        let tail = self.tail.as_ref().map(|tail| Ok(tail.first_id.to_be_bytes()));
        full.chain(tail).collect()
    }

    fn put_node(&self, txn: &mut Txn<'_>, node: &Node) -> Result<()> {
        txn.put(Space::Elements, &id_key(self.object, NODE, &[], node.first_id), &node.encode())
    }

    pub(super) fn set_node(&mut self, txn: &mut Txn<'_>, node: Node) -> Result<()> {
        match &mut self.tail {
            Some(tail) if tail.first_id == node.first_id => {
                *tail = node;
                Ok(())
            }
            _ => self.put_node(txn, &node),
        }
    }

    /// Removes a node that has no entry left. If it was the last, the one before is filled on.
    pub(super) fn remove_node(&mut self, txn: &mut Txn<'_>, node: &Node) -> Result<()> {
        if self.tail.as_ref().is_some_and(|tail| tail.first_id == node.first_id) {
            let before = self.nodes(txn, MAX_ID).next_back().transpose()?;
            if let Some(before) = &before {
                txn.delete(Space::Elements, &id_key(self.object, NODE, &[], before.first_id))?;
            }
            self.tail = before;
            return Ok(());
        }
        txn.delete(Space::Elements, &id_key(self.object, NODE, &[], node.first_id))
    }
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_varint(rest: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first().ok_or_else(|| malformed("entry of a stream"))?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(malformed("entry of a stream"))
}
