//! Why a command has no reply of its own: an error to answer, an error of the engine, or a wait.

use std::borrow::Cow;

/// What a handler returns instead of a reply. Whatever it has written of one is taken back.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error reply: its code and text, without the `-`.
    Error(Cow<'static, [u8]>),
    /// The engine failed.
    Engine(esker::Error),
    /// The command waits for one of its keys to be filled, until a time in milliseconds since 1970, or for
    /// ever.
    Wait(Option<u64>),
    /// A script used keys that it did not declare: the command is to be executed once more under all stripes.
    NeedsAllStripes,
    /// The command takes too long here: it is to be executed once more by a thread that may wait.
    MustWait,
    /// As `Error`, and what the command changed is taken back. It shares no group.
    Undo(Cow<'static, [u8]>),
}

impl From<esker::Error> for Failure {
    fn from(error: esker::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<&'static str> for Failure {
    fn from(text: &'static str) -> Self {
        Self::Error(Cow::Borrowed(text.as_bytes()))
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Error(Cow::Owned(text.into_bytes()))
    }
}

impl From<Vec<u8>> for Failure {
    fn from(text: Vec<u8>) -> Self {
        Self::Error(Cow::Owned(text))
    }
}

/// Result of a handler or a part of it.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// A key holds another type than the command needs.
pub(crate) const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
/// An argument is no integer of 64 bits.
pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
/// An argument is no floating point number.
pub(crate) const NOT_A_FLOAT: &str = "ERR value is not a valid float";
/// Options do not fit together, or one is unknown.
pub(crate) const SYNTAX: &str = "ERR syntax error";
/// There is no such key.
pub(crate) const NO_SUCH_KEY: &str = "ERR no such key";
/// An index is beyond the ends.
pub(crate) const OUT_OF_RANGE: &str = "ERR index out of range";

/// There is no database of this number.
pub(crate) const NO_SUCH_DATABASE: &str = "ERR DB index is out of range";
/// A key would be copied or moved to itself.
pub(crate) const SAME_KEY: &str = "ERR source and destination objects are the same";
/// An argument is no integer of 32 bits.
pub(crate) const NOT_IN_32_BITS: &str =
    "ERR value is out of range, value must between -2147483648 and 2147483647";

/// The part of an argument that errors of Redis repeat: up to the first zero byte.
pub(crate) fn shown(argument: &[u8]) -> &[u8] {
    let end = argument.iter().position(|byte| *byte == 0);
    &argument[..end.unwrap_or(argument.len())]
}

/// A string would become longer than strings may be.
pub(crate) const STRING_TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

/// A time to wait is no floating point number.
pub(crate) const TIMEOUT_NOT_A_FLOAT: &str = "ERR timeout is not a float or out of range";
/// A time to wait is below zero.
pub(crate) const TIMEOUT_NEGATIVE: &str = "ERR timeout is negative";

/// The reply for an error of the engine.
pub(crate) fn engine_error_text(error: &esker::Error) -> String {
    use esker::Error;
    match error {
        Error::ReadOnly { .. } => format!("MISCONF Errors writing to disk: {error}"),
        Error::WouldStall { .. } => format!("BUSY writes are held back: {error}"),
        Error::InvalidArgument(text) => format!("ERR {text}"),
        _ => format!("ERR {error}"),
    }
}
