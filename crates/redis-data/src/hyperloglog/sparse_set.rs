//! Raises a register of a sparse HyperLogLog: the run that covers it is split, and equal neighbours are
//! joined.
//!
//! Which neighbours are joined, and when the length counts as too large, is as in Redis, so that the bytes
//! are the same.

use super::sparse::{MAX_VALUE, MAX_VALUES, Run, first_run, push_values, push_zeros};

/// Codes that joining looks at, from the one before the split run on.
const JOINED_CODES: usize = 5;

/// What became of the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is as high already.
    Unchanged,
    /// It was raised.
    Changed,
    /// It was not raised: the value or the length is too large for the sparse encoding.
    NeedsDense,
}

/// The run that covers a register.
struct Covering {
    run: Run,
    /// Where its code starts.
    at: usize,
    /// Where the code before it starts, or its own if it is the first.
    before_at: usize,
    first_register: usize,
}

/// Raises a register of the checked codes that start at `start` of `string`. They may grow to `limit_bytes`.
pub(super) fn set(
    string: &mut Vec<u8>,
    start: usize,
    register: usize,
    value: u8,
    limit_bytes: usize,
) -> Outcome {
    if value > MAX_VALUE {
        return Outcome::NeedsDense;
    }
    let Some(covering) = find(&string[start..], register) else { return Outcome::NeedsDense };
    let Covering { run, .. } = covering;
    if run.value >= value {
        return Outcome::Unchanged;
    }
    let left = register - covering.first_register;
    let right = run.len - left - 1;
    let mut codes = Vec::with_capacity(5);
    if run.value == 0 {
        push_zeros(&mut codes, left);
        push_values(&mut codes, value, 1);
        push_zeros(&mut codes, right);
    } else {
        push_values(&mut codes, run.value, left);
        push_values(&mut codes, value, 1);
        push_values(&mut codes, run.value, right);
    }
    let grows = codes.len() > run.code_bytes;
    if grows && string.len() - start + codes.len() - run.code_bytes > limit_bytes {
        return Outcome::NeedsDense;
    }
    let at = start + covering.at;
    string.splice(at..at + run.code_bytes, codes);
    join(string, start + covering.before_at);
    Outcome::Changed
}

fn find(codes: &[u8], register: usize) -> Option<Covering> {
    let (mut at, mut before_at, mut first_register) = (0, 0, 0);
    loop {
        let run = first_run(&codes[at..])?;
        if register < first_register + run.len {
            return Some(Covering { run, at, before_at, first_register });
        }
        before_at = at;
        at += run.code_bytes;
        first_register += run.len;
    }
}

/// Joins codes of equal values that are next to each other, where one code takes both.
fn join(string: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_CODES {
        let Some(run) = first_run(&string[at..]) else { return };
        let next = first_run(&string[at + run.code_bytes..]);
        let joined =
            next.filter(|next| run.value > 0 && next.value == run.value && run.len + next.len <= MAX_VALUES);
        if let Some(next) = joined {
            let mut code = Vec::with_capacity(1);
            push_values(&mut code, run.value, run.len + next.len);
            string.splice(at..at + 2, code);
        } else {
            at += run.code_bytes;
        }
    }
}
