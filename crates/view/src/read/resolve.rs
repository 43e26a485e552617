//! Entries other than plain puts: the cold half of every lookup.

use crate::read::versions::visit_versions;
use crate::semantics::ReadTime;
use crate::super_version::SuperVersion;
use esker_base::expiry::{EXPIRY_LEN, is_over};
use esker_base::{Result, SeqNo, Tag};
use esker_iter::{FullMerge, Meaning, meaning, split_expiry, without_operator};
use std::ops::ControlFlow;

/// The value of a key for a reader.
pub enum Resolved {
    /// No value.
    Absent,
    /// The value of the given entry, from this byte on.
    Value {
        /// Where it begins.
        from: usize,
    },
    /// The result of the entry's and older operands.
    Folded(Vec<u8>),
    /// The pointer in the given entry's value, from this byte on.
    Large {
        /// Where it begins.
        from: usize,
    },
}

/// The result of the newest visible version of `key`, which is the given one, for a reader of `view` at
/// `time`.
#[inline(never)]
pub fn resolve(
    view: &SuperVersion,
    time: &mut ReadTime,
    tag: Tag,
    key: &[u8],
    value: &[u8],
) -> Result<Resolved> {
    Ok(match meaning(tag, key)? {
        Meaning::Present => Resolved::Value { from: 0 },
        Meaning::Absent => Resolved::Absent,
        Meaning::Operand => match fold(view, time, key, tag)?.0 {
            Some(value) => Resolved::Folded(value),
            None => Resolved::Absent,
        },
        Meaning::Expiring => {
            let (expiry_ms, _) = split_expiry(tag, key, value)?;
            if is_over(expiry_ms, time.fix(&view.semantics)) {
                Resolved::Absent
            } else {
                Resolved::Value { from: EXPIRY_LEN }
            }
        }
        Meaning::Large => Resolved::Large { from: 0 },
        Meaning::ExpiringLarge => {
            let (expiry_ms, _) = split_expiry(tag, key, value)?;
            if is_over(expiry_ms, time.fix(&view.semantics)) {
                Resolved::Absent
            } else {
                Resolved::Large { from: EXPIRY_LEN }
            }
        }
    })
}

/// Resolves the merge operands of a key from this version on; also returns when the last of them expires, if
/// all do.
fn fold(
    view: &SuperVersion,
    time: &mut ReadTime,
    key: &[u8],
    newest: Tag,
) -> Result<(Option<Vec<u8>>, Option<u64>)> {
    let Some(operand_merger) = view.semantics.operand_merger() else {
        return Err(without_operator(newest, key));
    };
    let large = view.large();
    let mut fold = FullMerge::default();
    visit_versions(view, key, newest.seqno(), |tag, value| {
        fold.take(
            operand_merger,
            tag,
            key,
            value,
            |end_ms| is_over(end_ms, time.fix(&view.semantics)),
            &large,
        )
    })?;
    Ok((fold.finish(operand_merger, key)?, fold.end_ms()))
}

/// When a key's value ends; ordered from the earliest to the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// It has no value now.
    Past,
    /// At this time, in milliseconds since 1970.
    At(u64),
    /// It does not expire.
    Never,
}

/// When the value of `key` that is visible at `seqno` and `time` ends.
pub fn end_of(view: &SuperVersion, time: &mut ReadTime, key: &[u8], seqno: SeqNo) -> Result<End> {
    let mut end = End::Past;
    let mut operand = None;
    visit_versions(view, key, seqno, |tag, value| {
        end = match meaning(tag, key)? {
            Meaning::Operand => {
                operand = Some(tag);
                End::Past
            }
            Meaning::Absent => End::Past,
            Meaning::Present | Meaning::Large => End::Never,
            Meaning::Expiring | Meaning::ExpiringLarge => {
                let (expiry_ms, _) = split_expiry(tag, key, value)?;
                if is_over(expiry_ms, time.fix(&view.semantics)) { End::Past } else { End::At(expiry_ms) }
            }
        };
        Ok(ControlFlow::Break(()))
    })?;
    let Some(operand) = operand else { return Ok(end) };
    Ok(match fold(view, time, key, operand)? {
        (None, _) => End::Past,
        (Some(_), None) => End::Never,
        (Some(_), Some(end_ms)) => End::At(end_ms),
    })
}
