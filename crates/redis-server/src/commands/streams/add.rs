//! XADD, and the options that it shares with XTRIM.

use super::ids::{self, PartialId};
use super::{event, find, node_limits};
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use esker_redis_store::EventClass;
use esker_redis_store::types::stream::{MAX_ID, Stream, StreamId, Trim, TrimTo};

const BOTH_STRATEGIES: &str =
    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
const LIMIT_WITHOUT_STRATEGY: &str =
    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy";
const NO_STRATEGY: &str = "ERR syntax error, XTRIM must be called with a trimming strategy";
const EXACT_LIMIT: &str = "ERR syntax error, LIMIT cannot be used without the special ~ option";
const TOO_SMALL: &str = "ERR The ID specified in XADD is equal or smaller than the target stream top item";

/// Nodes that are trimmed at most if the client does not limit it.
const DEFAULT_LIMIT_NODES: u64 = 100;

/// What XADD and XTRIM are asked for.
pub(super) struct AddOptions {
    /// The id that is asked for; `None` for `*`.
    id: Option<PartialId>,
    /// Where the first field stands.
    fields_at: usize,
    keeps_absent: bool,
    pub(super) trim: Option<Trim>,
}

/// Reads the options behind the key.
pub(super) fn options(call: &Call<'_, '_>, is_add: bool) -> Outcome<AddOptions> {
    let args = call.args;
    let mut options = AddOptions { id: None, fields_at: args.len(), keeps_absent: false, trim: None };
    let mut limit = None;
    let mut at = 2;
    while at < args.len() {
        let more = args.len() - 1 - at;
        if is_add && args[at] == b"*" {
            options.fields_at = at + 1;
            break;
        } else if more > 0 && (call.is_word(at, "maxlen") || call.is_word(at, "minid")) {
            if options.trim.is_some() {
                return Err(BOTH_STRATEGIES.into());
            }
            let is_length = call.is_word(at, "maxlen");
            let mark = args[at + 1];
            let is_approximate = more >= 2 && mark == b"~";
            at += 1 + usize::from(more >= 2 && (mark == b"~" || mark == b"="));
            let to = if is_length { TrimTo::Length(max_length(call, at)?) } else { min_id(call, at)? };
            options.trim = Some(Trim { to, is_approximate, limit: 0 });
        } else if more > 0 && call.is_word(at, "limit") {
            at += 1;
            let number = call.integer(at)?;
            if number < 0 {
                return Err("ERR The LIMIT argument must be >= 0.".into());
            }
            limit = Some(number as u64);
        } else if is_add && call.is_word(at, "nomkstream") {
            options.keeps_absent = true;
        } else if is_add {
            options.id = Some(ids::parse_partial(args[at], 0)?);
            options.fields_at = at + 1;
            break;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    finish_trim(call, &mut options, limit, is_add)?;
    Ok(options)
}

fn max_length(call: &Call<'_, '_>, at: usize) -> Outcome<u64> {
    u64::try_from(call.integer(at)?).map_err(|_| "ERR The MAXLEN argument must be >= 0.".into())
}

fn min_id(call: &Call<'_, '_>, at: usize) -> Outcome<TrimTo> {
    Ok(TrimTo::Id(ids::parse(call.args[at], 0)?))
}

fn finish_trim(call: &Call<'_, '_>, options: &mut AddOptions, limit: Option<u64>, is_add: bool) -> Outcome {
    let Some(trim) = &mut options.trim else {
        return match limit {
            Some(1..) => Err(LIMIT_WITHOUT_STRATEGY.into()),
            _ if !is_add => Err(NO_STRATEGY.into()),
            _ => Ok(()),
        };
    };
    if limit.is_some() && !trim.is_approximate {
        return Err(EXACT_LIMIT.into());
    }
    trim.limit = match limit {
        Some(limit) => limit,
        None if trim.is_approximate => {
            match node_limits(call).max_entries.saturating_mul(DEFAULT_LIMIT_NODES) {
                0 => 10_000,
                limit => limit.min(1_000_000),
            }
        }
        None => 0,
    };
    Ok(())
}

pub(super) fn xadd(call: &mut Call<'_, '_>) -> Outcome {
    let options = options(call, true)?;
    let strings = &call.args[options.fields_at..];
    if strings.len() < 2 || strings.len() % 2 == 1 {
        return Err("ERR wrong number of arguments for 'xadd' command".into());
    }
    if options.id == Some(PartialId::Whole(StreamId::default())) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    let (mut entry, stream) = find(call, 1)?;
    let mut stream = match stream {
        Some(stream) => stream,
        None if options.keeps_absent => {
            call.reply.null();
            return Ok(());
        }
        None => Stream::new(call.txn, &entry)?,
    };
    let id = new_id(&stream, options.id, call.txn.now_ms())?;
    let limits = node_limits(call);
    stream.append(call.txn, id, strings, limits)?;
    ids::write(&mut call.reply, id);
    call.changed(1, EventClass::STREAM, "xadd");
    if let Some(trim) = options.trim
        && stream.trim(call.txn, trim)? > 0
    {
        event(call, 1, "xtrim");
    }
    stream.store(call.txn, &mut entry)?;
    Ok(())
}

/// The id of a new entry.
fn new_id(stream: &Stream, asked: Option<PartialId>, now_ms: u64) -> Outcome<StreamId> {
    let last = stream.last_id;
    if last == MAX_ID {
        let text = "ERR The stream has exhausted the last possible ID, unable to add more items";
        return Err(text.into());
    }
    let id = match asked {
        None => stream.generated_id(now_ms),
        Some(PartialId::Whole(id)) => Some(id),
        Some(PartialId::Milliseconds(milliseconds)) if milliseconds == last.milliseconds => {
            last.sequence.checked_add(1).map(|sequence| StreamId { milliseconds, sequence })
        }
        Some(PartialId::Milliseconds(milliseconds)) => Some(StreamId { milliseconds, sequence: 0 }),
    };
    id.filter(|id| *id > last).ok_or_else(|| TOO_SMALL.into())
}
