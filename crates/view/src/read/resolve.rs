//! Entries other than plain puts: the cold half of every lookup.

use crate::read::versions::visit_versions;
use crate::semantics::ReadTime;
use crate::super_version::SuperVersion;
use esker_base::expiry::{EXPIRY_LEN, is_over};
use esker_base::{Result, Tag};
use esker_iter::{FullMerge, Meaning, meaning, split_expiry, without_operator};
use std::cell::Cell;

/// The value of a key for a reader, and when it expires.
pub struct Resolution {
    /// The value.
    pub value: Resolved,
    /// When it expires, in milliseconds since 1970; `None` if it does not.
    pub expiry_ms: Option<u64>,
}

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
) -> Result<Resolution> {
    let mut expiring = |value_behind| {
        let (expiry_ms, _) = split_expiry(tag, key, value)?;
        let is_over = is_over(expiry_ms, time.fix(&view.semantics));
        let value = if is_over { Resolved::Absent } else { value_behind };
        Ok(Resolution { value, expiry_ms: Some(expiry_ms) })
    };
    let lasting = |value| Ok(Resolution { value, expiry_ms: None });
    match meaning(tag, key)? {
        Meaning::Present => lasting(Resolved::Value { from: 0 }),
        Meaning::Absent => lasting(Resolved::Absent),
        Meaning::Large => lasting(Resolved::Large { from: 0 }),
        Meaning::Expiring => expiring(Resolved::Value { from: EXPIRY_LEN }),
        Meaning::ExpiringLarge => expiring(Resolved::Large { from: EXPIRY_LEN }),
        Meaning::Operand => {
            let (value, expiry_ms) = fold(view, time, key, tag)?;
            Ok(Resolution { value: value.map_or(Resolved::Absent, Resolved::Folded), expiry_ms })
        }
    }
}

/// Receives the expiry of what a lookup finds.
///
/// A lookup is compiled for each receiver, so that reads of values alone do nothing for expiries.
pub trait ExpirySink: Copy {
    /// The value of the key at this index expires at this time, in milliseconds since 1970. Not called for a
    /// value that does not expire; may be called for one that has expired.
    fn note(self, at: usize, expiry_ms: u64);
}

/// No expiry is asked for.
impl ExpirySink for () {
    #[inline(always)]
    fn note(self, _: usize, _: u64) {}
}

/// One place for each key of the lookup.
impl ExpirySink for &[Cell<Option<u64>>] {
    fn note(self, at: usize, expiry_ms: u64) {
        self[at].set(Some(expiry_ms));
    }
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
