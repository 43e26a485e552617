//! Writes: where they run, how they wait while writes are held back, and conditions.
//!
//! What holds:
//! * NG10. A write that would be held back is refused by the library before it has changed anything, and is
//!   tried again later. Meanwhile it holds no thread; a caller that gives up then has written nothing.
//! * NG11. A write runs on a thread of the runtime only if it neither flushes the log nor is large.

use crate::proto::condition::Kind;
use crate::shared::Shared;
use crate::status::{status_of, stopping};
use esker::transaction::CompareAndSet;
use esker::{Durability, Error, Keyspace, Value, WriteOptions};
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
    Applied,
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
    let expected = match condition {
        Kind::Absent(_) => None,
        Kind::Equals(value) => Some(&value[..]),
        Kind::Present(_) => {
            let before = keyspace
                .fetch_update_with(key, options, |value| value.and_then(|_| new.map(<[u8]>::to_vec)))?;
            return Ok(before.map_or(Conditional::Refused(None), |_| Conditional::Applied));
        }
    };
    Ok(match keyspace.compare_and_set_with(key, expected, new, options)? {
        CompareAndSet::Set => Conditional::Applied,
        CompareAndSet::Differs(current) => Conditional::Refused(current),
    })
}
