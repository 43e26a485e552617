//! Observed lookup: [`Table::get`] for one key, noting where each block was (OR1).
//!
//! It looks at the same blocks in the same order and answers the same (OR2), by portable instructions and
//! without prefetching.

use crate::block::{BlockRef, FoundEntry};
use crate::index::BlockIndex;
use crate::lookup::find_portable;
use crate::pinned_value::TableHit;
use crate::table::Table;
use esker_base::{Result, SeqNo, Tag};
use esker_cache::Admission;

impl Table {
    /// As [`Table::get`], in a section of [`ObservedReads`](crate::ObservedReads).
    ///
    /// # Errors
    /// As [`Table::get`].
    #[cold]
    pub fn get_observed(&self, key: &[u8], hash: u64, seqno: SeqNo) -> Result<Option<TableHit>> {
        let Some(index) = &self.index else { return Ok(None) };
        if seqno < self.global_seqno {
            return Ok(None);
        }
        let newest = Tag::visible_at(seqno);
        if self.verified.is_some() && index.tree().is_some() {
            return self.get_mapped_from(self.locate(index, key, newest)?, key, hash, newest);
        }
        let found = match index.locator() {
            Some(locator) => self.find_located(index, locator.candidates(hash), key, hash, newest)?,
            None => self.find_from_observed(index, key, hash, newest)?,
        };
        Ok(self.hit_of(found, key, hash, seqno))
    }

    /// The entry in one of the blocks that a locator names.
    fn find_located(
        &self,
        index: &BlockIndex,
        candidates: impl Iterator<Item = usize>,
        key: &[u8],
        hash: u64,
        newest: Tag,
    ) -> Result<Option<(BlockRef, FoundEntry)>> {
        for number in candidates {
            let Some(block) = self.block_for_observed(index, number, key)? else { continue };
            if let Some(found) = find_portable(&block, key, hash, newest) {
                return Ok(Some((block, found)));
            }
            if self.continues_after(index, number, key)? {
                // The newest version is in this block and the wanted one later: the tree finds it.
                return self.find_from_observed(index, key, hash, newest);
            }
        }
        Ok(None)
    }

    /// The entry in the block where the key belongs, or in the following ones that continue it.
    fn find_from_observed(
        &self,
        index: &BlockIndex,
        key: &[u8],
        hash: u64,
        newest: Tag,
    ) -> Result<Option<(BlockRef, FoundEntry)>> {
        let mut number = self.locate(index, key, newest)?;
        let Some(mut block) = self.block_for_observed(index, number, key)? else { return Ok(None) };
        loop {
            if let Some(found) = find_portable(&block, key, hash, newest) {
                return Ok(Some((block, found)));
            }
            if !self.continues_after(index, number, key)? {
                return Ok(None);
            }
            number += 1;
            block = self.block_observed(number, Admission::Point)?;
        }
    }

    /// Block `number`, which must exist, to search it for `key`; `None` if it is not in memory and the block
    /// bounds exclude the key.
    fn block_for_observed(&self, index: &BlockIndex, number: usize, key: &[u8]) -> Result<Option<BlockRef>> {
        match self.cached_block_observed(number, Admission::Point) {
            Some(block) => Ok(Some(block)),
            None => self.load_block_for(index, number, key),
        }
    }
}
