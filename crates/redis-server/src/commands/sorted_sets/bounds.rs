//! Bounds of ranges as arguments: scores, members and ranks.

use crate::call::Call;
use crate::failure::Outcome;
use esker_redis_store::types::sorted_set::{MemberBound, ScoreBound};
use esker_resp::double::parse_double;

const NOT_A_SCORE: &str = "ERR min or max is not a float";
const NOT_A_MEMBER: &str = "ERR min or max not valid string range item";

/// The scores that the arguments at two positions bound.
pub(super) fn scores(call: &Call<'_, '_>, min: usize, max: usize) -> Outcome<(ScoreBound, ScoreBound)> {
    let bound = |at: usize| score_bound(call.args[at]).ok_or(NOT_A_SCORE);
    Ok((bound(min)?, bound(max)?))
}

fn score_bound(text: &[u8]) -> Option<ScoreBound> {
    let (text, is_exclusive) = match text {
        [b'(', text @ ..] => (text, true),
        text => (text, false),
    };
    Some(ScoreBound { score: c_double(text)?, is_exclusive })
}

/// A number as `strtod` of C reads it, up to the first NUL: nothing is zero, white space may precede it, and
/// it may be too large or vanish.
fn c_double(text: &[u8]) -> Option<f64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let spaces = text.iter().take_while(|byte| is_space(byte)).count();
    let text = &text[spaces..];
    parse_double(text).or_else(|| {
        // What is refused is no number, or one without a double near it.
        let is_decimal =
            text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        let text = std::str::from_utf8(text).ok().filter(|_| is_decimal)?;
        text.parse().ok()
    })
}

/// The members that the arguments at two positions bound.
pub(super) fn members<'c>(
    call: &Call<'c, '_>,
    min: usize,
    max: usize,
) -> Outcome<(MemberBound<'c>, MemberBound<'c>)> {
    let bound = |at: usize| member_bound(call.args[at]).ok_or(NOT_A_MEMBER);
    Ok((bound(min)?, bound(max)?))
}

fn member_bound(text: &[u8]) -> Option<MemberBound<'_>> {
    match text {
        [b'[', member @ ..] => Some(MemberBound::Including(member)),
        [b'(', member @ ..] => Some(MemberBound::Excluding(member)),
        [b'-'] | [b'-', 0, ..] => Some(MemberBound::First),
        [b'+'] | [b'+', 0, ..] => Some(MemberBound::Last),
        _ => None,
    }
}

/// The ranks from `start` to `end`, both counted from the end if negative, of `len` members; `None` if there
/// are none.
pub(super) fn ranks(start: i64, end: i64, len: u64) -> Option<(u64, u64)> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_start = |index: i64| if index < 0 { len.saturating_add(index) } else { index };
    let (start, end) = (from_start(start).max(0), from_start(end).min(len - 1));
    (start <= end && start < len).then_some((start as u64, end as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_read_as_strtod_does() {
        for (text, score) in [
            (&b""[..], 0.0),
            (b" 1.5", 1.5),
            (b"\t-inf", f64::NEG_INFINITY),
            (b"1e400", f64::INFINITY),
            (b"-1e400", f64::NEG_INFINITY),
            (b"1e-400", 0.0),
            (b"0x10", 16.0),
            (b"7\0x", 7.0),
        ] {
            assert_eq!(c_double(text), Some(score), "{}", text.escape_ascii());
        }
        for text in [&b" "[..], b"1 ", b"nan", b"1e", b"--1", b"x"] {
            assert_eq!(c_double(text), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn ranks_count_from_both_ends() {
        for (start, end, found) in [
            (0, -1, Some((0, 4))),
            (-100, 100, Some((0, 4))),
            (-2, -1, Some((3, 4))),
            (1, 0, None),
            (5, 6, None),
            (0, -6, None),
            (i64::MIN, i64::MAX, Some((0, 4))),
            (i64::MAX, i64::MIN, None),
        ] {
            assert_eq!(ranks(start, end, 5), found, "{start} {end}");
        }
    }
}
