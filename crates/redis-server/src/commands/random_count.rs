//! Counts of HRANDFIELD, SRANDMEMBER and ZRANDMEMBER: how many elements, and whether some may come twice.

use crate::call::Call;
use crate::failure::{Failure, Outcome};

/// Elements that come with repetition, at most: their number is not bounded by the collection.
const MOST_REPEATED: u64 = 1 << 20;

/// Bytes of elements that come with repetition, at most; as many as one string of Redis has.
pub(crate) const MOST_REPEATED_BYTES: usize = 512 << 20;

/// What a count asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RandomCount {
    /// So many different elements, or all.
    Different(u64),
    /// So many, each picked for itself.
    Repeated(u64),
}

/// The count that is the argument at `position`. With values it may be half as large.
pub(crate) fn random_count(call: &Call<'_, '_>, position: usize, with_values: bool) -> Outcome<RandomCount> {
    let count = call.integer(position)?;
    if count == i64::MIN {
        return Err(out_of_range(-i64::MAX));
    }
    if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err("ERR value is out of range".into());
    }
    match u64::try_from(count) {
        Ok(count) => Ok(RandomCount::Different(count)),
        Err(_) if count.unsigned_abs() > MOST_REPEATED => Err(out_of_range(-(MOST_REPEATED as i64))),
        Err(_) => Ok(RandomCount::Repeated(count.unsigned_abs())),
    }
}

/// The error for elements beyond [`MOST_REPEATED_BYTES`].
pub(crate) fn reply_too_long() -> Failure {
    format!("ERR the elements have more than {MOST_REPEATED_BYTES} bytes; ask for fewer").into()
}

fn out_of_range(least: i64) -> Failure {
    format!("ERR value is out of range, value must between {least} and {}", i64::MAX).into()
}
