//! LPOS: indexes of the elements that equal a value.

use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use esker_redis_store::Kind;
use esker_redis_store::types::list::{self, Side};
use esker_resp::integer::parse_integer;
use esker_resp::writer::Aggregate;

const RANK_IS_ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second \
    ... or use negative to start from the end of the list";

/// The options of LPOS.
struct Options {
    /// The match to begin with; from the tail if negative.
    rank: i64,
    /// Matches at most, zero for all; `None` if one is wanted and not an array.
    count: Option<i64>,
    /// Elements to compare at most, zero for all.
    max_len: i64,
}

fn options(call: &Call<'_, '_>) -> Outcome<Options> {
    let mut options = Options { rank: 1, count: None, max_len: 0 };
    let not_negative = |position: usize, text: &'static str| {
        parse_integer(call.args[position]).filter(|number| *number >= 0).ok_or(text)
    };
    let mut position = 3;
    while position < call.args.len() {
        if position + 1 == call.args.len() {
            return Err(SYNTAX.into());
        }
        if call.is_word(position, "rank") {
            options.rank = call.integer(position + 1)?;
            if options.rank == 0 {
                return Err(RANK_IS_ZERO.into());
            }
        } else if call.is_word(position, "count") {
            options.count = Some(not_negative(position + 1, "ERR COUNT can't be negative")?);
        } else if call.is_word(position, "maxlen") {
            options.max_len = not_negative(position + 1, "ERR MAXLEN can't be negative")?;
        } else {
            return Err(SYNTAX.into());
        }
        position += 2;
    }
    Ok(options)
}

pub(super) fn lpos(call: &mut Call<'_, '_>) -> Outcome {
    let Options { rank, count, max_len } = options(call)?;
    let entry = call.entry_of(1, Kind::List)?;
    let length = list::len(&entry)?;
    let from = if rank > 0 { Side::Head } else { Side::Tail };
    let compared = if max_len == 0 { length } else { length.min(max_len.unsigned_abs()) };
    let first = if from == Side::Head { 0 } else { length - compared };
    let most = match count {
        None => 1,
        Some(0) => u64::MAX,
        Some(count) => count.unsigned_abs(),
    };
    // The least integer has no opposite: negated by Redis it stays below all ranks of matches.
    let (value, mut skipped) = (call.args[2], rank.checked_abs().map_or(0, |rank| rank.unsigned_abs() - 1));
    let place = count.map(|_| call.reply.reserve(Aggregate::Array, 1));
    let mut found = 0;
    list::for_each(call.txn, &entry, first, compared, from, |index, item| {
        if item != value {
            return true;
        }
        if skipped > 0 {
            skipped -= 1;
            return true;
        }
        call.reply.integer(index as i64);
        found += 1;
        found < most
    })?;
    match place {
        Some(place) => call.reply.fill(place, found as usize),
        None if found == 0 => call.reply.null(),
        None => {}
    }
    Ok(())
}
