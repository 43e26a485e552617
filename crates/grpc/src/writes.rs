//! Writes: where they run, how they wait while writes are held back, and conditions.
//!
//! What holds:
//! * NG10. A write that would be held back is refused by the library before it has changed anything, and is
//!   tried again later. Meanwhile it holds no thread; a caller that gives up then has written nothing.
//! * NG11. A write runs on a thread of the runtime only if it neither flushes the log nor is large.

use crate::proto::condition::Kind;
use crate::shared::Shared;
use crate::status::{status_of, stopping};
use esker::transaction::KeyDecision;
use esker::{Durability, Error, Keyspace, SeqNo, Value, WriteOptions};
use std::time::Duration;
use tonic::Status;

/// Bytes of a write up to which it takes less time than handing it to another thread.
const INLINE_BYTES: usize = 16 << 10;

/// The least and the longest time before a write is tried again.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(1);
const RETRY_AFTER_MAX: Duration = Duration::from_millis(100);

/// Makes a write of so many bytes by `write`, which must not wait.
pub(crate) async fn write<R, W>(
    shared: &Shared,
    durability: Option<Durability>,
    bytes: usize,
    write: W,
) -> Result<R, Status>
where
    R: Send + 'static,
    W: Fn(WriteOptions) -> esker::Result<R> + Clone + Send + 'static,
{
    let durability = durability.unwrap_or(shared.config.durability);
    let options = WriteOptions::new().durability(durability).no_stall();
    let is_inline = durability != Durability::Power && bytes <= INLINE_BYTES;
    let mut waited = Duration::ZERO;
    loop {
        let written = if is_inline {
            write(options)
        } else {
            let write = write.clone();
            shared.pools.writes.run(move || write(options)).await?
        };
        let error = match written {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        let Error::WouldStall { retry_after, .. } = error else { return Err(status_of(&error)) };
        if waited >= shared.config.stall_wait {
            return Err(status_of(&error));
        }
        let pause = retry_after.clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX);
        tokio::select! {
            () = tokio::time::sleep(pause) => waited += pause,
            () = shared.stop.stopped() => return Err(stopping()),
        }
    }
}

/// What became of a write under a condition.
#[derive(Debug)]
pub(crate) enum Conditional {
    /// The write has this number; 0 if there was nothing to write: a key to remove that is absent.
    Applied(SeqNo),
    /// The key has this value, or none.
    Refused(Option<Value>),
}

/// Sets a key under a condition, or removes it if there is no new value.
pub(crate) fn write_if(
    keyspace: &Keyspace,
    key: &[u8],
    condition: &Kind,
    new: Option<&[u8]>,
    options: WriteOptions,
) -> esker::Result<Conditional> {
    let mut is_met = false;
    let changed = keyspace.change_with(key, options, |value| {
        is_met = match condition {
            Kind::Absent(_) => value.is_none(),
            Kind::Present(_) => value.is_some(),
            Kind::Equals(wanted) => value == Some(&wanted[..]),
        };
        match new {
            Some(new) if is_met => KeyDecision::Put(new.to_vec()),
            None if is_met && value.is_some() => KeyDecision::Delete,
            _ => KeyDecision::Keep,
        }
    })?;
    Ok(match is_met {
        true => Conditional::Applied(changed.seqno.unwrap_or_default()),
        false => Conditional::Refused(changed.before),
    })
}
