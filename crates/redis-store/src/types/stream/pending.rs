//! The pending entries of a group: what was delivered to a consumer and not acknowledged.

use super::groups::Group;
use super::places::{Fields, PENDING, PENDING_OF_CONSUMER, id_at_end, id_key};
use super::{MAX_ID, StreamId};
use crate::layout::Space;
use crate::txn::Txn;
use esker::Result;

/// A pending entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The number of the consumer.
    pub consumer: u32,
    /// When it was last delivered, in milliseconds since 1970.
    pub delivered_ms: i64,
    /// How often it was delivered.
    pub deliveries: u64,
}

impl Pending {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.consumer.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.delivered_ms.to_le_bytes());
        bytes.extend_from_slice(&self.deliveries.to_le_bytes());
        bytes
    }

    fn decode(value: &[u8]) -> Result<Self> {
        let mut fields = Fields(value);
        Ok(Self { consumer: fields.u32()?, delivered_ms: fields.i64()?, deliveries: fields.u64()? })
    }
}

impl Group {
    fn pending_key(&self, id: StreamId) -> Vec<u8> {
        id_key(self.object, PENDING, &self.number.to_be_bytes(), id)
    }

    fn pending_of_consumer_key(&self, consumer: u32, id: StreamId) -> Vec<u8> {
        let prefix = [self.number.to_be_bytes(), consumer.to_be_bytes()].concat();
        id_key(self.object, PENDING_OF_CONSUMER, &prefix, id)
    }

    /// A pending entry.
    ///
    /// # Errors
    /// Those of the engine, here and below.
    pub fn pending(&self, txn: &Txn<'_>, id: StreamId) -> Result<Option<Pending>> {
        if self.pending == 0 {
            return Ok(None);
        }
        let value = txn.get(Space::Elements, &self.pending_key(id))?;
        value.map(|value| Pending::decode(&value)).transpose()
    }

    /// Makes an entry pending. `before` is what is stored of it.
    ///
    /// # Errors
    /// As [`Group::pending`].
    pub fn set_pending(
        &mut self,
        txn: &mut Txn<'_>,
        id: StreamId,
        before: Option<Pending>,
        now: Pending,
    ) -> Result<()> {
        txn.put(Space::Elements, &self.pending_key(id), &now.encode())?;
        match before {
            Some(before) if before.consumer == now.consumer => return Ok(()),
            Some(before) => self.forget_owner(txn, id, before.consumer)?,
            None => self.pending += 1,
        }
        txn.put(Space::Elements, &self.pending_of_consumer_key(now.consumer, id), &[])?;
        self.consumer_mut(txn, now.consumer)?.pending += 1;
        Ok(())
    }

    /// Takes an entry off the pending ones; `false` if it is not among them.
    ///
    /// # Errors
    /// As [`Group::pending`].
    pub fn acknowledge(&mut self, txn: &mut Txn<'_>, id: StreamId) -> Result<bool> {
        let Some(before) = self.pending(txn, id)? else { return Ok(false) };
        txn.delete(Space::Elements, &self.pending_key(id))?;
        self.forget_owner(txn, id, before.consumer)?;
        self.pending = self.pending.saturating_sub(1);
        Ok(true)
    }

    fn forget_owner(&mut self, txn: &mut Txn<'_>, id: StreamId, consumer: u32) -> Result<()> {
        txn.delete(Space::Elements, &self.pending_of_consumer_key(consumer, id))?;
        let owner = self.consumer_mut(txn, consumer)?;
        owner.pending = owner.pending.saturating_sub(1);
        Ok(())
    }

    /// Pending entries from one id to another, both included, from either end.
    pub fn pending_range(
        &self,
        txn: &Txn<'_>,
        first: StreamId,
        last: StreamId,
    ) -> impl DoubleEndedIterator<Item = Result<(StreamId, Pending)>> {
        let found = txn.range(Space::Elements, self.pending_key(first)..=self.pending_key(last));
        found.map(|item| {
            let (key, value) = item?;
            Ok((id_at_end(&key)?, Pending::decode(&value)?))
        })
    }

    /// The ids of a consumer's pending entries from one id on.
    pub fn pending_ids_from(
        &self,
        txn: &Txn<'_>,
        consumer: u32,
        first: StreamId,
        last: StreamId,
    ) -> impl Iterator<Item = Result<StreamId>> {
        let key = |id| self.pending_of_consumer_key(consumer, id);
        txn.range(Space::Elements, key(first)..=key(last)).map(|item| id_at_end(&item?.0))
    }

    /// The ids of all of a consumer's pending entries.
    pub fn pending_ids(&self, txn: &Txn<'_>, consumer: u32) -> impl Iterator<Item = Result<StreamId>> {
        self.pending_ids_from(txn, consumer, StreamId::default(), MAX_ID)
    }
}
