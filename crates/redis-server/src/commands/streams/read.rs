//! XREAD and XREADGROUP.

use super::ranges::{Order, write_entry, write_range};
use super::{ids, no_group, now_ms};
use crate::call::Call;
use crate::failure::{Failure, Outcome, SYNTAX};
use esker_redis_store::Kind;
use esker_redis_store::types::stream::groups::UNKNOWN_ENTRIES_READ;
use esker_redis_store::types::stream::{Group, MAX_ID, Pending, Stream, StreamId, next_id};
use esker_resp::integer::parse_integer;
use esker_resp::writer::{Aggregate, Protocol};

const UNBALANCED: &str =
    "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.";
const GROUP_OF_XREAD: &str =
    "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.";
const NOACK_OF_XREAD: &str =
    "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.";
const END_OF_GROUP: &str = "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the \
    history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just \
    return an empty result set.";
const NEW_OF_XREAD: &str = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP \
    <group> <consumer> option.";

const STREAM_IS_GONE: &str = "UNBLOCKED the stream key no longer exists";
const GROUP_IS_GONE: &str = "NOGROUP the consumer group this client was blocked on no longer exists";

/// Where the options of a call stand.
struct ReadOptions {
    /// How long to wait, in milliseconds; 0 is for ever.
    block_ms: Option<u64>,
    count: Option<u64>,
    /// Where the name of the group stands; that of the consumer is the next.
    group_at: Option<usize>,
    needs_no_ack: bool,
    keys_at: usize,
    streams: usize,
}

fn options(call: &Call<'_, '_>, is_group: bool) -> Outcome<ReadOptions> {
    let mut options = ReadOptions {
        block_ms: None,
        count: None,
        group_at: None,
        needs_no_ack: false,
        keys_at: 0,
        streams: 0,
    };
    let mut at = 1;
    while at < call.args.len() {
        let more = call.args.len() - at - 1;
        if more > 0 && call.is_word(at, "block") {
            at += 1;
            options.block_ms = Some(timeout(call, at)?);
        } else if more > 0 && call.is_word(at, "count") {
            at += 1;
            options.count = u64::try_from(call.integer(at)?).ok().filter(|count| *count > 0);
        } else if more > 0 && call.is_word(at, "streams") {
            if more % 2 == 1 {
                return Err(UNBALANCED.into());
            }
            (options.keys_at, options.streams) = (at + 1, more / 2);
            break;
        } else if more >= 2 && call.is_word(at, "group") {
            if !is_group {
                return Err(GROUP_OF_XREAD.into());
            }
            options.group_at = Some(at + 1);
            at += 2;
        } else if call.is_word(at, "noack") {
            if !is_group {
                return Err(NOACK_OF_XREAD.into());
            }
            options.needs_no_ack = true;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    if options.keys_at == 0 {
        return Err(SYNTAX.into());
    }
    if is_group && options.group_at.is_none() {
        return Err("ERR Missing GROUP option for XREADGROUP".into());
    }
    Ok(options)
}

/// A timeout in milliseconds.
fn timeout(call: &Call<'_, '_>, at: usize) -> Outcome<u64> {
    let number = parse_integer(call.args[at]).ok_or("ERR timeout is not an integer or out of range")?;
    let timeout = u64::try_from(number).map_err(|_| "ERR timeout is negative")?;
    if number > i64::MAX - now_ms(call) {
        return Err("ERR timeout is out of range".into());
    }
    Ok(timeout)
}

/// One stream that is read.
struct Source {
    key_at: usize,
    stream: Option<Stream>,
    /// Entries behind this id are asked for. For a group [`MAX_ID`] means those never delivered.
    behind: StreamId,
}

pub(super) fn xread(call: &mut Call<'_, '_>) -> Outcome {
    read(call, false)
}

pub(super) fn xreadgroup(call: &mut Call<'_, '_>) -> Outcome {
    read(call, true)
}

fn read(call: &mut Call<'_, '_>, is_group: bool) -> Outcome {
    let options = options(call, is_group)?;
    let mut sources = Vec::with_capacity(options.streams);
    for at in options.keys_at..options.keys_at + options.streams {
        match call.woken_by {
            None => sources.push(source(call, &options, at)?),
            // A call that was woken looks at the changed key alone.
            Some(key) if key == call.args[at] && sources.is_empty() => {
                sources.extend(source_of_woken(call, &options, at)?);
            }
            Some(_) => {}
        }
    }
    let kind = match call.reply.protocol() {
        Protocol::Resp2 => Aggregate::Array,
        Protocol::Resp3 => Aggregate::Map,
    };
    let place = call.reply.reserve(kind, 1);
    let mut served = 0;
    for source in sources {
        if call.woken_by.is_none() {
            call.note_read(call.args[source.key_at], source.stream.is_some());
        }
        let (Some(stream), key_at) = (source.stream, source.key_at) else { continue };
        // Read here, because the same key may have been served before.
        let group = match options.group_at {
            Some(group_at) => stream.group(call.txn, call.args[group_at])?,
            None => None,
        };
        if !is_served(call, &stream, group.as_ref(), source.behind)? {
            continue;
        }
        served += 1;
        if kind == Aggregate::Array {
            call.reply.array(2);
        }
        call.reply.bulk(call.args[key_at]);
        match (group, options.group_at) {
            (Some(group), Some(group_at)) => {
                let reader = Reader { stream, group, key_at, consumer_at: group_at + 1 };
                reader.deliver(call, &options, source.behind)?;
            }
            _ => {
                // There is an entry behind the id, so the id has a successor.
                let first = next_id(source.behind).unwrap_or(MAX_ID);
                let ids = (first, MAX_ID);
                write_range(call.txn, &mut call.reply, &stream, ids, options.count, Order::Ascending)?;
            }
        }
    }
    if served > 0 {
        call.reply.fill(place, served);
        return Ok(());
    }
    call.reply.cancel(place);
    match options.block_ms {
        Some(block_ms) if !call.denies_waiting => {
            call.waits_with = arguments_to_wait_with(call, &options)?;
            Err(Failure::Wait((block_ms > 0).then(|| call.txn.now_ms() + block_ms)))
        }
        _ => {
            call.reply.null_array();
            Ok(())
        }
    }
}

fn source(call: &mut Call<'_, '_>, options: &ReadOptions, key_at: usize) -> Outcome<Source> {
    let entry = match call.woken_by {
        // As in Redis, which looks each stream up twice.
        None => call.read_entry_of(key_at, Kind::Stream)?,
        Some(_) => call.txn.entry(call.session.db, call.args[key_at])?,
    };
    let stream = Stream::find(&entry)?;
    if let Some(group_at) = options.group_at {
        let name = call.args[group_at];
        let group = stream.as_ref().map(|stream| stream.group(call.txn, name)).transpose()?;
        if group.flatten().is_none() {
            return Err(no_group(call.args[key_at], name, " in XREADGROUP with GROUP option"));
        }
    }
    let behind = match super::shown(call.args[key_at + options.streams]) {
        b"$" if options.group_at.is_some() => return Err(END_OF_GROUP.into()),
        b"$" => stream.as_ref().map_or_else(StreamId::default, |stream| stream.last_id),
        b">" if options.group_at.is_none() => return Err(NEW_OF_XREAD.into()),
        b">" => MAX_ID,
        _ => ids::parse(call.args[key_at + options.streams], 0)?,
    };
    Ok(Source { key_at, stream, behind })
}

/// The same for a client that waits. Readers of a group get an error when the stream or the group is gone;
/// others wait for the next stream of that name.
fn source_of_woken(call: &mut Call<'_, '_>, options: &ReadOptions, key_at: usize) -> Outcome<Option<Source>> {
    let entry = call.txn.entry(call.session.db, call.args[key_at])?;
    let is_stream = entry.record().is_some_and(|record| record.kind() == Kind::Stream);
    match options.group_at {
        None if !is_stream => return Ok(None),
        None => {}
        Some(_) if !is_stream => return Err(STREAM_IS_GONE.into()),
        Some(group_at) => {
            let stream = Stream::find(&entry)?;
            let group = stream.map(|stream| stream.group(call.txn, call.args[group_at])).transpose()?;
            if group.flatten().is_none() {
                return Err(GROUP_IS_GONE.into());
            }
        }
    }
    source(call, options, key_at).map(Some)
}

/// The arguments of a call that waits, with the present last id of each stream in place of `$`: what is added
/// from now on is new to it, however often the call is tried.
fn arguments_to_wait_with(call: &mut Call<'_, '_>, options: &ReadOptions) -> Outcome<Option<Vec<Box<[u8]>>>> {
    let keys = options.keys_at..options.keys_at + options.streams;
    if !keys.clone().any(|at| super::shown(call.args[at + options.streams]) == b"$") {
        return Ok(None);
    }
    let mut arguments: Vec<Box<[u8]>> = call.args.iter().map(|&bytes| bytes.into()).collect();
    for at in keys {
        let id_at = at + options.streams;
        if super::shown(call.args[id_at]) == b"$" {
            let entry = call.txn.entry(call.session.db, call.args[at])?;
            let last = Stream::find(&entry)?.map_or_else(StreamId::default, |stream| stream.last_id);
            arguments[id_at] = ids::text(last).into();
        }
    }
    Ok(Some(arguments))
}

/// Whether there is something to answer of a stream at once.
fn is_served(call: &Call<'_, '_>, stream: &Stream, group: Option<&Group>, behind: StreamId) -> Outcome<bool> {
    let behind = match group {
        Some(_) if behind != MAX_ID => return Ok(true),
        Some(group) => group.last_id,
        None => behind,
    };
    let Some(first) = next_id(behind) else { return Ok(false) };
    // Most clients have read all there is, and the header knows that.
    if stream.is_empty() || first > stream.last_id {
        return Ok(false);
    }
    Ok(stream.range(call.txn, first, MAX_ID).next().transpose()?.is_some())
}

/// Reads for a consumer of a group.
struct Reader {
    stream: Stream,
    group: Group,
    key_at: usize,
    consumer_at: usize,
}

impl Reader {
    fn deliver(mut self, call: &mut Call<'_, '_>, options: &ReadOptions, behind: StreamId) -> Outcome {
        let consumer = find_or_create_consumer(call, &mut self.group, self.key_at, self.consumer_at)?;
        let most = options.count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
        if behind == MAX_ID {
            self.deliver_new(call, consumer, most, options.needs_no_ack)?;
        } else {
            self.deliver_again(call, consumer, most, behind)?;
        }
        self.group.store(call.txn)?;
        Ok(())
    }

    /// Entries that were never delivered to the group.
    fn deliver_new(
        &mut self,
        call: &mut Call<'_, '_>,
        consumer: u32,
        most: usize,
        needs_no_ack: bool,
    ) -> Outcome {
        let place = call.reply.reserve(Aggregate::Array, most.min(self.stream.len() as usize));
        let mut delivered: Vec<StreamId> = Vec::new();
        let mut count = 0;
        let first = next_id(self.group.last_id).unwrap_or(MAX_ID);
        for item in self.stream.range(call.txn, first, MAX_ID).take(most) {
            let (id, strings) = item?;
            advance(&self.stream, &mut self.group, id);
            write_entry(&mut call.reply, id, &strings);
            count += 1;
            if !needs_no_ack {
                delivered.push(id);
            }
        }
        call.reply.fill(place, count);
        let now = Pending { consumer, delivered_ms: now_ms(call), deliveries: 1 };
        for id in delivered {
            // XGROUP SETID may have turned the group back to entries that are pending.
            let before = self.group.pending(call.txn, id)?;
            self.group.set_pending(call.txn, id, before, now)?;
        }
        Ok(())
    }

    /// Entries that are pending for the consumer.
    fn deliver_again(
        &mut self,
        call: &mut Call<'_, '_>,
        consumer: u32,
        most: usize,
        behind: StreamId,
    ) -> Outcome {
        let first = next_id(behind).unwrap_or(MAX_ID);
        let found = self.group.pending_ids_from(call.txn, consumer, first, MAX_ID);
        let ids: Vec<StreamId> = found.take(most).collect::<esker::Result<_>>()?;
        call.reply.array(ids.len());
        for id in ids {
            let Some(strings) = self.stream.get(call.txn, id)? else {
                call.reply.array(2);
                ids::write(&mut call.reply, id);
                call.reply.null_array();
                continue;
            };
            write_entry(&mut call.reply, id, &strings);
            if let Some(before) = self.group.pending(call.txn, id)? {
                let deliveries = before.deliveries.wrapping_add(1);
                let now = Pending { delivered_ms: now_ms(call), deliveries, ..before };
                self.group.set_pending(call.txn, id, Some(before), now)?;
            }
        }
        Ok(())
    }
}

/// Notes that an entry was delivered to a group.
fn advance(stream: &Stream, group: &mut Group, id: StreamId) {
    if id <= group.last_id {
        return;
    }
    if group.entries_read != UNKNOWN_ENTRIES_READ && !stream.may_have_gaps_from(id) {
        group.entries_read = group.entries_read.wrapping_add(1);
    } else if stream.entries_added != 0 {
        group.entries_read = stream.entries_read_up_to(id).unwrap_or(UNKNOWN_ENTRIES_READ);
    }
    group.last_id = id;
}

/// The consumer whose name is an argument, which is seen now.
pub(super) fn find_or_create_consumer(
    call: &mut Call<'_, '_>,
    group: &mut Group,
    key_at: usize,
    name_at: usize,
) -> Outcome<u32> {
    let now = now_ms(call);
    if let Some(number) = group.find_consumer(call.txn, call.args[name_at])? {
        group.consumer_mut(call.txn, number)?.seen_ms = now;
        return Ok(number);
    }
    let number = group.create_consumer(call.txn, call.args[name_at], now)?;
    super::event(call, key_at, "xgroup-createconsumer");
    Ok(number)
}
