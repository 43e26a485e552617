//! XCLAIM and XAUTOCLAIM: pending entries change their consumer.

use super::groups::missing;
use super::ranges::write_entry;
use super::read::find_or_create_consumer;
use super::{find_group, ids, now_ms};
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use esker_redis_store::types::stream::{EntryStrings, Group, MAX_ID, Pending, Stream, StreamId, next_id};
use esker_resp::integer::parse_integer;
use esker_resp::writer::Aggregate;

/// Where the consumer's name stands.
const CONSUMER_AT: usize = 3;

/// How claimed entries are changed.
struct Claim {
    min_idle_ms: i64,
    delivered_ms: i64,
    deliveries: Option<u64>,
    only_ids: bool,
    is_forced: bool,
}

/// A claim in progress.
struct Claiming {
    stream: Stream,
    group: Group,
    consumer: Option<u32>,
    now_ms: i64,
}

/// What became of an entry.
enum Claimed {
    /// It was claimed, and has these strings.
    Yes(EntryStrings),
    /// It is not pending, or was delivered too recently.
    No,
    /// It was pending and is not in the stream any more: now it is not pending either.
    Deleted,
}

impl Claiming {
    fn claim(
        &mut self,
        call: &mut Call<'_, '_>,
        id: StreamId,
        before: Option<Pending>,
        claim: &Claim,
    ) -> Outcome<Claimed> {
        let Some(strings) = self.stream.get(call.txn, id)? else {
            if before.is_none() {
                return Ok(Claimed::No);
            }
            self.group.acknowledge(call.txn, id)?;
            return Ok(Claimed::Deleted);
        };
        let mut deliveries = match before {
            Some(before) => before.deliveries,
            None if claim.is_forced => 1,
            None => return Ok(Claimed::No),
        };
        if let Some(before) = before
            && claim.min_idle_ms != 0
            && self.now_ms.wrapping_sub(before.delivered_ms) < claim.min_idle_ms
        {
            return Ok(Claimed::No);
        }
        let consumer = match self.consumer {
            Some(consumer) => consumer,
            None => find_or_create_consumer(call, &mut self.group, 1, CONSUMER_AT)?,
        };
        self.consumer = Some(consumer);
        match claim.deliveries {
            Some(given) => deliveries = given,
            None if !claim.only_ids => deliveries = deliveries.wrapping_add(1),
            None => {}
        }
        let now = Pending { consumer, delivered_ms: claim.delivered_ms, deliveries };
        self.group.set_pending(call.txn, id, before, now)?;
        Ok(Claimed::Yes(strings))
    }
}

fn write_claimed(call: &mut Call<'_, '_>, id: StreamId, strings: &EntryStrings, claim: &Claim) {
    match claim.only_ids {
        true => ids::write(&mut call.reply, id),
        false => write_entry(&mut call.reply, id, strings),
    }
}

/// The argument as an integer, with an error of its own.
fn integer(call: &Call<'_, '_>, at: usize, what: &str, command: &str) -> Outcome<i64> {
    parse_integer(call.args[at]).ok_or_else(|| format!("ERR Invalid {what} argument for {command}").into())
}

pub(super) fn xclaim(call: &mut Call<'_, '_>) -> Outcome {
    let Some((_, stream, mut group)) = find_group(call, 1, 2)? else { return Err(missing(call)) };
    let min_idle_ms = integer(call, 4, "min-idle-time", "XCLAIM")?.max(0);
    let ids: Vec<StreamId> = call.args[5..].iter().map_while(|text| ids::parse(text, 0).ok()).collect();
    let (claim, last_id) = claim_options(call, 5 + ids.len(), min_idle_ms)?;
    group.last_id = group.last_id.max(last_id);
    let mut claiming = Claiming { stream, group, consumer: None, now_ms: now_ms(call) };
    let place = call.reply.reserve(Aggregate::Array, ids.len());
    let mut count = 0;
    for id in ids {
        let before = claiming.group.pending(call.txn, id)?;
        if let Claimed::Yes(strings) = claiming.claim(call, id, before, &claim)? {
            write_claimed(call, id, &strings, &claim);
            count += 1;
        }
    }
    call.reply.fill(place, count);
    claiming.group.store(call.txn)?;
    Ok(())
}

fn claim_options(call: &Call<'_, '_>, first: usize, min_idle_ms: i64) -> Outcome<(Claim, StreamId)> {
    let now = now_ms(call);
    let mut claim =
        Claim { min_idle_ms, delivered_ms: -1, deliveries: None, only_ids: false, is_forced: false };
    let mut last_id = StreamId::default();
    let mut at = first;
    while at < call.args.len() {
        let has_more = at + 1 < call.args.len();
        if call.is_word(at, "force") {
            claim.is_forced = true;
        } else if call.is_word(at, "justid") {
            claim.only_ids = true;
        } else if has_more && call.is_word(at, "idle") {
            at += 1;
            claim.delivered_ms = now.wrapping_sub(integer(call, at, "IDLE option", "XCLAIM")?);
        } else if has_more && call.is_word(at, "time") {
            at += 1;
            claim.delivered_ms = integer(call, at, "TIME option", "XCLAIM")?;
        } else if has_more && call.is_word(at, "retrycount") {
            at += 1;
            claim.deliveries = u64::try_from(integer(call, at, "RETRYCOUNT option", "XCLAIM")?).ok();
        } else if has_more && call.is_word(at, "lastid") {
            at += 1;
            last_id = ids::parse(call.args[at], 0)?;
        } else {
            let text = [b"ERR Unrecognized XCLAIM option '", super::shown(call.args[at]), b"'"].concat();
            return Err(text.into());
        }
        at += 1;
    }
    if claim.delivered_ms < 0 || claim.delivered_ms > now {
        claim.delivered_ms = now;
    }
    Ok((claim, last_id))
}

const COUNT_TOO_HIGH: &str = "ERR Insufficient memory, failed allocating transient memory, COUNT too high.";

/// Entries that XAUTOCLAIM claims if the client does not limit it.
const DEFAULT_COUNT: u64 = 100;

/// Entries that it looks at for each that it may claim.
const ATTEMPTS_FACTOR: u64 = 10;

/// The greatest limit that Redis takes: a sixteenth of the greatest integer, the size of an id.
const MAX_COUNT: u64 = i64::MAX as u64 / 16;

/// The greatest limit for which Redis can reserve its list of deleted ids, before it looks at any entry: one
/// of 128 TiB, the address space of a process on x86-64.
const MAX_RESERVED_COUNT: u64 = (1 << 47) / 16;

/// Pending entries that are read together.
const READ_AT_ONCE: usize = 64;

pub(super) fn xautoclaim(call: &mut Call<'_, '_>) -> Outcome {
    let min_idle_ms = integer(call, 4, "min-idle-time", "XAUTOCLAIM")?.max(0);
    let start = ids::parse_start(call.args[5])?;
    let (mut count, mut only_ids) = (DEFAULT_COUNT, false);
    let mut at = 6;
    while at < call.args.len() {
        if at + 1 < call.args.len() && call.is_word(at, "count") {
            at += 1;
            let number = parse_integer(call.args[at]).and_then(|number| u64::try_from(number).ok());
            count = number.filter(|count| (1..=MAX_COUNT).contains(count)).ok_or("ERR COUNT must be > 0")?;
        } else if call.is_word(at, "justid") {
            only_ids = true;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    let Some((_, stream, group)) = find_group(call, 1, 2)? else { return Err(missing(call)) };
    if count > MAX_RESERVED_COUNT {
        return Err(COUNT_TOO_HIGH.into());
    }
    let delivered_ms = now_ms(call);
    let claim = Claim { min_idle_ms, delivered_ms, deliveries: None, only_ids, is_forced: false };
    let mut claiming = Claiming { stream, group, consumer: None, now_ms: delivered_ms };
    let scanned = scan(call, &mut claiming, &claim, start, count)?;
    claiming.group.store(call.txn)?;
    call.reply.array(3);
    ids::write(&mut call.reply, scanned.next);
    call.reply.array(scanned.claimed.len());
    scanned.claimed.iter().for_each(|(id, strings)| write_claimed(call, *id, strings, &claim));
    call.reply.array(scanned.deleted.len());
    scanned.deleted.iter().for_each(|id| ids::write(&mut call.reply, *id));
    Ok(())
}

/// What XAUTOCLAIM found.
struct Scanned {
    claimed: Vec<(StreamId, EntryStrings)>,
    deleted: Vec<StreamId>,
    /// Where the next call goes on; zero at the end.
    next: StreamId,
}

/// Claims at most `count` pending entries from an id on.
fn scan(
    call: &mut Call<'_, '_>,
    claiming: &mut Claiming,
    claim: &Claim,
    start: StreamId,
    mut count: u64,
) -> Outcome<Scanned> {
    let mut scanned = Scanned { claimed: Vec::new(), deleted: Vec::new(), next: StreamId::default() };
    let (mut from, mut attempts) = (Some(start), count * ATTEMPTS_FACTOR);
    while let Some(first) = from {
        let found = claiming.group.pending_range(call.txn, first, MAX_ID);
        let pending: Vec<_> = found.take(READ_AT_ONCE).collect::<esker::Result<_>>()?;
        from = match pending.last() {
            Some((last, _)) if pending.len() == READ_AT_ONCE => next_id(*last),
            _ => None,
        };
        for (id, before) in pending {
            if attempts == 0 || count == 0 {
                scanned.next = id;
                return Ok(scanned);
            }
            attempts -= 1;
            match claiming.claim(call, id, Some(before), claim)? {
                Claimed::Yes(strings) => scanned.claimed.push((id, strings)),
                Claimed::Deleted => scanned.deleted.push(id),
                Claimed::No => continue,
            }
            count -= 1;
        }
    }
    Ok(scanned)
}
