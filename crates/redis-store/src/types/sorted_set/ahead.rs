//! Scores that the commands of a group will ask for, looked up by one multi-get.

use super::SPLIT;
use super::check_member;
use super::split::Split;
use crate::layout::record_key;
use crate::record::{Kind, Record};
use crate::txn::Txn;
use esker::Result;

/// Looks up together the scores of members of a key's set, in the order in which commands will ask for
/// them. The record of the key was looked up [ahead](Txn::look_ahead) and the caller holds its stripe until
/// the next commit. Nothing is looked up if there is no such record, or if its members lie in it.
///
/// # Errors
/// Those of the engine.
pub fn look_at_scores(txn: &mut Txn<'_>, db: u16, key: &[u8], members: &[&[u8]]) -> Result<()> {
    let record_key = record_key(txn.physical(db), key);
    let Some(value) = txn.record_ahead(&record_key) else { return Ok(()) };
    let record = Record::decode(value.clone())?;
    if (record.kind(), record.layout()) != (Kind::SortedSet, SPLIT) {
        return Ok(());
    }
    // The command itself tells what is wrong with a record.
    let Some((_, split)) = Split::decode(record.payload()) else { return Ok(()) };
    let members = members.iter().filter(|member| check_member(member).is_ok());
    let keys: Vec<Vec<u8>> = members.map(|member| split.element_key(txn, member)).collect();
    txn.look_at_elements(keys.into_iter())
}
