//! Streams of changes: committed batches as they are written.
//!
//! Each stream has a thread that waits for the next batch, as the library's streams need; their number is
//! bounded. A batch that is longer than a piece is sent in several.

use crate::call::Call;
use crate::deadline::now;
use crate::proto::change::{Delete, DeleteRange, Ingest, Kind, Merge, Put};
use crate::proto::{Change, ChangeBatch, ChangesRequest, changes_request::From};
use crate::requests;
use crate::shared::Shared;
use crate::status::status_of;
use crate::stream::{self, End, Pieces, Sender, told};
use bytes::Bytes;
use esker::changes::{self, Changes};
use esker::{Durability, SeqNo};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tonic::Status;

/// How long a thread waits for a batch before it looks whether its stream is to end.
const WAIT: Duration = Duration::from_millis(100);

/// Bytes of changes after which a piece ends.
const PIECE_BYTES: usize = 256 << 10;

/// What a change takes beside its own bytes.
const CHANGE_OVERHEAD_BYTES: usize = 100;

/// Begins a stream.
pub(crate) async fn start(
    shared: &Arc<Shared>,
    request: ChangesRequest,
    call: Call,
) -> Result<Pieces<ChangeBatch>, Status> {
    let durability = requests::durability(request.durability)?.unwrap_or(Durability::Power);
    let from = request.from.ok_or_else(|| {
        Status::invalid_argument("where the changes begin is missing: a sequence number, or a consumer")
    })?;
    let limit = shared.config.max_change_streams;
    let permit = Arc::clone(&shared.change_streams).try_acquire_owned();
    let permit = permit.map_err(|_| {
        Status::resource_exhausted(format!("there are {limit} open streams of changes, the limit"))
    })?;
    let database = shared.database.clone();
    let opened = shared.pools.reads.run(move || match from {
        From::After(seqno) => database.changes_since(SeqNo::new(seqno)),
        From::Consumer(name) => database.consumer(&name).and_then(|consumer| consumer.changes()),
    });
    let changes = opened.await?.map_err(|error| status_of(&error))?.with_durability(durability);
    let (sender, pieces) = stream::open(shared, call);
    let runtime = Handle::current();
    let max_message_bytes = shared.config.max_message_bytes;
    tokio::task::spawn_blocking(move || {
        let ended = run(changes, &sender, &runtime, max_message_bytes);
        drop(permit);
        if let Err(end) = ended {
            runtime.block_on(sender.end(end));
        }
    });
    Ok(pieces)
}

/// Sends batch after batch; without an error only at the end of a database that is not written to.
fn run(
    mut changes: Changes,
    sender: &Sender<ChangeBatch>,
    runtime: &Handle,
    max_message_bytes: usize,
) -> Result<(), End> {
    loop {
        sender.check()?;
        let asked = now();
        match changes.next_timeout(WAIT).map_err(|error| told(status_of(&error)))? {
            Some(batch) => send(&batch, sender, runtime, max_message_bytes)?,
            None if asked.elapsed() < WAIT / 2 => return Ok(()),
            None => {}
        }
    }
}

fn send(
    batch: &changes::ChangeBatch,
    sender: &Sender<ChangeBatch>,
    runtime: &Handle,
    max_message_bytes: usize,
) -> Result<(), End> {
    let (mut changes, mut bytes) = (Vec::new(), 0);
    let piece = |changes, complete| ChangeBatch {
        first_sequence_number: batch.first_seqno().get(),
        last_sequence_number: batch.last_seqno().get(),
        changes,
        complete,
    };
    for change in batch {
        let (change, change_bytes) = converted(&change);
        if change_bytes > max_message_bytes {
            return Err(Ok(Status::resource_exhausted(format!(
                "a change of the batch up to sequence number {} has {change_bytes} bytes, a message has at most {max_message_bytes} bytes",
                batch.last_seqno()
            ))));
        }
        if bytes + change_bytes > PIECE_BYTES && !changes.is_empty() {
            runtime.block_on(sender.send(piece(std::mem::take(&mut changes), false), bytes))?;
            bytes = 0;
        }
        bytes += change_bytes;
        changes.push(change);
    }
    runtime.block_on(sender.send(piece(changes, true), bytes))
}

/// A change as a message, and its bytes.
fn converted(change: &changes::Change<'_>) -> (Change, usize) {
    let copied = Bytes::copy_from_slice;
    let (kind, bytes) = match change {
        changes::Change::Put { key, value, expiry_ms, .. } => {
            let put = Put { key: copied(key), value: copied(value), expires_at_ms: *expiry_ms };
            (Some(Kind::Put(put)), key.len() + value.len())
        }
        changes::Change::Delete { key, .. } | changes::Change::SingleDelete { key, .. } => {
            (Some(Kind::Delete(Delete { key: copied(key) })), key.len())
        }
        changes::Change::DeleteRange { start, end, .. } => {
            let range = DeleteRange { start: copied(start), end: end.map(copied) };
            (Some(Kind::DeleteRange(range)), start.len() + end.map_or(0, <[u8]>::len))
        }
        changes::Change::Merge { key, operand, expiry_ms, .. } => {
            let merge = Merge { key: copied(key), operand: copied(operand), expires_at_ms: *expiry_ms };
            (Some(Kind::Merge(merge)), key.len() + operand.len())
        }
        changes::Change::Ingest { tables, bytes, .. } => {
            (Some(Kind::Ingest(Ingest { tables: *tables as u64, bytes: *bytes })), 0)
        }
        // A kind that this server does not know: the keyspace alone.
        _ => (None, 0),
    };
    let keyspace = change.keyspace().name.unwrap_or_default().to_owned();
    let bytes = bytes + keyspace.len() + CHANGE_OVERHEAD_BYTES;
    (Change { keyspace, kind }, bytes)
}
