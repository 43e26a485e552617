//! Options of SET and GETEX that set an expiry.

use super::syntax;
use crate::call::Call;
use crate::failure::{Failure, Outcome};

/// An expiry as an argument says it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SetExpiry {
    /// Which argument is the number.
    pub(super) position: usize,
    /// Whether it counts seconds instead of milliseconds.
    pub(super) is_seconds: bool,
    /// Whether it counts from 1970 instead of the present.
    pub(super) is_absolute: bool,
}

impl SetExpiry {
    /// The option of the argument at `position`, whose number is the next one.
    pub(super) fn option(call: &Call<'_, '_>, position: usize) -> Option<Self> {
        let is = |word| call.is_word(position, word);
        let (is_seconds, is_absolute) = match () {
            () if is("ex") => (true, false),
            () if is("px") => (false, false),
            () if is("exat") => (true, true),
            () if is("pxat") => (false, true),
            () => return None,
        };
        let position = position + 1;
        (position < call.args.len()).then_some(Self { position, is_seconds, is_absolute })
    }

    /// Whether both are the same option; only such may be repeated.
    pub(super) fn is_same_option(self, other: Self) -> bool {
        (self.is_seconds, self.is_absolute) == (other.is_seconds, other.is_absolute)
    }

    /// The time in milliseconds since 1970.
    pub(super) fn resolve(self, call: &Call<'_, '_>) -> Outcome<u64> {
        let number = call.integer(self.position)?;
        let factor = if self.is_seconds { 1000 } else { 1 };
        let base = if self.is_absolute { 0 } else { call.txn.now_ms() as i64 };
        let time = number.checked_mul(factor).and_then(|ms| ms.checked_add(base));
        match time {
            Some(time) if number > 0 => Ok(time as u64),
            _ => {
                let name = call.command.name();
                Err(Failure::from(format!("ERR invalid expire time in '{name}' command")))
            }
        }
    }
}

/// What GETEX does with the expiry.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// It stays.
    None,
    /// The key expires no more.
    Persist,
    /// It is set.
    Set(SetExpiry),
}

/// The options of GETEX.
pub(super) fn of_getex(call: &Call<'_, '_>) -> Outcome<Change> {
    let mut change = Change::None;
    let mut position = 2;
    while position < call.args.len() {
        change = match (change, SetExpiry::option(call, position)) {
            (Change::None, Some(set)) => Change::Set(set),
            (Change::Set(before), Some(set)) if before.is_same_option(set) => Change::Set(set),
            (Change::None | Change::Persist, None) if call.is_word(position, "persist") => Change::Persist,
            _ => return syntax(),
        };
        position += if matches!(change, Change::Set(_)) { 2 } else { 1 };
    }
    Ok(change)
}
