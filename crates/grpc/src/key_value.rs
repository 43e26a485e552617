//! The service `KeyValue`: reads, writes, streams and snapshots.

use crate::call::Call;
use crate::proto::key_value_server::KeyValue;
use crate::proto::*;
use crate::requests;
use crate::shared::Shared;
use crate::status::status_of;
use crate::stream::Pieces;
use crate::writes::{Conditional, write, write_if};
use crate::{changes, scan};
use bytes::Bytes;
use esker::transaction::KeyDecision;
use esker::{Keyspace, Resident, SeqNo, Snapshot, Value, ValueWithExpiry, WriteBatch, resident_only};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tonic::{Request, Response, Status};

/// Bytes from which on a value is sent from where it lies. A smaller one is copied, so that it keeps no
/// block.
const SHARED_VALUE_BYTES: usize = 4 << 10;

/// Keys of a `MultiGet` up to which it is looked for in memory before a thread is asked.
const INLINE_KEYS: usize = 64;

/// What each operation of a batch takes in the log beside its bytes.
const OPERATION_BYTES: usize = 16;

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct KeyValueService(pub(crate) Arc<Shared>);

impl KeyValueService {
    /// Reads from memory on this thread, or else on one that may wait.
    async fn read<R: Send + 'static>(
        &self,
        from_memory: bool,
        read: impl Fn() -> esker::Result<R> + Send + 'static,
    ) -> Result<R, Status> {
        if from_memory {
            match resident_only(&read) {
                Ok(Resident::Answer(answer)) => return Ok(answer),
                Ok(Resident::NotResident) => {}
                Err(error) => return Err(status_of(&error)),
            }
        }
        self.0.pools.reads.run(read).await?.map_err(|error| status_of(&error))
    }

    /// Writes a key without a condition.
    async fn write_plainly(&self, batch: WriteBatch, durability: i32) -> Result<SeqNo, Status> {
        let durability = requests::durability(durability)?;
        let (database, bytes) = (self.0.database.clone(), batch.encoded_bytes());
        let batch = Arc::new(batch);
        write(&self.0, durability, bytes, move |options| database.write_with(&batch, options)).await
    }

    /// Sets a key under a condition, or removes it.
    async fn write_conditionally(
        &self,
        keyspace: Keyspace,
        key: Bytes,
        condition: condition::Kind,
        new: Option<Bytes>,
        expiry: esker::Expiry,
        durability: i32,
    ) -> Result<Conditional, Status> {
        let durability = requests::durability(durability)?;
        // It reads first, perhaps from a device: as large as what runs on a thread.
        write(&self.0, durability, usize::MAX, move |options| {
            write_if(&keyspace, &key, &condition, new.as_deref(), options.expiry(expiry))
        })
        .await
    }

    /// Sets a key whose value keeps the expiry of the one that it replaces.
    async fn put_keeping(
        &self,
        keyspace: Keyspace,
        key: Bytes,
        value: Bytes,
        durability: i32,
    ) -> Result<Response<PutResponse>, Status> {
        let durability = requests::durability(durability)?;
        let changed = write(&self.0, durability, usize::MAX, move |options| {
            let options = options.expiry(esker::Expiry::Keep);
            keyspace.change_with(&key, options, |_| KeyDecision::Put(value.to_vec()))
        })
        .await?;
        let sequence_number = changed.seqno.unwrap_or_default().get();
        Ok(Response::new(PutResponse { applied: true, sequence_number, current: None }))
    }

    /// The batch that a request describes.
    fn batch_of(&self, operations: &[Operation]) -> Result<WriteBatch, Status> {
        let mut batch = self.0.database.batch();
        // Operations on one keyspace mostly follow each other.
        let mut last: Option<(&str, Keyspace)> = None;
        for (at, operation) in operations.iter().enumerate() {
            let in_place =
                |status: Status| Status::new(status.code(), format!("operation {at}: {}", status.message()));
            let keyspace = match last.take() {
                Some((name, keyspace)) if name == operation.keyspace => keyspace,
                _ => requests::writable_keyspace(&self.0.database, &operation.keyspace).map_err(in_place)?,
            };
            add(&mut batch, &keyspace, operation.kind.as_ref()).map_err(in_place)?;
            last = Some((&operation.keyspace, keyspace));
        }
        Ok(batch)
    }

    fn check_operations(&self, what: &str, count: usize) -> Result<(), Status> {
        let limit = self.0.config.max_operations;
        if count <= limit {
            return Ok(());
        }
        Err(Status::invalid_argument(format!("{count} {what}, at most {limit} are taken at once")))
    }
}

/// The bytes of a value, shared if it is large.
fn shared_bytes(value: Value) -> Bytes {
    if value.len() < SHARED_VALUE_BYTES { Bytes::copy_from_slice(&value) } else { Bytes::from_owner(value) }
}

fn found(value: Option<ValueWithExpiry>) -> GetResponse {
    let Some(ValueWithExpiry { value, expiry }) = value else { return GetResponse::default() };
    let since = expiry.and_then(|moment| moment.duration_since(UNIX_EPOCH).ok());
    let expires_at_ms = since.and_then(|since| u64::try_from(since.as_millis()).ok());
    GetResponse { found: true, value: shared_bytes(value), expires_at_ms }
}

/// Adds an operation to a batch.
fn add(
    batch: &mut WriteBatch,
    keyspace: &Keyspace,
    operation: Option<&operation::Kind>,
) -> Result<(), Status> {
    match operation {
        None => return Err(Status::invalid_argument("it says nothing: give one of its fields")),
        Some(operation::Kind::Put(put)) => match requests::expiry(put.expiry.as_ref())? {
            esker::Expiry::Keep => {
                return Err(Status::invalid_argument("a batch reads nothing, so it cannot keep an expiry"));
            }
            expiry => batch.put_with(keyspace, &put.key, &put.value, expiry),
        },
        Some(operation::Kind::Delete(delete)) => batch.delete(keyspace, &delete.key),
        Some(operation::Kind::DeleteRange(range)) => {
            batch.delete_range(keyspace, requests::bounds(Some(range))?);
        }
        Some(operation::Kind::Merge(merge)) => batch.merge(keyspace, &merge.key, &merge.operand),
    }
    Ok(())
}

/// Whether a write was applied, its sequence number, and the value that did not meet the condition.
fn outcome(conditional: Conditional) -> (bool, u64, Option<Bytes>) {
    match conditional {
        Conditional::Applied(seqno) => (true, seqno.get(), None),
        Conditional::Refused(current) => (false, 0, current.map(shared_bytes)),
    }
}

fn get(
    keyspace: &Keyspace,
    snapshot: Option<&Snapshot>,
    key: &[u8],
) -> esker::Result<Option<ValueWithExpiry>> {
    match snapshot {
        None => keyspace.get_with_expiry(key),
        Some(snapshot) => keyspace.at(snapshot).get_with_expiry(key),
    }
}

#[tonic::async_trait]
impl KeyValue for KeyValueService {
    type ScanStream = Pieces<ScanPage>;
    type ChangesStream = Pieces<ChangeBatch>;

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let GetRequest { keyspace, key, snapshot } = request.into_inner();
        let keyspace = requests::keyspace(&self.0.database, &keyspace)?;
        let snapshot = self.0.snapshots.named(snapshot)?;
        let value = self.read(true, move || get(&keyspace, snapshot.as_deref(), &key)).await?;
        let answer = found(value);
        let bytes = answer.value.len();
        self.0.check_message("the value has", bytes)?;
        self.0.answer(answer, bytes)
    }

    async fn multi_get(
        &self,
        request: Request<MultiGetRequest>,
    ) -> Result<Response<MultiGetResponse>, Status> {
        let MultiGetRequest { keyspace, keys, snapshot } = request.into_inner();
        self.check_operations("keys", keys.len())?;
        let keyspace = requests::keyspace(&self.0.database, &keyspace)?;
        let snapshot = self.0.snapshots.named(snapshot)?;
        let is_short = keys.len() <= INLINE_KEYS;
        let read = move || match &snapshot {
            None => keyspace.multi_get_with_expiry(&keys),
            Some(snapshot) => keyspace.at(snapshot).multi_get_with_expiry(&keys),
        };
        let values = self.read(is_short, read).await?;
        let values: Vec<GetResponse> = values.into_iter().map(found).collect();
        let bytes = values.iter().map(|value| value.value.len() + OPERATION_BYTES).sum();
        self.0.check_message("the values have", bytes)?;
        self.0.answer(MultiGetResponse { values }, bytes)
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let PutRequest { keyspace, key, value, expiry, condition, durability } = request.into_inner();
        let keyspace = requests::writable_keyspace(&self.0.database, &keyspace)?;
        let expiry = requests::expiry(expiry.as_ref())?;
        let condition = match (requests::condition(condition)?, expiry) {
            (Some(condition), _) => condition,
            (None, esker::Expiry::Keep) => return self.put_keeping(keyspace, key, value, durability).await,
            (None, expiry) => {
                let mut batch = self.0.database.batch();
                batch.put_with(&keyspace, &key, &value, expiry);
                let seqno = self.write_plainly(batch, durability).await?;
                let answer = PutResponse { applied: true, sequence_number: seqno.get(), current: None };
                return Ok(Response::new(answer));
            }
        };
        let done =
            self.write_conditionally(keyspace, key, condition, Some(value), expiry, durability).await?;
        let (applied, sequence_number, current) = outcome(done);
        let bytes = current.as_ref().map_or(0, Bytes::len);
        self.0.answer(PutResponse { applied, sequence_number, current }, bytes)
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> Result<Response<DeleteResponse>, Status> {
        let DeleteRequest { keyspace, key, condition, durability } = request.into_inner();
        let keyspace = requests::writable_keyspace(&self.0.database, &keyspace)?;
        let Some(condition) = requests::condition(condition)? else {
            let mut batch = self.0.database.batch();
            batch.delete(&keyspace, &key);
            let seqno = self.write_plainly(batch, durability).await?;
            let answer = DeleteResponse { applied: true, sequence_number: seqno.get(), current: None };
            return Ok(Response::new(answer));
        };
        let expiry = esker::Expiry::Default;
        let done = self.write_conditionally(keyspace, key, condition, None, expiry, durability).await?;
        let (applied, sequence_number, current) = outcome(done);
        let bytes = current.as_ref().map_or(0, Bytes::len);
        self.0.answer(DeleteResponse { applied, sequence_number, current }, bytes)
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let DeleteRangeRequest { keyspace, range, durability } = request.into_inner();
        let keyspace = requests::writable_keyspace(&self.0.database, &keyspace)?;
        let range = range.ok_or_else(|| {
            Status::invalid_argument("the range is missing; an empty one is all keys of the keyspace")
        })?;
        let mut batch = self.0.database.batch();
        batch.delete_range(&keyspace, requests::bounds(Some(&range))?);
        let seqno = self.write_plainly(batch, durability).await?;
        Ok(Response::new(DeleteRangeResponse { sequence_number: seqno.get() }))
    }

    async fn batch(&self, request: Request<BatchRequest>) -> Result<Response<BatchResponse>, Status> {
        let BatchRequest { operations, durability } = request.into_inner();
        self.check_operations("operations", operations.len())?;
        let batch = self.batch_of(&operations)?;
        drop(operations);
        let seqno = self.write_plainly(batch, durability).await?;
        Ok(Response::new(BatchResponse { sequence_number: seqno.get() }))
    }

    async fn scan(&self, request: Request<ScanRequest>) -> Result<Response<Pieces<ScanPage>>, Status> {
        let call = Call::of(&request)?;
        scan::start(&self.0, request.get_ref(), call).map(Response::new)
    }

    async fn changes(
        &self,
        request: Request<ChangesRequest>,
    ) -> Result<Response<Pieces<ChangeBatch>>, Status> {
        let call = Call::of(&request)?;
        changes::start(&self.0, request.into_inner(), call).await.map(Response::new)
    }

    async fn acknowledge_changes(
        &self,
        request: Request<AcknowledgeChangesRequest>,
    ) -> Result<Response<AcknowledgeChangesResponse>, Status> {
        let AcknowledgeChangesRequest { consumer, sequence_number } = request.into_inner();
        let database = self.0.database.clone();
        let done = self
            .0
            .pools
            .writes
            .run(move || database.consumer(&consumer)?.acknowledge(SeqNo::new(sequence_number)));
        done.await?.map_err(|error| status_of(&error))?;
        Ok(Response::new(AcknowledgeChangesResponse {}))
    }

    async fn open_snapshot(
        &self,
        request: Request<OpenSnapshotRequest>,
    ) -> Result<Response<OpenSnapshotResponse>, Status> {
        let lease = Duration::from_millis(request.get_ref().lease_ms);
        let opened = self.0.snapshots.open(&self.0.database, &self.0.config, lease)?;
        let since = opened.snapshot.time().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Response::new(OpenSnapshotResponse {
            snapshot: opened.number,
            sequence_number: opened.snapshot.seqno().get(),
            time_ms: since.as_millis() as u64,
            lease_ms: opened.lease.as_millis() as u64,
        }))
    }

    async fn renew_snapshot(
        &self,
        request: Request<RenewSnapshotRequest>,
    ) -> Result<Response<RenewSnapshotResponse>, Status> {
        let (_, lease) = self.0.snapshots.renew(request.get_ref().snapshot)?;
        Ok(Response::new(RenewSnapshotResponse { lease_ms: lease.as_millis() as u64 }))
    }

    async fn close_snapshot(
        &self,
        request: Request<CloseSnapshotRequest>,
    ) -> Result<Response<CloseSnapshotResponse>, Status> {
        self.0.snapshots.close(request.get_ref().snapshot)?;
        Ok(Response::new(CloseSnapshotResponse {}))
    }
}
