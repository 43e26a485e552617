//! The values that reads return.

use esker_sst::PinnedValue;
use std::fmt;
use std::ops::Deref;

/// Bytes that a read returned; derefs to `[u8]`.
///
/// A value found in a table is not copied: it keeps the block it lies in alive, 4 KiB unless configured
/// otherwise. Copy it (`to_vec`) to keep a few small values for long.
#[derive(Clone)]
pub struct Value(Repr);

#[derive(Clone)]
enum Repr {
    Owned(Box<[u8]>),
    Pinned(PinnedValue),
}

impl Value {
    /// A copy of `bytes`.
    #[inline]
    pub fn copied(bytes: &[u8]) -> Value {
        Value(Repr::Owned(bytes.into()))
    }

    /// A value that owns `bytes`.
    pub fn owned(bytes: Vec<u8>) -> Value {
        Value(Repr::Owned(bytes.into()))
    }

    /// A value that holds the block it lies in.
    #[inline]
    pub fn pinned(value: PinnedValue) -> Value {
        Value(Repr::Pinned(value))
    }

    /// The bytes as a vector of their own.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Repr::Owned(bytes) => bytes.into_vec(),
            Repr::Pinned(value) => value.to_vec(),
        }
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Owned(bytes) => bytes,
            Repr::Pinned(value) => value,
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Value {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}
