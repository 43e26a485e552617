//! Replies as a tree, for a writer of either version of the protocol.

use std::borrow::Cow;

/// A reply. A writer prints `Set` and `Map` as arrays in version 2 of the protocol, `Double` as a bulk string
/// there.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A status: a short text without line breaks.
    Status(Cow<'static, str>),
    /// An error with its code, without the `-`; free of line breaks.
    Error(Vec<u8>),
    /// A bulk string.
    Bulk(Cow<'static, [u8]>),
    /// A number.
    Integer(i64),
    /// A floating point number.
    Double(f64),
    /// Nothing: a null bulk string in version 2.
    Null,
    /// Replies in order.
    Array(Vec<Reply>),
    /// Replies without order.
    Set(Vec<Reply>),
    /// Pairs.
    Map(Vec<(Reply, Reply)>),
}

impl Reply {
    /// `OK`.
    pub const OK: Self = Self::Status(Cow::Borrowed("OK"));

    /// An error with the code `ERR`. Line breaks, which would end it early, become spaces.
    pub fn error(text: impl AsRef<[u8]>) -> Self {
        let text = text.as_ref().iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte });
        Self::Error(b"ERR ".iter().copied().chain(text).collect())
    }

    /// A bulk string of constant text.
    pub(crate) const fn text(text: &'static str) -> Self {
        Self::Bulk(Cow::Borrowed(text.as_bytes()))
    }

    /// A bulk string of bytes.
    pub(crate) const fn bytes(bytes: Vec<u8>) -> Self {
        Self::Bulk(Cow::Owned(bytes))
    }

    /// A set of statuses.
    pub(crate) fn statuses(names: impl Iterator<Item = &'static str>) -> Self {
        Self::Set(names.map(|name| Self::Status(Cow::Borrowed(name))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::Reply;

    #[test]
    fn errors_are_one_line() {
        assert_eq!(Reply::error("a\r\n-b"), Reply::Error(b"ERR a  -b".to_vec()));
    }
}
