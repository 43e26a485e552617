//! What requests say, in the terms of the library.

use crate::proto::{self, condition, expiry};
use esker::parts::base::key::prefix_successor;
use esker::{Database, Durability, Expiry, Keyspace};
use std::ops::Bound;
use std::time::{Duration, UNIX_EPOCH};
use tonic::Status;

use crate::status::status_of;

/// What the keyspaces of the Redis server begin with. Their entries belong together in ways that only that
/// server keeps, so no other client writes them.
const REDIS_PREFIX: &str = "redis/";

/// The keyspace of a request, to read it. An empty name is the default one.
pub(crate) fn keyspace(database: &Database, name: &str) -> Result<Keyspace, Status> {
    if name.is_empty() {
        return Ok(database.default_keyspace().clone());
    }
    database.open_keyspace(name).map_err(|error| status_of(&error))
}

/// The keyspace of a request, to change it.
pub(crate) fn writable_keyspace(database: &Database, name: &str) -> Result<Keyspace, Status> {
    check_writable(name)?;
    keyspace(database, name)
}

/// Fails for the name of a keyspace of the Redis server.
pub(crate) fn check_writable(name: &str) -> Result<(), Status> {
    if name.starts_with(REDIS_PREFIX) {
        return Err(Status::permission_denied(format!(
            "the keyspace {name:?} belongs to the Redis server: change its data by the protocol of Redis"
        )));
    }
    Ok(())
}

/// The durability that a request names; none if it leaves it to the server.
pub(crate) fn durability(number: i32) -> Result<Option<Durability>, Status> {
    match proto::Durability::try_from(number) {
        Ok(proto::Durability::Unspecified) => Ok(None),
        Ok(proto::Durability::None) => Ok(Some(Durability::None)),
        Ok(proto::Durability::Process) => Ok(Some(Durability::Process)),
        Ok(proto::Durability::Power) => Ok(Some(Durability::Power)),
        Err(_) => Err(Status::invalid_argument(format!("there is no durability {number}"))),
    }
}

/// When a value expires.
pub(crate) fn expiry(written: Option<&proto::Expiry>) -> Result<Expiry, Status> {
    let Some(written) = written else { return Ok(Expiry::Default) };
    match &written.kind {
        None => Err(Status::invalid_argument("the expiry says nothing: give one of its fields")),
        Some(expiry::Kind::AfterMs(ms)) => Ok(Expiry::After(Duration::from_millis(*ms))),
        Some(expiry::Kind::AtMs(ms)) => {
            UNIX_EPOCH.checked_add(Duration::from_millis(*ms)).map(Expiry::At).ok_or_else(|| {
                Status::invalid_argument(format!("the expiry at {ms} ms is too late to be a time"))
            })
        }
        Some(expiry::Kind::Never(_)) => Ok(Expiry::Never),
        Some(expiry::Kind::Keep(_)) => Ok(Expiry::Keep),
    }
}

/// The condition of a write, if it has one.
pub(crate) fn condition(written: Option<proto::Condition>) -> Result<Option<condition::Kind>, Status> {
    match written {
        None => Ok(None),
        Some(proto::Condition { kind: Some(kind) }) => Ok(Some(kind)),
        Some(proto::Condition { kind: None }) => {
            Err(Status::invalid_argument("the condition says nothing: give one of its fields"))
        }
    }
}

/// The bounds of a range of keys.
pub(crate) type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The bounds that a request names; no range is all keys.
pub(crate) fn bounds(range: Option<&proto::KeyRange>) -> Result<KeyBounds, Status> {
    let Some(range) = range else { return Ok((Bound::Unbounded, Bound::Unbounded)) };
    let (start, end) = (range.start.as_deref(), range.end.as_deref());
    if let (Some(start), Some(end)) = (start, end)
        && end < start
    {
        return Err(Status::invalid_argument(format!(
            "the range ends at \"{}\" before it starts at \"{}\"",
            end.escape_ascii(),
            start.escape_ascii()
        )));
    }
    let prefix = range.prefix.as_deref().unwrap_or_default();
    let successor = prefix_successor(prefix);
    let start = start.unwrap_or_default().max(prefix);
    let end = match (end, successor.as_deref()) {
        (Some(end), Some(successor)) => Some(end.min(successor)),
        (end, successor) => end.or(successor),
    };
    // A start behind the end of its prefix: no key.
    let start = end.map_or(start, |end| start.min(end));
    let lower = if start.is_empty() { Bound::Unbounded } else { Bound::Included(start.to_vec()) };
    Ok((lower, end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_vec()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use tonic::Code;

    fn of(start: Option<&'static str>, end: Option<&'static str>, prefix: Option<&'static str>) -> KeyBounds {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let range =
            proto::KeyRange { start: start.map(bytes), end: end.map(bytes), prefix: prefix.map(bytes) };
        bounds(Some(&range)).expect("a range")
    }

    fn pair(start: &str, end: &str) -> KeyBounds {
        (Bound::Included(start.into()), Bound::Excluded(end.into()))
    }

    #[test]
    fn ranges_are_what_start_end_and_prefix_have_in_common() {
        let all = (Bound::Unbounded, Bound::Unbounded);
        assert_eq!(bounds(None).expect("all"), all);
        assert_eq!(of(None, None, None), all);
        assert_eq!(of(None, None, Some("\u{7f}")), pair("\u{7f}", "\u{80}").map_end(vec![0x80]));
        assert_eq!(of(Some("a"), Some("c"), None), pair("a", "c"));
        assert_eq!(of(Some("a"), Some("z"), Some("k")), pair("k", "l"));
        assert_eq!(of(Some("kb"), Some("kd"), Some("k")), pair("kb", "kd"));
        assert_eq!(of(Some("x"), None, Some("k")), pair("l", "l"), "nothing in common");
        assert_eq!(of(None, Some("a"), Some("k")), pair("a", "a"), "nothing in common");
        let turned = proto::KeyRange {
            start: Some(Bytes::from_static(b"b")),
            end: Some(Bytes::from_static(b"a")),
            prefix: None,
        };
        assert_eq!(bounds(Some(&turned)).expect_err("turned round").code(), Code::InvalidArgument);
    }

    trait MapEnd {
        fn map_end(self, end: Vec<u8>) -> Self;
    }

    impl MapEnd for KeyBounds {
        fn map_end(self, end: Vec<u8>) -> Self {
            (self.0, Bound::Excluded(end))
        }
    }
}
